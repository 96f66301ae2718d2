"""Reductions, scans and sorts, against the CPU: sizes on both sides of what one thread or one part takes."""

from __future__ import annotations

import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, (0, 2), 2])
def test_sums_and_means(check, dtype, dim):
    torch.manual_seed(1)
    values = torch.randn(33, 70, 41).to(dtype)
    check(lambda x: x.sum(dim), values)
    check(lambda x: x.mean(dim), values)
    check(lambda x: x.transpose(0, 2).sum(dim), values)


def test_one_long_row(check):
    torch.manual_seed(1)
    values = torch.randn(150_000)
    check(torch.sum, values, rtol=1e-4, atol=1e-3)
    check(torch.max, values)
    check(torch.argmin, values)
    check(torch.var, values)
    check(lambda x: x.norm(3), values)
    check(lambda x: x.logsumexp(0), values)
    check(torch.any, values > 10)


@pytest.mark.parametrize("dim", [0, 1])
def test_extremes_with_nan_and_ties(check, dim):
    values = torch.randint(-3, 4, (40, 90)).float()
    values[3, 5] = torch.nan
    check(lambda x: x.max(dim), values)
    check(lambda x: x.min(dim), values)
    check(lambda x: x.amax(dim), values.to(torch.bfloat16))
    check(lambda x: x.argmax(dim), values.nan_to_num().int())


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_sort_and_topk(check, dim, dtype):
    torch.manual_seed(2)
    # Below and above the length from which rows are sorted by digits; enough ties to tell a stable sort.
    values = torch.randint(-50, 50, (300, 70)).to(dtype)
    check(lambda x: x.sort(dim=dim, stable=True), values)
    check(lambda x: x.sort(dim=dim, descending=True, stable=True), values)
    check(lambda x: x.topk(7, dim).values, values)
    check(lambda x: x.topk(7, dim, largest=False).values, values)
    check(lambda x: x.median(dim).values, values)


@pytest.mark.parametrize("dim", [0, 1])
def test_scans(check, dim):
    values = torch.randn(130, 300)
    check(lambda x: x.cumsum(dim), values)
    check(lambda x: x.cumprod(dim), values.clamp(0.9, 1.1))
    check(lambda x: x.cummax(dim), values)
