"""Operators that keep keys and values, and that put attention's results together, against plain torch on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from attention_reference import attention, ends
from test_rotary import rotated


def rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Divide by the root of the mean square, in fp32."""
    wide = x.float()
    return wide / (wide.square().mean(-1, keepdim=True) + epsilon).sqrt() * gamma.float()


def chunked(cache: torch.Tensor, size: int) -> torch.Tensor:
    """Arrange [blocks, block size, heads, width] as [blocks, heads * width / size, block size, size]."""
    return cache.flatten(2).unflatten(2, (-1, size)).transpose(1, 2).contiguous()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("mode", ["Norm", "PA_NZ"])
def test_scatter_into_blocks(mode, dtype):
    key, value = torch.randint(-99, 99, (6, 2, 64)).to(dtype), torch.randint(-99, 99, (6, 2, 32)).to(dtype)
    slots = torch.tensor([3, 40, 17, 0, 63, 30], dtype=torch.int32)
    caches = [torch.zeros(4, 16, 2, width, dtype=dtype) for width in (64, 32)]
    expected = [cache.clone() for cache in caches]
    for cache, rows in zip(expected, (key, value), strict=True):
        cache.flatten(0, 1)[slots.long()] = rows
    size = 32 if dtype == torch.int8 else 16
    if mode == "PA_NZ":
        caches, expected = ([chunked(cache, size) for cache in both] for both in (caches, expected))
    moved = [cache.npu() for cache in caches]
    torch_npu.npu_scatter_pa_kv_cache(key.npu(), value.npu(), *moved, slots.npu(), cache_mode=mode)
    for got, cache in zip(moved, expected, strict=True):
        torch.testing.assert_close(got.cpu(), cache)


def test_gather_from_blocks():
    caches = [torch.randn(8, 16, 2, width).half() for width in (64, 32)]
    tables = torch.tensor([[5, 2, 7], [0, 1, 3]], dtype=torch.int32)
    lengths, offsets = [20, 30], [16, 0]
    expected = []
    for cache in caches:
        first = torch.cat([cache[2], cache[7]])[:20]
        expected.append(torch.cat([first, torch.cat([cache[0], cache[1]])[:30]]))
    for cumulated in (False, True):
        moved = [torch.zeros(50, 2, width).half().npu() for width in (64, 32)]
        counts = torch.tensor([0, *ends(lengths)] if cumulated else lengths, dtype=torch.int32).npu()
        arguments = [*(cache.npu() for cache in caches), tables.npu(), counts, *moved]
        offset = torch.tensor(offsets, dtype=torch.int32).npu()
        torch_npu.npu_gather_pa_kv_cache(*arguments, seq_offset=offset, is_seq_lens_cumsum=cumulated)
        for got, rows in zip(moved, expected, strict=True):
            torch.testing.assert_close(got.cpu(), rows)


