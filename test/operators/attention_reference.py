"""Attention in plain torch, and the layouts its operators take: what the tests of attention compare with."""

from __future__ import annotations

import math

import torch


def from_layout(tensor: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    """Bring a tensor to [batch, heads, sequence, width]."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "SBH":
        tensor = tensor.transpose(0, 1)
    return tensor.unflatten(2, (heads, -1)).transpose(1, 2)


def to_layout(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Bring a tensor from [batch, heads, sequence, width] to a layout."""
    if layout == "BNSD":
        return tensor.contiguous()
    tensor = tensor.transpose(1, 2)
    if layout == "BSND":
        return tensor.contiguous()
    tensor = tensor.flatten(2)
    return (tensor.transpose(0, 1) if layout == "SBH" else tensor).contiguous()


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    shift_first: bool = True,
    scale: float = 1.0,
    sink: torch.Tensor | None = None,
    keep: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute attention in fp32 on [batch, heads, sequence, width]; rows that see nothing are zero."""
    group = query.size(1) // key.size(1)
    q, k, v = query.float(), key.float().repeat_interleave(group, 1), value.float().repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3)
    if shift is not None:
        scores = (scores + shift.float()) * scale if shift_first else scores * scale + shift.float()
    else:
        scores = scores * scale
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    if sink is not None:
        sinks = sink.float().view(1, -1, 1, 1).expand(scores.size(0), -1, scores.size(2), 1)
        scores = torch.cat([scores, sinks], 3)
    weights = torch.softmax(scores, 3)
    weights = weights.masked_fill((scores == -math.inf).all(3, keepdim=True), 0)
    if sink is not None:
        weights = weights[..., :-1]
    if keep is not None:
        weights = weights * keep
    return (weights @ v).to(query.dtype)


def band(queries: int, keys: int, before: int, after: int) -> torch.Tensor:
    """Mask of the keys outside i - before ... i + after."""
    distance = torch.arange(keys)[None] - torch.arange(queries)[:, None]
    return (distance > after) | (distance < -before)


def packed(lengths: list[int], heads: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """Sequences one behind the other: [tokens, heads, width]."""
    return torch.randn(sum(lengths), heads, width).to(dtype).requires_grad_()


def by_sequence(tensor: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    """Cut packed sequences into [1, heads, sequence, width]."""
    return [part.transpose(0, 1)[None] for part in tensor.split(lengths)]


def ends(lengths: list[int]) -> list[int]:
    """Cumulated lengths."""
    return torch.tensor(lengths).cumsum(0).tolist()
