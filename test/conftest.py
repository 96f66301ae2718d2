"""What the Python tests share: the drydock command of the installed wheel, and runs of programs under it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class ProgramRun:
    """A program's end and where its run lies."""

    exit_code: int
    stdout: str
    stderr: str
    folder: Path
    command: str

    def ledger(self) -> dict:
        """Return the run's ledger as `drydock ledger --json` prints it."""
        shown = subprocess.run(
            [self.command, "ledger", str(self.folder), "--json"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        ledger = json.loads(shown.stdout)
        assert not [sentence for sentence in ledger["problems"] if "does not balance" in sentence], ledger["problems"]
        for moment in ledger["account"]:
            if moment["capacity_bytes"] is not None:
                parts = sum(row["bytes"] for row in moment["blocks"]) + sum(moment["rest"].values())
                assert parts == moment["capacity_bytes"], moment
        return ledger

    def records(self) -> list[str]:
        """Return the run's records as text, without times."""
        shown = subprocess.run(
            [self.command, "trace", "--no-times", str(self.folder)],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return shown.stdout.splitlines()


@pytest.fixture(scope="session")
def drydock_command() -> str:
    """The command under test: DRYDOCK_BINARY, or what the wheel installed beside this Python."""
    beside = Path(sys.executable).parent / "drydock"
    found = os.environ.get("DRYDOCK_BINARY") or (str(beside) if beside.exists() else shutil.which("drydock"))
    if found is None:
        pytest.fail("there is no drydock command: install the wheel, or set DRYDOCK_BINARY")
    return found


@pytest.fixture
def run_program(drydock_command: str, tmp_path: Path) -> Callable[..., ProgramRun]:
    """Run a program (a file, or source text) under drydock with the given options and environment."""

    def run(
        program: Path | str, *arguments: str, options: tuple[str, ...] = (), timeout_s: int = 300, **environment: str
    ) -> ProgramRun:
        number = len(list(tmp_path.glob("run*")))
        folder = tmp_path / f"run{number}"
        if isinstance(program, str):
            source = tmp_path / "program.py"
            source.write_text(program, encoding="utf-8")
            program = source
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DRYDOCK_", "PYTORCH_NPU", "ASCEND_")) and name != "TASK_QUEUE_ENABLE"
        }
        done = subprocess.run(
            [drydock_command, "run", "--out", str(folder), *options, "--", sys.executable, str(program), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=tmp_path,
            env=clean | environment,
        )
        return ProgramRun(done.returncode, done.stdout, done.stderr, folder, drydock_command)

    return run
