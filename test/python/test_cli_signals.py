"""Signals: they reach the command of `drydock run` once, and the ledger is made all the same."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

pytest_plugins = ["isolated_command"]

WAITS = "import signal, sys, time; {}; print('ready', flush=True); time.sleep(30)"


def take_signals() -> None:
    """What a shell's background jobs ignore, and hand on to their children, is not ignored here."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def start(drydock, code, **options):
    process = subprocess.Popen(
        [str(drydock.binary), "run", "--out", "r", "--", sys.executable, "-c", code],
        cwd=drydock.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=take_signals, **options,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def test_sigint_reaches_the_command_and_the_ledger_is_made(drydock):
    process = start(drydock, WAITS.format("pass"))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert process.returncode == 128 + signal.SIGINT
    assert (drydock.work / "r" / "ledger.sqlite").exists()


def test_sigterm_reaches_the_command(drydock):
    process = start(drydock, WAITS.format("pass"))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_command_that_handles_the_signal_decides_its_code(drydock):
    process = start(drydock, WAITS.format("signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 7


def test_ctrl_c_in_a_terminal_reaches_the_command_once(drydock):
    code = (
        "import signal, time; seen = []; signal.signal(signal.SIGINT, lambda *_: seen.append(1)); "
        "print('ready', flush=True); end = time.time() + 1.5\n"
        "while time.time() < end: time.sleep(0.05)\n"
        "print('seen', len(seen), flush=True)"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        take_signals()
        os.chdir(drydock.work)
        os.execv(drydock.binary, ["drydock", "run", "--", sys.executable, "-c", code])
    output = b""
    sent = False
    deadline = time.time() + 30
    while time.time() < deadline:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        output += piece
        if b"ready" in output and not sent:
            sent = True
            os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert b"seen 1" in output, output
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_killed_command_is_told(drydock):
    process = start(drydock, "import os, time; print('ready', flush=True); os.kill(os.getpid(), 9)")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 137
    assert "FAILED (exit code 137" in errors
    assert "SIGKILL" in errors
