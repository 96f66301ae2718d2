"""Attention for inference: fused_infer, prompt and incre attention, against plain torch on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from attention_reference import attention, band, by_sequence, ends

TOLERANCE: dict[torch.dtype, dict[str, float]] = {
    torch.float16: {"rtol": 4e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 1e-2},
}
TYPES = [torch.float16, torch.bfloat16]
TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
LAYOUTS = ["BNSD", "BSND", "BSH", "BNSD_BSND", "BSND_BNSD", "BSH_BNSD", "BNSD_NBSD", "BSND_NBSD", "BSH_NBSD"]


def arranged(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Bring a tensor from [batch, heads, sequence, width] to a layout."""
    orders = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "NBSD": (1, 0, 2, 3)}
    tensor = tensor.permute(orders[layout])
    return (tensor.flatten(2) if layout == "BSH" else tensor).contiguous()


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
    """Query, key and value in BNSD."""
    sizes = [(heads, queries, width), (key_heads, keys, width), (key_heads, keys, width)]
    return [torch.randn(batch, *size).to(dtype) for size in sizes]


def run(check: Any, tensors: list[torch.Tensor], layout: str = "BNSD", **options: Any) -> Any:
    """Compare npu_fused_infer_attention_score with the reference, whose options are `expect_*`."""
    heads, key_heads = tensors[0].size(1), tensors[1].size(1)
    query_layout, result_layout = layout.split("_") if "_" in layout else (layout, layout)
    expected = {name[7:]: options.pop(name) for name in list(options) if name.startswith("expect_")}
    scale = tensors[0].size(3) ** -0.5

    def fused(*parts: Any, **more: Any) -> torch.Tensor:
        more |= {"num_heads": heads, "num_key_value_heads": key_heads, "input_layout": layout, "scale": scale}
        return torch_npu.npu_fused_infer_attention_score(*(arranged(part, query_layout) for part in parts), **more)[0]

    def reference(*parts: Any, **_: Any) -> torch.Tensor:
        return arranged(attention(*parts, scale=scale, shift_first=False, **expected), result_layout)

    return check(fused, *tensors, reference=reference, **TOLERANCE[tensors[0].dtype], **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(check, layout, dtype):
    run(check, inputs(2, 4, 2, 33, 150, 64, dtype), layout)
    run(check, inputs(2, 4, 2, 1, 150, 64, dtype), layout)


def test_masks(check):
    tensors = inputs(2, 2, 2, 40, 60, 64, torch.float16)
    for sizes in ((40, 60), (2, 40, 60), (2, 1, 40, 60), (1, 40, 64)):
        mask = torch.rand(sizes) > 0.5
        mask[..., 3] = False
        expected = mask[..., :60] if mask.dim() != 3 else mask[:, None, :, :60]
        run(check, tensors, atten_mask=mask, expect_mask=expected)
    run(check, tensors, atten_mask=TRIANGLE, sparse_mode=2, expect_mask=band(40, 60, 99, 0))
    run(check, tensors, atten_mask=TRIANGLE, sparse_mode=3, expect_mask=band(40, 60, 99, 20))
    options: dict[str, Any] = {"atten_mask": TRIANGLE, "sparse_mode": 4, "pre_tokens": 30, "next_tokens": 5}
    run(check, tensors, expect_mask=band(40, 60, 10, 25), **options)
    free = band(40, 60, 15, 7)
    run(check, tensors, atten_mask=torch.zeros_like(free), pre_tokens=15, next_tokens=7, expect_mask=free)
    one = inputs(3, 2, 2, 1, 60, 64, torch.float16)
    mask = torch.rand(3, 60) > 0.5
    mask[:, 3] = False
    run(check, one, atten_mask=mask, expect_mask=mask[:, None, None])


def test_lengths_and_shift(check):
    tensors = inputs(2, 2, 1, 20, 30, 64, torch.float16)
    masks = [torch.ones(1, 20, 30, dtype=torch.bool) for _ in range(2)]
    for mask, (queries, keys) in zip(masks, ((20, 11), (20, 30)), strict=True):
        mask[:, :queries, :keys] = False
    run(check, tensors, actual_seq_lengths_kv=[11, 30], expect_mask=torch.stack(masks))
    masks[0][:, 7:] = True
    result = run(
        check, tensors, actual_seq_lengths=[7, 20], actual_seq_lengths_kv=[11, 30], expect_mask=torch.stack(masks)
    )
    assert result.cpu()[0, :, 7:].abs().max() == 0
    shift = torch.randn(1, 2, 24, 32).half()
    run(check, tensors, pse_shift=shift, expect_shift=shift[:, :, :20, :30])


def test_left_padding(check):
    tensors = inputs(2, 2, 2, 20, 30, 64, torch.float16)
    mask = torch.ones(2, 1, 20, 30, dtype=torch.bool)
    mask[0, :, 20 - 2 - 7 : 18, 30 - 3 - 11 : 27] = mask[1, :, 3:18, 7:27] = False
    run(
        check,
        tensors,
        actual_seq_lengths=[7, 15],
        actual_seq_lengths_kv=[11, 20],
        query_padding_size=torch.tensor([2]),
        kv_padding_size=torch.tensor([3]),
        expect_mask=mask,
    )


def blocks_of(tensor: torch.Tensor, block_size: int, arrangement: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Cut keys [batch, heads, sequence, width] into blocks in a random order; the blocks and their table."""
    batch, heads, length, width = tensor.shape
    count = -(-length // block_size)
    padded = torch.zeros(batch, heads, count * block_size, width, dtype=tensor.dtype)
    padded[:, :, :length] = tensor
    blocks = padded.unflatten(2, (count, block_size)).permute(0, 2, 1, 3, 4).flatten(0, 1)  # [blocks, N, bs, D]
    order = torch.randperm(batch * count)
    cache = torch.empty_like(blocks)
    cache[order] = blocks
    if arrangement == "BSH":
        cache = cache.transpose(1, 2).flatten(2)
    elif arrangement == "NZ":
        cache = cache.unflatten(3, (width // 16, 16)).transpose(2, 3)
    return cache.contiguous(), order.view(batch, count).int()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("arrangement", ["BNSD", "BSH", "NZ"])
@pytest.mark.parametrize("queries", [1, 3])
def test_blocks_of_keys(check, queries, arrangement, dtype):
    query, key, value = inputs(2, 4, 2, queries, 100, 32, dtype)
    torch.manual_seed(5)
    key_cache, table = blocks_of(key, 16, arrangement)
    torch.manual_seed(5)
    value_cache, _ = blocks_of(value, 16, arrangement)
    lengths = [100, 37]

    def fused(query: Any, key: Any, value: Any, table: Any) -> torch.Tensor:
        options = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "scale": 0.2}
        lengths_of = {"block_table": table, "block_size": 16, "actual_seq_lengths_kv": lengths}
        return torch_npu.npu_fused_infer_attention_score(query, key, value, **options, **lengths_of)[0]

    mask = (torch.arange(100)[None] >= torch.tensor(lengths)[:, None])[:, None, None]

    def reference(query: Any, *_: Any) -> torch.Tensor:
        return attention(query, key, value, mask, scale=0.2)

    check(fused, query, key_cache, value_cache, table, reference=reference, **TOLERANCE[dtype])


@pytest.mark.parametrize("layout", ["TND", "NTD_TND"])
def test_packed_sequences(check, layout):
    queries, keys = [10, 1, 30], [20, 5, 30]
    width = 64
    tensors = [torch.randn(sum(n), h, width).half() for n, h in ((queries, 4), (keys, 2), (keys, 2))]

    def fused(*parts: Any, **more: Any) -> Any:
        moved = [part.transpose(0, 1).contiguous() if layout == "NTD_TND" else part for part in parts]
        more |= {"actual_seq_lengths": ends(queries), "actual_seq_lengths_kv": ends(keys), "input_layout": layout}
        more |= {"num_heads": 4, "num_key_value_heads": 2, "scale": 0.2, "softmax_lse_flag": True}
        return torch_npu.npu_fused_infer_attention_score(*moved, **more)

    def reference(*parts: Any, **_: Any) -> Any:
        cut = [by_sequence(part, n) for part, n in zip(parts, (queries, keys, keys), strict=True)]
        results, sums = [], []
        for q, k, v in zip(*cut, strict=True):
            mask = band(q.size(2), k.size(2), 99, k.size(2) - q.size(2))
            results.append(attention(q, k, v, mask, scale=0.2)[0].transpose(0, 1))
            scores = q.float() @ k.float().repeat_interleave(2, 1).transpose(2, 3) * 0.2
            sums.append(scores.masked_fill(mask, -torch.inf).logsumexp(3)[0].transpose(0, 1)[..., None])
        return torch.cat(results), torch.cat(sums)

    check(fused, *tensors, reference=reference, atten_mask=TRIANGLE, sparse_mode=3, rtol=4e-3, atol=2e-3)


def test_logsumexp_of_rows_that_see_nothing():
    query, key, value = (tensor.npu() for tensor in inputs(1, 2, 2, 40, 25, 64, torch.float16))
    options = {"num_heads": 2, "input_layout": "BNSD", "scale": 0.2, "softmax_lse_flag": True}
    result, lse = torch_npu.npu_fused_infer_attention_score(
        query, key, value, atten_mask=TRIANGLE.npu(), sparse_mode=3, **options
    )
    assert (lse.cpu()[:, :, :15] == torch.inf).all() and lse.cpu()[:, :, 15:].isfinite().all()
    assert result.cpu()[:, :, :15].abs().max() == 0


def test_shared_prefix(check):
    query, key, value = inputs(2, 2, 2, 5, 20, 64, torch.float16)
    prefixes = [torch.randn(1, 2, 12, 64).half() for _ in range(2)]

    def fused(query: Any, key: Any, value: Any, key_prefix: Any, value_prefix: Any) -> torch.Tensor:
        options = {"num_heads": 2, "input_layout": "BNSD", "scale": 0.2, "actual_shared_prefix_len": [9]}
        prefix = {"key_shared_prefix": key_prefix, "value_shared_prefix": value_prefix}
        return torch_npu.npu_fused_infer_attention_score(query, key, value, **options, **prefix)[0]

    def reference(query: Any, key: Any, value: Any, *prefixes: Any) -> torch.Tensor:
        heads = [prefix[:, :, :9].expand(2, -1, -1, -1) for prefix in prefixes]
        return attention(query, torch.cat([heads[0], key], 2), torch.cat([heads[1], value], 2), scale=0.2)

    check(fused, query, key, value, *prefixes, reference=reference, **TOLERANCE[torch.float16])


def test_rotary_parts(check):
    query, key, _ = inputs(2, 8, 1, 1, 40, 512, torch.bfloat16)
    ropes = [torch.randn(2, heads, length, 64).bfloat16() for heads, length in ((8, 1), (1, 40))]
    torch.manual_seed(3)
    cache, table = blocks_of(key, 16, "BSH")
    torch.manual_seed(3)
    rope_cache, _ = blocks_of(ropes[1], 16, "BSH")

    def fused(query: Any, query_rope: Any, cache: Any, rope_cache: Any, table: Any) -> torch.Tensor:
        options = {"num_heads": 8, "num_key_value_heads": 1, "input_layout": "BNSD", "scale": 0.05, "block_size": 16}
        options |= {"block_table": table, "actual_seq_lengths_kv": [40, 40]}
        ropes = {"query_rope": query_rope, "key_rope": rope_cache}
        return torch_npu.npu_fused_infer_attention_score(query, cache, cache, **options, **ropes)[0]

    def reference(query: Any, query_rope: Any, *_: Any) -> torch.Tensor:
        whole = torch.cat([query, query_rope], 3), torch.cat([key, ropes[1]], 3)
        return attention(*whole, key, scale=0.05)

    check(fused, query, ropes[0], cache, rope_cache, table, reference=reference, **TOLERANCE[torch.bfloat16])


def test_small_integer_keys_and_results(check):
    query, _, _ = inputs(2, 4, 2, 1, 30, 64, torch.float16)
    key, value = (torch.randint(-100, 100, (2, 2, 30, 64), dtype=torch.int8) for _ in range(2))
    scale, offset = torch.rand(2, 2, 1, 64).half() / 50, torch.randn(2, 2, 1, 64).half()

    def fused(query: Any, key: Any, value: Any, scale: Any, offset: Any) -> torch.Tensor:
        options = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "scale": 0.1}
        given = {"antiquant_scale": scale, "antiquant_offset": offset}
        return torch_npu.npu_fused_infer_attention_score(query, key, value, **options, **given)[0]

    def reference(query: Any, key: Any, value: Any, scale: Any, offset: Any) -> torch.Tensor:
        whole = [(t.float() + offset[n].float()) * scale[n].float() for n, t in enumerate((key, value))]
        return attention(query, *whole, scale=0.1)

    check(fused, query, key, value, scale, offset, reference=reference, **TOLERANCE[torch.float16])

    query, key, value = inputs(2, 4, 4, 5, 30, 64, torch.float16)

    def rounded(query: Any, key: Any, value: Any, scale: Any) -> torch.Tensor:
        options = {"num_heads": 4, "input_layout": "BNSD", "scale": 0.1, "quant_scale2": scale}
        return torch_npu.npu_fused_infer_attention_score(query, key, value, **options)[0]

    def rounded_reference(query: Any, key: Any, value: Any, scale: Any) -> torch.Tensor:
        exact = attention(query.float(), key, value, scale=0.1)
        return (exact * scale).round().clamp(-128, 127).to(torch.int8)

    check(rounded, query, key, value, torch.tensor([300.0]), reference=rounded_reference, rtol=0, atol=1)


def test_sinks(check):
    tensors = inputs(2, 4, 2, 10, 30, 64, torch.float16)

    def fused(query: Any, key: Any, value: Any, sink: Any) -> torch.Tensor:
        options = {"num_query_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "softmax_scale": 0.2}
        return torch_npu.npu_fused_infer_attention_score_v2(query, key, value, learnable_sink=sink, **options)[0]

    def reference(query: Any, key: Any, value: Any, sink: Any) -> torch.Tensor:
        return attention(query, key, value, sink=sink, scale=0.2)

    check(fused, *tensors, torch.randn(4).half(), reference=reference, **TOLERANCE[torch.float16])


@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_prompt_and_incre_flash_attention(check, layout):
    tensors = inputs(2, 4, 2, 20, 30, 64, torch.float16)
    mask = torch.ones(2, 1, 20, 30, dtype=torch.bool)
    mask[0, :, :, :11] = mask[1] = False

    def reference(*parts: Any) -> torch.Tensor:
        return arranged(attention(*parts, mask[:, :, : parts[0].size(2)], scale=0.2), layout)

    def prompt(*parts: Any) -> torch.Tensor:
        options = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": layout, "scale_value": 0.2}
        parts = tuple(arranged(part, layout) for part in parts)
        return torch_npu.npu_prompt_flash_attention(*parts, actual_seq_lengths_kv=[11, 30], **options)

    def incre(*parts: Any) -> torch.Tensor:
        options = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": layout, "scale_value": 0.2}
        parts = tuple(arranged(part, layout) for part in parts)
        return torch_npu.npu_incre_flash_attention(*parts, actual_seq_lengths=[11, 30], **options)

    check(prompt, *tensors, reference=reference, **TOLERANCE[torch.float16])
    check(incre, tensors[0][:, :, :1], *tensors[1:], reference=reference, **TOLERANCE[torch.float16])
