"""Drydock: a virtual Ascend NPU.

In a notebook or a REPL, `import drydock` before torch: from then on the process runs on a virtual device and is
recorded; the verdict is printed when the interpreter ends. Programs need no import: `drydock run -- python train.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["library_dir", "run_dir", "step", "verdict"]


def library_dir() -> Path:
    """The folder with the libraries of the virtual device (libascendcl.so and so on)."""
    from drydock import _layout

    return _layout.library_dir()


def run_dir() -> Path | None:
    """The folder this process is recorded in; None outside a run."""
    from drydock import _recorder

    return _recorder.run_dir()


def step() -> None:
    """Marks the end of a training step.

    Without a call, each optimizer update is a step. After the first call only calls count. Does nothing outside a run.
    """
    if run_dir() is None:
        return
    from drydock import _hooks

    _hooks.step()


def verdict() -> dict[str, Any]:
    """What the ledger says of the run so far, as `drydock ledger RUN --json` prints it. Raises RuntimeError outside a
    run, or when the ledger can't be made."""
    from drydock import _session

    run = run_dir()
    if run is None:
        raise RuntimeError("this process is not recorded: import drydock before torch, or use `drydock run`")
    return _session.verdict(run)


def _is_imported_for_a_submodule() -> bool:
    # torch and pytest load drydock._hooks and drydock.pytest_plugin through entry points, and the console script loads
    # drydock._command: none of them asks for a run. The import system imports a parent on behalf of its submodule, and
    # has both names in its frames, one straight below the other.
    frame = sys._getframe(1)
    while frame is not None and not _is_import_of(frame, __name__):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if _is_import_of(frame, __name__ + "."):
            return True
        frame = frame.f_back
    return False


def _is_import_of(frame: FrameType, beginning: str) -> bool:
    if frame.f_code.co_name != "_find_and_load_unlocked":
        return False
    name = frame.f_locals.get("name", "")
    return name == beginning or (beginning.endswith(".") and name.startswith(beginning))


def _begin() -> None:
    if os.environ.get("DRYDOCK_RUN_DIR") or _is_imported_for_a_submodule():
        return
    from drydock import _session

    try:
        run = _session.start()
    except RuntimeError as error:
        print(f"drydock: nothing is recorded: {error}.", file=sys.stderr)
        return
    print(f"drydock: this process runs on a virtual NPU and is recorded in {run}", file=sys.stderr)


_begin()
