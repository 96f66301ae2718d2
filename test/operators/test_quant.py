"""Quantisation, dequantisation and what is fused with them, against references in plain torch."""

from __future__ import annotations

import pytest
import torch
import torch_npu

HALVES = [torch.float16, torch.bfloat16]


def rounded(values, low=-128, high=127):
    return torch.nan_to_num(torch.round(values), nan=0.0).clamp(low, high).to(torch.int8)


def unpack_int4(packed):
    """The int4 values of an int32 tensor, first in the lowest bits."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    nibbles = (packed.cpu().unsqueeze(-1) >> shifts) & 0xF
    values = torch.where(nibbles > 7, nibbles - 16, nibbles)
    return values.reshape(*packed.shape[:-1], -1).to(torch.int8)


def close_integers(got, expected, most=1):
    """Equal but for rounding at a tie: no element differs by more than `most`, and few at all."""
    difference = (got.cpu().int() - expected.int()).abs()
    assert difference.max() <= most
    assert (difference > 0).float().mean() < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_quantize_with_a_scale(dtype):
    x = torch.randn(3, 5, 16).to(dtype)
    scale = torch.rand(16).to(dtype) * 20
    offset = torch.randint(-5, 5, (16,)).to(dtype)
    got = torch_npu.npu_quantize(x.npu(), scale.npu(), offset.npu(), torch.qint8, -1, False)
    close_integers(got, rounded(x.float() * scale.float() + offset.float()))
    one = torch_npu.npu_quantize(x.npu(), scale[:1].npu(), None, torch.quint4x2, -1, False)
    close_integers(unpack_int4(one), rounded(x.float() * scale[0].float(), -8, 7))


def test_quantize_per_channel_and_tensor():
    x = torch.randn(4, 6) * 10
    scales, zeros = torch.rand(6) + 0.1, torch.randint(-9, 9, (6,), dtype=torch.int32)
    got = torch_npu.npu_quantize(x.npu(), scales.npu(), zeros.npu(), torch.qint8, 1, True)
    close_integers(got, rounded(x / scales + zeros))
    assert (torch_npu.npu_quantize(x.npu()[:0], scales.npu(), zeros.npu(), torch.qint8, 1, True)).shape == (0, 6)


def test_anti_quant():
    x = torch.randint(-128, 127, (4, 8), dtype=torch.int8)
    scale, offset = torch.rand(8), torch.randn(8)
    got = torch_npu.npu_anti_quant(x.npu(), scale.npu(), offset=offset.npu(), dst_dtype=torch.float16)
    torch.testing.assert_close(got.cpu(), ((x.float() + offset) * scale).half(), rtol=2e-3, atol=1e-3)
    packed = torch.randint(-(2**31), 2**31 - 1, (4, 2), dtype=torch.int32)
    wide = torch.rand(16)
    got = torch_npu.npu_anti_quant(packed.npu(), wide.npu(), dst_dtype=torch.float16)
    torch.testing.assert_close(got.cpu(), (unpack_int4(packed) * wide).half(), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("smooth", [False, True])
def test_dynamic_quant(dtype, smooth):
    x = torch.randn(2, 7, 64).to(dtype)
    factors = torch.rand(64).to(dtype) if smooth else None
    got, scale = torch_npu.npu_dynamic_quant(x.npu(), smooth_scales=factors.npu() if smooth else None)
    values = x.float() * (factors.float() if smooth else 1)
    expected_scale = values.abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), expected_scale)
    close_integers(got, rounded(values / expected_scale.unsqueeze(-1)))
    packed, _ = torch_npu.npu_dynamic_quant(x.npu(), dst_type=torch.quint4x2)
    plain = x.float()
    close_integers(unpack_int4(packed), rounded(plain / (plain.abs().amax(-1, keepdim=True) / 7), -8, 7))


def test_dynamic_quant_of_zeros_and_strides():
    x = torch.zeros(3, 32, dtype=torch.float16)
    got, scale = torch_npu.npu_dynamic_quant(x.npu())
    assert got.cpu().count_nonzero() == 0 and scale.cpu().count_nonzero() == 0
    wide = torch.randn(6, 128, dtype=torch.float16)
    strided, _ = torch_npu.npu_dynamic_quant(wide.npu()[::2, ::4])
    dense, _ = torch_npu.npu_dynamic_quant(wide[::2, ::4].contiguous().npu())
    assert torch.equal(strided.cpu(), dense.cpu())


def test_dynamic_quant_asymmetric_by_group():
    x, factors = torch.randn(6, 32, dtype=torch.float16), torch.rand(2, 32, dtype=torch.float16)
    ends = torch.tensor([2, 6], dtype=torch.int32)
    got, scale, offset = torch_npu.npu_dynamic_quant_asymmetric(
        x.npu(), smooth_scales=factors.npu(), group_index=ends.npu()
    )
    values = x.float() * factors.float()[torch.tensor([0, 0, 1, 1, 1, 1])]
    expected_scale = (values.amax(-1) - values.amin(-1)) / 255
    expected_offset = 127 - values.amax(-1) / expected_scale
    torch.testing.assert_close(scale.cpu(), expected_scale)
    torch.testing.assert_close(offset.cpu(), expected_offset, rtol=1e-4, atol=1e-3)
    close_integers(got, rounded(values / expected_scale.unsqueeze(-1) + expected_offset.unsqueeze(-1)))


def test_dynamic_block_quant():
    x = torch.randn(3, 200, dtype=torch.bfloat16)
    got, scale = torch_npu.npu_dynamic_block_quant(x.npu(), dst_type=torch.int8)
    padded = torch.nn.functional.pad(x.float(), (0, 56)).reshape(3, 2, 128)
    expected_scale = padded.abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), expected_scale)
    close_integers(got, rounded(padded / expected_scale.unsqueeze(-1)).reshape(3, 256)[:, :200])


def test_group_quant():
    x, scale = torch.randn(6, 16), torch.rand(3, 16) * 30
    ends = torch.tensor([1, 1, 6], dtype=torch.int32)
    got = torch_npu.npu_group_quant(
        x.npu(), scale.npu(), ends.npu(), offset=torch.tensor([2.0]).npu(), dst_dtype=torch.qint8
    )
    close_integers(got, rounded(x * scale[torch.tensor([0, 2, 2, 2, 2, 2])] + 2))


def test_fake_quantize(check):
    x = torch.randn(4, 6) * 3
    scale, zero = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
    on = torch.tensor([1])
    check(torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams, x, scale, zero, on, -10, 12)
    scales, zeros = torch.rand(6) + 0.05, torch.randint(-3, 3, (6,), dtype=torch.int32)
    check(torch.ops.aten.fake_quantize_per_channel_affine_cachemask, x, scales, zeros, 1, -10, 12)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_quant(approximate):
    x = torch.randn(5, 32, dtype=torch.float16)
    scale, offset = torch.rand(32, dtype=torch.float16) * 30, torch.randn(32, dtype=torch.float16)
    activated = torch.nn.functional.gelu(x.float(), approximate=approximate)
    got, _ = torch_npu.npu_gelu_quant(
        x.npu(), input_scale=scale.npu(), input_offset=offset.npu(), approximate=approximate, quant_mode="static"
    )
    close_integers(got, rounded(activated * scale.float() + offset.float()))
    got, out_scale = torch_npu.npu_gelu_quant(x.npu(), approximate=approximate, quant_mode="dynamic")
    expected_scale = activated.abs().amax(-1) / 127
    torch.testing.assert_close(out_scale.cpu(), expected_scale, rtol=1e-4, atol=1e-5)
    close_integers(got, rounded(activated / expected_scale.unsqueeze(-1)))


def test_trans_quant_param_and_dequant_bias():
    scale = torch.tensor([1.0, 0.3, 2.7])
    packed = torch_npu.npu_trans_quant_param(scale.npu(), torch.tensor([-3.0, 5.4, 300.0]).npu()).cpu()
    bits = scale.view(torch.int32).to(torch.int64) & 0xFFFFE000
    offsets = torch.tensor([-3, 5, 255]) & 0x1FF
    assert torch.equal(packed.to(torch.int64), bits | (1 << 46) | (offsets << 37))
    x = torch.randint(-1000, 1000, (4, 3), dtype=torch.int32)
    tokens, bias = torch.rand(4), torch.randint(-9, 9, (3,), dtype=torch.int32)
    got = torch_npu.npu_dequant_bias(x.npu(), scale.npu(), tokens.npu(), bias.npu(), output_dtype=torch.float16)
    expected = ((x + bias) * scale * tokens[:, None]).half()
    torch.testing.assert_close(got.cpu(), expected, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("left", [False, True])
def test_swiglu_quant(left):
    x, smooth = torch.randn(6, 32), torch.rand(2, 16)
    ends = torch.tensor([4, 6], dtype=torch.int32)
    got, scale = torch_npu.npu_swiglu_quant(
        x.npu(), smooth_scales=smooth.npu(), group_index=ends.npu(), activate_left=left, quant_mode=1
    )
    first, second = x.chunk(2, -1)
    gate, up = (first, second) if left else (second, first)
    values = torch.nn.functional.silu(gate) * up * smooth[torch.tensor([0, 0, 0, 0, 1, 1])]
    factor = 127 / values.abs().amax(-1)
    torch.testing.assert_close(scale.cpu(), factor, rtol=1e-4, atol=1e-4)
    close_integers(got, rounded(values * factor.unsqueeze(-1)))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_dequant_swiglu_quant(mode):
    x = torch.randint(-100, 100, (5, 128), dtype=torch.int32)
    weights, tokens, smooth = torch.rand(2, 128) * 0.1, torch.rand(5), torch.rand(2, 64)
    counts = torch.tensor([2, 3])
    got, scale = torch_npu.npu_dequant_swiglu_quant(
        x.npu(),
        weight_scale=weights.npu(),
        activation_scale=tokens.npu(),
        quant_scale=smooth.npu(),
        group_index=counts.npu(),
        activate_left=True,
        quant_mode=1,
        swiglu_mode=mode,
        clamp_limit=2.0,
        glu_alpha=1.7,
        glu_bias=1.0,
    )
    group = torch.tensor([0, 0, 1, 1, 1])
    values = x * weights[group] * tokens[:, None]
    gate, up = (values[:, ::2], values[:, 1::2]) if mode == 1 else values.chunk(2, -1)
    if mode == 0:
        out = torch.nn.functional.silu(gate) * up
    else:
        gate, up = gate.clamp(max=2.0), up.clamp(-2.0, 2.0)
        out = gate * torch.sigmoid(1.7 * gate) * (up + 1.0)
    out = out * smooth[group]
    expected_scale = out.abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), expected_scale, rtol=1e-4, atol=1e-6)
    close_integers(got, rounded(out / expected_scale.unsqueeze(-1)))


def rms_norm(x, gamma, epsilon=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * gamma


def test_rms_norm_quant():
    x, gamma, beta = (torch.randn(*shape).half() for shape in ((4, 32), (32,), (32,)))
    scale, offset = torch.tensor([0.05]).half(), torch.tensor([3], dtype=torch.int8)
    got = torch_npu.npu_rms_norm_quant(x.npu(), gamma.npu(), beta.npu(), scale.npu(), offset.npu(), 1e-6)
    close_integers(got, rounded((rms_norm(x.float(), gamma.float()) + beta.float()) / scale.float() + offset.float()))


def test_add_rms_norm_quant():
    x1, x2, gamma = (torch.randn(*shape).bfloat16() for shape in ((4, 32), (4, 32), (32,)))
    scales, zeros = (torch.rand(32) * 0.1 + 0.02).bfloat16(), torch.randint(-3, 3, (32,)).bfloat16()
    y1, _, total = torch_npu.npu_add_rms_norm_quant(x1.npu(), x2.npu(), gamma.npu(), scales.npu(), zeros.npu())
    values = rms_norm(x1.float() + x2.float(), gamma.float())
    close_integers(y1, rounded(values / scales.float() + zeros.float()))
    assert torch.equal(total.cpu(), (x1.float() + x2.float()).bfloat16())


def test_add_rms_norm_dynamic_quant():
    x1, x2, gamma, smooth = (torch.randn(*shape).half() for shape in ((4, 32), (4, 32), (32,), (32,)))
    y1, _, total, scale1, _ = torch_npu.npu_add_rms_norm_dynamic_quant(
        x1.npu(), x2.npu(), gamma.npu(), smooth_scale1=smooth.npu(), output_mask=[True, False]
    )
    values = rms_norm(x1.float() + x2.float(), gamma.float()) * smooth.float()
    expected_scale = values.abs().amax(-1) / 127
    torch.testing.assert_close(scale1.cpu().flatten(), expected_scale, rtol=1e-4, atol=1e-6)
    close_integers(y1, rounded(values / expected_scale.unsqueeze(-1)))
    torch.testing.assert_close(total.cpu(), (x1.float() + x2.float()).half())


def test_rotate_quant():
    x = torch.randn(4, 128, dtype=torch.bfloat16)
    rotation = torch.linalg.qr(torch.randn(32, 32))[0].bfloat16()
    got, scale = torch_npu.npu_rotate_quant(x.npu(), rotation.npu(), dst_dtype=torch.int8)
    values = (x.float().reshape(-1, 32) @ rotation.float()).reshape(4, 128)
    expected_scale = values.abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), expected_scale, rtol=1e-4, atol=1e-6)
    close_integers(got, rounded(values / expected_scale.unsqueeze(-1)))


def test_quant_scatter():
    cache = torch.zeros(3, 8, 32, dtype=torch.int8)
    updates = torch.randn(2, 2, 32, dtype=torch.bfloat16)
    scales, zeros = (torch.rand(1, 1, 32) + 0.05).bfloat16(), torch.randint(-4, 4, (1, 1, 32)).bfloat16()
    indices = torch.tensor([1, 5], dtype=torch.int32)
    got = torch_npu.npu_quant_scatter(
        cache.npu(), indices.npu(), updates.npu(), scales.npu(), zeros.npu(), axis=-2, quant_axis=-1
    )
    expected = cache.clone()
    quantised = rounded(updates.float() / scales.float() + zeros.float())
    expected[0, 1:3], expected[1, 5:7] = quantised[0], quantised[1]
    close_integers(got, expected)
