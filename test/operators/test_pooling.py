"""Pooling against the CPU: windows, adaptive windows, indices, masks, gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return numbers without ties: 16-bit maxima must be unique for the indices to agree."""
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    values = (order % 251 - 125).to(torch.float32) / 32 if dtype != torch.float32 else order / count - 0.5
    return values.reshape(shape).to(dtype).requires_grad_()


def in_float32(function):
    """Compute on the CPU in fp32: the CPU adds up 16-bit gradients with a rounding at each step, a device with one."""

    def reference(*args, **kwargs):
        wide = [value.float() if isinstance(value, torch.Tensor) else value for value in args]
        result = function(*wide, **kwargs)
        dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor))
        return result.to(dtype)

    return reference


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0), "count_include_pad": False},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True, "divisor_override": 5},
    ],
)
def test_averages_of_windows(check, dtype, options):
    check(F.avg_pool2d, leaf(2, 3, 8, 9, dtype=dtype), reference=in_float32(F.avg_pool2d), **options)


def test_averages_of_volumes_and_lines(check):
    check(F.avg_pool3d, leaf(2, 3, 5, 6, 7), 3, 2, 1)
    check(F.avg_pool3d, leaf(3, 5, 6, 7), (2, 3, 1), (1, 2, 2), (1, 1, 0), count_include_pad=False)
    check(F.avg_pool1d, leaf(2, 3, 11), 4, 3, 1)
    check(F.avg_pool2d, leaf(3, 6, 7), 3)


def test_averages_of_strided_tensors(check):
    nhwc = torch.randn(2, 5, 6, 7).to(memory_format=torch.channels_last)
    check(F.avg_pool2d, nhwc, 3, 2, 1)
    check(F.avg_pool2d, torch.randn(2, 3, 12, 14)[:, 1:, ::2, 1::2], 3, 1)
    check(F.avg_pool2d, torch.randn(1, 1, 6, 7).expand(2, 3, 6, 7), 2)
    check(F.adaptive_avg_pool2d, nhwc, (3, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (7, 9), 4, (None, 2)])
def test_adaptive_averages(check, dtype, size):
    check(F.adaptive_avg_pool2d, leaf(2, 3, 7, 9, dtype=dtype), size, reference=in_float32(F.adaptive_avg_pool2d))


def test_adaptive_averages_of_volumes_and_lines(check):
    check(F.adaptive_avg_pool3d, leaf(2, 3, 5, 6, 7), (2, 3, 4))
    check(F.adaptive_avg_pool3d, leaf(2, 3, 5, 6, 7), 1)
    check(F.adaptive_avg_pool1d, leaf(2, 3, 10), 4)
    check(F.adaptive_avg_pool2d, leaf(2, 3, 40, 50), 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 3), "stride": (3, 1), "padding": (1, 1), "ceil_mode": True},
    ],
)
def test_maxima_of_windows(check, dtype, options):
    check(F.max_pool2d, leaf(2, 3, 9, 10, dtype=dtype), **options)
    check(F.max_pool2d, leaf(3, 9, 10, dtype=dtype), **options)


def test_maxima_of_strided_tensors(check):
    check(F.max_pool2d, torch.randn(2, 5, 8, 9).to(memory_format=torch.channels_last).requires_grad_(), 3, 2, 1)
    check(F.max_pool2d, torch.randn(2, 3, 12, 14)[:, 1:, ::2, 1::2], 3, 1)


def test_maxima_of_volumes_and_lines(check):
    check(F.max_pool3d, leaf(2, 3, 5, 6, 7), 3, 2, 1)
    check(lambda x: F.max_pool3d(x, 2, return_indices=True)[1].long(), leaf(2, 3, 6, 6, 7))
    check(F.max_pool1d, leaf(2, 3, 11), 3, 2, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_adaptive_maxima(check, dtype):
    check(F.adaptive_max_pool2d, leaf(2, 3, 7, 9, dtype=dtype), (3, 4))
    check(F.adaptive_max_pool3d, leaf(1, 2, 5, 6, 4, dtype=dtype), (2, 3, 2))
    check(F.adaptive_max_pool1d, leaf(2, 3, 9, dtype=dtype), 4)


def test_indices_of_adaptive_maxima(check):
    def with_indices(values):
        result, indices = F.adaptive_max_pool2d(values, (3, 4), return_indices=True)
        return result, indices.long()

    check(with_indices, leaf(2, 3, 7, 9))


def test_unpooling(check):
    values, indices = F.max_pool2d(torch.randn(2, 3, 8, 10), 2, return_indices=True)
    check(lambda x, i: F.max_unpool2d(x, i, 2), values, indices)
    values, indices = F.max_pool3d(torch.randn(2, 3, 4, 6, 8), 2, return_indices=True)
    check(lambda x, i: F.max_unpool3d(x, i, 2), values, indices)


def test_no_images(check):
    check(F.avg_pool2d, torch.randn(0, 3, 8, 9), 2)
    check(F.max_pool2d, torch.randn(0, 3, 8, 9), 2)


def test_not_a_number_is_the_maximum(check):
    values = torch.randn(1, 1, 6, 6)
    values[0, 0, 2, 3] = float("nan")
    check(F.max_pool2d, values, 3, 1)
