"""The environment of a program that runs on a virtual NPU."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Missing(Exception):
    """Something that only the user can provide is not there; the text is a sentence."""


def python() -> str:
    """An interpreter that has torch_npu: this one, else that of the tree's .venv."""
    if find_spec("torch_npu") is not None:
        return sys.executable
    inside = ROOT / ".venv" / "bin" / "python"
    if inside.exists():
        return str(inside)
    raise Missing("torch_npu is not installed for this Python, and there is no .venv: tools/setup makes one")


def drydock() -> str:
    """The drydock command: the first on PATH, else that of the tree's .venv."""
    inside = ROOT / ".venv" / "bin" / "drydock"
    found = shutil.which("drydock") or (str(inside) if inside.exists() else None)
    if found is None:
        raise Missing("there is no drydock command: tools/setup builds and installs it")
    return found


def environment(run_folder: Path, threads: int) -> dict[str, str]:
    """Variables of a program that computes everything on a virtual NPU and records into a new folder."""
    shutil.rmtree(run_folder, ignore_errors=True)
    done = subprocess.run(
        [drydock(), "env", "--values", "full", "--out", str(run_folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Missing(f"drydock env failed: {done.stderr.strip()}")
    variables = dict(os.environ)
    for line in done.stdout.splitlines():
        name, _, value = shlex.split(line)[1].partition("=")
        variables[name] = value
    variables["DRYDOCK_THREADS"] = variables["OMP_NUM_THREADS"] = variables["OPENBLAS_NUM_THREADS"] = str(threads)
    # Children are killed when they have said what they know; nobody reads a log of theirs.
    variables["ASCEND_GLOBAL_LOG_LEVEL"] = "4"
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).resolve().parents[1]), *filter(None, [variables.get("PYTHONPATH")])]
    )
    return variables


def remove(run_folder: Path) -> None:
    """Remove the record of a run."""
    shutil.rmtree(run_folder, ignore_errors=True)
