"""Whole programs, unmodified, with the real libraries: they end well, and their ledgers say what they did."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"

# Runs a program as it is, and prints what torch's own objects hold on the device at its end.
WITNESS = """
import gc, json, runpy, sys
import torch

kept = runpy.run_path(sys.argv[1], run_name="__main__")
found = [thing for thing in gc.get_objects() if issubclass(type(thing), (torch.nn.Module, torch.optim.Optimizer))]
modules = [thing for thing in found if isinstance(thing, torch.nn.Module)]
parameters = {id(p): p for module in modules for p in module.parameters()}.values()
optimizers = [thing for thing in found if isinstance(thing, torch.optim.Optimizer)]

def bytes_of(tensors):
    storages = [t.untyped_storage() for t in tensors if t is not None and t.device.type == "npu"]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

print(json.dumps({
    "parameters": bytes_of(parameters),
    "gradients": bytes_of(p.grad for p in parameters),
    "optimizer state": bytes_of(
        value for o in optimizers for state in o.state.values() for value in state.values() if torch.is_tensor(value)
    ),
}))
"""


@pytest.mark.parametrize(
    ("program", "steps"),
    [
        ("plain_training_loop", 20),
        ("trainer_sft", 6),
        ("generate", 0),
        ("convolutional_network", 5),
        ("pinned_data_loader", 0),
    ],
)
def test_a_program_runs_its_ledger_balances_and_its_replay_is_equal(
    run_program: Callable, program: str, steps: int
) -> None:
    run = run_program(WITNESS, str(PROGRAMS / f"{program}.py"))
    assert run.exit_code == 0, run.stderr
    assert "done" in run.stdout
    ledger = run.ledger()
    assert ledger["verdict"]["kind"] == "ran"
    assert ledger["run"]["steps"] == steps
    operators = ledger["operators"]
    assert operators["calls"] > 0
    assert (
        operators["computed"] + operators["ghost"] + operators["assumed"] + operators["refused_calls"]
        == (operators["calls"])
    )
    memory = ledger["memory"]
    assert 0 < memory["peak_allocated_bytes"] <= memory["peak_reserved_bytes"]
    assert ledger["trace"]["records"] > operators["calls"]
    assert ledger["trace"]["lost"] == 0
    replay = subprocess.run(
        [run.command, "replay", str(run.folder), "--json"], capture_output=True, text=True, check=False, timeout=120
    )
    assert replay.returncode == 0, replay.stdout + replay.stderr
    devices = json.loads(replay.stdout)["devices"]
    assert sum(device["blocks"] for device in devices) > 0
    for device in devices:
        assert device["is_equal"], device
        for count in ("blocks", "segment_calls", "out_of_memory"):
            assert device[f"{count}_equal"] == device[count], device
    # What blocks are for, against torch's own objects; the parts of the device; what nothing tells.
    said = json.loads(run.stdout.splitlines()[-1])
    moments = {moment["moment"]: moment for moment in ledger["account"]}
    kinds = {row["kind"]: row for row in moments["end"]["blocks"]}
    assert {kind: kinds[kind]["requested_bytes"] for kind in said} == said
    if steps > 0:
        assert min(said["parameters"], said["optimizer state"]) > 0
    for moment in moments.values():
        assert sum(row["bytes"] for row in moment["blocks"]) + sum(moment["rest"].values()) == moment["capacity_bytes"]
    unexplained = {row["kind"]: row["bytes"] for row in moments["peak"]["blocks"]}["unexplained"]
    assert unexplained <= 0.005 * memory["peak_allocated_bytes"]
    assert ledger["problems"] == []


def test_peak_is_what_torch_npu_counts(run_program: Callable) -> None:
    run = run_program(PROGRAMS / "plain_training_loop.py")
    counted = int(run.stdout.split()[-1])
    assert run.ledger()["memory"]["peak_allocated_bytes"] == counted


@pytest.mark.parametrize("program", ["plain_training_loop", "generate"])
def test_two_runs_give_the_same_records_in_the_same_order(run_program: Callable, program: str) -> None:
    first, second = (run_program(PROGRAMS / f"{program}.py").records() for _ in range(2))
    assert len(first) > 100
    assert first[1:] == second[1:]  # the first line names the trace file


@pytest.mark.parametrize("values", ["auto", "ghost", "full"])
def test_guards_against_nan_and_negative_norms_hold_every_time(run_program: Callable, values: str) -> None:
    run = run_program(
        """
