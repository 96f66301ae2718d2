"""Operators that work element by element, against the CPU."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.exp, torch.sigmoid, torch.tanh, torch.nn.functional.gelu])
def test_functions_of_one_element(check, function, dtype):
    values = torch.linspace(-3, 3, 301).to(dtype)
    check(function, values)
    check(function, values[::3])


def test_rank_eight_and_broadcast(check):
    left = torch.randn(2, 1, 2, 1, 2, 1, 2, 3)
    right = torch.randn(1, 2, 1, 2, 1, 2, 1, 3)
    check(torch.add, left, right, alpha=2)
    check(torch.mul, left.expand(2, 2, 2, 2, 2, 2, 2, 3), right)
