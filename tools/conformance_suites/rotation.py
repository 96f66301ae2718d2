"""Which part of a suite is run today."""

from __future__ import annotations

import hashlib
import math
import time

_UNKNOWN_S = 1.0
# Starting a process, and reading its trace.
_START_S = 0.15


def sample(names: list[str], seconds: dict[str, float], budget_s: float, number: int | None = None) -> list[str]:
    """Of all names, those of one part of as many parts as keep each within the budget; day after day another one.

    A name is in the same part as long as the number of parts stays, and every name is in one.
    """
    costs = {name: seconds.get(name, _UNKNOWN_S) + _START_S for name in names}
    parts = max(1, math.ceil(sum(costs.values()) / budget_s))
    if number is None:
        number = int(time.time() // 86400)
    shuffled = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
    # The costliest first, each into the part that has least: parts of nearly equal length.
    filled = [0.0] * parts
    chosen = []
    for name in sorted(shuffled, key=lambda name: -costs[name]):
        part = filled.index(min(filled))
        filled[part] += costs[name]
        if part == number % parts:
            chosen.append(name)
    return chosen
