"""What is known of an entry of torch's OpInfo database before it is run."""

from __future__ import annotations

import difflib
from typing import Any

import torch
from torch.testing import _comparison

# The order in which dtypes are run and listed.
DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.complex32,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
)
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES}
ORDER = {name: number for number, name in enumerate(NAMES.values())}

# Tests of torch whose tolerances say how far a device may be from the CPU; those of gradient checks do not.
_TELLING_TESTS = (None, "TestCommon", "TestUnaryUfuncs", "TestBinaryUfuncs", "TestReductions", "TestLinalg")
# Their indices may be those of any of several equal elements.
INDICES_OF_TIES = frozenset(("sort", "msort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"))
# Their samples have tensors that stay on the CPU whatever the device.
HOST_ARGUMENTS = frozenset(("tensor_split",))
_UNINITIALISED = ("empty", "new_empty")


def load() -> dict[str, Any]:
    """All entries by their full names, such as `nn.functional.pad.reflect`."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {entry.full_name: entry for entry in op_db}


def select(entries: dict[str, Any], wanted: list[str]) -> list[str]:
    """Full names for names: a full name, or a name with all its variants. Raises ValueError with a sentence."""
    chosen: list[str] = []
    for name in wanted:
        found = [full for full, entry in entries.items() if name in (full, entry.name)]
        if not found:
            near = difflib.get_close_matches(name, entries, n=3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise ValueError(f"the OpInfo database has no entry {name}{hint} (--list prints all)")
        chosen += [full for full in found if full not in chosen]
    return chosen


def dtypes_of(entry: Any) -> list[str]:
    """The dtypes that an entry lists for the CPU."""
    return [NAMES[dtype] for dtype in DTYPES if dtype in entry.dtypes]


def has_backward(entry: Any, dtype: torch.dtype) -> bool:
    """Whether gradients are compared too."""
    if not entry.supports_autograd or not (dtype.is_floating_point or dtype.is_complex):
        return False
    return dtype in entry.supported_backward_dtypes("cpu")


def _skip_reasons(entry: Any) -> str:
    reasons = []
    for info in entry.decorators:
        if getattr(info, "test_name", None) != "test_compare_cpu":
            continue
        for decorator in info.decorators:
            cells = getattr(decorator, "__closure__", None) or ()
            reasons += [cell.cell_contents for cell in cells if isinstance(cell.cell_contents, str)]
    return "; ".join(reasons).lower()


def may_be_random(entry: Any) -> bool:
    """Whether torch leaves the entry out of comparisons between devices because it draws random numbers."""
    draws = "dropout" in entry.name or entry.name.startswith(("normal", "rand"))
    return draws or "non-deterministic" in _skip_reasons(entry)


def is_uninitialised(entry: Any) -> bool:
    """Whether the values of the result are whatever the memory held."""
    return entry.name.startswith(_UNINITIALISED)


def elements_of_a_draw(entry: Any, tensor: Any) -> int:
    """How many elements one random number decides about: a channel's, where whole channels are dropped."""
    drops_channels = "dropout2d" in entry.name or "dropout3d" in entry.name or "feature" in entry.name
    if not drops_channels or not isinstance(tensor, torch.Tensor) or tensor.dim() < 3:
        return 1
    unbatched = entry.name.endswith("d") and tensor.dim() == int(entry.name[-2]) + 1
    channels = tensor.shape[0] if unbatched else tensor.shape[0] * tensor.shape[1]
    return max(1, tensor.numel() // max(1, channels))


def has_undefined_values(entry: Any) -> bool:
    """Whether torch says of some samples that the values are undefined (shifts out of range, casts that overflow)."""
    return "undefined" in _skip_reasons(entry)


def tolerance(entry: Any, dtype: torch.dtype) -> tuple[float, float]:
    """Relative and absolute tolerance of a dtype: torch's own, or more if the entry asks for it."""
    relative, absolute = _comparison._DTYPE_PRECISIONS.get(dtype, (0.0, 0.0))
    for info in entry.decorators:
        if getattr(info, "cls_name", "") not in _TELLING_TESTS or not info.active_if:
            continue
        for decorator in info.decorators:
            override = getattr(decorator, "d", {}).get(dtype)
            # precisionOverride gives one number, an absolute tolerance.
            absolute = max(absolute, getattr(override, "atol", override) or 0.0)
            relative = max(relative, getattr(override, "rtol", 0.0))
    return relative, absolute
