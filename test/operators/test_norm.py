"""Softmax and the normalisations, forward and backward, against the CPU or their formulas in plain torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def leaf(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    """A random leaf tensor."""
    return (torch.randn(*shape) * scale).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax(check, function, dtype):
    backward = {
        torch.softmax: torch.ops.aten._softmax_backward_data,
        torch.log_softmax: torch.ops.aten._log_softmax_backward_data,
    }[function]
    for dim in (0, 1, -1):
        x = torch.randn(3, 17, 37).mul(4).to(dtype)
        check(function, x, dim)
        check(backward, torch.randn(3, 17, 37).to(dtype), function(x, dim), dim, dtype)
    check(function, leaf(3, 17, 37, scale=4), 1)
    check(function, leaf(2, 5, dtype=dtype).detach().t(), 0)


def test_softmax_edges(check):
    infinity = float("inf")
    rows = torch.tensor([[0.0, -infinity, 3.0], [-infinity, -infinity, 1.0], [1e4, -1e4, 0.0], [88.0, -88.0, 1.0]])
    check(torch.softmax, rows, -1)
    check(torch.log_softmax, rows, -1)
    check(torch.softmax, torch.tensor([[-infinity, -infinity], [float("nan"), 1.0], [infinity, 1.0]]), -1)
    check(torch.softmax, torch.randn(0, 4), -1)
    check(torch.softmax, torch.randn(4, 0), -1)
    check(torch.softmax, torch.tensor(3.0), 0)
    check(torch.log_softmax, torch.randn(2, 50000) * 3, -1)
    check(lambda x: torch.softmax(x, -1, dtype=torch.float32), torch.randn(4, 9).half(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(check, dtype):
    def reference(x, shape, weight=None, bias=None, epsilon=1e-5):
        # The CPU rounds mean and rstd to 16 bits, the device does not.
        weight, bias = (None if tensor is None else tensor.float() for tensor in (weight, bias))
        return F.layer_norm(x.float(), shape, weight, bias, epsilon).to(x.dtype)

    weight, bias = leaf(33, dtype=dtype), leaf(33, dtype=dtype)
    check(F.layer_norm, leaf(4, 6, 33, dtype=dtype), (33,), weight, bias, reference=reference)
    weight, bias = leaf(3, 7, dtype=dtype), leaf(3, 7, dtype=dtype)
    check(F.layer_norm, leaf(5, 3, 7, dtype=dtype), (3, 7), weight, bias, 1e-3, reference=reference)
    check(F.layer_norm, leaf(300, 5, dtype=dtype), (5,), reference=reference)
    check(lambda x: F.layer_norm(x.t(), (4,)), leaf(4, 6, dtype=dtype), reference=lambda x: reference(x.t(), (4,)))


def test_layer_norm_edges(check):
    check(F.layer_norm, leaf(0, 5), (5,), leaf(5), leaf(5))
    check(F.layer_norm, 1e4 + torch.randn(3, 1000), (1000,), rtol=5e-3, atol=5e-3)
    check(F.layer_norm, torch.ones(2, 8), (8,))


def rms_norm(x, gamma, epsilon=1e-6, offset=0.0):
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + epsilon)
    return (x.float() * rstd * (gamma.float() + offset)).to(x.dtype), rstd


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(check, dtype):
    x, gamma = leaf(5, 40, dtype=dtype), leaf(40, dtype=dtype)

    def reference(x, gamma):
        return rms_norm(x, gamma)[0]

    check(lambda x, g: torch_npu.npu_rms_norm(x, g)[0], x, gamma, reference=reference)
    with torch.no_grad():
        check(torch_npu.npu_rms_norm, x, gamma, reference=rms_norm)
        check(torch_npu.npu_gemma_rms_norm, x, gamma, reference=lambda x, g: rms_norm(x, g, offset=1.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_rms_norm(check, dtype):
    x1, x2, gamma = (torch.randn(*shape).to(dtype) for shape in ((3, 4, 24), (3, 4, 24), (24,)))

    def reference(x1, x2, gamma):
        total = x1.float() + x2.float()
        y, rstd = rms_norm(total, gamma)
        return y.to(dtype), rstd, total.to(dtype)

    check(torch_npu.npu_add_rms_norm, x1, x2, gamma, reference=reference)


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_layer_norm_and_deep_norm(check, dtype):
    x1, x2, gamma, beta = (torch.randn(*shape).to(dtype) for shape in ((6, 24), (6, 24), (24,), (24,)))

    def statistics(total):
        variance, mean = torch.var_mean(total, -1, correction=0, keepdim=True)
        return mean, torch.rsqrt(variance + 1e-5)

    def add_layer_norm(x1, x2, gamma, beta, epsilon, additional_output):
        total = x1.float() + x2.float()
        mean, rstd = statistics(total)
        y = (total - mean) * rstd * gamma.float() + beta.float()
        return y.to(dtype), mean, rstd, total.to(dtype)

    check(torch_npu.npu_add_layer_norm, x1, x2, gamma, beta, 1e-5, True, reference=add_layer_norm)

    def deep_norm(x, gx, beta, gamma, alpha, epsilon):
        total = x.float() * alpha + gx.float()
        mean, rstd = statistics(total)
        return mean, rstd, ((total - mean) * rstd * gamma.float() + beta.float()).to(dtype)

    check(torch_npu.npu_deep_norm, x1, x2, beta, gamma, 0.3, 1e-5, reference=deep_norm)
    leaves = [tensor.requires_grad_() for tensor in (x1, x2, beta, gamma)]
    check(
        lambda *tensors: torch_npu.npu_deep_norm(*tensors, 0.3, 1e-5)[2],
        *leaves,
        reference=lambda *tensors: deep_norm(*tensors, 0.3, 1e-5)[2],
        rtol=None if dtype == torch.float32 else 2e-2,
        atol=None if dtype == torch.float32 else 3e-2,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_softmax(check, dtype):
    mask = torch.rand(2, 3, 8, 16) > 0.7
    mask[..., 0] = False
    check(torch.ops.aten._masked_softmax, torch.randn(2, 3, 8, 16).to(dtype), mask, -1, 2)


@pytest.mark.parametrize("shape", [(6, 4), (5, 4, 7), (3, 4, 6, 5), (2, 4, 3, 2, 5)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(check, shape, training):
    x, weight, bias = leaf(*shape, scale=2), leaf(4), leaf(4)
    mean, variance = torch.randn(4), torch.rand(4) + 0.5
    check(F.batch_norm, x, mean, variance, weight, bias, training, rtol=1e-4, atol=1e-5)
    check(F.batch_norm, x, mean, variance, None, None, training, 0.3, 1e-3, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_batch_norm_of_16_bits(check, dtype):
    def reference(x, weight, bias):
        return F.batch_norm(x.float(), None, None, weight, bias, True).to(dtype)

    x, weight, bias = leaf(6, 4, 9, dtype=dtype), leaf(4), leaf(4)
    check(lambda *args: F.batch_norm(args[0], None, None, *args[1:], True), x, weight, bias, reference=reference)
    x = leaf(6, 9, 4, dtype=dtype)
    check(
        lambda x, *args: F.batch_norm(x.transpose(1, 2), None, None, *args, True),
        x,
        weight,
        bias,
        reference=lambda x, *args: reference(x.transpose(1, 2), *args),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 5), (2, 6, 4, 3)])
def test_group_norm(check, shape, dtype):
    def reference(x, groups, weight=None, bias=None, epsilon=1e-5):
        weight, bias = (None if tensor is None else tensor.float() for tensor in (weight, bias))
        return F.group_norm(x.float(), groups, weight, bias, epsilon).to(dtype)

    # The statistics that the backward operator is given have the dtype of the input.
    absolute = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]
    tolerance = {"rtol": 1e-4 if dtype == torch.float32 else None, "atol": absolute}
    x, weight, bias = leaf(*shape, dtype=dtype), leaf(6, dtype=dtype), leaf(6, dtype=dtype)
    check(F.group_norm, x, 2, weight, bias, reference=reference, **tolerance)
    check(F.group_norm, x, 6 if len(shape) > 2 else 1, weight, bias, 1e-3, reference=reference, **tolerance)
    check(
        lambda x, *args: torch_npu.npu_group_norm_silu(x, *args)[0],
        x.detach(),
        weight.detach(),
        bias.detach(),
        3,
        reference=lambda x, weight, bias, groups: F.silu(
            F.group_norm(x.float(), groups, weight.float(), bias.float())
        ).to(dtype),
        **tolerance,
    )
    if len(shape) == 4:
        check(
            lambda x, weight, bias: torch_npu.npu_group_norm_swish(x, 3, weight, bias, 1e-5, 0.7)[0],
            x,
            weight,
            bias,
            reference=lambda x, weight, bias: (lambda y: (y * torch.sigmoid(0.7 * y)).to(dtype))(
                F.group_norm(x.float(), 3, weight.float(), bias.float())
            ),
            **tolerance,
        )


def test_parts_of_synchronised_batch_norm():
    x, weight, bias = torch.randn(8, 4, 5), torch.randn(4), torch.randn(4)
    halves = [half.contiguous().npu() for half in x.chunk(2)]
    statistics = [torch.batch_norm_stats(half, 1e-5) for half in halves]
    means, deviations = (torch.stack(list(part)) for part in zip(*statistics, strict=True))
    running_mean, running_variance = torch.zeros(4).npu(), torch.ones(4).npu()
    counts = torch.tensor([20.0, 20.0]).npu()
    mean, deviation = torch.batch_norm_gather_stats_with_counts(
        halves[0], means, deviations, running_mean, running_variance, 0.1, 1e-5, counts
    )
    leaf_x = x.clone().requires_grad_()
    expected_mean, expected_variance = torch.zeros(4), torch.ones(4)
    expected = F.batch_norm(leaf_x, expected_mean, expected_variance, weight, bias, True)
    got = torch.cat([torch.batch_norm_elemt(half, weight.npu(), bias.npu(), mean, deviation, 1e-5) for half in halves])
    torch.testing.assert_close(got.cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(running_mean.cpu(), expected_mean)
    torch.testing.assert_close(running_variance.cpu(), expected_variance)

    gradient = torch.randn(8, 4, 5)
    parts = [
        torch.batch_norm_backward_reduce(half_gradient.npu(), half, mean, deviation, weight.npu(), True, True, True)
        for half_gradient, half in zip(gradient.chunk(2), halves, strict=True)
    ]
    sums, products = (sum(part[number] for part in parts) for number in (0, 1))
    counts = torch.tensor([20, 20], dtype=torch.int32).npu()
    got = torch.cat(
        [
            torch.batch_norm_backward_elemt(
                half_gradient.npu(), half, mean, deviation, weight.npu(), sums, products, counts
            )
            for half_gradient, half in zip(gradient.chunk(2), halves, strict=True)
        ]
    )
    (expected_gradient,) = torch.autograd.grad(expected, leaf_x, gradient)
    torch.testing.assert_close(got.cpu(), expected_gradient, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(sum(part[3] for part in parts).cpu(), gradient.sum((0, 2)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transform_bias_rescale_qkv(check, dtype):
    def reference(qkv, bias, heads):
        parts = (qkv.float() + bias.float()).reshape(2, 5, 3, heads, 8).permute(2, 0, 3, 1, 4)
        return tuple(part.to(dtype).contiguous() for part in (parts[0] / 8**0.5, parts[1], parts[2]))

    check(
        torch.ops.aten._transform_bias_rescale_qkv,
        torch.randn(2, 5, 3 * 2 * 8).to(dtype),
        torch.randn(3 * 2 * 8).to(dtype),
        2,
        reference=reference,
    )


@pytest.mark.parametrize("shape", [(2, 3, 4, 128), (5, 4, 128)])
def test_hyper_connection(check, shape):
    lead = shape[:-2]

    def reference(x, mixing, layer, gates):
        mixed = mixing.transpose(-1, -2) @ x.float() + gates.unsqueeze(-1) * layer.float().unsqueeze(-2)
        return mixed.to(x.dtype)

    check(
        torch_npu.npu_mhc_post,
        leaf(*shape, dtype=torch.bfloat16),
        leaf(*lead, 4, 4),
        leaf(*lead, 128, dtype=torch.bfloat16),
        leaf(*lead, 4),
        reference=reference,
        rtol=2e-2,
        atol=5e-2,
    )


def test_add_rms_norm_in_place_and_with_a_cast(check):
    def reference(x1, x2, gamma):
        total = x1.float() + x2.float()
        y, rstd = rms_norm(total, gamma)
        return y, y.half(), rstd, total.half()

    x1, x2, gamma = (torch.randn(*shape).half() for shape in ((3, 4, 24), (3, 4, 24), (24,)))
    check(torch_npu.npu_add_rms_norm_cast, x1, x2, gamma, reference=reference, rtol=2e-3, atol=1e-3)
