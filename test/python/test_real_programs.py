"""Programs with real libraries under `--values full`: their numbers are those of the same program on the CPU."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parents[1] / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples"


class Outcome(NamedTuple):
    """What a program printed last, and the operators that it called."""

    printed: str
    operators: set[str]


@pytest.fixture
def compute(run_program: Callable) -> Callable[..., Outcome]:
    """Run a program to its end with everything computed."""

    def run_fully(name: str, *arguments: str) -> Outcome:
        run = run_program(PROGRAMS / f"{name}.py", *arguments, options=("--values", "full"), timeout_s=600)
        assert run.exit_code == 0, run.stderr
        operators = run.ledger()["operators"]
        assert operators["computed"] == operators["calls"] > 0
        with sqlite3.connect(run.folder / "ledger.sqlite") as ledger:
            names = {name for (name,) in ledger.execute("SELECT name FROM operators")}
        return Outcome(run.stdout.strip().splitlines()[-1], names)

    return run_fully


def assert_close(npu: list[float], cpu: list[float], share: float = 0, difference: float = 0) -> None:
    assert len(npu) == len(cpu) > 0
    for index, (found, expected) in enumerate(zip(npu, cpu, strict=True)):
        allowed = max(difference, share * abs(expected))
        assert math.isfinite(found) and abs(found - expected) <= allowed, f"{index}: NPU {found}, CPU {expected}"


@pytest.mark.parametrize(("dtype", "share"), [("fp32", 0.01), ("bf16", 0.05)])
def test_a_gpt_learns_text(compute: Callable[..., Outcome], dtype: str, share: float) -> None:
    losses = json.loads(compute("real_gpt", dtype).printed)
    assert len(losses["cpu"]) == 200
    assert losses["cpu"][-1] < losses["cpu"][0] / 3
    assert_close(losses["npu"], losses["cpu"], share)


def test_resnet_and_vit_are_trained(compute: Callable[..., Outcome]) -> None:
    outcome = compute("real_vision")
    results = json.loads(outcome.printed)
    assert {"aclnnConvolution", "aclnnConvolutionBackward", "aclnnBatchNorm"} <= outcome.operators
    resnet = results["resnet"]["cpu"]["losses"]
    assert resnet[-1] < resnet[0] / 2  # the ViT needs more steps than that to learn
    for model in ("resnet", "vit"):
        cpu, npu = results[model]["cpu"], results[model]["npu"]
        assert len(cpu["losses"]) == 50
        assert_close(npu["losses"], cpu["losses"], share=0.01)
        assert_close(npu["scores"], cpu["scores"], difference=0.02 * max(map(abs, cpu["scores"])))


def test_greedy_tokens_by_every_way_of_attention(compute: Callable[..., Outcome]) -> None:
    outcome = compute("real_generation")
    results = json.loads(outcome.printed)
    assert {"aclnnFlashAttentionScore", "aclnnSoftmax"} <= outcome.operators  # fused, and eager
    cpu = results.pop("cpu")
    assert len(cpu["tokens"]) == 3 and len(set(cpu["tokens"][0])) > 10
    assert list(results) == ["npu eager", "npu sdpa", "npu npu_fused", "npu sdpa without cache"]
    for way, npu in results.items():
        assert npu["tokens"] == cpu["tokens"], way
        assert_close(npu["scores"], cpu["scores"], difference=1e-4)


def test_dpo_has_the_same_rewards(compute: Callable[..., Outcome]) -> None:
    logged = json.loads(compute("real_dpo").printed)
    assert len(logged["cpu"]) == 8
    for npu, cpu in zip(logged["npu"], logged["cpu"], strict=True):
        for name, expected in cpu.items():
            assert float(npu[name]) == pytest.approx(float(expected), rel=1e-4, abs=1e-5), name
    assert any(abs(float(entry["rewards/margins"])) > 1e-3 for entry in logged["cpu"])


def test_a_grad_scaler_skips_the_steps_that_overflow(compute: Callable[..., Outcome]) -> None:
    results = json.loads(compute("real_amp").printed)
    for device in ("cpu", "npu"):
        skipped = [step for step, was_skipped in enumerate(results[device]["skipped"]) if was_skipped]
        assert skipped == [5, 15], device
    scales = results["cpu"]["scales"]
    assert results["npu"]["scales"] == scales
    assert scales[5] == scales[4] / 2 and scales[13] == scales[5] * 2
    assert_close(results["npu"]["losses"], results["cpu"]["losses"], share=0.005)


def test_checkpoints_go_from_device_to_device(compute: Callable[..., Outcome], tmp_path: Path) -> None:
    assert compute("real_checkpoints", str(tmp_path)).printed == "done"


def test_the_example_learns_as_on_the_cpu_and_is_refused_as_on_the_device(run_program: Callable) -> None:
    run = run_program(EXAMPLES / "regression.py", options=("--values", "full"))
    assert run.exit_code == 1
    losses = [float(word.rstrip(",")) for word in run.stdout.split() if word[0].isdigit()]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3) and losses[0] < 0.1
    assert "161002" in run.stderr
    assert "aclnnExpm1: argument self is fp64" in run.stderr
    assert "regression.py:28" in run.stderr
