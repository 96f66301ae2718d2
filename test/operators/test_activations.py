"""Gradients of activation functions, against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]

FUNCTIONS = [
    torch.sigmoid,
    torch.tanh,
    torch.relu,
    F.silu,
    F.mish,
    F.elu,
    F.selu,
    F.celu,
    F.leaky_relu,
    F.hardsigmoid,
    F.hardswish,
    F.hardtanh,
    F.hardshrink,
    F.softshrink,
    F.softplus,
    F.logsigmoid,
    F.gelu,
    lambda x: F.gelu(x, approximate="tanh"),
    lambda x: F.softplus(x, 2.0, 3.0),
    lambda x: F.elu(x, 0.7),
    lambda x: F.threshold(x, 0.1, 20.0),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_gradients(check, number, dtype):
    values = torch.linspace(-6, 6, 97).to(dtype)
    if FUNCTIONS[number] is F.gelu:
        # torch_npu calls the operator that the vendor defines by the tanh formula, also where the exact one is asked.
        check(FUNCTIONS[number], values.requires_grad_(), rtol=1e-3, atol=1e-3 if dtype == torch.float32 else 2e-2)
        return
    check(FUNCTIONS[number], values.requires_grad_())
    check(FUNCTIONS[number], values.detach().reshape(97, 1).expand(97, 3).requires_grad_())
    check(FUNCTIONS[number], torch.empty(0, 3, dtype=dtype).requires_grad_())


@pytest.mark.parametrize("dtype", DTYPES)
def test_gated_activations(check, dtype):
    tolerance = {"rtol": None if dtype == torch.float32 else 2e-2, "atol": None if dtype == torch.float32 else 3e-2}
    x = torch.randn(4, 6, 10).to(dtype).requires_grad_()

    def gated(activate):
        def reference(x, dim=-1):
            left, right = x.float().chunk(2, dim)
            return activate(left, right).to(dtype)

        return reference

    check(F.glu, x, -1, **tolerance)
    check(F.glu, x, 1, **tolerance)
    swiglu = gated(lambda left, right: F.silu(left) * right)
    check(torch_npu.npu_swiglu, x, -1, reference=swiglu, **tolerance)
    check(torch_npu.npu_swiglu, x, 1, reference=swiglu, **tolerance)
    for name in ("none", "tanh"):
        reference = gated(lambda left, right, name=name: left * F.gelu(right, approximate=name))
        approximate = int(name == "tanh")
        check(
            lambda x, approximate=approximate: torch_npu.npu_geglu(x, -1, approximate)[0],
            x,
            reference=reference,
            **tolerance,
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_prelu_and_fast_gelu(check, dtype):
    tolerance = None if dtype == torch.float32 else 2e-2
    x = torch.randn(3, 4, 5).to(dtype).requires_grad_()
    check(F.prelu, x, torch.rand(4).to(dtype).requires_grad_(), rtol=tolerance, atol=tolerance)
    check(F.prelu, x, torch.rand(1).to(dtype).requires_grad_(), rtol=tolerance, atol=tolerance)
    check(
        torch_npu.npu_fast_gelu,
        x,
        reference=lambda x: x * torch.sigmoid(1.702 * x),
        rtol=1e-3 if tolerance is None else tolerance,
        atol=1e-3 if tolerance is None else tolerance,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout(dtype):
    x = torch.ones(1000, 37, dtype=dtype).npu().requires_grad_()
    y = F.dropout(x, 0.25, training=True)
    y.backward(torch.full_like(y, 2.0))
    kept = (y != 0).cpu()
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    scale = torch.tensor(1 / 0.75).to(dtype)
    torch.testing.assert_close(y.detach().cpu()[kept], scale.expand(int(kept.sum())))
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu() * 2)
    again = F.dropout(x, 0.25, training=True)
    assert (again != 0).cpu().ne(kept).any()
