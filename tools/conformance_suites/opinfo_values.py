"""Values of OpInfo samples: moving them to the NPU, to a wider dtype, and comparing what comes back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex32: torch.complex64,
    torch.complex64: torch.complex128,
}
# Two-sample Kolmogorov-Smirnov: the distance that two samples of one distribution exceed once in a million.
_KS_FACTOR = math.sqrt(-math.log(1e-6 / 2) / 2)
_FEWEST_FOR_STATISTICS = 16


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a nested value with `change` applied to what is neither list, tuple, dict nor slice."""
    if isinstance(value, slice):
        return slice(*(mapped(part, change) for part in (value.start, value.stop, value.step)))
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def moved(value: Any, device: str) -> Any:
    """Copy the tensors of a nested value to a device, with their strides; names of the CPU become the device's."""

    def change(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return _moved_tensor(item, device)
        if isinstance(item, torch.device) and item.type == "cpu":
            return torch.device(device)
        return device if isinstance(item, str) and item == "cpu" else item

    return mapped(value, change)


def _moved_tensor(tensor: torch.Tensor, device: str) -> torch.Tensor:
    copy = tensor.detach()
    is_view = copy.layout is torch.strided and not copy.is_contiguous() and copy.numel() > 0
    if is_view and not copy.is_conj() and not copy.is_neg():
        # A view keeps its strides: the storage goes over, and the same view is taken there.
        storage = torch.empty(0, dtype=copy.dtype).set_(copy.untyped_storage()).clone()
        copy = storage.to(device).as_strided(copy.size(), copy.stride(), copy.storage_offset())
    elif device == "cpu":
        copy = copy.clone()
    else:
        copy = copy.to(device)
    return copy.requires_grad_(tensor.requires_grad)


def widened(value: Any) -> Any:
    """Copy a nested value with floating tensors and dtypes one size wider."""

    def change(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            wide = item.detach().to(WIDER.get(item.dtype, item.dtype), copy=True)
            return wide.requires_grad_(item.requires_grad)
        return WIDER.get(item, item) if isinstance(item, torch.dtype) else item

    return mapped(value, change)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors of a nested value, in order."""
    found: list[torch.Tensor] = []

    def note(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            found.append(item)
        return item

    mapped(value, note)
    return found


def others_of(value: Any) -> list[Any]:
    """What a nested value holds beside tensors."""
    found: list[Any] = []

    def note(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            found.append(item)
        return item

    mapped(value, note)
    return found


def differs_in_form(got: Any, expected: Any) -> str:
    """Says what is different about structure, shapes and dtypes; nothing if they are the same."""
    got_tensors, expected_tensors = tensors_of(got), tensors_of(expected)
    if len(got_tensors) != len(expected_tensors):
        return f"{len(got_tensors)} tensors instead of {len(expected_tensors)}"
    for number, (one, other) in enumerate(zip(got_tensors, expected_tensors, strict=True)):
        where = f"result {number}: " if len(got_tensors) > 1 else ""
        if one.dtype != other.dtype:
            return f"{where}{one.dtype} instead of {other.dtype}"
        if one.shape != other.shape:
            return f"{where}shape {tuple(one.shape)} instead of {tuple(other.shape)}"
        if one.layout != other.layout:
            return f"{where}{one.layout} instead of {other.layout}"
    return ""


def differs_in_values(got: Any, expected: Any, tolerance: Callable[[torch.dtype], tuple[float, float]]) -> str:
    """Says how values differ by more than the tolerance; nothing if they do not."""
    got_tensors, expected_tensors = tensors_of(got), tensors_of(expected)
    for number, (one, other) in enumerate(zip(got_tensors, expected_tensors, strict=True)):
        relative, absolute = tolerance(other.dtype)
        try:
            torch.testing.assert_close(
                _on_cpu(one),
                _on_cpu(other),
                rtol=relative,
                atol=absolute,
                equal_nan=True,
                check_layout=False,
            )
        except AssertionError as error:
            where = f"result {number}: " if len(got_tensors) > 1 else ""
            return where + _shortened(str(error))
    for one, other in zip(others_of(got), others_of(expected), strict=False):
        if isinstance(other, (bool, int, float, complex)):
            relative, absolute = tolerance(torch.float32) if isinstance(other, (float, complex)) else (0.0, 0.0)
            try:
                torch.testing.assert_close(one, other, rtol=relative, atol=absolute, equal_nan=True)
            except AssertionError:
                return f"{one} instead of {other}"
    return ""


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.complex32,):
        return tensor.to(torch.complex64)
    if tensor.dtype.is_floating_point and tensor.element_size() == 1:
        return tensor.to(torch.float32)
    return tensor.resolve_conj().resolve_neg()


def _shortened(text: str) -> str:
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in kept if line.startswith(("Mismatched", "Greatest", "Expected", "Scalars"))]
    return "; ".join(telling or kept[:2])


def same_elements(source: torch.Tensor, got: Any, expected: Any) -> bool:
    """Whether results are equal where they are values, and name equal elements of `source` where they are indices."""
    source = source.detach()
    for one, other in zip(tensors_of(got), tensors_of(expected), strict=True):
        one, other = one.detach().cpu(), other.detach().cpu()
        if torch.equal(one, other) or differs_in_values(one, other, lambda dtype: (0.0, 0.0)) == "":
            continue
        if other.dtype != torch.int64 or not any(_name_equals(source, dim, one, other) for dim in range(source.dim())):
            return False
    return True


def same_sorted(got: Any, expected: Any, tolerance: Callable[[torch.dtype], tuple[float, float]]) -> bool:
    """Whether real results hold the same values, in whatever order."""
    both = [[t.detach().cpu().flatten().sort().values for t in tensors_of(side)] for side in (got, expected)]
    return differs_in_values(both[0], both[1], tolerance) == ""


def _name_equals(source: torch.Tensor, dim: int, one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dim() == source.dim() - 1:
        one, other = one.unsqueeze(dim), other.unsqueeze(dim)
    sizes = [(a, b) for axis, (a, b) in enumerate(zip(one.shape, source.shape, strict=False)) if axis != dim]
    if one.dim() != source.dim() or any(a != b for a, b in sizes):
        return False
    if one.numel() and (int(one.min()) < 0 or int(one.max()) >= source.shape[dim]):
        return False
    distinct = one.sort(dim).values.diff(dim=dim).ne(0).all() if one.shape[dim] > 1 else True
    named, wanted = source.gather(dim, one), source.gather(dim, other)
    return bool(distinct) and differs_in_values(named, wanted, lambda dtype: (0.0, 0.0)) == ""


def scaled_errors(
    got: Any, reference: Any, tolerance: Callable[[torch.dtype], tuple[float, float]], by_largest: bool = False
) -> list[float] | None:
    """Largest error of each floating tensor in units of its tolerance; None where they can't be compared.

    `by_largest`: the tolerance is relative to the largest element of the tensor in place of each.
    """
    errors = []
    got_tensors, reference_tensors = tensors_of(got), tensors_of(reference)
    if len(got_tensors) != len(reference_tensors):
        return None
    for one, other in zip(got_tensors, reference_tensors, strict=True):
        if one.shape != other.shape or one.layout is not torch.strided:
            return None
        one, other = one.detach().cpu(), other.detach().cpu()
        if not (one.dtype.is_floating_point or one.dtype.is_complex):
            errors.append(0.0 if torch.equal(one, other) else math.inf)
            continue
        relative, absolute = tolerance(one.dtype)
        # What the reference is in the narrow dtype: an overflow there is no error.
        narrow = other.to(one.dtype)
        kind = torch.complex128 if one.dtype.is_complex else torch.float64
        wide_one, wide_other, wide_narrow = one.to(kind), other.to(kind), narrow.to(kind)
        same = (wide_one == wide_narrow) | (wide_one.isnan() & wide_narrow.isnan())
        size = wide_other.abs()
        if by_largest and size.numel():
            size = size.nan_to_num(nan=0.0, posinf=0.0).max()
        error = (wide_one - wide_other).abs() / (absolute + relative * size)
        error = torch.where(same, torch.zeros_like(error), error).nan_to_num(nan=math.inf, posinf=math.inf)
        errors.append(float(error.max()) if error.numel() else 0.0)
    return errors


def differs_in_distribution(got: Any, expected: Any, elements_of_a_draw: int = 1) -> str:
    """Says if two random results can't be of one distribution; nothing if they may be, or are too few to tell.

    One number drawn decides about `elements_of_a_draw` elements.
    """
    for one, other in zip(tensors_of(got), tensors_of(expected), strict=True):
        if one.numel() < _FEWEST_FOR_STATISTICS or one.dtype.is_complex:
            continue
        first = one.detach().cpu().to(torch.float64).flatten().sort().values
        second = other.detach().cpu().to(torch.float64).flatten().sort().values
        if bool(first.isnan().any()) != bool(second.isnan().any()):
            return "NaN in one of the two random results"
        grid = torch.cat([first, second])
        count = first.numel()
        draws = max(1, count // elements_of_a_draw)
        cdf_first = torch.searchsorted(first, grid, right=True) / count
        cdf_second = torch.searchsorted(second, grid, right=True) / count
        distance = float((cdf_first - cdf_second).abs().max())
        if distance > _KS_FACTOR * math.sqrt(2 / draws):
            return f"not the same distribution: Kolmogorov-Smirnov distance {distance:.2f} of {count} values"
    return ""
