"""Linear algebra against the CPU."""

from __future__ import annotations

import pytest
import torch

FLOATS = [torch.float32, torch.float64]


def well_conditioned(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Square matrices far from singular."""
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=dtype) + 4 * torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_inverse(check, dtype):
    check(torch.inverse, well_conditioned(5, 5, dtype=dtype))
    check(torch.inverse, well_conditioned(3, 2, 7, 7, dtype=dtype).mT)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_qr(check, dtype, shape):
    torch.manual_seed(2)
    matrix = torch.randn(*shape, dtype=dtype)
    for mode in ("reduced", "complete"):
        q, r = check(torch.linalg.qr, matrix, mode=mode)
        torch.testing.assert_close(q.cpu() @ r.cpu(), matrix)
    assert torch.linalg.qr(matrix.npu(), mode="r").R.shape[-2] == min(shape[-2:])


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(check, upper):
    matrix = well_conditioned(2, 5, 5)
    check(torch.linalg.cholesky, matrix @ matrix.mT, upper=upper)


@pytest.mark.parametrize("dtype", FLOATS)
def test_determinants(check, dtype):
    matrices = well_conditioned(3, 4, 4, dtype=dtype)
    matrices[1, 0] *= -1
    check(torch.slogdet, matrices)


@pytest.mark.parametrize("shape", [(6, 4), (3, 5), (2, 4, 4), (1, 1)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(shape, full):
    torch.manual_seed(3)
    matrix = torch.randn(*shape)  # torch_npu refuses all other types
    u, s, vh = (part.cpu() for part in torch.linalg.svd(matrix.npu(), full_matrices=full))
    torch.testing.assert_close(s, torch.linalg.svdvals(matrix), rtol=1e-5, atol=1e-6)
    for vectors in (u, vh.mH):
        one = torch.eye(vectors.shape[-1]).expand(*shape[:-2], -1, -1)
        torch.testing.assert_close(vectors.mH @ vectors, one, rtol=1e-5, atol=1e-6)
    inner = min(shape[-2:])
    product = u[..., :inner] @ torch.diag_embed(s) @ vh[..., :inner, :]
    torch.testing.assert_close(product, matrix, rtol=1e-5, atol=2e-6)


def test_singular_values_of_deficient_matrices():
    matrix = torch.ones(4, 3)
    u, s, vh = (part.cpu() for part in torch.linalg.svd(matrix.npu(), full_matrices=False))
    torch.testing.assert_close(s, torch.tensor([12**0.5, 0.0, 0.0]), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(u.mT @ u, torch.eye(3), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(u @ torch.diag(s) @ vh, matrix, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
def test_triangular_solve(check, upper, unitriangular):
    left = well_conditioned(3, 4, 4)
    right = torch.randn(3, 4, 2)
    check(torch.linalg.solve_triangular, left, right, upper=upper, unitriangular=unitriangular)
    check(torch.linalg.solve_triangular, left, right.mT, upper=upper, left=False, unitriangular=unitriangular)
    for transpose in (False, True):
        check(torch.triangular_solve, right, left, upper=upper, transpose=transpose, unitriangular=unitriangular)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64])
def test_cross(check, dtype):
    torch.manual_seed(4)
    left, right = (torch.randint(-5, 6, shape).to(dtype) for shape in ((2, 4, 3), (2, 1, 3)))
    check(torch.linalg.cross, left, right)
    check(torch.linalg.cross, left.mT, right.mT, dim=-2)
