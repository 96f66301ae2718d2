"""Losses and their gradients, against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch_npu

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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_fused_cross_entropy(check, reduction, dtype):
    target = torch.randint(0, 13, (9,))
    target[3] = -100
    weight = torch.rand(13)

    def reference(logits, target, weight, reduction, ignored, smoothing):
        return F.cross_entropy(
            logits.float(), target, weight, reduction=reduction, ignore_index=ignored, label_smoothing=smoothing
        ).to(dtype)

    tolerance = None if dtype == torch.float32 else 2e-2
    for smoothing, weights in ((0.0, None), (0.2, weight)):
        check(
            lambda *args: torch_npu.npu_cross_entropy_loss(*args)[0].reshape(-1 if reduction == "none" else ()),
            leaf(9, 13, dtype=dtype),
            target,
            weights,
            reduction,
            -100,
            smoothing,
            reference=reference,
            rtol=tolerance,
            atol=tolerance,
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin(check, reduction):
    target = torch.tensor([[0, 3, -1, 1], [2, -1, 0, 0], [-1, 1, 2, 3]])
    check(F.multilabel_margin_loss, torch.randn(3, 4), target, reduction=reduction)
    check(F.multilabel_margin_loss, torch.randn(4), target[0], reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc(check, reduction):
    logits = leaf(12, 3, 6)
    targets = torch.tensor([[1, 2, 2, 5], [3, 3, 0, 0], [4, 0, 0, 0]])
    lengths = torch.tensor([12, 9, 5]), torch.tensor([4, 2, 1])

    def loss(logits, targets, zero_infinity=False, lengths=lengths):
        steps, counts = (length.tolist() for length in lengths)
        return F.ctc_loss(
            torch.log_softmax(logits, -1), targets, steps, counts, reduction=reduction, zero_infinity=zero_infinity
        )

    check(loss, logits, targets, rtol=1e-4, atol=1e-5)
    # Three equal labels need five steps: no path reads as them in four.
    impossible = torch.tensor([4, 9, 5]), torch.tensor([3, 2, 1])
    equal = torch.tensor([[1, 1, 1], [3, 3, 0], [4, 0, 0]])
    check(loss, logits, equal, zero_infinity=True, lengths=impossible, rtol=1e-4, atol=1e-5)


def test_loss_of_a_split_vocabulary():
    generator = torch.Generator().manual_seed(3)
    hidden, weight = (torch.randn(*shape, generator=generator).half() for shape in ((10, 16), (24, 16)))
    target = torch.randint(0, 24, (10,), generator=generator)
    halves = [half.contiguous() for half in weight.chunk(2)]
    parts = [
        torch_npu.npu_fused_linear_online_max_sum(
            hidden.npu(), half.npu(), target.npu(), 12 * number, 12 * number + 11, True
        )
        for number, half in enumerate(halves)
    ]
    logits = hidden.float() @ weight.float().t()
    top = torch.stack([part[0] for part in parts]).max(0).values
    torch.testing.assert_close(top.cpu(), logits.max(-1).values)
    total = sum(part[1] * torch.exp(part[0] - top) for part in parts)
    # The logit of the target is kept less the maximum of its own part.
    here = [((target // 12) == number).npu() for number in range(2)]
    chosen = sum(part[2] + mask * (part[0] - top) for part, mask in zip(parts, here, strict=True))
    loss, softmax = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(
        top, total, chosen, label_smoothing=0.0, input=None, weight=None, vocab_parallel_logits=parts[0][5]
    )
    torch.testing.assert_close(loss.cpu(), F.cross_entropy(logits, target, reduction="none"), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(softmax.cpu(), torch.softmax(logits, -1)[:, :12], rtol=1e-2, atol=2e-3)

    gradient = torch.rand(10, generator=generator)
    leaves = [hidden.float().requires_grad_(), weight.float().requires_grad_()]
    losses = F.cross_entropy(leaves[0] @ leaves[1].t(), target, reduction="none")
    of_hidden, of_weight = torch.autograd.grad(losses, leaves, gradient)
    own = [
        torch.ops.npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
            gradient.npu(), hidden.npu(), half.npu(), part[3], part[4], logits_max=top, sum_exp_logits=total
        )
        for half, part in zip(halves, parts, strict=True)
    ]
    torch.testing.assert_close((own[0][0] + own[1][0]).float().cpu(), of_hidden, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(torch.cat([own[0][1], own[1][1]]).float().cpu(), of_weight, rtol=1e-2, atol=1e-2)
