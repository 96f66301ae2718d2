"""`drydock tune` on real programs: the cure is found by search and confirmed by running."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import sys
import textwrap

import pytest

pytest_plugins = ["isolated_command"]

needs_client = pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed")

# 40 times a tensor of 1.2 GiB comes and goes, and one of 700 MiB moves into its segment and stays: 28 GiB live, 48 GiB
# reserved, and 20 GiB wanted in one piece of a device of 61 GiB.
FRAGMENTING = """
    import torch, torch_npu
    kept = []
    for _ in range(40):
        large = torch.empty(1200 << 20, dtype=torch.uint8, device="npu")
        del large
        kept.append(torch.empty(700 << 20, dtype=torch.uint8, device="npu"))
    last = torch.empty(20 << 30, dtype=torch.uint8, device="npu")
    print("reached the end", flush=True)
"""

TOO_LARGE = """
    import torch, torch_npu
    kept = [torch.empty(1 << 30, dtype=torch.uint8, device="npu") for _ in range(80)]
"""


def run_program(drydock, source: str, folder: str):
    (drydock.work / "program.py").write_text(textwrap.dedent(source))
    return drydock("run", "--values", "ghost", "--out", folder, "--", sys.executable, "program.py", timeout=300)


@pytest.mark.slow
@needs_client
def test_the_cure_is_found_and_confirmed_and_kept_in_the_ledger(drydock):
    died = run_program(drydock, FRAGMENTING, "r1")
    assert died.returncode == 1, died.stderr
    verdict = drydock.ledger("r1")["verdict"]
    assert (verdict["kind"], verdict["class"]) == ("oom", "fragmentation")
    assert any("stranded" in sentence for sentence in verdict["evidence"]), verdict["evidence"]

    tuned = drydock("tune", "r1", timeout=300)
    assert tuned.returncode == 0, tuned.stdout + tuned.stderr
    assert "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n" in tuned.stdout
    assert "confirmed with expandable_segments:True: ran to its end" in tuned.stdout
    assert "the whole grid" in tuned.stdout
    assert tuned.stderr == "", "quiet in a pipe"
    assert "reached the end" in (drydock.work / "r1" / "tune-1.log").read_text()

    with sqlite3.connect(drydock.work / "r1" / "ledger.sqlite") as ledger:
        rows = dict(ledger.execute("SELECT setting, fits FROM tune_results"))
        confirmed = [row for (row,) in ledger.execute("SELECT setting FROM tune_results WHERE confirmed")]
        (predicted,) = ledger.execute("SELECT peak_reserved_bytes FROM tune_results WHERE confirmed").fetchone()
    assert rows[""] == 0
    assert confirmed == ["expandable_segments:True"]
    measured = drydock.ledger("r1/tune-1")["memory"]["peak_reserved_bytes"]
    assert predicted == measured, "the model foretold the real allocator's peak, to the byte"


@pytest.mark.slow
@needs_client
def test_where_nothing_fits_the_bound_is_the_proof(drydock):
    assert run_program(drydock, TOO_LARGE, "r1").returncode == 1
    tuned = drydock("tune", "r1", "--json", timeout=300)
    assert tuned.returncode == 1, tuned.stderr
    told = json.loads(tuned.stdout)
    assert told["found"] is False
    assert told["impossible"] is True
    assert told["needed_bytes"] > told["room_bytes"] > 60 << 30
    assert told["is_exhaustive"] is True
    assert not any(row["fits"] for row in told["settings"])
    assert told["confirmations"] == [], "a setting that can't fit is not run"
    text = drydock("tune", "r1", timeout=300).stdout
    assert "IMPOSSIBLE" in text
    assert "must shrink by" in text
    assert "program.py:3" in text, "who holds it"


@pytest.mark.slow
@needs_client
def test_where_the_run_died_too_early_for_a_proof_a_larger_device_gives_it(drydock):
    # 12 MiB are left for a tensor of 5 MiB, less than any setting's smallest segment. What comes later is not known.
    program = """import torch, torch_npu
first = torch.empty(62340 << 20, dtype=torch.uint8, device="npu")
second = torch.empty(5 << 20, dtype=torch.uint8, device="npu")
third = torch.empty(10 << 30, dtype=torch.uint8, device="npu")
"""
    assert run_program(drydock, program, "r1").returncode == 1
    unconfirmed = json.loads(drydock("tune", "r1", "--json", "--no-confirm", timeout=300).stdout)
    assert unconfirmed["found"] is False
    assert unconfirmed["impossible"] is False, "the run's own trace is no proof"
    assert unconfirmed["needed_run"] is None
    tuned = drydock("tune", "r1", "--json", timeout=300)
    assert tuned.returncode == 1, tuned.stderr
    told = json.loads(tuned.stdout)
    assert told["impossible"] is True
    assert told["needed_bytes"] - unconfirmed["needed_bytes"] == 10 << 30
    assert told["room_bytes"] == unconfirmed["room_bytes"]
    assert told["needed_run"].endswith("r1/tune-need-1")
    text = drydock("tune", "r1", timeout=300).stdout
    assert "ran to its end" in text
    assert "program.py:4" in text, "who holds it at the larger device's peak"


@pytest.mark.slow
@needs_client
def test_an_interrupt_while_the_program_runs_again_keeps_what_is_known(drydock):
    assert run_program(drydock, FRAGMENTING + "    import time; time.sleep(100)\n", "r1").returncode == 1
    log = drydock.work / "r1" / "tune-1.log"
    exit_code, output, errors = drydock.interrupt(
        "tune", "r1", when=lambda: log.exists() and "reached the end" in log.read_text()
    )
    assert exit_code == 1, output + errors
    assert "the whole grid" in output
    assert "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n" in output
    assert "no run has confirmed it" in output
    assert "(confirmed)" not in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no run folder"),
        ([""], "empty"),
        ([], "RUN is required"),
        ([".", "--rows", "-1"], "--rows"),
    ],
)
def test_what_can_not_be_tuned_is_refused_with_a_sentence(drydock, arguments, said):
    result = drydock("tune", *arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_without_blocks_is_refused(drydock):
    assert drydock("run", "--out", "r1", "--", "true").returncode == 0
    result = drydock("tune", "r1")
    assert result.returncode == 2
    assert "r1" in result.stderr
