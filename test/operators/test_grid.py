"""Sampling grids and regions of interest against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch_npu


def leaf(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale).requires_grad_()


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_sampled_images(check, mode, padding, align):
    options = {"mode": mode, "padding_mode": padding, "align_corners": align}
    check(F.grid_sample, leaf(2, 3, 5, 7), leaf(2, 4, 6, 2, seed=1), rtol=1e-4, atol=1e-4, **options)
    check(F.grid_sample, leaf(1, 2, 1, 4), leaf(1, 3, 3, 2, seed=2, scale=3), rtol=1e-4, atol=1e-4, **options)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_sampled_volumes(check, mode, padding, align):
    options = {"mode": mode, "padding_mode": padding, "align_corners": align}
    check(F.grid_sample, leaf(2, 3, 4, 5, 6), leaf(2, 2, 3, 4, 3, seed=1), rtol=1e-4, atol=1e-4, **options)


def test_sampled_half_precision_and_strides(check):
    def wide(image, grid, **options):
        return F.grid_sample(image.float(), grid.float(), **options).to(image.dtype)

    image = leaf(2, 3, 5, 7).detach()
    grid = leaf(2, 4, 6, 2, seed=1).detach()
    for dtype in (torch.float16, torch.bfloat16):
        check(F.grid_sample, image.to(dtype), grid.to(dtype), align_corners=False, reference=wide)
    last = image.to(memory_format=torch.channels_last)
    check(F.grid_sample, last, grid.transpose(1, 2), align_corners=False)
    check(F.grid_sample, torch.randn(0, 3, 5, 7), torch.randn(0, 4, 6, 2), align_corners=False)


def test_grid_of_many_points(check):
    check(F.grid_sample, leaf(1, 2, 9, 9), leaf(1, 70, 90, 2, seed=1), align_corners=False, rtol=1e-4, atol=1e-3)


def test_affine_grids(check):
    for align in (False, True):
        check(F.affine_grid, leaf(2, 2, 3), [2, 3, 4, 5], align_corners=align, rtol=1e-4, atol=1e-4)
        check(F.affine_grid, leaf(2, 3, 4).detach(), [2, 3, 4, 5, 6], align_corners=align)
        check(F.affine_grid, leaf(1, 2, 3).detach(), [1, 1, 1, 4], align_corners=align)


IMAGE = torch.arange(1.0, 37).reshape(1, 1, 6, 6)


def test_regions_of_interest():
    rois = torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]]).npu()
    # The manual's example.
    result = torch_npu.npu_roi_align(IMAGE.npu(), rois, 0.25, 3, 3, 2, 0).cpu()
    expected = torch.tensor([[[[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]]])
    torch.testing.assert_close(result, expected)
    # A region of one pixel at its middle: half a pixel less is the pixel itself.
    pixel = torch.tensor([[0, 2.0, 1.0, 3.0, 2.0]]).npu()
    for end, value in ((0, 12.5), (1, 16.0), (2, 9.0), (3, 16.0)):
        result = torch_npu.npu_roi_align(IMAGE.npu(), pixel, 1.0, 1, 1, 1, end).cpu()
        assert result.item() == value


def test_gradient_of_regions_of_interest():
    rois = torch.tensor([[0, -2.0, -2.0, 22.0, 22.0], [0, 1.0, 2.0, 9.0, 8.0]]).npu()
    grad = torch.randn(2, 1, 3, 3)
    result = torch_npu.npu_roi_alignbk(grad.npu(), rois, [1, 1, 6, 6], 3, 3, 0.25, 2, roi_end_mode=0).cpu()
    # A linear map: its gradient is what makes both inner products equal.
    image = torch.randn(1, 1, 6, 6)
    pooled = torch_npu.npu_roi_align(image.npu(), rois, 0.25, 3, 3, 2, 0).cpu()
    torch.testing.assert_close((result * image).sum(), (pooled * grad).sum(), rtol=1e-4, atol=1e-4)
