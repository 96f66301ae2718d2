"""What the tests of operators share: one function run on the CPU and on a virtual NPU, and its results compared.

These tests run inside a virtual NPU: `drydock run --values full -- python -m pytest test/operators`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

# Relative and absolute tolerance by dtype: what torch.testing takes, with 16-bit results a unit in the last place.
TOLERANCES = {
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float32: (2e-5, 1e-5),
    torch.float64: (1e-9, 1e-9),
    torch.complex64: (2e-5, 1e-5),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stop where there is no device: without one every comparison would be the CPU's with itself."""
    if items and not (hasattr(torch, "npu") and torch.npu.is_available()):
        pytest.exit("no NPU: run these tests as `drydock run --values full -- python -m pytest test/operators`", 2)


@pytest.fixture(autouse=True)
def no_host_fallback() -> Iterator[None]:
    """Fail a test whose operator torch_npu runs on the host's CPU: it would prove nothing about a kernel."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*fall back to run on the CPU.*")
        yield


@pytest.fixture
def internal_formats() -> Iterator[None]:
    """Allow private formats, which torch_npu forbids by default."""
    torch.npu.config.allow_internal_format = True
    yield
    torch.npu.config.allow_internal_format = False


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    """Seed the inputs, so that a test fails or passes every time."""
    torch.manual_seed(0)


def moved(value: Any, device: str) -> Any:
    """Copy the tensors of a nested value to a device, with their strides; leaves that require grad stay leaves."""
    if isinstance(value, torch.Tensor):
        copy = value.detach()
        if value.device.type != device:
            if copy.layout is torch.strided and not copy.is_contiguous() and copy.numel() > 0:
                # A view keeps its strides: the storage goes over, and the same view is taken there.
                storage = torch.empty(0, dtype=copy.dtype).set_(copy.untyped_storage())
                copy = storage.to(device).as_strided(copy.size(), copy.stride(), copy.storage_offset())
            else:
                copy = copy.to(device)
        else:
            copy = copy.clone(memory_format=torch.preserve_format)
        return copy.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [moved(item, device) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: moved(item, device) for key, item in value.items()}
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors of a nested value."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []


def compare(got: Any, expected: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """Assert that nested results are equal: shapes, dtypes, values within the dtype's tolerance."""
    got_tensors, expected_tensors = tensors_of(got), tensors_of(expected)
    assert len(got_tensors) == len(expected_tensors)
    for number, (one, other) in enumerate(zip(got_tensors, expected_tensors, strict=True)):
        relative, absolute = TOLERANCES.get(other.dtype, (0.0, 0.0))
        torch.testing.assert_close(
            one.detach().cpu(),
            other.detach().cpu(),
            rtol=relative if rtol is None else rtol,
            atol=absolute if atol is None else atol,
            equal_nan=True,
            msg=lambda text, number=number: f"result {number}: {text}",
        )
    if not expected_tensors:
        assert got == expected


@pytest.fixture
def check() -> Callable[..., Any]:
    """Run `function(*args, **kwargs)` on copies of the CPU tensors on both devices and compare.

    The results of the function, its arguments afterwards (in-place operators) and, where arguments require grad, their
    gradients. `reference`: another function for the CPU side, for operators that only the NPU has; `rtol`, `atol`:
    other tolerances. Returns the results of the NPU.
    """

    def run(
        function: Callable[..., Any],
        *args: Any,
        reference: Callable[..., Any] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        **kwargs: Any,
    ) -> Any:
        sides = []
        for device, work in (("cpu", reference or function), ("npu", function)):
            own_args, own_kwargs = moved(args, device), moved(kwargs, device)
            result = work(*own_args, **own_kwargs)
            leaves = [tensor for tensor in tensors_of([own_args, own_kwargs]) if tensor.requires_grad]
            differentiable = [tensor for tensor in tensors_of(result) if tensor.requires_grad]
            gradients: tuple[torch.Tensor | None, ...] = ()
            if leaves and differentiable:
                # Weights that differ from element to element, the same on both sides.
                seeds = [
                    torch.linspace(0.5, 1.5, tensor.numel()).reshape(tensor.shape).to(tensor.dtype).to(device)
                    for tensor in differentiable
                ]
                gradients = torch.autograd.grad(differentiable, leaves, seeds, allow_unused=True)
            sides.append((result, [tensor for tensor in gradients if tensor is not None], own_args, own_kwargs))
        (expected, expected_gradients, *expected_args), (got, gradients, *got_args) = sides
        compare(got, expected, rtol, atol)
        compare(gradients, expected_gradients, rtol, atol)
        if reference is None:
            compare(got_args, expected_args, rtol, atol)
        return got

    return run
