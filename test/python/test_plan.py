"""`drydock plan` and `drydock tune --program`: fresh runs of a program with one value after the other."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import subprocess
import sys
import textwrap

import pytest

pytest_plugins = ["isolated_command"]

needs_client = pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed")

GIB = 1 << 30

# Asks the driver itself, without torch: a run takes no time.
MALLOC = """
    import ctypes, os, sys, time
    acl = ctypes.CDLL("libascendcl.so")
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    def take(gib):
        if acl.aclrtMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(gib << 30), 0):
            sys.exit("no room")
"""

EVEN = MALLOC + "    take(2)\n    take(int(sys.argv[1]))\n"

# A plain loop: the weights and so much for each sample.
LOOP = """
    import sys
    import torch, torch_npu
    batch = int(sys.argv[sys.argv.index("--batch") + 1])
    model = torch.nn.Linear(1024, 1024, device="npu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        inputs = torch.empty(batch << 20, 1024, device="npu")
        model(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

TRAINER = """
    from dataclasses import dataclass, field
    import torch
    from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            row = torch.full((64,), index)
            return {"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)}

    if __name__ == "__main__":
        (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
        model = LlamaForCausalLM(LlamaConfig(vocab_size=100, hidden_size=64, intermediate_size=128,
                                             num_hidden_layers=4, num_attention_heads=4))
        Trainer(model=model, args=arguments, train_dataset=Rows()).train()
        print("reached the end")
"""


def write(drydock, source: str) -> None:
    (drydock.work / "program.py").write_text(textwrap.dedent(source))


def command(*arguments: str) -> list[str]:
    return ["--", sys.executable, "program.py", *arguments]


def plan(drydock, source: str, *arguments: str, fit=("batch", "1..128"), options=(), env=None):
    write(drydock, source)
    return drydock("plan", "--fit", *fit, *options, *command(*arguments), env=env, timeout=600)


def test_the_largest_value_is_found_with_its_margin_and_the_next_one_that_fails(drydock):
    made = plan(drydock, EVEN, "{batch}", options=["--json"])
    assert made.returncode == 0, made.stderr
    assert made.stderr == "", "quiet in a pipe"
    told = json.loads(made.stdout)
    room = told["capacity_bytes"] - told["margin_bytes"] - told["best"] * GIB
    assert 2 * GIB <= room < 3 * GIB, "what is left is the constant part and the device's own use"
    assert told["margin_bytes"] < GIB
    assert told["too_large"] == told["best"] + 1
    assert told["is_complete"]
    assert told["is_monotone"]
    outcomes = {probe["value"]: probe for probe in told["probes"]}
    assert list(outcomes) == sorted(outcomes), "in order of their values"
    assert outcomes[told["too_large"]]["class"] == "capacity"
    assert outcomes[128]["fits"] is False, "larger values were looked at, too"
    assert 0 <= outcomes[told["best"]]["peak_reserved_bytes"] - (told["best"] + 2) * GIB < 16 << 20
    assert told["command"][-1] == str(told["best"])
    for probe in told["probes"]:
        assert (drydock.work / probe["run"] / "run.json").exists()


@pytest.mark.parametrize(
    ("arguments", "source", "shown"),
    [
        (["--batch", "4"], MALLOC + "    take(int(sys.argv[2]))\n", "program.py --batch 60"),
        (["batch=4"], MALLOC + "    take(int(sys.argv[1][6:]))\n", "program.py batch=60"),
        (["{}"], MALLOC + "    take(int(sys.argv[1]))\n", "program.py 60"),
        ([], MALLOC + "    take(int(os.environ['batch']))\n", "run: batch=60 "),
    ],
)
def test_where_the_value_goes(drydock, arguments, source, shown):
    made = plan(drydock, source, *arguments, fit=("batch", "59..61"))
    assert made.returncode == 0, made.stdout + made.stderr
    assert "batch: 60 is the largest that survives 5 steps" in made.stdout
    assert "61 does not: out of memory (oversize)" in made.stdout
    assert "No optimizer step was seen" in made.stdout
    assert shown in made.stdout


def test_a_larger_value_that_fits_is_told(drydock):
    odd = MALLOC + "    n = int(sys.argv[1])\n    take(100 if 6 <= n < 100 else n % 100)\n"
    made = plan(drydock, odd, "{batch}")
    assert made.returncode == 0, made.stderr
    assert "NOT MONOTONE: 128 survives and 6, which is less, does not" in made.stdout
    assert "128 is the largest known" in made.stdout


def test_a_value_that_changes_nothing_is_told(drydock):
    made = plan(drydock, MALLOC + "    take(3)\n", options=["--json"])
    assert made.returncode == 2
    assert "batch changes nothing" in made.stderr
    assert "environment variable batch" in made.stderr
    told = json.loads(made.stdout)
    assert [probe["value"] for probe in told["probes"]] == [1, 2, 128], "it does not go on"
    assert told["is_complete"] is False
    made = plan(drydock, MALLOC + "    take(300)\n", fit=("batch", "1..4"))
    assert made.returncode == 2, "nothing fits, whatever the value is"
    assert "batch changes nothing" in made.stderr


def test_values_that_are_the_same_to_the_program_are_told(drydock):
    made = plan(drydock, MALLOC + "    take((int(sys.argv[1]) + 7) // 8 * 8)\n", "{batch}", fit=("batch", "1..56"))
    assert made.returncode == 0, made.stderr
    assert "1 and 2 are the same to the program" in made.stdout
    assert "56 is the largest that survives" in made.stdout
    assert "the end of the range" in made.stdout


def test_a_failure_for_other_reasons_is_no_lack_of_memory(drydock):
    picky = EVEN + "    if int(sys.argv[1]) > 3: sys.exit('batch must be small')\n"
    made = plan(drydock, picky, "{batch}")
    assert made.returncode == 2
    assert "not for want of memory: exit code 1: batch must be small (see " in made.stderr
    assert "batch: at least 2 survives 5 steps" in made.stdout, "what is known is kept"
    assert "does not: failed" not in made.stdout
    assert "not even" not in made.stdout


@pytest.mark.parametrize(
    ("program", "said"),
    [(["no-such-command"], "There is no command"), (["false"], "exit code 1"), (["sh", "-c", "kill -9 $$"], "SIGKILL")],
)
def test_a_command_that_can_not_run_is_told(drydock, program, said):
    made = drydock("plan", "--fit", "batch", "1..4", "--out", "p1", "--", *program)
    assert made.returncode == 2
    assert said in made.stderr
    assert "not for want of memory" in made.stderr


def test_where_nothing_fits(drydock):
    made = plan(drydock, MALLOC + "    take(70 + int(sys.argv[1]))\n", "{batch}")
    assert made.returncode == 1
    assert "batch: not even 1 fits" in made.stdout


def test_an_interrupt_keeps_what_is_known(drydock):
    write(drydock, EVEN + "    n = int(sys.argv[1])\n    if n > 2: print('waiting', flush=True); time.sleep(100)\n")
    exit_code, output, errors = drydock.interrupt(
        *["plan", "--fit", "batch", "1..128", "--out", "p1", *command("{batch}")],
        when=lambda: any("waiting" in log.read_text() for log in (drydock.work / "p1").glob("*.log")),
    )
    assert exit_code == 130, output + errors
    assert "batch: at least 2 survives 5 steps; interrupted" in output
    assert "survives" in output
    assert errors == ""


def test_a_terminal_sees_a_bar(drydock):
    write(drydock, EVEN)
    ours, theirs = pty.openpty()
    made = subprocess.run(
        [drydock.binary, "plan", "--fit", "batch", "1..4", "--out", "p1", *command("{batch}")],
        cwd=drydock.work,
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
        timeout=60,
    )
    os.close(theirs)
    seen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert made.returncode == 0, made.stdout
    assert "batch=1 [" in seen
    assert "runs to go" in seen
    assert "=" * 3 in seen
    assert seen.endswith("\r\x1b[K"), "and nothing is left of it"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fit", "batch", "1..4"], "needs a command"),
        (["--fit", "batch", "4..1", "--", "true"], "no range"),
        (["--fit", "batch", "0..4", "--", "true"], "no range"),
        (["--fit", "batch", "all", "--", "true"], "no range"),
        (["--fit", "batch", "--", "true"], "--fit"),
        (["--", "true"], "--fit is required"),
        (["--fit", "a b", "1..4", "--", "true"], "has no place"),
        (["--fit", "batch", "1..4", "--steps", "x", "--", "true"], '"x" is no whole number from 0 on'),
        (["--fit", "batch", "1..4", "--record", "null", "--", "true"], "keeps no trace"),
        (["--fit", "batch", "1..4", "--profile", "nothing", "--", "true"], "--profile"),
    ],
)
def test_bad_plans_are_refused_with_a_sentence(drydock, arguments, said):
    made = drydock("plan", *arguments)
    assert made.returncode == 2
    assert said in made.stderr
    assert made.stdout == ""
    assert len(made.stderr) < 600
    assert not list(drydock.work.iterdir()), "nothing was made"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--program"], "needs a command"),
        (["--program", "r1", "--", "true"], "excludes"),
        (["--vary", "a=1", "--", "true"], "--program"),
        (["--program", "--vary", "a", "--", "true"], "is not NAME=VALUE1,VALUE2"),
        (["--program", "--vary", "a=1,1", "--", "true"], "twice"),
        (["--program", "--vary", "a=1", "--vary", "a=2", "--", "true"], "twice"),
        (["--program", "--vary", "PYTORCH_NPU_ALLOC_CONF=x", "--", "true"], "tune itself varies"),
        (["--program", "--vary", "a=1,2,3,4,5,6,7,8,9", "--vary", "b=1,2,3,4,5,6,7,8", "--", "true"], "more than 64"),
        (["--program", "--vary", "a b=1", "--", "true"], "has no place"),
        (["r1", "--rows", "x"], '"x" is no whole number from 0 on'),
        (["r1", "--", "true"], "tune --program take a command"),
    ],
)
def test_bad_variations_are_refused_with_a_sentence(drydock, arguments, said):
    made = drydock("tune", *arguments)
    assert made.returncode == 2
    assert said in made.stderr
    assert made.stdout == ""
    assert len(made.stderr) < 600
    assert not list(drydock.work.iterdir()), "nothing was made"