@pytest.mark.parametrize("mode", ["Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"])
def test_norm_rope_cache(mode):
    batch, length, block_size = 2, 18, 16
    kv = torch.randn(batch, 1, length, 512 + 64).half()
    gamma = torch.randn(512).half()
    angles = torch.randn(batch, 1, length, 64)
    cos, sin = angles.cos().half(), angles.sin().half()
    norm = rms_norm(kv[..., :512], gamma, 1e-5).half()
    x = kv[..., 512:]
    rope = rotated(torch.cat([x[..., ::2], x[..., 1::2]], -1), cos, sin)
    sizes = (batch, 1, 40) if mode == "Norm" else (6, block_size, 1)
    caches = [torch.zeros(*sizes, width).half() for width in (64, 512)]
    expected = [cache.clone() for cache in caches]
    if mode == "Norm":
        index = torch.stack([torch.randperm(40)[:length] for _ in range(batch)])
        index[0, 3] = -1
        for b in range(batch):
            for s in range(length):
                if index[b, s] >= 0:
                    expected[0][b, 0, index[b, s]] = rope[b, 0, s]
                    expected[1][b, 0, index[b, s]] = norm[b, 0, s]
    else:
        if "BLK" in mode:
            index = torch.tensor([32, 0, 80, 48])
            slots = [int(index[b * 2 + s // 16]) + s % 16 for b in range(batch) for s in range(length)]
        else:
            index = torch.randperm(96)[: batch * length]
            slots = index.tolist()
        for n, slot in enumerate(slots):
            expected[0][slot // 16, slot % 16, 0] = rope[n // length, 0, n % length]
            expected[1][slot // 16, slot % 16, 0] = norm[n // length, 0, n % length]
        if "NZ" in mode:
            expected = [chunked(cache, 16).view_as(cache) for cache in expected]
    moved = [cache.npu() for cache in caches]
    inputs = [part.npu() for part in (kv, gamma, cos, sin, index)]
    output = mode != "Norm"
    results = torch_npu.npu_kv_rmsnorm_rope_cache(*inputs, *moved, cache_mode=mode, is_output_kv=output)
    for got, cache in zip(moved, expected, strict=True):
        torch.testing.assert_close(got.cpu(), cache, rtol=4e-3, atol=2e-3)
    if output:
        torch.testing.assert_close(results[2].cpu(), rope, rtol=4e-3, atol=2e-3)
        torch.testing.assert_close(results[3].cpu(), norm, rtol=4e-3, atol=2e-3)


def test_norm_rope_cache_of_small_integers():
    kv, gamma = torch.randn(1, 1, 4, 576).half(), torch.ones(512).half()
    cos, sin = torch.ones(1, 1, 4, 64).half(), torch.zeros(1, 1, 4, 64).half()
    scales = [torch.rand(width) * 40 for width in (64, 512)]
    caches = [torch.zeros(2, 32, 1, width, dtype=torch.int8).npu() for width in (64, 512)]
    index = torch.tensor([5, 40, 1, 63])
    torch_npu.npu_kv_rmsnorm_rope_cache(
        *(part.npu() for part in (kv, gamma, cos, sin, index)),
        *caches,
        k_rope_scale=scales[0].npu(),
        c_kv_scale=scales[1].npu(),
        cache_mode="PA",
    )
    x = kv[0, 0, :, 512:].float()
    rope = torch.cat([x[:, ::2], x[:, 1::2]], -1)
    norm = rms_norm(kv[0, 0, :, :512], gamma, 1e-5)
    for cache, values, scale in zip(caches, (rope, norm), scales, strict=True):
        expected = (values * scale).round().clamp(-128, 127).to(torch.int8)
        torch.testing.assert_close(cache.cpu().flatten(0, 1)[index, 0], expected, rtol=0, atol=1)


@pytest.mark.parametrize("rounded", [False, True])
def test_qkv_norm_rope_cache(rounded):
    tokens, heads, width = 6, (4, 1, 1), 128
    qkv = torch.randn(tokens, sum(heads) * width).half()
    gammas = [torch.randn(width).half() for _ in range(2)]
    angles = torch.randn(tokens, width)
    cos, sin = angles.cos().half(), angles.sin().half()
    index = torch.tensor([3, 40, 17, -1, 63, 30])
    cache_type, size = (torch.int8, 32) if rounded else (torch.float16, 16)
    caches = [torch.zeros(2, width // size, 32, size, dtype=cache_type).npu() for _ in range(2)]
    scales = [torch.rand(1, width) + 0.02 for _ in range(2)]
    given = {"k_scale": scales[0].npu(), "v_scale": scales[1].npu()} if rounded else {}
    query_out = torch.zeros(tokens, heads[0] * width).half().npu()
    inputs = [part.npu() for part in (qkv, *gammas, cos, sin, index)]
    sizes = [1, tokens, sum(heads), width]
    torch_npu.npu_qkv_rms_norm_rope_cache(*inputs, query_out, *caches, sizes, list(heads), **given)
    x = qkv.unflatten(1, (-1, width))
    query = rotated(rms_norm(x[:, :4], gammas[0], 1e-6), cos[:, None], sin[:, None])
    torch.testing.assert_close(query_out.cpu().float(), query.flatten(1), rtol=4e-3, atol=2e-3)
    key = rotated(rms_norm(x[:, 4:5], gammas[1], 1e-6), cos[:, None], sin[:, None])
    for cache, rows, scale in zip(caches, (key, x[:, 5:].float()), scales, strict=True):
        expected = torch.zeros(2, 32, 1, width)
        kept = index >= 0
        expected.flatten(0, 1)[index[kept]] = (rows / scale).round().clamp(-128, 127)[kept] if rounded else rows[kept]
        got = cache.cpu().float()
        torch.testing.assert_close(got, chunked(expected, size), rtol=4e-3, atol=1 if rounded else 2e-3)


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("mode", ["contiguous", "page"])
def test_rope_quant_kv_cache(mode, integers):
    batch, length, heads, key_heads, width = 2, 3, 4, 2, 32
    hidden = (heads + 2 * key_heads) * width
    x = torch.randn(batch, length, hidden).half()
    given = {}
    if integers:
        whole, bias = (torch.randint(-500, 500, size, dtype=torch.int32) for size in (x.shape, (hidden,)))
        weights, activations = torch.rand(hidden) / 50, torch.rand(batch * length)
        x = ((whole + bias) * weights * activations.view(batch, length, 1)).half()
        given = {"weight_scale": weights.npu(), "activation_scale": activations.npu(), "bias": bias.npu()}
    operator = torch_npu.npu_dequant_rope_quant_kvcache if integers else torch_npu.npu_rope_quant_kvcache
    angles = torch.randn(batch, length, 1, width)
    cos, sin = angles.cos().half(), angles.sin().half()
    scales = [torch.rand(key_heads, width) / 10 + 0.02 for _ in range(2)]
    caches = [torch.zeros(4, 16, key_heads, width, dtype=torch.int8).npu() for _ in range(2)]
    index = torch.tensor([5, 1] if mode == "contiguous" else [5, 40, 1, 63, 20, 30], dtype=torch.int32)
    splits = [heads * width, key_heads * width, key_heads * width]
    query, key, value, *_ = operator(
        *(part.npu() for part in (whole if integers else x, cos, sin)),
        *caches,
        *(part.npu() for part in (index, *scales)),
        splits,
        kv_output=True,
        cache_mode=mode,
        **given,
    )
    parts = [part.unflatten(2, (-1, width)) for part in x.split(splits, 2)]
    tolerance = {"rtol": 4e-3, "atol": 2e-2 if integers else 2e-3}
    torch.testing.assert_close(query.cpu(), rotated(parts[0], cos, sin), **tolerance)
    torch.testing.assert_close(key.cpu(), rotated(parts[1], cos, sin), **tolerance)
    torch.testing.assert_close(value.cpu(), parts[2], **tolerance)
    for cache, rows, scale in zip(caches, (rotated(parts[1], cos, sin), parts[2]), scales, strict=True):
        expected = torch.zeros(4, 16, key_heads, width)
        small = (rows.float() / scale).round().clamp(-128, 127)
        for b in range(batch):
            for s in range(length):
                if mode == "contiguous":
                    expected[b, index[b] + s] = small[b, s]
                else:
                    expected.flatten(0, 1)[index[b * length + s]] = small[b, s]
        torch.testing.assert_close(cache.cpu().float(), expected, rtol=0, atol=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ring_attention_update(dtype):
    query = torch.randn(2, 3, 10, 16)
    keys, values = (torch.randn(2, 3, 40, 16) for _ in range(2))
    parts = []
    for start, end in ((0, 15), (15, 40)):
        moved = [part.to(dtype).npu() for part in (query, keys[:, :, start:end], values[:, :, start:end])]
        flat = [part.permute(2, 0, 1, 3).flatten(2).contiguous() for part in moved]
        parts += torch_npu.npu_fusion_attention(*flat, 3, "SBH", scale=0.25)[:3]
    results, largest, total = torch_npu.npu_ring_attention_update(*parts)
    exact = attention(query.to(dtype), keys.to(dtype), values.to(dtype), scale=0.25)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    expected = exact.permute(2, 0, 1, 3).flatten(2)
    torch.testing.assert_close(results.cpu(), expected, rtol=tolerance, atol=tolerance)
    scores = query.to(dtype).float() @ keys.to(dtype).float().transpose(2, 3) * 0.25
    lse = (largest + total.log()).cpu()[..., 0]
    torch.testing.assert_close(lse, scores.logsumexp(3), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("softmax_layout", ["", "TND"])
def test_ring_attention_update_of_packed_sequences(softmax_layout):
    lengths = [4, 11]
    query, keys, values = torch.randn(15, 2, 64), torch.randn(30, 2, 64), torch.randn(30, 2, 64)
    options: dict[str, Any] = {"softmax_layout": softmax_layout, "actual_seq_qlen": ends(lengths), "scale": 0.1}

    def run(rows: list[int]) -> Any:
        moved = [part.npu() for part in (query, keys[rows], values[rows])]
        half = len(rows) // 2
        return torch_npu.npu_fusion_attention(*moved, 2, "TND", actual_seq_kvlen=[half, 2 * half], **options)[:3]

    first, second = run([*range(6), *range(15, 21)]), run([*range(6, 15), *range(21, 30)])
    whole = run([*range(30)])
    starts = torch.tensor([0, *ends(lengths)]).npu()
    merged = torch_npu.npu_ring_attention_update(
        *first, *second, actual_seq_qlen=starts, input_layout="TND", input_softmax_layout=softmax_layout
    )
    for got, expected in zip(merged, whole, strict=True):
        torch.testing.assert_close(got.cpu(), expected.cpu(), rtol=1e-4, atol=1e-5)


def test_attention_update(check):
    lse = [torch.randn(12) * 3 for _ in range(3)]
    parts = [torch.randn(12, 16) for _ in range(3)]

    def reference(lse: Any, parts: Any) -> Any:
        total = torch.stack(lse).logsumexp(0)
        return sum(part * (one - total).exp()[:, None] for part, one in zip(parts, lse, strict=True)), total

    check(lambda lse, parts: torch_npu.npu_attention_update(lse, parts, 1), lse, parts, reference=reference)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masked_softmax_with_position_bias(check, dtype):
    x, mask, bias = torch.randn(6, 4, 9, 9).to(dtype), torch.randn(3, 9, 9).to(dtype), torch.randn(4, 9, 9).to(dtype)

    def reference(x: Any, mask: Any, bias: Any) -> torch.Tensor:
        wide = x.float().unflatten(0, (2, 3)) * 0.5 + mask.float()[None, :, None] + bias.float()
        return wide.softmax(-1).flatten(0, 1).to(x.dtype)

    check(
        lambda x, mask, bias: torch_npu.npu_masked_softmax_with_rel_pos_bias(x, mask, bias, 0.5),
        x,
        mask,
        bias,
        reference=reference,
    )
