"""Operators that stand alone: logit and sparse tensors."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("eps", [None, 0.1])
def test_logit(check, dtype, eps):
    values = torch.linspace(0.001, 0.999, 101).to(dtype)
    check(torch.logit, values, eps)
    check(torch.logit, values[::3], eps)


def test_logit_outside_of_its_range(check):
    check(torch.logit, torch.tensor([-0.5, 0.0, 1.0, 1.5]))
    check(torch.logit, torch.tensor([-0.5, 0.0, 1.0, 1.5]), 0.25)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_equal_places_of_a_sparse_tensor_add_up(dtype):
    torch.manual_seed(1)
    indices = torch.randint(0, 3, (2, 40))
    values = torch.randint(-4, 5, (40, 2)).to(dtype)
    expected = torch.sparse_coo_tensor(indices, values, (3, 3, 2)).coalesce()
    got = torch.sparse_coo_tensor(indices.npu(), values.npu(), (3, 3, 2)).coalesce()
    assert torch.equal(got.indices().cpu(), expected.indices())
    assert torch.equal(got.values().cpu(), expected.values())
