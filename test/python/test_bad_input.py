"""Bad input through the C interface, the command and torch_npu: an error code, a sentence, a record; never a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ProgramRun

# What the programs below share: the libraries, tensors on one allocation that is known to be all zero, both phases.
C_INTERFACE = """
import ctypes, struct
acl = ctypes.CDLL("libascendcl.so"); op = ctypes.CDLL("libopapi.so"); base_library = ctypes.CDLL("libnnopbase.so")
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
pointer, size = ctypes.c_void_p, ctypes.c_size_t
for name in ("aclCreateTensor", "aclCreateScalar", "aclCreateTensorList", "aclCreateIntArray"):
    getattr(base_library, name).restype = pointer
INT64, COMPLEX64 = 9, 16
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
memory = pointer()
assert acl.aclrtMalloc(ctypes.byref(memory), size(1 << 20), 0) == 0
assert acl.aclrtMemset(memory, size(1 << 20), 0, size(1 << 20)) == 0
def tensor(count, offset=0):
    one = ctypes.c_int64 * 1
    return pointer(base_library.aclCreateTensor(one(count), ctypes.c_uint64(1), INT64, one(1), ctypes.c_int64(0), 2,
                                                one(count), ctypes.c_uint64(1), pointer(memory.value + offset)))
def scalar(value, dtype=INT64):
    return pointer(base_library.aclCreateScalar(ctypes.create_string_buffer(struct.pack("<q", value), 16), dtype))
def call(name, *arguments, between=lambda: None):
    workspace, executor = ctypes.c_uint64(), pointer()
    code = getattr(op, name + "GetWorkspaceSize")(*arguments, ctypes.byref(workspace), ctypes.byref(executor))
    if code == 0:
        between()
        code = getattr(op, name)(pointer(), workspace, executor, pointer()) or acl.aclrtSynchronizeDevice()
    return code
def said(): return (acl.aclGetRecentErrMsg() or b"").decode()
"""

RunProgram = Callable[..., ProgramRun]


def run_c(run_program: RunProgram, body: str) -> ProgramRun:
    """Run a program that calls the C interface, without torch; it must not crash."""
    run = run_program(C_INTERFACE + body)
    assert run.exit_code == 0, f"exit code {run.exit_code}\n{run.stdout}\n{run.stderr[-2000:]}"
    return run


def test_memory_misuse_names_the_lines(run_program: RunProgram) -> None:
    """Double, inner and foreign free, copy out of range, use after free: 107000, with both lines; each recorded."""
    run = run_c(
        run_program,
        """
host = ctypes.create_string_buffer(4096)
block = pointer()
acl.aclrtMalloc(ctypes.byref(block), size(1000), 0); made = 1
inner = acl.aclrtFree(pointer(block.value + 64)); print(inner, said())
print(acl.aclrtMemcpy(host, size(4096), block, size(4096), 2), said())
acl.aclrtFree(block)
print(acl.aclrtFree(block), said())
print(acl.aclrtMemcpy(host, size(8), block, size(8), 2), said())
print(acl.aclrtFree(host), said())
""",
    )
    lines = run.stdout.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("107000 ") for line in lines), lines
    assert "64 bytes inside the allocation" in lines[0]
    assert "not all allocated" in lines[1]
    assert "freed before, at" in lines[2]
    assert "allocated at" in lines[2]
    assert lines[2].count("program.py:") == 2
    assert "freed at" in lines[3]
    assert sum(error["count"] for error in run.ledger()["errors"]) == 5


@pytest.mark.parametrize("argument", ["start", "step"])
@pytest.mark.parametrize("name", ["aclnnArange", "aclnnRange"])
def test_complex_scalars_of_a_sequence_do_not_crash(run_program: RunProgram, name: str, argument: str) -> None:
    """Every scalar of a sequence is checked, the step too."""
    bad = {"start": "scalar(0, COMPLEX64), scalar(6), scalar(1)", "step": "scalar(0), scalar(6), scalar(1, COMPLEX64)"}
    run = run_c(run_program, f'call("{name}", {bad[argument]}, tensor(6)); print("alive")\n')
    assert "alive" in run.stdout


def test_arguments_destroyed_between_the_phases(run_program: RunProgram) -> None:
    """An executor neither reads destroyed objects nor works on those that took their place."""
    run = run_c(
        run_program,
        """
for round in range(300):
    joined = pointer(base_library.aclCreateTensorList((pointer * 2)(tensor(4), tensor(4)), ctypes.c_uint64(2)))
    code = call("aclnnCat", joined, ctypes.c_int64(0), tensor(8, 512),
                between=lambda: (base_library.aclDestroyTensorList(joined), [tensor(3) for _ in range(3)]))
print("alive")
assert acl.aclrtMemset(pointer(memory.value + 4096), size(32), 1, size(32)) == 0
out = tensor(4, 1024)
def replace():
    base_library.aclDestroyTensor(out)
    tensor(4, 4096)
