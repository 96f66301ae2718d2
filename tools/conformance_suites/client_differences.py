"""Where torch_npu itself gives something else than the CPU does, whatever the device: rows with the reason.

test/conformance/opinfo_client.csv: an entry (or * for all), what is different, and why. What may be different:

    result N         result N is not compared
    gradient N       the gradient of input N is not compared
    narrow           results of float64 or complex128 come as float32 or complex64, and are compared as such
    wide             results of float16 or bfloat16 come as float32, and are compared as such
    empty            shapes of results without elements are not compared
    real             results come as complex numbers where the CPU gives real ones; their real parts are compared
    uncompared       nothing is compared: the arguments mean something else to torch_npu
    complex-gradients  gradients of complex dtypes are not compared
    within REL ABS   values agree within this relative and absolute tolerance
    within16 REL ABS the same, for 16-bit dtypes only

Rows of an entry are applied in their order: of results that are left out, the last comes first.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from conformance_suites import opinfo_values

PATH = Path(__file__).resolve().parents[2] / "test" / "conformance" / "opinfo_client.csv"
_ARGUMENTS = {
    "result": 1,
    "gradient": 1,
    "narrow": 0,
    "wide": 0,
    "empty": 0,
    "real": 0,
    "uncompared": 0,
    "complex-gradients": 0,
    "within": 2,
    "within16": 2,
}
_NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


@dataclass(frozen=True)
class Difference:
    """A row of the table."""

    what: str
    arguments: tuple[float, ...]
    reason: str


Table = dict[str, list[Difference]]


def read(path: Path = PATH) -> Table:
    """Rows by entry. Raises ValueError with a sentence."""
    found: Table = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            what, *arguments = row["what"].split()
            if _ARGUMENTS.get(what) != len(arguments) or not row["reason"]:
                raise ValueError(f"{path}: the row of {row['entry']} makes no sense: {row}")
            found.setdefault(row["entry"], []).append(Difference(what, tuple(map(float, arguments)), row["reason"]))
    return found


def applied(difference: Difference, phase: str, got: Any, expected: Any) -> tuple[Any, Any]:
    """Both sides of a comparison without the difference; the same objects if it does not show here."""
    if difference.what == "uncompared":
        return [], []
    if difference.what == "complex-gradients":
        is_complex = any(tensor.is_complex() for tensor in opinfo_values.tensors_of(expected))
        return ([], []) if phase and is_complex else (got, expected)
    if difference.what == ("gradient" if phase else "result"):
        return _without(int(difference.arguments[0]), got, expected)
    if difference.what in _CHANGES:
        ours, theirs = opinfo_values.tensors_of(got), opinfo_values.tensors_of(expected)
        if len(ours) != len(theirs):
            return got, expected
        change = _CHANGES[difference.what]
        changed = [change(one, other) for one, other in zip(ours, theirs, strict=True)]
        if any(pair is not None for pair in changed):
            kept = [pair or sides for pair, sides in zip(changed, zip(ours, theirs, strict=True), strict=True)]
            return [one for one, _ in kept], [other for _, other in kept]
    return got, expected


def _without(number: int, got: Any, expected: Any) -> tuple[Any, Any]:
    if not all(isinstance(side, (list, tuple)) and len(side) > number for side in (got, expected)):
        return got, expected
    if opinfo_values.differs_in_form(got[number], expected[number]) == "":
        return got, expected
    return tuple([part for place, part in enumerate(side) if place != number] for side in (got, expected))


def _narrowed(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    return (one, other.to(one.dtype)) if _NARROWER.get(other.dtype) == one.dtype else None


def _widened(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    return (one.to(other.dtype), other) if _WIDER.get(other.dtype) == one.dtype else None


def _emptied(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    if one.numel() == other.numel() == 0 and one.shape != other.shape:
        return one, other.reshape(one.shape)
    return None


def _realised(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    return (one.real, other) if one.is_complex() and not other.is_complex() else None


_CHANGES = {"real": _realised, "narrow": _narrowed, "wide": _widened, "empty": _emptied}


def tolerance(difference: Difference, dtype: torch.dtype) -> tuple[float, ...] | None:
    """Relative and absolute tolerance that a row allows for samples of a dtype."""
    applies = difference.what == "within" or (difference.what == "within16" and dtype.itemsize == 2)
    return difference.arguments if applies else None
