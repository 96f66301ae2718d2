"""Embeddings, bags of embeddings and their gradients against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def weight(rows: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows)).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True}])
def test_embedding_and_gradient(check, dtype, options):
    # Few repetitions: the CPU adds up 16-bit gradients with a rounding at each step.
    indices = torch.tensor([[1, 5, 3, 0], [9, 5, 7, 2]])
    check(lambda i, w: F.embedding(i, w, **options), indices, weight(10, 6, dtype))
    check(lambda i, w: F.embedding(i, w, **options), indices.int(), weight(10, 6, dtype))


def test_embedding_of_many_indices(check):
    indices = torch.randint(0, 50, (40, 30), generator=torch.Generator().manual_seed(0))
    check(F.embedding, indices, weight(50, 33), rtol=1e-5, atol=1e-4)
    check(F.embedding, indices.t(), weight(50, 33), rtol=1e-5, atol=1e-4)
    check(F.embedding, torch.empty(0, 3, dtype=torch.long), weight(5, 4))
    check(F.embedding, torch.tensor(2), weight(5, 4))


def test_embedding_with_largest_norm(check):
    indices = torch.tensor([0, 3, 3, 8])
    for norm in (2.0, 1.0, float("inf")):
        check(lambda i, w, p=norm: F.embedding(i, w, max_norm=1.0, norm_type=p), indices, weight(9, 5).detach())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_bags(check, dtype, mode, last):
    indices = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
    offsets = torch.tensor([0, 3, 3, 6, 8] if last else [0, 3, 3, 6])
    table = weight(10, 4, dtype).detach()
    check(lambda i, w, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=last), indices, table, offsets)
    check(
        lambda i, w, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=last, padding_idx=2),
        indices,
        table,
        offsets,
    )


def test_bags_with_weights_and_of_rows(check):
    indices = torch.tensor([1, 2, 4, 5, 4, 3])
    check(
        lambda i, w, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
        indices,
        weight(10, 4).detach(),
        torch.tensor([0, 2]),
        torch.randn(6),
    )
    check(F.embedding_bag, indices.reshape(2, 3), weight(10, 4).detach())


def test_what_bags_remember(check):
    def bag(table, indices, offsets):
        result, bag_of_index, sizes, rows = torch._embedding_bag(table, indices, offsets, False, 2)
        return result, bag_of_index, sizes, rows

    check(bag, weight(10, 4).detach(), torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 5]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [1, 2, 3.5, float("inf")])
def test_renorm(check, dtype, p):
    values = weight(4, 6, dtype).detach().reshape(4, 2, 3)
    for dim in (0, 1, -1):
        check(torch.renorm, values, p, dim, 1.5)
    check(lambda x: x.clone().renorm_(p, 0, 1.0), values.transpose(0, 2))


@pytest.mark.parametrize("shape", [(3, 4), (5,), (0,)])
def test_one_hot(check, shape):
    check(lambda i: F.one_hot(i, 7), torch.randint(0, 7, shape))
