"""Quantised matrix products, against exact references in plain torch."""

from __future__ import annotations

import pytest
import torch
import torch_npu


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def exact(x, weight):
    return x.to(torch.int64) @ weight.to(torch.int64)


def close(got, expected):
    tolerance = {torch.bfloat16: (1.6e-2, 1e-2), torch.float16: (2e-3, 1e-3)}.get(got.dtype, (0, 0))
    torch.testing.assert_close(got.cpu(), expected.to(got.dtype), rtol=tolerance[0], atol=tolerance[1])


def test_int32_sums_are_exact():
    # An odd sum of more than 2^24: fp32 cannot hold it.
    x, weight = torch.full((3, 5001), 127, dtype=torch.int8), torch.full((5001, 4), 127, dtype=torch.int8)
    got = torch_npu.npu_quant_matmul(x.npu(), weight.npu(), torch.ones(1).npu(), output_dtype=torch.int32)
    assert torch.equal(got.cpu().long(), exact(x, weight))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias_dtype", [None, torch.int32, torch.float32])
def test_scale_by_channel_and_token(bias_dtype, transposed):
    x, weight = int8(6, 96), int8(96, 16)
    scale, tokens = torch.rand(16) * 1e-3, torch.rand(6)
    bias = None if bias_dtype is None else (torch.randn(16) * 100).to(bias_dtype)
    on_device = weight.t().contiguous().npu().t() if transposed else weight.npu()
    got = torch_npu.npu_quant_matmul(
        x.npu(),
        on_device,
        scale.npu(),
        pertoken_scale=tokens.npu(),
        bias=None if bias is None else bias.npu(),
        output_dtype=torch.bfloat16,
    )
    sums = exact(x, weight)
    if bias_dtype is torch.int32:
        sums = sums + bias
    expected = sums.float() * scale * tokens[:, None]
    close(got, expected + bias if bias_dtype is torch.float32 else expected)


def test_packed_scale_and_int8_result():
    x, weight, scale = int8(2, 4, 64), int8(64, 8), torch.tensor([2.0**-8])
    packed = torch_npu.npu_trans_quant_param(scale.npu())
    got = torch_npu.npu_quant_matmul(x.npu(), weight.npu(), packed, output_dtype=torch.float16)
    close(got, exact(x, weight).float() * scale)
    offset = torch.tensor([3.0])
    got = torch_npu.npu_quant_matmul(x.npu(), weight.npu(), packed, offset=offset.npu(), output_dtype=torch.int8)
    assert torch.equal(
        got.cpu(), (torch.round(exact(x, weight).float() * scale + offset)).clamp(-128, 127).to(torch.int8)
    )


def packed_int4(values):
    """Int4 values of a device tensor, eight to an int32 along the last axis."""
    return torch_npu.npu_quantize(values.float().npu(), torch.ones(1).npu(), None, torch.quint4x2, -1, False)


def test_int4_by_int4():
    x, weight = torch.randint(-8, 8, (5, 64)), torch.randint(-8, 8, (64, 16))
    scale = torch.rand(16)
    got = torch_npu.npu_quant_matmul(
        packed_int4(x),
        packed_int4(weight),
        scale.npu(),
        pertoken_scale=torch.ones(5).npu(),
        output_dtype=torch.bfloat16,
    )
    close(got, exact(x, weight).float() * scale)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("group", [0, 32])
def test_weight_quant_matmul(dtype, group):
    x, weight = torch.randn(4, 96).to(dtype), int8(96, 16)
    rows = 96 // group if group else 1
    scale, offset = (torch.rand(rows, 16) * 0.01).to(dtype), torch.randint(-5, 5, (rows, 16)).to(dtype)
    got = torch_npu.npu_weight_quant_batchmatmul(
        x.npu(), weight.npu(), scale.npu(), antiquant_offset=offset.npu(), antiquant_group_size=group
    )
    spread = [value.float().repeat_interleave(96 // rows, 0) for value in (scale, offset)]
    expected = x.float() @ ((weight.float() + spread[1]) * spread[0])
    torch.testing.assert_close(got.cpu().float(), expected, rtol=2e-2, atol=5e-2)


def test_weight_quant_matmul_of_int4():
    x, weight = torch.randn(4, 64).half(), torch.randint(-8, 8, (64, 16))
    scale = torch.rand(16).half()
    got = torch_npu.npu_weight_quant_batchmatmul(x.npu(), packed_int4(weight), scale.npu())
    torch.testing.assert_close(got.cpu().float(), x.float() @ (weight * scale.float()), rtol=2e-3, atol=5e-2)
    across = packed_int4(weight.t().contiguous()).t()
    got = torch_npu.npu_weight_quant_batchmatmul(x.npu(), across, scale.npu())
    torch.testing.assert_close(got.cpu().float(), x.float() @ (weight * scale.float()), rtol=2e-3, atol=5e-2)


def test_quant_matmul_gelu():
    x, weight, scale, tokens = int8(4, 64), int8(64, 8), torch.rand(8) * 1e-4, torch.rand(4)
    got = torch_npu.npu_quant_matmul_gelu(x.npu(), weight.npu(), tokens.npu(), scale.npu(), approximate="gelu_tanh")
    expected = torch.nn.functional.gelu(exact(x, weight).float() * scale * tokens[:, None], approximate="tanh")
    torch.testing.assert_close(got.cpu().float(), expected, rtol=1.6e-2, atol=1e-2)
