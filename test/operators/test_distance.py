"""Distances between rows against the CPU."""

from __future__ import annotations

import pytest
import torch


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_two_sets(check, p):
    check(torch.cdist, rows(4, 5), rows(6, 5, seed=1), p=p, rtol=1e-4, atol=1e-5)
    check(torch.cdist, rows(2, 1, 4, 5), rows(3, 6, 5, seed=1), p=p, rtol=1e-4, atol=1e-5)
    check(torch.cdist, rows(5, 4).t(), rows(6, 10, seed=1)[:, ::2], p=p, rtol=1e-4, atol=1e-5)


def test_distances_in_half_precision(check):
    def wide(a, b):
        return torch.cdist(a.float(), b.float()).to(a.dtype)

    for dtype in (torch.float16, torch.bfloat16):
        check(torch.cdist, rows(4, 5).to(dtype), rows(6, 5, seed=1).to(dtype), reference=wide)


def test_distances_of_nothing(check):
    check(torch.cdist, rows(0, 5), rows(6, 5))
    check(torch.cdist, rows(4, 0), rows(6, 0))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_gradient_of_distances(check, p):
    check(torch.cdist, rows(4, 5).requires_grad_(), rows(6, 5, seed=1).requires_grad_(), p=p, rtol=1e-4, atol=1e-5)
    check(torch.cdist, rows(1, 4, 5).requires_grad_(), rows(3, 6, 5, seed=1), p=p, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_one_set(check, p):
    check(torch.pdist, rows(6, 5), p=p, rtol=1e-4, atol=1e-5)
    check(torch.pdist, rows(1, 5), p=p)
