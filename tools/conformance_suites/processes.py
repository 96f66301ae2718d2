"""Limits of a child process on Linux, watched from outside.

The device's address space is reserved in every process, so a limit of address space would say nothing: what counts
is what is resident. Time is the processor's, because a busy machine must not make a timeout; the wall clock stops
only what waits forever.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """What one case may use."""

    cpu_s: float
    wall_s: float
    resident_bytes: int


class Watch:
    """Tells when a process, in what it does now, has used more than it may."""

    def __init__(self, pid: int, limits: Limits) -> None:
        self.pid = pid
        self.limits = limits
        self._cpu_at_start = 0.0
        self._wall_at_start = time.monotonic()
        self.begin()

    def begin(self) -> None:
        """Time counts from now."""
        self._cpu_at_start = cpu_seconds(self.pid)
        self._wall_at_start = time.monotonic()

    def seconds(self) -> float:
        """Time of the processor since `begin`."""
        return max(0.0, cpu_seconds(self.pid) - self._cpu_at_start)

    def excess(self) -> str:
        """A phrase about the limit that is exceeded, or nothing."""
        if self.seconds() > self.limits.cpu_s:
            return f"more than {self.limits.cpu_s:g} s of processor time"
        if time.monotonic() - self._wall_at_start > self.limits.wall_s:
            return f"more than {self.limits.wall_s:g} s"
        if resident_bytes(self.pid) > self.limits.resident_bytes:
            return f"more than {self.limits.resident_bytes >> 20} MiB of memory"
        return ""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def kill_group(pid: int) -> None:
    """End a process that leads its group, and all it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def describe_end(status: int) -> str:
    """How a process ended, from its wait status."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.waitstatus_to_exitcode(status)}"
