"""Where torch_npu itself gives something else than the CPU does, whatever the device: rows with the reason.

test/conformance/opinfo_client.csv: an entry (or * for all), what is different, and why. What may be different:

    result N         result N is not compared
    gradient N       the gradient of input N is not compared
    narrow           results of float64 or complex128 come as float32 or complex64, and are compared as such
    empty            shapes of results without elements are not compared
    within REL ABS   values agree within this relative and absolute tolerance
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from conformance_suites import opinfo_values

TABLE = Path(__file__).resolve().parents[2] / "test" / "conformance" / "opinfo_client.csv"
_NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@dataclass(frozen=True)
class Difference:
    """A row of the table."""

    what: str
    arguments: tuple[float, ...]
    reason: str


def read(path: Path = TABLE) -> dict[str, list[Difference]]:
    """Rows by entry. Raises ValueError with a sentence."""
    found: dict[str, list[Difference]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            what, *arguments = row["what"].split()
            count = {"result": 1, "gradient": 1, "narrow": 0, "empty": 0, "within": 2}.get(what)
            if count != len(arguments) or not row["reason"]:
                raise ValueError(f"{path}: the row of {row['entry']} makes no sense: {row}")
            found.setdefault(row["entry"], []).append(Difference(what, tuple(map(float, arguments)), row["reason"]))
    return found


def applied(difference: Difference, phase: str, got: Any, expected: Any) -> tuple[Any, Any]:
    """Both sides of a comparison without the difference; the same objects if it does not show here."""
    if difference.what == ("gradient" if phase else "result"):
        return _without(int(difference.arguments[0]), got, expected)
    if difference.what in ("narrow", "empty"):
        ours, theirs = opinfo_values.tensors_of(got), opinfo_values.tensors_of(expected)
        if len(ours) != len(theirs):
            return got, expected
        change = _narrowed if difference.what == "narrow" else _emptied
        changed = [change(one, other) for one, other in zip(ours, theirs, strict=True)]
        if any(new is not old for new, old in zip(changed, theirs, strict=True)):
            return ours, changed
    return got, expected


def _without(number: int, got: Any, expected: Any) -> tuple[Any, Any]:
    if not all(isinstance(side, (list, tuple)) and len(side) > number for side in (got, expected)):
        return got, expected
    if opinfo_values.differs_in_form(got[number], expected[number]) == "":
        return got, expected
    return tuple([part for place, part in enumerate(side) if place != number] for side in (got, expected))


def _narrowed(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return other.to(one.dtype) if _NARROWER.get(other.dtype) == one.dtype else other


def _emptied(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if one.numel() == other.numel() == 0 and one.shape != other.shape:
        return other.reshape(one.shape)
    return other
