"""Complex tensors, against the CPU."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def z() -> torch.Tensor:
    """A few complex numbers, zero and pure ones among them."""
    torch.manual_seed(3)
    values = torch.randn(6, 5, dtype=torch.complex64)
    values[0, 0] = 0
    values[0, 1] = 2j
    values[0, 2] = -3
    return values


@pytest.mark.parametrize(
    "name",
    [
        "neg",
        "exp",
        "sqrt",
        "sin",
        "cos",
        "abs",
        "reciprocal",
        "log",
        "tan",
        "sinh",
        "angle",
        "asinh",
        "acosh",
        "atanh",
        "triu",
        "tril",
    ],
)
def test_functions_of_one_number(check, z, name):
    check(getattr(torch, name), z[1:])
    check(getattr(torch, name), z[1:].t())


def test_arithmetic(check, z):
    other = z.flip(0) + 0.5
    check(torch.add, z, other, alpha=2)
    check(torch.sub, z, other[:, :1])
    check(torch.mul, z, other)
    check(torch.div, z, other)
    check(lambda x: x * (1 + 2j), z)
    check(lambda x: x * torch.arange(5.0, device=x.device), z)
    check(torch.eq, z, z.clone())
    check(torch.ne, z, other)


def test_sums(check, z):
    check(lambda x: x.sum(0), z)
    check(torch.mean, z)
    check(lambda x: x.cumsum(1), z)


def test_parts(check):
    real, imaginary = torch.randn(4, 3), torch.randn(4, 3)
    check(torch.complex, real, imaginary)
    check(torch.polar, real.abs(), imaginary)
    check(lambda x: x.to(torch.complex64), real)


@pytest.mark.parametrize(("n_fft", "hop", "win"), [(16, 4, 16), (12, 5, 10)])
@pytest.mark.parametrize("normalized", [False, True])
def test_short_time_fourier_transform(check, n_fft, hop, win, normalized):
    signal, window = torch.randn(2, 60), torch.hann_window(win)

    def spectra(x: torch.Tensor, w: torch.Tensor, **options) -> torch.Tensor:
        return torch.stft(x, n_fft, hop, win, w, center=False, normalized=normalized, return_complex=True, **options)

    check(spectra, signal, window)
    check(lambda x, w: torch.view_as_real(spectra(x, w, onesided=False)), signal[0], window)
