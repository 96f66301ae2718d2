"""Convolutions, their gradients, and patches of images, against the CPU. All in fp32 unless HF32 is the subject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from torch.nn import functional

FLOATING = [torch.float32, torch.float16, torch.bfloat16]
# Sums of 16-bit inputs run in another order than on the CPU and are rounded once on both sides.
LOOSE = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.float16: {"rtol": 4e-3, "atol": 1e-2}}
LOOSE[torch.bfloat16] = {"rtol": 3e-2, "atol": 1e-1}


@pytest.fixture(autouse=True)
def full_fp32() -> Iterator[None]:
    """Keep fp32: torch_npu allows HF32 in convolutions by default."""
    before = torch.npu.conv.allow_hf32
    torch.npu.conv.allow_hf32 = False
    yield
    torch.npu.conv.allow_hf32 = before


def normal(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype).requires_grad_()


CASES: list[tuple[int, dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    (1, {"padding": 1}, (2, 3, 9), (4, 3, 3)),
    (1, {"stride": 2, "dilation": 2}, (2, 4, 20), (6, 2, 3)),
    (2, {}, (2, 3, 8, 9), (5, 3, 1, 1)),
    (2, {"padding": 1}, (2, 16, 12, 12), (40, 16, 3, 3)),
    (2, {"stride": 2, "padding": 3}, (2, 3, 21, 19), (8, 3, 7, 7)),
    (2, {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)}, (1, 2, 11, 10), (4, 2, 3, 2)),
    (2, {"padding": 1}, (2, 6, 7, 7), (6, 1, 3, 3)),
    (2, {"stride": 2, "padding": 2, "dilation": 2}, (2, 6, 9, 9), (12, 1, 3, 3)),
    (2, {"padding": 1}, (2, 16, 5, 5), (16, 4, 3, 3)),
    (2, {"padding": 4}, (1, 2, 3, 3), (2, 2, 3, 3)),
    (3, {"stride": 2, "padding": 1}, (2, 3, 5, 6, 7), (4, 3, 3, 3, 3)),
    (3, {}, (1, 2, 3, 4, 5), (2, 2, 2, 1, 2)),
]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(("rank", "options", "image", "weight"), CASES)
def test_convolution_and_gradients(check, rank, options, image, weight, dtype):
    function = [functional.conv1d, functional.conv2d, functional.conv3d][rank - 1]
    groups = image[1] // weight[1]
    args = normal(*image, dtype=dtype), normal(*weight, dtype=dtype), normal(weight[0], dtype=dtype)
    check(function, *args, groups=groups, **options, **LOOSE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("rank", "options", "image", "weight"),
    [
        (1, {"stride": 3, "output_padding": 2}, (2, 4, 6), (4, 3, 4)),
        (2, {}, (2, 4, 6, 6), (4, 3, 3, 3)),
        (2, {"padding": 1}, (2, 16, 6, 6), (16, 20, 3, 3)),
        (2, {"stride": 2, "padding": 1, "output_padding": 1}, (2, 4, 5, 6), (4, 3, 3, 3)),
        (2, {"stride": 2, "groups": 4}, (2, 4, 5, 6), (4, 1, 3, 3)),
        (2, {"stride": 2, "padding": 1, "groups": 2, "dilation": 2}, (2, 8, 5, 6), (8, 5, 3, 3)),
        (3, {"stride": 2, "padding": 1}, (1, 2, 3, 4, 3), (2, 2, 3, 3, 3)),
    ],
)
def test_transposed_convolution(check, rank, options, image, weight, dtype):
    function = [functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d][rank - 1]
    bias = normal(weight[1] * options.get("groups", 1), dtype=dtype)
    check(function, normal(*image, dtype=dtype), normal(*weight, dtype=dtype), bias, **options, **LOOSE[dtype])


def test_strided_inputs(check):
    image, weight = normal(2, 9, 8, 4).detach(), normal(3, 3, 5, 4).detach()
    channels_last = image.permute(0, 3, 1, 2)
    check(functional.conv2d, channels_last, weight.permute(2, 3, 0, 1), padding=1, rtol=1e-4, atol=1e-4)
    check(functional.conv2d, channels_last[:, :, ::2, 1::2], weight.permute(2, 3, 0, 1), rtol=1e-4, atol=1e-4)


def test_gradient_of_a_sum_is_expanded(check):
    def summed(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(image, weight, padding=1).sum()

    check(summed, normal(2, 3, 6, 6), normal(4, 3, 3, 3), rtol=1e-4, atol=1e-4)


def test_empty_batch(check):
    check(functional.conv2d, normal(0, 3, 6, 6), normal(4, 3, 3, 3), normal(4))


def test_hf32_when_allowed():
    torch.npu.conv.allow_hf32 = True
    image = torch.full((1, 1, 1, 1), 1 + 2**-12 + 2**-20, device="npu")
    assert functional.conv2d(image, torch.ones(1, 1, 1, 1, device="npu")).item() == 1 + 2**-11


def test_time_batch_channels(check):
    args = normal(9, 2, 4), normal(3, 4, 5), normal(5)
    check(torch.conv_tbc, *args, pad=1, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("options", [{}, {"padding": 2, "stride": 2}, {"dilation": 2, "padding": (1, 3)}])
def test_unfold_and_fold(check, options, dtype):
    image = normal(2, 3, 9, 8, dtype=dtype)
    check(functional.unfold, image, kernel_size=(3, 2), **options)
    columns = functional.unfold(image, kernel_size=(3, 2), **options).detach().requires_grad_()
    check(functional.fold, columns, output_size=(9, 8), kernel_size=(3, 2), **options)


@pytest.mark.parametrize(("dim", "size", "step"), [(0, 3, 2), (1, 4, 1), (2, 2, 3)])
def test_gradient_of_windows(check, dim, size, step):
    check(lambda x: x.unfold(dim, size, step), normal(5, 6, 7))


def test_sizes_that_do_not_fit():
    image, weight = torch.ones(1, 3, 4, 4, device="npu"), torch.ones(2, 4, 3, 3, device="npu")
    with pytest.raises(RuntimeError):
        functional.conv2d(image, weight)


def deformed(
    image: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, bias: torch.Tensor, groups: int
) -> torch.Tensor:
    """Deformable convolution of 3x3 filters, stride 1 and padding 1, tap by tap through grid_sample."""
    count, channels, height, width = image.shape
    moves = offset.unflatten(1, (3, groups, 9))
    grid_y, grid_x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    taps = []
    for tap in range(9):
        parts = []
        for group, part in enumerate(image.chunk(groups, 1)):
            x, y = grid_x + tap % 3 - 1 + moves[:, 0, group, tap], grid_y + tap // 3 - 1 + moves[:, 1, group, tap]
            places = torch.stack((2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1), -1)
            sampled = functional.grid_sample(part, places, align_corners=True)
            parts.append(sampled * moves[:, 2, group, tap, None])
        taps.append(torch.cat(parts, 1))
    columns = torch.stack(taps, 2).reshape(count, channels * 9, height * width)
    return (weight.flatten(1) @ columns).reshape(count, -1, height, width) + bias[:, None, None]


def test_deformable_convolution(check):
    def on_npu(image: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ones = [1, 1, 1, 1]
        return torch_npu.npu_deformable_conv2d(
            image,
            weight,
            offset,
            bias,
            kernel_size=[3, 3],
            stride=ones,
            padding=ones,
            dilation=ones,
            deformable_groups=2,
        )[0]

    args = [normal(*sizes).detach() for sizes in ((2, 4, 6, 5), (3, 4, 3, 3), (2, 54, 6, 5), (3,))]
    # torch_npu splits this operator into two of the legacy kind; aclnnDeformableConv2d is held by the unit tests.
    with pytest.raises(RuntimeError, match="DeformableOffsets"):
        check(on_npu, *args, reference=lambda *given: deformed(*given, groups=2), rtol=1e-4, atol=1e-4)
