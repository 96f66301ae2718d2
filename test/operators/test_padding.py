"""Padding and the shuffling of channels against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

SHAPES = {1: (2, 3, 6), 2: (2, 3, 5, 6), 3: (2, 3, 4, 5, 6)}
PADS = {1: (2, 3), 2: (2, 3, 1, 4), 3: (2, 3, 1, 4, 3, 1)}


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype).requires_grad_()


def in_float32(values: torch.Tensor, *args, **kwargs) -> torch.Tensor:
    """Compute on the CPU in fp32: the CPU adds up 16-bit gradients with a rounding at each step, a device with one."""
    return F.pad(values.float(), *args, **kwargs).to(values.dtype)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_padding_and_gradient(check, mode, rank, dtype):
    check(F.pad, leaf(*SHAPES[rank], dtype=dtype), PADS[rank], mode=mode, reference=in_float32)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_without_batch_and_with_strides(check, mode, rank):
    check(F.pad, leaf(*SHAPES[rank][1:]), PADS[rank], mode=mode)
    check(F.pad, leaf(*SHAPES[rank]).transpose(-1, 1), (1, 1) * rank, mode=mode)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16])
def test_padding_of_integers(check, dtype):
    values = torch.arange(2 * 3 * 5 * 6).reshape(2, 3, 5, 6).to(dtype)
    check(F.pad, values, (2, 1, 1, 3), mode="reflect")


def test_padding_of_complex_numbers(check):
    values = torch.randn(2, 3, 5, 6, dtype=torch.complex64)
    check(F.pad, values, (2, 1, 1, 3), mode="reflect")
    check(F.pad, values, (2, 1, 1, 3), mode="replicate")


def test_negative_and_empty_padding(check):
    check(F.pad, leaf(2, 3, 5, 6), (-1, 2, 0, -2), mode="replicate")
    check(F.pad, leaf(2, 3, 5, 6), (0, 0, 0, 0), mode="reflect")
    check(F.pad, torch.randn(0, 3, 5, 6), (1, 1, 1, 1), mode="replicate")


def test_shuffled_channels(check):
    for dtype in (torch.float32, torch.float16, torch.int32):
        check(torch.channel_shuffle, torch.arange(2 * 6 * 2 * 3).reshape(2, 6, 2, 3).to(dtype), 3)
    check(torch.channel_shuffle, torch.randn(2, 4, 3, 6).transpose(1, 3), 2)
    check(F.pixel_shuffle, torch.randn(2, 8, 3, 4), 2)
    check(F.pixel_unshuffle, torch.randn(2, 2, 6, 4), 2)