import torch
for attempt in range(20):
    model = torch.nn.Linear(512, 512).npu()
    loss = model(torch.randn(64, 512, device="npu")).pow(2).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert torch.isfinite(loss).item() and not torch.isnan(loss).item(), "loss"
    assert norm.item() > 0, "norm"
    scaler = torch.amp.GradScaler("npu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(loss.detach().requires_grad_() * 1).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() >= 1
print("held")
""",
        options=("--values", values),
    )
    assert run.exit_code == 0, run.stderr
    assert "held" in run.stdout


def test_a_device_that_is_not_there(run_program: Callable) -> None:
    run = run_program("import torch\nx = torch.zeros(1, device='npu:7')\n")
    assert run.exit_code == 1
    ledger = run.ledger()
    assert ledger["verdict"]["kind"] == "failed"
    assert ledger["run"]["exit_code"] == 1
    assert "program.py:2" in run.stderr


def test_several_devices(run_program: Callable) -> None:
    run = run_program(
        """
import torch
assert torch.npu.device_count() == 3
x = torch.arange(4, device="npu:0")
y = x.to("npu:2") + 1
assert y.device.index == 2 and y.cpu().tolist() == [1, 2, 3, 4]
""",
        options=("--devices", "3"),
    )
    assert run.exit_code == 0, run.stderr


def test_a_fork_after_the_device_was_used_gets_a_sentence(run_program: Callable) -> None:
    run = run_program(
        """
import os, sys, torch
x = torch.zeros(4, device="npu")
child = os.fork()
if child == 0:
    try:
        torch.npu.synchronize()
        x.cpu()
    except RuntimeError as error:
        print("child:", "fork" in str(error).lower(), flush=True)
        os._exit(3)
    os._exit(4)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("parent:", status, x.cpu().tolist())
"""
    )
    assert run.exit_code == 0, run.stderr
    assert "parent: 3 [0.0, 0.0, 0.0, 0.0]" in run.stdout, run.stdout + run.stderr


def test_an_exception_is_the_programs_and_is_in_the_ledger(run_program: Callable) -> None:
    run = run_program("import torch\ntorch.zeros(1, device='npu')\nraise ValueError('mine')\n")
    assert run.exit_code == 1
    assert "ValueError: mine" in run.stderr
    verdict = run.ledger()["verdict"]
    assert verdict["kind"] == "failed"
    assert verdict["exception"]["type"] == "ValueError"


def test_oversize_is_told_from_capacity(run_program: Callable) -> None:
    run = run_program(
        "import torch\ntotal = 80 << 30\nx = torch.ones(4, 2, device='npu').repeat(total // 32, 1)\n",
    )
    verdict = run.ledger()["verdict"]
    assert run.exit_code == 1
    assert (verdict["kind"], verdict["class"]) == ("oom", "oversize")
    assert verdict["line"].endswith("program.py:3")
    assert verdict["requested_bytes"] >= 80 << 30
    assert "The line that asked works on total = 85899345920." in verdict["evidence"]


def test_a_program_that_survives_running_out_of_memory_ran(run_program: Callable) -> None:
    run = run_program(
        """
import torch
kept = []
try:
    while True:
        kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="npu"))
except torch.OutOfMemoryError:
    print("caught after", len(kept))
"""
    )
    assert run.exit_code == 0, run.stderr
    assert run.ledger()["verdict"]["kind"] == "ran"
    assert run.ledger()["memory"]["out_of_memory_answers"] > 0


def test_capacity_is_the_class_when_everything_is_in_use(run_program: Callable) -> None:
    run = run_program(
        """
import torch
kept = []
while True:
    kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="npu"))
"""
    )
    verdict = run.ledger()["verdict"]
    assert (verdict["kind"], verdict["class"]) == ("oom", "capacity")
    assert verdict["holders"][0]["line"].endswith("program.py:5")


def test_fresh_memory_shows_what_a_real_910c_shows(run_program: Callable) -> None:
    run = run_program("import torch\ntorch.npu.set_device(0)\nprint(*torch.npu.mem_get_info())\n")
    free_bytes, total_bytes = map(int, run.stdout.split()[-2:])
    assert total_bytes == 65787658240
    assert free_bytes == 65381130240


def test_a_profile_of_ones_own(run_program: Callable, tmp_path: Path) -> None:
    profile = tmp_path / "big.toml"
    profile.write_text('base = "ascend910c"\nname = "big"\n[memory]\nhbm_bytes = 103079215104\nhbm_tbs = 1.8\n')
    run = run_program(
        "import torch\n"
        "x = torch.empty(70 << 30, dtype=torch.uint8, device='npu')\n"
        "print(torch.npu.mem_get_info()[1])\n",
        options=("--profile", str(profile)),
    )
    assert run.exit_code == 0, run.stderr
    assert int(run.stdout.split()[-1]) > 90 << 30


def test_host_code_that_touches_device_memory_faults_in_guard_mode(run_program: Callable) -> None:
    program = """
import ctypes, torch
x = torch.ones(4, device="npu")
print(ctypes.c_float.from_address(x.data_ptr()).value, flush=True)
"""
    assert run_program(program).exit_code == 0
    guarded = run_program(program, options=("--guard",))
    assert guarded.exit_code in (139, -11), guarded.stderr
