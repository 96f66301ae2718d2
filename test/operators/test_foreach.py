"""Operators on lists of tensors, against the CPU."""

from __future__ import annotations

import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = [(3,), (2, 5), (), (70, 11), (0, 2)]


def tensors(dtype: torch.dtype, low: float = -2.0, high: float = 2.0) -> list[torch.Tensor]:
    """Tensors of several shapes with values in a range."""
    return [(torch.rand(size) * (high - low) + low).to(dtype) for size in SIZES]


UNARY = ["abs", "neg", "sign", "exp", "expm1", "erf", "erfc", "sin", "cos", "sinh", "cosh", "tan", "tanh", "atan"]
UNARY += ["sigmoid", "floor", "round", "trunc", "frac"]
POSITIVE = ["sqrt", "log", "log2", "log10", "log1p", "reciprocal", "acos", "asin"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
def test_unary(check, name, dtype):
    values = tensors(dtype, 0.1, 0.9) if name in POSITIVE else tensors(dtype)
    check(getattr(torch, f"_foreach_{name}"), values)
    check(getattr(torch, f"_foreach_{name}_"), values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "pow"])
def test_binary(check, name, dtype):
    function = getattr(torch, f"_foreach_{name}")
    first, second = tensors(dtype, 0.5), tensors(dtype, 0.5)
    check(function, first, second)
    check(function, first, 1.5)
    check(function, first, [1.5, 2.0, -1.0, 0.5, 3.0])
    check(getattr(torch, f"_foreach_{name}_"), first, second)
    check(getattr(torch, f"_foreach_{name}_"), first, 0.75)


def test_alpha_integers_and_powers(check):
    numbers = [torch.arange(6, dtype=torch.int32), torch.arange(-3, 3, dtype=torch.int32).reshape(2, 3)]
    check(torch._foreach_add, numbers, numbers, alpha=3)
    check(torch._foreach_sub, tensors(torch.float32), tensors(torch.float32), alpha=0.3)
    check(torch._foreach_mul, numbers, 3)
    check(torch._foreach_pow, 1.7, tensors(torch.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_ternary(check, name, dtype):
    function = getattr(torch, f"_foreach_{name}")
    lists = [tensors(dtype), tensors(dtype), tensors(dtype, 0.5)]
    check(function, *lists, 0.3)
    check(function, *lists, [0.1, 0.2, 0.3, 0.4, 0.5])
    check(getattr(torch, f"_foreach_{name}_"), *lists, 0.3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_interpolation_norm_copy_zero(check, dtype):
    first, second = tensors(dtype), tensors(dtype)
    check(torch._foreach_lerp, first, second, 0.3)
    check(torch._foreach_lerp, first, second, 0.8)
    check(torch._foreach_lerp, first, second, tensors(dtype, 0, 1))
    check(torch._foreach_norm, first[:4], 2)
    check(torch._foreach_norm, first[:4], 1)
    check(torch._foreach_copy_, first, second)
    check(torch._foreach_zero_, first)


def test_strided_tensors(check):
    matrix = torch.randn(6, 8)
    check(torch._foreach_mul_, [matrix[:, ::2], matrix[:, 1::2].t()], 2.0)


def test_unscale():
    gradients = [torch.full((3, 4), 8.0).npu(), torch.full((5,), 2.0).npu()]
    found, inverse = torch.zeros(1).npu(), torch.tensor([0.25]).npu()
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
    assert gradients[0].cpu().unique().tolist() == [2.0]
    assert found.item() == 0
    gradients[1][2] = float("inf")
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
    assert found.item() == 1
