"""The main job at its real size: a TRL DPO fine-tune of a 7B model dies of fragmentation and is cured by the advice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "dpo_7b.py"


@pytest.mark.slow
def test_the_demo_dies_of_fragmentation_and_the_advice_cures_it(run_program: Callable) -> None:
    died = run_program(DEMO, "--steps", "40", HF_HUB_OFFLINE="1")
    verdict = died.ledger()["verdict"]
    assert died.exit_code == 1
    assert (verdict["kind"], verdict["class"]) == ("oom", "fragmentation")
    assert verdict["step"] >= 10
    assert verdict["reserved_bytes"] - verdict["allocated_bytes"] >= verdict["requested_bytes"]
    assert Path(verdict["line"]).name.startswith("dpo_7b.py:")
    settings = [advice["env"] for advice in verdict["advice"] if advice.get("env")]
    assert settings[0] == {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}

    cured = run_program(DEMO, "--steps", "40", HF_HUB_OFFLINE="1", **settings[0])
    ledger = cured.ledger()
    assert cured.exit_code == 0, cured.stderr
    assert "40 steps done" in cured.stdout
    assert ledger["verdict"]["kind"] == "ran"
    assert ledger["run"]["steps"] == 40
    assert ledger["operators"]["distinct"] > 1000
    assert ledger["operators"]["host_fallback"] == []


def test_a_small_run_from_a_file_of_pairs(run_program: Callable, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(
        "".join(f'{{"prompt": "w{n} w5 ", "chosen": "w6 w7 w8", "rejected": "w9"}}\n' for n in range(10, 18))
    )
    run = run_program(DEMO, "--layers", "1", "--steps", "2", "--pairs", str(pairs))
    assert run.exit_code == 0, run.stderr
    assert run.ledger()["run"]["steps"] == 2
