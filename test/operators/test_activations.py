"""Gradients of activation functions, against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

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
