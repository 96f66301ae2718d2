"""A run that begins inside a living interpreter: notebooks, REPLs, pytest."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from drydock import _recorder
from drydock._layout import binary, library_dir

_HOOK = "libascend_kernel_hook.so"


def start(out: str | None = None, *, report_at_exit: bool = True) -> Path:
    """Makes this interpreter, and the processes it starts, record into a new run folder. torch must not be imported.

    Settings come from the DRYDOCK_* variables (see `drydock env --help`). Raises RuntimeError with a sentence.
    """
    if "torch" in sys.modules:
        raise RuntimeError(
            "torch is imported already, and its libraries can't be replaced any more: "
            "import drydock first, or start the program with `drydock run`"
        )
    command = [str(binary()), "env", *(["--out", out] if out else [])]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(f"{binary()} can't be executed: {error.strerror}; install drydock again") from error
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip().removeprefix("drydock: "))
    for line in result.stdout.splitlines():
        name, _, value = shlex.split(line)[1].partition("=")
        os.environ[name] = value
    _load_libraries()
    sys.path.insert(1, str(library_dir().parent / "python" / "site-packages"))  # PYTHONPATH comes too late
    run_dir = Path(os.environ["DRYDOCK_RUN_DIR"])
    _note_command(run_dir)
    if report_at_exit:
        atexit.register(report, run_dir)
    return run_dir


def _load_libraries() -> None:
    # LD_LIBRARY_PATH is read when a process starts, so this one needs the libraries in memory: what asks for a library
    # by the name it has itself gets the one that is loaded. The hook must be visible to all that come later.
    ctypes.CDLL(str(library_dir() / _HOOK), mode=ctypes.RTLD_GLOBAL)
    for path in sorted(library_dir().glob("lib*.so")):
        if path.name != _HOOK:
            ctypes.CDLL(str(path))


def _note_command(run_dir: Path) -> None:
    path = run_dir / "run.json"
    with contextlib.suppress(OSError, ValueError):
        info = json.loads(path.read_text())
        info["command"] = sys.orig_argv
        path.write_text(json.dumps(info, indent=2) + "\n")


def report(run_dir: Path) -> None:
    """Makes the ledger and prints the verdict to standard error."""
    with contextlib.suppress(Exception):
        _recorder.close()
    subprocess.run([str(binary()), "ledger", "--rebuild", str(run_dir)], stdout=sys.__stderr__, check=False)


def verdict(run_dir: Path) -> dict[str, Any]:
    """The ledger of the run so far, as `drydock ledger --json` prints it."""
    result = subprocess.run(
        [str(binary()), "ledger", "--rebuild", "--json", str(run_dir)], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip().removeprefix("drydock: "))
    return json.loads(result.stdout)
