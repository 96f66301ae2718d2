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


INDEX_OUT_OF_RANGE = {
    "aclnnGather": "y = x.gather(0, i)",
    "aclnnIndexSelect": "y = x.index_select(0, i)",
    "aclnnEmbedding": "y = torch.nn.functional.embedding(i, torch.ones(10, 4).npu())",
    "aclnnIndex": "y = x[i]",
    "aclnnScatter": "y = x.scatter(0, i, x[:2])",
    "aclnnScatterAdd": "y = x.scatter_add(0, i, x[:2])",
    "aclnnIndexPutImpl": "x[i] = 7",
    "aclnnIndexAdd": "y = x.index_add(0, i, x[:2])",
}


@pytest.mark.parametrize("values", ["auto", "full"])
@pytest.mark.parametrize("operator", INDEX_OUT_OF_RANGE)
def test_an_index_out_of_range_is_told_at_the_next_synchronize(
    run_program: RunProgram, operator: str, values: str
) -> None:
    """As the device does it: the call itself succeeds; the sentence has the operator, its arguments and its line."""
    run = run_program(
        "import torch, torch_npu\n"
        "x, i = torch.arange(10).npu(), torch.tensor([3, 11]).npu()\n"
        "torch.npu.synchronize()\n"
        f"{INDEX_OUT_OF_RANGE[operator]}\n"
        "print('launched')\n"
        "try:\n"
        "    torch.npu.synchronize()\n"
        "except RuntimeError as error:\n"
        "    print('told', error)\n",
        options=("--values", values),
    )
    assert run.stdout.startswith("launched\ntold "), run.stdout + run.stderr[-2000:]
    said = next(error["message"] for error in run.ledger()["errors"] if error["code"] == 507035)
    assert said.startswith(f"{operator}: index 11 is out of range for a dimension of size 10"), said
    assert f"The call {operator}(" in said
    assert "int64[2]" in said, said
    assert "program.py:4" in said, said


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        ('"aclnnAdd", tensor(4), tensor(3, 64), scalar(1), tensor(4, 128)', 161002, "aclnnAdd"),
        ('"aclnnGather", tensor(4), ctypes.c_int64(5), tensor(4, 64), tensor(4, 128)', 161002, "dimension 5"),
        ('"aclnnMatmul", tensor(4), tensor(4, 64), tensor(1, 128), ctypes.c_int8(0)', 161002, "int64"),
        (
            '"aclnnForeachAddList", tensors(2), tensors(1), tensor(1, 64), tensors(2, 256)',
            161002,
            "aclnnForeachAddList",
        ),
        ('"aclnnConstantPadNd", tensor(4), ints(1 << 62, 1 << 62), scalar(0), tensor(4, 64)', 161002, "ConstantPad"),
        ('"aclnnRoll", tensor(4), ints(-(1 << 63)), ints(0), tensor(4, 64)', 0, ""),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    run_program: RunProgram, arguments: str, code: int, expected: str
) -> None:
    """Other shapes, a dimension that is not there, types nobody lists, lists of other lengths, sizes that overflow."""
    run = run_c(
        run_program,
        """
FLOAT = 0
def floats(count, offset=0):
    one = ctypes.c_int64 * 1
    return pointer(base_library.aclCreateTensor(one(count), ctypes.c_uint64(1), FLOAT, one(1), ctypes.c_int64(0), 2,
                                                one(count), ctypes.c_uint64(1), pointer(memory.value + offset)))
def tensors(count, offset=0):
    made = (pointer * count)(*(floats(4, offset + 32 * k) for k in range(count)))
    return pointer(base_library.aclCreateTensorList(made, ctypes.c_uint64(count)))
def ints(*values):
    many = ctypes.c_int64 * len(values)
    return pointer(base_library.aclCreateIntArray(many(*values), ctypes.c_uint64(len(values))))
"""
        f"code = call({arguments}); print(code, said() if code else '')\n",
    )
    assert run.stdout.startswith(f"{code} "), run.stdout
    assert expected in run.stdout


def test_overflow_and_no_numbers_give_what_the_cpu_gives(run_program: RunProgram) -> None:
    """Integers wrap; a mask of NaN is true, also in attention; nothing stops."""
    run = run_program(
        """
import torch, torch_npu
least, most = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
def check(name, compute, *inputs):
    there = compute(*(value.npu() for value in inputs)).cpu()
    here = compute(*inputs)
    assert torch.equal(there.nan_to_num(77), here.nan_to_num(77)), (name, there, here)
edge = torch.tensor([least, most, -1, 0])
check("add", lambda a: a + most, edge)
check("multiply", lambda a: a * most, edge)
check("negative", lambda a: -a, edge)
check("absolute", lambda a: a.abs(), edge)
check("sum", lambda a: a.sum(), torch.tensor([most, most, 5]))
check("cumsum", lambda a: a.cumsum(0), torch.tensor([most, most, 5]))
check("int32", lambda a: a + 1, torch.tensor([2**31 - 1], dtype=torch.int32))
nan = torch.tensor([0.0, float("nan"), 1.0, float("-inf")])
check("boolean", lambda a: a.bool(), nan)
check("where", lambda a: torch.where(a.bool(), a, -a), nan)
check("masked_fill", lambda a: a.masked_fill(a.isnan(), 3.0), nan)
check("masked_select", lambda a: a[a.bool()], nan)
check("maximum", lambda a: a.max(), nan)
check("sort", lambda a: a.sort().values, nan)
q = torch.randn(1, 1, 4, 8)
attention = torch.nn.functional.scaled_dot_product_attention
check("attention", lambda a, m: attention(a, a, a, attn_mask=m).isnan(), q, nan.expand(1, 1, 4, 4).contiguous())
print("alike")
""",
        options=("--values", "full"),
    )
    assert run.exit_code == 0, run.stderr[-2000:]
    assert "alike" in run.stdout


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


def test_too_little_host_memory_for_full_values_is_refused(run_program: RunProgram, tmp_path: Path) -> None:
    """What the host can't hold is refused at the allocation, with the need and the switch; `auto` needs no room."""
    profile = tmp_path / "large.json"
    profile.write_text('{"base": "ascend910c", "name": "large", "memory": {"hbm_bytes": 549755813888}}')
    program = (
        C_INTERFACE
        + """
large = pointer()
code = acl.aclrtMalloc(ctypes.byref(large), size(400 << 30), 0)
print(code, said() if code else "")
"""
    )
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    if available > 380 << 20:
        pytest.skip("a host with more memory than the device")
    full = run_program(program, options=("--profile", str(profile), "--values", "full"))
    assert full.stdout.startswith("207001 aclrtMalloc: the host has too little memory for --values full"), full.stdout
    assert "(400.00 GiB)" in full.stdout
    assert "Use --values auto" in full.stdout
    assert any("--values auto" in error["message"] for error in full.ledger()["errors"])
    auto = run_program(program, options=("--profile", str(profile)))
    assert auto.stdout.startswith("0 "), auto.stdout + auto.stderr
