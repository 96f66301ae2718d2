"""Operators that work element by element, against the CPU."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.exp, torch.sigmoid, torch.tanh, torch.nn.functional.silu])
def test_functions_of_one_element(check, function, dtype):
    values = torch.linspace(-3, 3, 301).to(dtype)
    check(function, values)
    check(function, values[::3])


def test_rank_eight_and_broadcast(check):
    left = torch.randn(2, 1, 2, 1, 2, 1, 2, 3)
    right = torch.randn(1, 2, 1, 2, 1, 2, 1, 3)
    check(torch.add, left, right, alpha=2)
    check(torch.mul, left.expand(2, 2, 2, 2, 2, 2, 2, 3), right)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layouts_of_large_tensors(check, dtype):
    """More elements than one thread takes: dense, transposed, broadcast, with gaps, in place."""
    torch.manual_seed(1)
    left, right = torch.randn(260, 300).to(dtype), torch.randn(300, 260).to(dtype)
    check(torch.add, left, right.t())
    check(torch.mul, left.t(), right)
    check(torch.sub, left, left[:, :1])
    check(torch.div, left, right[:, 0] + 10)
    check(lambda x: x[:, ::2].exp(), left)
    check(lambda x: x.t().contiguous(), left)
    check(lambda x: x.to(torch.float16), left)
    check(lambda x, y: x.add_(y.t()), left, right)
    check(lambda x: x.flip(0) + x.flip(1), left)
    check(lambda x: x.reshape(-1, 3) + x.reshape(-1, 3)[:, :1], left)
    check(lambda x: x.clamp(-0.5, 0.5), left)


def test_exact_integers(check):
    values = torch.arange(100_000, dtype=torch.int64) * (1 << 40) - 7
    check(torch.add, values, values, alpha=3)
    check(torch.mul, values, values)
    check(lambda x: x.to(torch.int32), values)
    check(lambda x: x.float(), values)


def test_special_functions(check):
    values = torch.linspace(-0.999, 0.999, 501)
    check(torch.erfinv, values)
    check(torch.logit, values.abs())
    check(lambda x: torch.logit(x, 0.1), values)
    check(torch.sin, values * 1e7)
    check(torch.pow, values, torch.tensor(3.0))


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_"])
def test_an_integer_tensor_takes_no_fractions_in_place(name):
    whole, parts = torch.tensor([1, 2], device="npu"), torch.tensor([1.5, 2.5], device="npu")
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        getattr(whole, name)(parts)
        torch.npu.synchronize()
    assert whole.tolist() == [1, 2]


def test_shapes_that_do_not_fit_are_named():
    left, right = torch.ones(3).npu(), torch.ones(4, 3).npu()
    with pytest.raises(RuntimeError, match=r"selfRef \[3\], other \[4, 3\]"):
        left.add_(right)
    with pytest.raises(RuntimeError, match=r"tensors \{\[2, 3\], \[3, 3\]\}, out \[2, 6\]"):
        torch.cat([torch.ones(2, 3).npu(), torch.ones(3, 3).npu()], 1)
