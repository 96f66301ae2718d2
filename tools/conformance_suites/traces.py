"""What the trace of a process tells about its cases: operators that nothing computed, and those the host computed."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

_FALLBACK = re.compile(r" host-fallback (\S+)")
_NOT_COMPUTED = re.compile(r" operator \S+ stream \d+ (?:ghost|assumed) (\w+)\(")
_STEP = re.compile(r"^(?:thread \d+ )?step\b")


@dataclass
class Evidence:
    """Of the operators that one case called."""

    fallbacks: set[str] = field(default_factory=set)
    ghosts: set[str] = field(default_factory=set)


def filter_command(drydock: str, trace: Path) -> list[str]:
    """A command that prints the records that matter here."""
    pattern = r" host-fallback | (ghost|assumed) \w+\(|^(thread [0-9]+ )?step( |$)"
    return [
        "sh",
        "-c",
        f"{shlex.quote(drydock)} trace --no-times {shlex.quote(str(trace))} | LC_ALL=C grep -E {shlex.quote(pattern)}",
    ]


def read_evidence(text: str) -> list[Evidence]:
    """Evidence case by case: a process ends each case with a step."""
    cases = [Evidence()]
    for line in text.splitlines():
        if _STEP.match(line):
            cases.append(Evidence())
            continue
        fallback = _FALLBACK.search(line)
        if fallback:
            cases[-1].fallbacks.add(fallback.group(1))
        ghost = _NOT_COMPUTED.search(line)
        if ghost:
            cases[-1].ghosts.add(ghost.group(1))
    return cases
