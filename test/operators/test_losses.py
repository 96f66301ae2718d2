"""Losses and their gradients, against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
REDUCTIONS = ["none", "mean", "sum"]


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A random leaf tensor."""
    return torch.randn(*shape).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss])
def test_regression(check, loss, reduction, dtype):
    target = torch.randn(7, 41).to(dtype)
    if loss is F.soft_margin_loss:
        target = target.sign()
    check(loss, leaf(7, 41, dtype=dtype), target, reduction=reduction, rtol=3e-2 if dtype != torch.float32 else None)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_smooth_l1_beta(check, reduction):
    check(F.smooth_l1_loss, leaf(4, 9), torch.randn(4, 9), reduction=reduction, beta=0.3)
    check(F.mse_loss, leaf(9, 4), torch.randn(4, 9).t(), reduction=reduction)
    check(F.mse_loss, leaf(300, 501), torch.randn(300, 501), reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(check, reduction):
    probability = torch.rand(5, 8).requires_grad_()
    target = torch.rand(5, 8)
    check(F.binary_cross_entropy, probability, target, reduction=reduction)
    check(F.binary_cross_entropy, probability, target, torch.rand(5, 8), reduction=reduction)
    edges = torch.tensor([0.0, 1.0, 0.5]).requires_grad_()
    check(F.binary_cross_entropy, edges, torch.tensor([1.0, 0.0, 1.0]), reduction=reduction)
    for weights in ({}, {"weight": torch.rand(5, 8)}, {"pos_weight": torch.rand(8)}):
        check(F.binary_cross_entropy_with_logits, leaf(5, 8), target, reduction=reduction, **weights)


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
def test_kl_div(check, reduction, log_target):
    target = torch.softmax(torch.randn(6, 11), -1)
    target = target.log() if log_target else target
    check(F.kl_div, leaf(6, 11), target.requires_grad_(), reduction=reduction, log_target=log_target)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(check, reduction, dtype):
    target = torch.randint(0, 13, (9,))
    target[3] = -100
    logits = leaf(9, 13, dtype=dtype)
    tolerance = None if dtype == torch.float32 else 2e-2
    check(F.cross_entropy, logits, target, reduction=reduction, rtol=tolerance)
    weight = torch.rand(13).to(dtype)
    check(F.cross_entropy, logits, target, weight=weight, reduction=reduction, label_smoothing=0.1, rtol=tolerance)
    check(F.nll_loss, logits, target.clamp(min=2), ignore_index=2, reduction=reduction, rtol=tolerance)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_of_images(check, reduction):
    target = torch.randint(0, 5, (2, 6, 4))
    target[0, 2] = -100
    check(F.cross_entropy, leaf(2, 5, 6, 4), target, reduction=reduction)