def test_a_program_that_fails_in_every_variation(drydock):
    write(drydock, "import sys\nsys.exit('no such file: ' + sys.argv[1])\n")
    made = drydock("tune", "--program", "--vary", "name=a,b", "--out", "t1", *command("{name}"))
    assert made.returncode == 2
    assert "failed: exit code 1: no such file: a" in made.stdout
    assert "failed: exit code 1: no such file: b" in made.stdout
    assert "no variation" in made.stderr


def test_an_interrupt_keeps_the_variations_that_are_known(drydock):
    write(
        drydock,
        "import sys, time\nif sys.argv[1] == 'a': sys.exit('no a')\nprint('waiting', flush=True)\ntime.sleep(100)",
    )
    exit_code, output, errors = drydock.interrupt(
        *["tune", "--program", "--vary", "name=a,b,c", "--out", "t1", *command("{name}")],
        when=lambda: any("waiting" in log.read_text() for log in (drydock.work / "t1").glob("*.log")),
    )
    assert exit_code == 130, output + errors
    assert "failed: exit code 1: no a" in output
    assert "1 of 3 variations run" in output
    assert "Interrupted" in output


@pytest.mark.slow
@needs_client
def test_a_plain_loop_is_ended_after_its_steps(drydock):
    made = plan(drydock, LOOP, "--batch", "1", options=["--steps", "2", "--json"], fit=("batch", "1..8"))
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    # Inputs and outputs of 4 GiB for each unit: 56 GiB of 60.9.
    assert told["best"] == 7
    assert told["too_large"] == 8
    by_value = {probe["value"]: probe for probe in told["probes"]}
    assert by_value[told["best"]]["steps"] == 2, "of 1000"
    assert 0 <= told["margin_bytes"] < 12 * GIB
    assert by_value[told["best"]]["margin_bytes"] == told["margin_bytes"]


@pytest.mark.slow
@needs_client
def test_variations_of_a_trainer(drydock):
    write(drydock, TRAINER)
    arguments = ["--output_dir", "o", "--max_steps", "2", "--report_to", "none", "--save_strategy", "no"]
    made = drydock(
        *["tune", "--program", "--vary", "per_device_train_batch_size=4,8", "--vary", "nothing=1", "--rows", "2"],
        *["--no-confirm", "--out", "t1", "--json"],
        *command(*arguments, "--per_device_train_batch_size", "1"),
        timeout=600,
    )
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr
    told = json.loads(made.stdout)
    small, large = told["variations"]
    assert told["winner"] == 1, "the last listed that fits"
    assert small["settings"]
    assert small["is_exhaustive"]
    assert small["settings"][0]["peak_reserved_bytes"] < large["settings"][0]["peak_reserved_bytes"]
    assert large["command"][-2:] == ["--per_device_train_batch_size", "8"]
    assert large["environment"] == {"nothing": "1"}
    # The model's figure for the setting that it ran with is what the real allocator came to.
    default = next(row for row in large["settings"] if row["setting"] == "")
    measured = drydock.ledger(large["run"])["memory"]["peak_reserved_bytes"]
    assert default["peak_reserved_bytes"] == measured
