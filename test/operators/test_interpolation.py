"""Interpolation of lines, images and volumes against the CPU, forward and backward."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SPATIAL = {1: (11,), 2: (7, 10), 3: (4, 5, 6)}


def leaf(rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(2, 3, *SPATIAL[rank], generator=generator).to(dtype).requires_grad_()


def interpolate(values: torch.Tensor, **options) -> torch.Tensor:
    return F.interpolate(values, **options)


def in_float32(values: torch.Tensor, **options) -> torch.Tensor:
    """Compute on the CPU in fp32: the CPU adds up 16-bit gradients with a rounding at each step, a device with one."""
    return F.interpolate(values.float(), **options).to(values.dtype)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("factor", [2.0, 1.7, 0.6, 0.3])
def test_nearest(check, mode, rank, factor):
    check(interpolate, leaf(rank), mode=mode, scale_factor=factor)
    check(interpolate, leaf(rank), mode=mode, scale_factor=factor, recompute_scale_factor=True)
    check(interpolate, leaf(rank, torch.bfloat16), reference=in_float32, mode=mode, scale_factor=factor)


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_weighted(check, mode, align, dtype):
    rank = {"linear": 1, "trilinear": 3}.get(mode, 2)
    options = {"mode": mode, "align_corners": align}
    for factor in (2.0, 1.7, 0.6):
        check(interpolate, leaf(rank, dtype), reference=in_float32, scale_factor=factor, **options)
    check(interpolate, leaf(rank, dtype), reference=in_float32, size=(5, 9, 3)[:rank], **options)
    check(interpolate, leaf(rank, dtype), reference=in_float32, size=(1,) * rank, **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(3, 4), (14, 21), (7, 5), (2, 20)])
def test_antialiased(check, mode, align, size):
    options = {"mode": mode, "align_corners": align, "antialias": True, "size": size}
    check(interpolate, leaf(2), rtol=1e-4, atol=1e-5, **options)
    check(interpolate, leaf(2, torch.float16), reference=in_float32, **options)


def test_bytes_and_strides(check):
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (1, 3, 5, 6), dtype=torch.uint8, generator=generator)
    check(interpolate, image, mode="nearest", size=(9, 4))
    last = torch.randn(2, 3, 5, 6, generator=generator).to(memory_format=torch.channels_last)
    for mode in ("nearest", "bilinear", "bicubic"):
        check(interpolate, last, mode=mode, size=(9, 4))
        check(interpolate, torch.randn(2, 3, 10, 12, generator=generator)[:, 1:, ::2, 1::2], mode=mode, size=(9, 4))


def test_same_size_and_empty(check):
    check(interpolate, leaf(2), mode="bilinear", size=(7, 10))
    check(interpolate, leaf(2), mode="nearest", size=(7, 10))
    check(interpolate, torch.empty(0, 3, 5, 6), mode="bilinear", size=(7, 10))
