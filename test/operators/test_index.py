"""Reads and writes at given places against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randint(-50, 50, shape, generator=generator).to(dtype)


def places(size: int, *shape: int) -> torch.Tensor:
    """Return places that differ along every row, so that no result depends on an order."""
    generator = torch.Generator().manual_seed(size)
    rows = [torch.randperm(size, generator=generator)[: shape[-1]] for _ in range(torch.Size(shape[:-1]).numel())]
    return torch.stack(rows).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter(check, dtype):
    table = values(4, 9, dtype=dtype)
    index = places(9, 4, 5)
    source = values(4, 5, dtype=dtype)
    check(torch.gather, table, 1, index)
    check(torch.scatter, table, 1, index, source)
    check(torch.scatter, table, -1, index, 3)
    check(torch.scatter_add, table, 1, index, source)
    check(torch.gather, table.t(), 0, index.t())


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_with_reduction(check, reduce, include_self):
    index = torch.tensor([[0, 2, 2, 0], [1, 1, 1, 3]])
    check(
        lambda a, i, s: a.scatter_reduce(1, i, s, reduce=reduce, include_self=include_self),
        values(2, 5),
        index,
        values(2, 4),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices(check, dtype):
    table = values(5, 6, 3, dtype=dtype)
    index = torch.tensor([4, 0, 2])
    check(torch.index_select, table, 0, index)
    check(torch.index_select, table.transpose(0, 2), 1, index)
    check(torch.index_fill, table, 1, index, 7)
    check(torch.index_copy, table, 0, index, values(3, 6, 3, dtype=dtype))
    check(torch.index_add, table, 0, torch.tensor([1, 1, 3]), values(3, 6, 3, dtype=dtype))
    check(torch.index_add, table, -1, torch.tensor([2, 0]), values(5, 6, 2, dtype=dtype), alpha=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_indices(check, dtype):
    table = values(5, 6, 3, dtype=dtype)
    rows, columns = torch.tensor([[0, 4], [2, 2]]), torch.tensor([5, -1])
    check(lambda x, i, j: x[i, j], table, rows, columns)
    check(lambda x, i, j: x[i, :, j], table, rows, torch.tensor([0, 2]))
    check(lambda x, i: x[:, i], table, rows)
    check(lambda x, i, v: x.index_put((i,), v), table, torch.tensor([0, 3]), values(6, 3, dtype=dtype))
    check(
        lambda x, i, v: x.index_put((i,), v, accumulate=True), table, torch.tensor([1, 1]), values(2, 6, 3, dtype=dtype)
    )
    check(lambda x, m: x[m], table, table > 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_flat_places(check, dtype):
    table = values(4, 5, dtype=dtype)
    index = torch.tensor([[3, 0], [19, -2]])
    check(torch.take, table, index)
    check(lambda x, i, v: x.clone().put_(i, v), table, index, values(2, 2, dtype=dtype))
    check(lambda x, i, v: x.clone().put_(i, v, accumulate=True), table, torch.tensor([3, 3]), values(2, dtype=dtype))
    check(lambda x, m, v: x.masked_scatter(m, v), table, table > 0, values(4, 5, dtype=dtype))


def test_gradients(check):
    index = torch.tensor([0, 2, 2])
    check(lambda x, i: torch.index_select(x, 1, i), values(3, 4).requires_grad_(), index)
    check(lambda x, i: torch.gather(x, 1, i), values(3, 4).requires_grad_(), index.expand(3, 3))
    check(lambda x, i: x[:, i], values(3, 4).requires_grad_(), index)
    check(lambda x, i: torch.repeat_interleave(x, i, dim=1), values(3, 3).requires_grad_(), index)
    check(lambda x: torch.repeat_interleave(x, 3, dim=0), values(3, 3).requires_grad_())
    check(lambda x: x.unfold(1, 3, 2), values(2, 8, 2).requires_grad_())
    check(lambda x: x.unfold(0, 1, 1), torch.tensor(3.0, requires_grad=True))
    check(lambda x: x.unfold(0, 0, 1), torch.tensor(3.0, requires_grad=True))
    check(lambda x: torch.take(x, torch.tensor([5, 1, 5], device=x.device)), values(3, 4).requires_grad_())


def test_diagonals_and_counts(check):
    check(lambda x: x.clone().fill_diagonal_(9), values(4, 6))
    check(lambda x: x.clone().fill_diagonal_(9, wrap=True), values(7, 3))
    check(torch.trace, values(4, 6))
    check(torch.bincount, torch.tensor([1, 4, 1, 0]))
    check(lambda i, w: torch.bincount(i, w, minlength=7), torch.tensor([1, 4, 1, 0]), torch.randn(4))


def test_writes_into_lists():
    tables = [torch.zeros(3, 6, 2) for _ in range(3)]
    updates = torch.arange(1.0, 13).reshape(3, 1, 2, 2).expand(3, 3, 2, 2).contiguous()
    starts = torch.tensor([0, 2, 4])
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    result = torch_npu.npu_scatter_list(
        [table.npu() for table in tables], starts.npu(), updates.npu(), mask.npu(), "update", -2
    )
    for number, table in enumerate(tables):
        if mask[number]:
            table[:, starts[number] : starts[number] + 2] = updates[number]
        torch.testing.assert_close(result[number].cpu(), table)


def test_writes_at_coordinates():
    table = values(4, 5, 3)
    coordinates = torch.tensor([[0, 4], [3, 1]])
    updates = values(2, 3)
    expected = table.clone()
    expected[coordinates[:, 0], coordinates[:, 1]] = updates
    result = torch_npu.npu_scatter_nd_update(table.npu(), coordinates.npu(), updates.npu())
    torch.testing.assert_close(result.cpu(), expected)


def test_complex_numbers(check):
    table = torch.randn(3, 4, dtype=torch.complex64)
    index = torch.tensor([[0, 2, 2], [1, 1, 3]])
    check(lambda a, i, s: a.clone().scatter_add_(1, i, s), table, index, torch.randn(2, 3, dtype=torch.complex64))
    check(lambda a, i, s: a.clone().scatter_(1, i, s), table, index[:, :2], torch.randn(2, 3, dtype=torch.complex64))
    check(lambda a, i, s: a.clone().put_(i, s, accumulate=True), table, index, torch.randn(2, 3, dtype=torch.complex64))
    check(lambda a, i, s: a.clone().put_(i, s), table, index[0, :2], torch.randn(2, dtype=torch.complex64))


def test_large_indices(check):
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, 100, (70, 900), generator=generator)
    table = torch.randn(70, 100, generator=generator)
    source = torch.randn(70, 900, generator=generator)
    check(torch.gather, table, 1, index)
    check(torch.scatter_add, table, 1, index, source, rtol=1e-4, atol=1e-4)
    check(torch.gather, table.t(), 0, index.t())
    check(torch.scatter_add, table.t(), 0, index.t(), source.t(), rtol=1e-4, atol=1e-4)
    order = torch.argsort(source[:, :100], dim=1)
    check(lambda a, i, s: a.clone().scatter_(1, i, s), table, order, source)


def test_sums_of_many_terms_in_half_precision(check):
    def wide(table, dim, index, source):
        return torch.scatter_add(table.float(), dim, index, source.float()).to(table.dtype)

    for dtype in (torch.float16, torch.bfloat16):
        table, source = torch.zeros(4, dtype=dtype), torch.rand(400).to(dtype)
        check(torch.scatter_add, table, 0, torch.arange(400) % 4, source, reference=wide)
