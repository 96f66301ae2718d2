"""Rotary position embeddings against plain torch on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu

TYPES = [torch.float32, torch.float16, torch.bfloat16]


def half(x: torch.Tensor) -> torch.Tensor:
    """Turn the halves of the last dimension by a right angle."""
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def pairs(x: torch.Tensor) -> torch.Tensor:
    """Turn neighbouring elements by a right angle."""
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mode: str = "half") -> torch.Tensor:
    """Rotate in fp32, round once."""
    turn = half if mode == "half" else pairs
    wide = x.float()
    return (wide * cos.float() + turn(wide) * sin.float()).to(x.dtype)


def tensors(x_size: tuple[int, ...], angle_size: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """x, cos and sin."""
    angles = torch.randn(angle_size)
    return [torch.randn(x_size).to(dtype), angles.cos().to(dtype), angles.sin().to(dtype)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["half", "interleave"])
@pytest.mark.parametrize("angle_size", [(1, 1, 20, 64), (2, 1, 20, 64), (2, 3, 20, 64)])
def test_rotary_mul(check, angle_size, mode, dtype):
    parts = [part.requires_grad_() for part in tensors((2, 3, 20, 64), angle_size, dtype)]
    tolerance = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]
    check(
        lambda x, cos, sin: torch_npu.npu_rotary_mul(x, cos, sin, mode),
        *parts,
        reference=lambda x, cos, sin: rotated(x, cos, sin, mode),
        rtol=tolerance,
        atol=tolerance,
    )


def test_rotary_mul_of_strided_and_three_dimensional_tensors(check):
    x, cos, sin = tensors((20, 3, 64), (20, 1, 64), torch.float32)
    check(torch_npu.npu_rotary_mul, x, cos, sin, reference=rotated)
    x, cos, sin = tensors((2, 20, 3, 64), (1, 20, 1, 64), torch.float32)
    check(torch_npu.npu_rotary_mul, x.transpose(0, 1), cos.transpose(0, 1), sin.transpose(0, 1), reference=rotated)


def test_rotary_mul_by_a_matrix(check):
    matrix = torch.zeros(64, 64)
    for k in range(0, 64, 2):
        matrix[k, k + 1], matrix[k + 1, k] = 1, -1
    check(
        lambda x, cos, sin, matrix: torch_npu.npu_rotary_mul(x, cos, sin, "interleave", matrix),
        *tensors((2, 3, 20, 64), (1, 1, 20, 64), torch.float32),
        matrix,
        reference=lambda x, cos, sin, matrix: rotated(x, cos, sin, "interleave"),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_apply_rotary_pos_emb_works_in_place(check, dtype):
    query, cos, sin = tensors((2, 5, 4, 64), (2, 5, 1, 64), dtype)
    key = torch.randn(2, 5, 2, 64).to(dtype)

    def reference(query: Any, key: Any, cos: Any, sin: Any) -> Any:
        return rotated(query, cos, sin), rotated(key, cos, sin)

    check(torch_npu.npu_apply_rotary_pos_emb, query, key, cos, sin, reference=reference)
    moved = [part.npu() for part in (query, key, cos, sin)]
    torch_npu.npu_apply_rotary_pos_emb(*moved)
    torch.testing.assert_close(moved[0].cpu(), rotated(query, cos, sin), rtol=1e-2, atol=1e-2)


def test_interleave_rope(check):
    def reference(x: Any, cos: Any, sin: Any) -> torch.Tensor:
        return rotated(torch.cat([x[..., ::2], x[..., 1::2]], -1), cos, sin)

    check(torch_npu.npu_interleave_rope, *tensors((2, 3, 5, 64), (2, 1, 5, 64), torch.float16), reference=reference)


@pytest.mark.parametrize("style", ["half", "interleave"])
@pytest.mark.parametrize("sections", [None, [16, 24, 24], [16, 16, 16, 16]])
def test_mrope(check, sections, style):
    tokens, head_size = 7, 128
    cache = torch.randn(50, head_size)
    positions = torch.randint(0, 50, (len(sections), tokens) if sections else (tokens,))
    query, key = torch.randn(tokens, 3 * head_size), torch.randn(tokens, head_size)

    def fused(positions: Any, query: Any, key: Any, cache: Any) -> Any:
        options = {"mrope_section": sections, "rotary_mode": style}
        return torch_npu.npu_mrope(positions, query, key, cache, head_size, **options)

    def reference(positions: Any, query: Any, key: Any, cache: Any) -> Any:
        cos, sin = cache[positions].chunk(2, -1)
        if sections:
            cos, sin = (
                torch.cat([part[n] for n, part in enumerate(angle.split(sections, -1))], -1) for angle in (cos, sin)
            )
        if style == "half":
            cos, sin = (torch.cat([angle, angle], -1)[:, None] for angle in (cos, sin))
        else:
            cos, sin = (angle.repeat_interleave(2, -1)[:, None] for angle in (cos, sin))
        return tuple(rotated(x.unflatten(1, (-1, head_size)), cos, sin, style).flatten(1) for x in (query, key))

    check(fused, positions, query, key, cache, reference=reference)