call("aclnnAdd", tensor(4), tensor(4), scalar(1), out, between=replace)
host = (ctypes.c_int64 * 4)()
acl.aclrtMemcpy(host, size(32), pointer(memory.value + 4096), size(32), 2)
print("untouched" if host[0] == 0x0101010101010101 else f"written over: {host[0]}")
""",
    )
    assert run.stdout.split("\n")[:2] == ["alive", "untouched"]


@pytest.mark.parametrize(
    "arguments",
    [
        '"aclnnAdd", tensor(4), pointer(), scalar(1), tensor(4, 64)',
        '"aclnnAdd", tensor(4), tensor(4), pointer(), tensor(4, 64)',
        '"aclnnCat", pointer(), ctypes.c_int64(0), tensor(4, 64)',
        '"aclnnGather", tensor(4), ctypes.c_int64(0), pointer(), tensor(4, 64)',
        '"aclnnArange", pointer(), scalar(6), scalar(1), tensor(6)',
    ],
)
def test_null_arguments_of_operators_are_refused(run_program: RunProgram, arguments: str) -> None:
    """161001 with a sentence, where the argument is not an optional one."""
    run = run_c(run_program, f"print(call({arguments}), said())\n")
    assert run.stdout.startswith("161001 "), run.stdout
    assert "null" in run.stdout


def test_a_refused_tensor_has_a_sentence(run_program: RunProgram) -> None:
    """A constructor that answers null says why, and leaves a record."""
    run = run_c(
        run_program,
        """
one = ctypes.c_int64 * 1
made = base_library.aclCreateTensor(one(-3), ctypes.c_uint64(1), INT64, one(1), ctypes.c_int64(0), 2, one(3),
                                    ctypes.c_uint64(1), memory)
print(made, said())
""",
    )
    assert run.stdout.startswith("None aclCreateTensor"), run.stdout
    assert any(error["entry"] == "aclCreateTensor" for error in run.ledger()["errors"])


def test_an_array_of_an_impossible_size_is_refused(run_program: RunProgram) -> None:
    """A size whose bytes wrap must not become an empty array."""
    run = run_c(
        run_program, "print(base_library.aclCreateIntArray((ctypes.c_int64 * 1)(7), ctypes.c_uint64(1 << 62)))\n"
    )
    assert run.stdout.strip() == "None"


def test_an_index_out_of_range_names_its_line(run_program: RunProgram) -> None:
    """The device's own code and the line of the call, not that of a later synchronize."""
    run = run_program(
        "import torch, torch_npu\n"
        "x = torch.arange(10).npu()\n"
        "y = x[torch.tensor([11]).npu()]\n"
        "try:\n"
        "    y.cpu()\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    errors = run.ledger()["errors"]
    assert any("index 11 is out of range" in error["message"] for error in errors)
    # The vendor answers 507xxx for what goes wrong on the device; 161002 belongs to the first phase.
    assert all(error["code"] // 1000 == 507 for error in errors), errors
    assert any("program.py:3" in error["message"] or error["line"].endswith("program.py:3") for error in errors), errors


GHOST_READS = """
import torch, torch_npu
matrix = torch.randn(1024, 1024, device="npu")
print("far", matrix[1000, 1000].item(), matrix[1000, 1000].log().item())
small = [torch.randn(600, device="npu") for _ in range(500)]
for part in small: part.exp()
del small, part
whole = torch.randint(0, 5, (400_000,), device="npu")
print("index", max(whole[place].item() for place in range(0, 400_000, 64)))
uniform = torch.empty(1000, device="npu").uniform_(2, 3).cpu()
print("uniform", uniform.min().item(), uniform.max().item())
rand = torch.rand(1000, device="npu").cpu()
print("rand", rand.min().item(), rand.max().item())
"""


def test_assumed_values_are_benign_wherever_they_are_read(run_program: RunProgram) -> None:
    """Positive floats far inside a tensor, no float pattern read as an index, random numbers inside their range."""
    run = run_program(GHOST_READS)
    assert run.exit_code == 0, run.stderr[-2000:]
    read = {words[0]: [float(word) for word in words[1:]] for words in map(str.split, run.stdout.splitlines())}
    assert read["far"][0] > 0
    assert 0 <= read["index"][0] < 5
    assert read["uniform"][0] >= 2
    assert read["uniform"][1] < 3
    assert read["rand"][0] >= 0
    assert read["rand"][1] < 1


def test_killed_before_the_first_record(drydock_command: str, tmp_path: Path) -> None:
    """Command and program killed at once, early: the ledger does not claim that the run came to its end."""
    folder = tmp_path / "run"
    run = subprocess.Popen(
        [drydock_command, "run", "--out", str(folder), "--", sys.executable, "-c", "import time; time.sleep(60)"],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(200):
        if (folder / "run.json").exists():
            break
        time.sleep(0.05)
    time.sleep(0.2)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait(timeout=10)
    shown = subprocess.run(
        [drydock_command, "ledger", str(folder), "--json"], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(shown.stdout)["verdict"]["kind"] != "ran"


def test_a_trace_that_cannot_be_read_is_not_an_unused_device(run_program: RunProgram) -> None:
    """`device not used` is a claim about the program; a trace of another version supports none."""
    run = run_c(run_program, "")
    (trace,) = (run.folder / "traces").iterdir()
    content = bytearray(trace.read_bytes())
    content[8] = 0x77
    trace.write_bytes(content)
    (run.folder / "ledger.sqlite").unlink()
    shown = subprocess.run([run.command, "ledger", str(run.folder)], capture_output=True, text=True, timeout=60)
    assert "format version" in shown.stdout + shown.stderr
    assert "not used" not in shown.stdout


@pytest.mark.parametrize(
    ("content", "expected"),
    [('base = "ascend910c"\nname = "x"\n[versions]\ncann = "x"\n', "CANN version"), ("", "empty")],
)
def test_profile_nonsense_is_refused(drydock_command: str, tmp_path: Path, content: str, expected: str) -> None:
    """A CANN version that --cann refuses is refused in a profile too; an empty file is called empty."""
    profile = tmp_path / "mine.toml"
    profile.write_text(content)
    done = subprocess.run(
        [drydock_command, "run", "--profile", str(profile), "--out", str(tmp_path / "run"), "--", "true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
