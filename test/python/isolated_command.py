"""The `drydock` command in a folder and an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest


@pytest.fixture
def clean_environment(monkeypatch):
    """Takes away what the caller has set of Drydock's and torch_npu's variables."""
    for name in list(os.environ):
        ours = name.startswith("DRYDOCK_") and name != "DRYDOCK_BINARY"
        if ours or name in ("TASK_QUEUE_ENABLE", "LD_PRELOAD", "PYTORCH_NPU_ALLOC_CONF"):
            monkeypatch.delenv(name)


@pytest.fixture
def drydock(tmp_path, drydock_command, clean_environment):
    """Runs the command in an empty folder of its own, with none of the caller's settings."""
    work = tmp_path / "work"
    work.mkdir()

    def run(*arguments, cwd=work, env=None, timeout=60):
        return subprocess.run(
            [drydock_command, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def ledger(folder):
        result = run("ledger", folder, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def interrupt(*arguments, when):
        """Starts the command, sends Ctrl-C once `when()` is true; exit code, output, errors."""
        process = subprocess.Popen(
            [drydock_command, *map(str, arguments)],
            cwd=work,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not when():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    run.interrupt = interrupt
    run.ledger = ledger
    run.binary = drydock_command
    run.work = work
    return run
