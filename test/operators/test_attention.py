"""Attention for training: scaled_dot_product_attention and npu_fusion_attention, against plain torch on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from attention_reference import attention, band, by_sequence, ends, from_layout, packed, to_layout
from torch.nn.functional import scaled_dot_product_attention

TYPES = [torch.float32, torch.float16, torch.bfloat16]
LAYOUTS = ["BNSD", "BSND", "BSH", "SBH"]
# Sums of products over other blocks: gradients differ by a few units in the last place of their largest terms.
GRADIENT_TOLERANCE: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {"rtol": 1e-4, "atol": 2e-5},
    torch.float16: {"rtol": 5e-3, "atol": 5e-3},
    torch.bfloat16: {"rtol": 3e-2, "atol": 4e-2},
}
TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def inputs(
    batch: int,
    heads: int,
    key_heads: int,
    queries: int,
    keys: int,
    width: int,
    dtype: torch.dtype,
    value_width: int = 0,
) -> list[torch.Tensor]:
    """Query, key and value in BNSD that require grad."""
    sizes = [(heads, queries, width), (key_heads, keys, width), (key_heads, keys, value_width or width)]
    return [torch.randn(batch, *size).to(dtype).requires_grad_() for size in sizes]


def run_fusion(check: Any, tensors: list[torch.Tensor], layout: str = "BNSD", **options: Any) -> Any:
    """Compare npu_fusion_attention, forward and backward, with the reference, whose options are `expect_*`."""
    heads, key_heads = tensors[0].size(1), tensors[1].size(1)
    dtype = tensors[0].dtype
    expected = {name[7:]: options.pop(name) for name in list(options) if name.startswith("expect_")}
    scale = options.setdefault("scale", tensors[0].size(3) ** -0.5)

    def fused(query: Any, key: Any, value: Any, sink: Any = None, **more: Any) -> torch.Tensor:
        if sink is not None:
            more["sink"] = sink
        return torch_npu.npu_fusion_attention(query, key, value, heads, layout, **more)[0]

    def reference(query: Any, key: Any, value: Any, sink: Any = None, **_: Any) -> torch.Tensor:
        parts = [from_layout(t, layout, n) for t, n in ((query, heads), (key, key_heads), (value, key_heads))]
        return to_layout(attention(*parts, scale=scale, sink=sink, **expected), layout)

    arguments = [to_layout(tensor.detach(), layout).requires_grad_() for tensor in tensors]
    return check(fused, *arguments, reference=reference, **GRADIENT_TOLERANCE[dtype], **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(2, 4, 4, 100, 100, 64), (1, 4, 2, 65, 130, 32), (2, 2, 1, 1, 300, 16)])
def test_scaled_dot_product_attention(check, sizes, dtype):
    tensors = inputs(*sizes, dtype)
    grouped = sizes[1] != sizes[2]
    tolerance = GRADIENT_TOLERANCE[dtype]
    check(scaled_dot_product_attention, *tensors, enable_gqa=grouped, **tolerance)
    check(scaled_dot_product_attention, *tensors, is_causal=True, enable_gqa=grouped, **tolerance)
    mask = torch.rand(sizes[3], sizes[4]) > 0.3
    mask[:, 0] = True
    check(scaled_dot_product_attention, *tensors, attn_mask=mask, scale=0.3, enable_gqa=grouped, **tolerance)
    by_batch = (torch.rand(sizes[0], 1, 1, sizes[4]) > 0.3) | (torch.arange(sizes[4]) == 1)
    check(scaled_dot_product_attention, *tensors, attn_mask=by_batch, enable_gqa=grouped, **tolerance)


def test_scaled_dot_product_attention_without_grad_and_strided(check):
    query, key, value = (torch.randn(2, 70, 4, 32).transpose(1, 2) for _ in range(3))
    check(scaled_dot_product_attention, query, key, value)
    check(scaled_dot_product_attention, query[:, :, ::3], key[..., ::2].repeat(1, 1, 1, 2), value.half().float())
    check(scaled_dot_product_attention, query, key, value, attn_mask=torch.randn(70, 70), rtol=1e-4, atol=1e-5)


def test_rows_that_see_nothing_are_zero(check):
    tensors = inputs(1, 2, 2, 40, 40, 16, torch.float32)
    mask = torch.zeros(40, 40, dtype=torch.bool)
    mask[3] = mask[17] = True
    run_fusion(check, tensors, atten_mask=mask, expect_mask=mask)
    # More queries than keys, aligned at the right end: the first queries see nothing.
    tensors = inputs(1, 2, 2, 40, 25, 16, torch.float32)
    run_fusion(check, tensors, atten_mask=TRIANGLE, sparse_mode=3, expect_mask=band(40, 25, 99, -15))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(check, layout, dtype):
    run_fusion(check, inputs(2, 4, 2, 33, 150, 16, dtype), layout)
    mask = torch.rand(2, 1, 33, 150) > 0.5
    mask[..., 5] = False
    run_fusion(check, inputs(2, 4, 4, 33, 150, 16, dtype), layout, atten_mask=mask, expect_mask=mask)


@pytest.mark.parametrize("layout", ["BNSD", "SBH"])
def test_values_of_another_width(check, layout):
    run_fusion(check, inputs(2, 4, 2, 33, 40, 24, torch.float32, value_width=8), layout)


@pytest.mark.parametrize("sizes", [(70, 70), (40, 90)])
def test_sparse_modes(check, sizes):
    queries, keys = sizes
    corner = keys - queries
    tensors = inputs(2, 2, 2, queries, keys, 16, torch.float32)

    def run(mode: int, mask: torch.Tensor, expected: torch.Tensor, **more: Any) -> None:
        run_fusion(check, tensors, atten_mask=mask, sparse_mode=mode, expect_mask=expected, **more)

    free = band(queries, keys, 20, 10)
    run(0, free, free, pre_tockens=20, next_tockens=10)
    run(1, free, free)
    run(2, TRIANGLE, band(queries, keys, 999, 0))
    run(3, TRIANGLE, band(queries, keys, 999, corner))
    run(4, TRIANGLE, band(queries, keys, 30 - corner, 7 + corner), pre_tockens=30, next_tockens=7)
    prefixes = [corner + 9, corner + 30]
    causal = band(queries, keys, 999, corner)
    expected = torch.stack([causal & (torch.arange(keys) >= prefix) for prefix in prefixes])[:, None]
    run(5, expected, expected, prefix=prefixes)
    compressed = torch.cat([TRIANGLE, torch.arange(2048).expand(1024, -1) >= 1024])
    run(6, compressed, expected, prefix=prefixes)


def test_shift_of_scores(check):
    tensors = inputs(2, 4, 4, 50, 60, 16, torch.float32)
    for sizes in ((2, 4, 50, 60), (1, 4, 50, 60), (2, 4, 1, 60)):
        shift = torch.randn(sizes)
        run_fusion(check, tensors, pse=shift, expect_shift=shift)


def test_compressed_shift(check):
    length, heads = 1100, 2
    tensors = inputs(1, heads, heads, length, length, 16, torch.float32)
    distance = (torch.arange(length)[None] - torch.arange(length)[:, None]).abs()
    alibi = -distance[None, None] * torch.tensor([0.5, 0.1]).view(1, heads, 1, 1)
    run_fusion(
        check,
        tensors,
        pse=alibi[:, :, -1024:].contiguous(),
        atten_mask=TRIANGLE,
        sparse_mode=2,
        expect_shift=alibi,
        expect_mask=band(length, length, 9999, 0),
    )


@pytest.mark.parametrize("kind", [0, 2, 3])
def test_types_of_shift(check, kind):
    heads = 2
    tensors = inputs(2, heads, heads, 40, 40, 16, torch.float32)
    slopes = torch.tensor([0.5, 0.25])
    distance = (torch.arange(40)[None] - torch.arange(40)[:, None] + 3 - 5).abs().float()
    alibi = -slopes.view(1, heads, 1, 1) * (distance.sqrt() if kind == 3 else distance)
    shift = torch.randn(2, heads, 40, 40) if kind == 0 else alibi
    more: dict[str, Any] = {} if kind == 0 else {"q_start_idx": [5], "kv_start_idx": [3]}

    def fused(query: Any, key: Any, value: Any, given: Any) -> torch.Tensor:
        options = {"pse": given, "pse_type": kind, "scale": 0.25, **more}
        return torch_npu.npu_fusion_attention_v2(query, key, value, heads, "BNSD", **options)[0]

    def reference(query: Any, key: Any, value: Any, _: Any) -> torch.Tensor:
        return attention(query, key, value, shift=shift, shift_first=False, scale=0.25)

    tolerance = GRADIENT_TOLERANCE[torch.float32]
    check(fused, *tensors, shift if kind == 0 else slopes, reference=reference, **tolerance)


@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_sinks(check, layout):
    tensors = inputs(2, 4, 2, 33, 40, 16, torch.bfloat16)
    run_fusion(check, tensors, layout, sink=torch.randn(4, requires_grad=True))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", [0, 2, 3, 4, 6, 7, 8])
def test_variable_lengths(check, mode, dtype):
    queries, keys = [30, 1, 0, 70, 9], [50, 20, 0, 70, 30]
    tensors = [packed(queries, 4, 16, dtype), packed(keys, 2, 16, dtype), packed(keys, 2, 16, dtype)]
    options: dict[str, Any] = {}
    masks: list[Any] = [None] * 5
    corners = [k - q for q, k in zip(queries, keys, strict=True)]
    sizes = list(zip(queries, keys, corners, strict=True))
    if mode:
        options = {"atten_mask": TRIANGLE, "sparse_mode": mode, "pre_tockens": 40, "next_tockens": 3}
        masks = [band(q, k, 999, 0 if mode in (2, 8) else corner) for q, k, corner in sizes]
    banded = {4: range(5), 7: [4], 8: [0]}.get(mode, [])
    for index in banded:
        q, k, corner = sizes[index]
        masks[index] = band(q, k, 40 - corner, 3 + corner)
    if mode == 6:
        prefixes = [corner + 5 for corner in corners]
        options["prefix"] = prefixes
        options["atten_mask"] = torch.cat([TRIANGLE, torch.arange(2048).expand(1024, -1) >= 1024])
        masks = [mask & (torch.arange(mask.size(1)) >= n) for mask, n in zip(masks, prefixes, strict=True)]

    def fused(query: Any, key: Any, value: Any, **more: Any) -> torch.Tensor:
        lengths = {"actual_seq_qlen": ends(queries), "actual_seq_kvlen": ends(keys)}
        return torch_npu.npu_fusion_attention(query, key, value, 4, "TND", scale=0.25, **lengths, **more)[0]

    def reference(query: Any, key: Any, value: Any, **_: Any) -> torch.Tensor:
        parts = zip(by_sequence(query, queries), by_sequence(key, keys), by_sequence(value, keys), masks, strict=True)
        return torch.cat([attention(q, k, v, mask, scale=0.25)[0].transpose(0, 1) for q, k, v, mask in parts])

    check(fused, *tensors, reference=reference, **GRADIENT_TOLERANCE[dtype], **options)


def test_variable_lengths_with_rotary_parts(check):
    lengths = [30, 70]
    widths = [(4, 32), (4, 16), (2, 32), (2, 16), (2, 32)]
    tensors = [packed(lengths, heads, width, torch.bfloat16) for heads, width in widths]

    def fused(query: Any, query_rope: Any, key: Any, key_rope: Any, value: Any) -> torch.Tensor:
        lengths_of = {"actual_seq_qlen": ends(lengths), "actual_seq_kvlen": ends(lengths)}
        ropes = {"query_rope": query_rope, "key_rope": key_rope}
        return torch_npu.npu_fusion_attention_v2(query, key, value, 4, "TND", scale=0.2, **ropes, **lengths_of)[0]

    def reference(query: Any, query_rope: Any, key: Any, key_rope: Any, value: Any) -> torch.Tensor:
        whole = [torch.cat([query, query_rope], 2), torch.cat([key, key_rope], 2), value]
        parts = zip(*(by_sequence(tensor, lengths) for tensor in whole), strict=True)
        return torch.cat([attention(q, k, v, scale=0.2)[0].transpose(0, 1) for q, k, v in parts])

    check(fused, *tensors, reference=reference, **GRADIENT_TOLERANCE[torch.bfloat16])


def test_statistics_of_the_softmax():
    query, key, value = (torch.randn(2, 3, 20, 16) for _ in range(3))
    moved = [tensor.npu() for tensor in (query, key, value)]
    _, largest, total, *_ = torch_npu.npu_fusion_attention(*moved, 3, "BNSD", scale=0.5)
    scores = query @ key.transpose(2, 3) * 0.5
    expected = scores.max(3, keepdim=True).values
    torch.testing.assert_close(largest.cpu(), expected.expand(-1, -1, -1, 8))
    torch.testing.assert_close(total.cpu(), (scores - expected).exp().sum(3, keepdim=True).expand(-1, -1, -1, 8))
    # Packed sequences: the heads of one sequence in turn, or the order of the query.
    lengths = [5, 15]
    query, key, value = (torch.randn(20, 3, 16) for _ in range(3))
    moved = [tensor.npu() for tensor in (query, key, value)]
    scores = [
        q @ k.transpose(2, 3) for q, k in zip(by_sequence(query, lengths), by_sequence(key, lengths), strict=True)
    ]
    options = {"actual_seq_qlen": ends(lengths), "actual_seq_kvlen": ends(lengths)}
    _, largest, *_ = torch_npu.npu_fusion_attention(*moved, 3, "TND", **options)
    expected = torch.cat([score.amax(3).flatten() for score in scores])
    torch.testing.assert_close(largest.cpu()[..., 0].flatten(), expected)
    _, largest, *_ = torch_npu.npu_fusion_attention(*moved, 3, "TND", softmax_layout="TND", **options)
    expected = torch.cat([score.amax(3)[0].transpose(0, 1) for score in scores])
    torch.testing.assert_close(largest.cpu()[..., 0], expected)


def test_dropout_keeps_its_share_and_its_mask():
    query, key = torch.zeros(1, 2, 200, 16), torch.zeros(1, 2, 160, 16)
    value = torch.eye(160).expand(1, 2, -1, -1).contiguous()
    moved = [tensor.npu().requires_grad_() for tensor in (query, key, value)]
    torch.manual_seed(7)
    result = torch_npu.npu_fusion_attention(*moved, 2, "BNSD", keep_prob=0.75)[0]
    weights = result.detach().cpu() * 160  # 0 or 1 / 0.75
    kept = weights > 0
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 1 / 0.75))
    assert abs(kept.float().mean() - 0.75) < 0.01
    gradient = torch.randn(1, 2, 200, 160)
    result.backward(gradient.npu())
    expected = (kept / 0.75 / 160).transpose(2, 3) @ gradient
    torch.testing.assert_close(moved[2].grad.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_dropout_gradients():
    tensors = inputs(2, 4, 2, 33, 45, 16, torch.float32)
    # The mask is the one that values of unit vectors show.
    torch.manual_seed(3)
    unit = torch.eye(45).expand(2, 2, -1, -1).contiguous().npu()
    zero = [torch.zeros_like(tensor).npu() for tensor in tensors[:2]]
    shown = torch_npu.npu_fusion_attention(*zero, unit, 4, "BNSD", keep_prob=0.5)[0].cpu()
    keep = (shown > 0).float() / 0.5
    torch.manual_seed(3)
    moved = [tensor.detach().npu().requires_grad_() for tensor in tensors]
    result = torch_npu.npu_fusion_attention(*moved, 4, "BNSD", scale=0.25, keep_prob=0.5)[0]
    expected = attention(*tensors, scale=0.25, keep=keep)
    torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
    seed = torch.randn_like(expected)
    result.backward(seed.npu())
    expected.backward(seed)
    for one, other in zip(moved, tensors, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=2e-5)


def test_scaled_dot_product_attention_with_dropout_keeps_the_mean():
    query, key, value = (torch.ones(1, 4, 128, 32).npu() for _ in range(3))
    result = scaled_dot_product_attention(query, key, value, dropout_p=0.25)
    assert abs(result.mean().item() - 1) < 0.02
    assert result.std().item() > 0


@pytest.mark.parametrize("sizes", [(1, 2, 0, 16), (0, 2, 8, 16)])
def test_no_queries(check, sizes):
    query, key, value = (torch.randn(sizes, requires_grad=True) for _ in range(3))
    check(scaled_dot_product_attention, query.half(), key.half(), value.half())
    tensors = [tensor.detach().half().npu().requires_grad_() for tensor in (query, key, value)]
    result = torch_npu.npu_fusion_attention(*tensors, 2, "BNSD")[0]
    assert result.shape == sizes
    result.sum().backward()
    assert tensors[0].grad.shape == sizes


def test_wrong_sizes_are_refused():
    query, key = torch.randn(2, 4, 8, 16).npu(), torch.randn(2, 3, 8, 16).npu()
    with pytest.raises(RuntimeError, match="161002"):
        torch_npu.npu_fusion_attention(query, key, key, 4, "BNSD")
    with pytest.raises(RuntimeError, match="161002"):
        torch_npu.npu_fusion_attention(
            query, query, query, 4, "BNSD", atten_mask=torch.ones(7, 8, dtype=torch.bool).npu()
        )
