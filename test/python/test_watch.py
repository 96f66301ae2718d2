"""`drydock watch` and the virtual `npu-smi`: in a pipe, in a terminal, while a run goes on and afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytest_plugins = ["isolated_command"]

RECORDED = Path(__file__).resolve().parents[1] / "data" / "npu_smi"

# A run without torch, slowly enough to be watched. The door adds 32 bytes, so that each request is a GiB.
PROGRAM = """
import ctypes, subprocess, sys, time
acl = ctypes.CDLL("libascendcl.so")
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
pointers = []
for step in range(int(sys.argv[1])):
    pointer = ctypes.c_void_p()
    assert acl.aclrtMalloc(ctypes.byref(pointer), ctypes.c_size_t((1 << 30) - 32), 0) == 0
    pointers.append(pointer)
    time.sleep(float(sys.argv[2]))
for command in sys.argv[3:]:
    print(subprocess.run(["npu-smi", *command.split()], capture_output=True, text=True, check=True).stdout)
"""


def start(drydock, *arguments, out="run"):
    (drydock.work / "program.py").write_text(PROGRAM)
    return subprocess.Popen(
        [drydock.binary, "run", "--out", out, "--", sys.executable, "program.py", *arguments],
        cwd=drydock.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Terminal:
    """A command in a terminal of its own, of a given size."""

    def __init__(self, command, cwd, columns=80, rows=24):
        self.leader, follower = pty.openpty()
        self.resize(columns, rows)
        environment = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm"}
        environment.pop("LC_ALL", None)
        self.process = subprocess.Popen(
            command, cwd=cwd, stdout=follower, stderr=follower, env=environment, start_new_session=True
        )
        os.close(follower)
        self.text = ""

    def resize(self, columns, rows):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        os.set_blocking(self.leader, False)
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            try:
                piece = os.read(self.leader, 65536)
            except BlockingIOError:
                time.sleep(0.02)
                continue
            except OSError:  # the command has ended
                break
            if not piece:
                break
            self.text += piece.decode("utf-8", "replace")
        return self.text


def test_a_run_that_is_over_gives_lines_in_a_pipe(drydock):
    assert start(drydock, "5", "0.01").wait(60) == 0
    done = drydock("watch", "run")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert 10 <= len(lines) <= 40
    assert "reserved 5.00 GiB" in lines[-1] or "reserved 5.00 GiB" in lines[-2]
    assert "of 61.27 GiB" in lines[0]
    assert drydock("watch", "run", "--once").stdout == done.stdout


def test_a_run_is_followed_while_it_goes_on(drydock):
    run = start(drydock, "12", "0.2")
    while not list(drydock.work.glob("run/traces/*.ddtrace")):
        time.sleep(0.02)
    done = drydock("watch", "run", "--interval", "0.1")
    assert done.returncode == 0
    seen = [float(size) for size in re.findall(r"reserved ([0-9.]+) GiB", done.stdout)]
    assert len(set(seen)) >= 5  # it grew before our eyes
    assert seen == sorted(seen)
    assert run.wait(60) == 0


def test_a_terminal_gets_a_curve_and_its_own_screen_back(drydock):
    assert start(drydock, "5", "0.01").wait(60) == 0
    run = start(drydock, "30", "0.2", out="live")
    while not list(drydock.work.glob("live/traces/*.ddtrace")):
        time.sleep(0.02)
    terminal = Terminal([drydock.binary, "watch", "live", "--interval", "0.1"], drydock.work)
    assert "npu:0  allocated" in terminal.read(1.0)
    assert terminal.text.startswith("\x1b[?1049h")
    before = len(terminal.text)
    terminal.resize(40, 12)
    os.killpg(terminal.process.pid, signal.SIGWINCH)
    terminal.read(0.7)
    frames = terminal.text[before:].split("\x1b[H")[2:-1]
    assert frames
    assert all(frame.count("\r\n") < 12 for frame in frames)
    axis = max(len(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", row)) for row in frames[-1].split("\r\n") if "│" in row)
    assert axis <= 40
    os.killpg(terminal.process.pid, signal.SIGINT)
    after = terminal.read(2.0)
    assert terminal.process.wait(10) == 0
    assert "\x1b[?25h\x1b[?1049l" in after
    run.terminate()
    run.wait(30)
    over = Terminal([drydock.binary, "watch", "run"], drydock.work)
    assert "(peaks)" in over.read(2.0)
    assert over.process.wait(10) == 0


def test_recorded_tables_of_all_versions_are_read(drydock):
    for name, words in [
        ("910a-23.0.txt", ["NPU 3 chip 0 910A OK  HBM 1200 of 32768 MB  AICore 7%"]),
        ("910b-24.1.txt", ["HBM 4153 of 65536 MB", "NPU 5 chip 0 910B3 Warning  HBM 60123 of 65536 MB  AICore 88%"]),
        ("910c-25.2.txt", ["NPU 1 chip 1 (npu:3) Ascend910 Alarm  HBM 2879 of 65536 MB"]),
        ("910c-26.0.txt", ["NPU 7 chip 1 (npu:15) Ascend910 OK  HBM 31877 of 65536 MB  AICore 95%"]),
    ]:
        done = drydock("watch", "--npu-smi", "--file", RECORDED / name)
        assert done.returncode == 0, done.stderr
        for word in words:
            assert word in done.stdout
    done = drydock("watch", "--npu-smi", "--file", RECORDED / "910b-sequence.txt", "--interval", "0.01")
    used = [int(number) for number in re.findall(r"HBM (\d+) of", done.stdout)]
    assert used == [3400, 9000, 20000, 42000, 61000, 61000, 3500]


def test_a_sequence_is_drawn_in_a_terminal(drydock):
    command = [drydock.binary, "watch", "--npu-smi", "--file", RECORDED / "910b-sequence.txt", "--interval", "0.05"]
    terminal = Terminal(command, drydock.work)
    text = terminal.read(2.0)
    assert terminal.process.wait(10) == 0
    last = text.split("\x1b[?1049l")[-1]
    assert "NPU 0 chip 0 910B3 OK  HBM 3500 of 65536 MB" in last
    assert "64.00 GiB" in last
    assert "⣿" in last
    assert "7 readings" in last


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "needs a RUN"),
        (["r", "--npu-smi"], "not both"),
        (["no-run"], "There is no run"),
        (["notes.txt"], "not a trace of Drydock"),
        (["empty", "--file", "notes.txt"], "--npu-smi"),
        (["--npu-smi", "--file", "notes.txt"], "not what npu-smi info prints"),
        (["--npu-smi", "--file", "missing.txt"], "can't be read"),
        (["empty", "--interval", "0"], "interval"),
    ],
)
def test_bad_input_is_told_in_a_sentence(drydock, arguments, words):
    (drydock.work / "notes.txt").write_text("no table, no trace\n" * 300)
    (drydock.work / "empty").mkdir()
    done = drydock("watch", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_without_the_driver_the_real_tool_is_missed(drydock):
    done = drydock("watch", "--npu-smi", env={"PATH": "/nowhere"})
    assert done.returncode == 2
    assert "There is no command npu-smi here" in done.stderr


# npu-smi of the virtual machine


@pytest.fixture
def npu_smi(drydock, clean_environment):
    binary = Path(drydock.binary).resolve().parent / "npu-smi"
    if not binary.exists():  # the command of the wheel is a script; ask it where the real one is
        shown = drydock("env", "--out", "asked")
        folder = re.search(r"export PATH='([^:']+)", shown.stdout).group(1)
        binary = Path(folder) / "npu-smi"

    def run(*arguments, **environment):
        return subprocess.run(
            [binary, *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    return run


def test_an_idle_machine_shows_idle_use(npu_smi, drydock):
    table = npu_smi("info", DRYDOCK_DEVICES="3")
    assert table.returncode == 0
    (drydock.work / "table.txt").write_text(table.stdout)
    read = drydock("watch", "--npu-smi", "--file", "table.txt")
    assert read.returncode == 0
    # 65,536 MiB less what programs see, and the idle use of an even and an odd die (profiles/ascend910c.toml).
    assert re.findall(r"chip (\d) \(npu:(\d)\) Ascend910 OK  HBM (\d+) of 65536", read.stdout) == [
        ("0", "0", "3137"),
        ("1", "1", "2892"),
        ("0", "2", "3137"),
    ]
    assert "No running processes found in NPU 1" in table.stdout
    assert len({len(line) for line in table.stdout.splitlines()}) == 1


def test_older_drivers_and_other_chips_have_their_tables(npu_smi, drydock):
    table = npu_smi("info", DRYDOCK_PROFILE="ascend910b3", DRYDOCK_CANN="8.3.RC1", DRYDOCK_DRIVER="25.3.RC1")
    assert "npu-smi 25.3.RC1                 Version: 25.3.RC1" in table.stdout
    assert "910B3" in table.stdout
    assert "Phy-ID" not in table.stdout
    real = (RECORDED / "910b-24.1.txt").read_text().splitlines()
    assert {len(line) for line in table.stdout.splitlines()} == {len(line) for line in real}
    assert table.stdout.splitlines()[2:6] == real[2:6]  # the titles, to the letter


def test_the_kinds_of_figures(npu_smi):
    usages = npu_smi("info", "-t", "usages", "-i", "0")
    assert re.search(r"HBM Capacity\(MB\) +: 65536\n", usages.stdout)
    assert re.search(r"HBM Usage Rate\(%\) +: 4\n", usages.stdout)
    assert "Aicore Count" in npu_smi("info", "-t", "common", "-i", "0").stdout
    assert "HBM Capacity(MB)" in npu_smi("info", "-t", "memory", "-i", "0").stdout
    assert "No process in device." in npu_smi("info", "-t", "proc-mem", "-i", "0").stdout
    assert re.search(r"Total Count +: 2\n", npu_smi("info", "-l", DRYDOCK_DEVICES="4").stdout)
    rows = [line.split() for line in npu_smi("info", "-m", DRYDOCK_DEVICES="4").stdout.splitlines()]
    assert [row[:4] for row in rows if row[-1] == "Ascend910"] == [
        ["0", "0", "0", "0"],
        ["0", "1", "1", "1"],
        ["1", "0", "2", "2"],
        ["1", "1", "3", "3"],
    ]
    assert npu_smi("-v").stdout == "npu-smi version: 26.0.0\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "needs a command"),
        (["info", "-t", "board", "-i", "0"], 'no "board"'),
        (["info", "-t", "usages", "-i", "7"], "no card 7"),
        (["info", "-t", "usages", "-i", "0", "-c", "3"], "no chip 3"),
        (["info", "-i", "0"], "give -t"),
        (["set", "-t", "reset"], "--help"),
    ],
)
def test_what_the_virtual_machine_cannot_do_is_told(npu_smi, arguments, words):
    done = npu_smi(*arguments)
    assert done.returncode == 1
    assert words in done.stderr


def test_a_program_in_a_run_finds_it_and_its_own_memory(drydock):
    run = start(drydock, "3", "0", "info", "info -t proc-mem -i 0")
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    # Idle use, the context (46 MiB) and three GiB.
    assert f"{3137 + 46 + 3072} / 65536" in out
    assert re.search(r"Process id:\d+ Process name:python\S* +Process memory\(MB\):3118", out)
    assert drydock("watch", "run", "--once").returncode == 0
