"""`drydock run --check streams`: seeded races are found once each, and streams that are ordered give no alarm."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent.parent / "programs"
CHECK = ("--check", "streams")

slow = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed"),
]


def marked_lines(program: Path) -> dict[str, dict[str, int]]:
    """Return the lines of each case: {"read_after_write": {"first": 23, "second": 24}}."""
    cases: dict[str, dict[str, int]] = {}
    for number, text in enumerate(program.read_text(encoding="utf-8").splitlines(), 1):
        if mark := re.search(r"# (\w+): (first|second|freed)$", text):
            cases.setdefault(mark[1], {})[mark[2]] = number
    return cases


def line_number(place: str) -> int:
    """Return 23 of "stream_races.py:23"."""
    return int(place.rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def run_once(drydock_command: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict]:
    """Run a program under drydock; the answer has its exit code, its output and the run's ledger."""

    def run(program: Path, *options: str, arguments: tuple[str, ...] = ()) -> dict:
        folder = tmp_path_factory.mktemp("check")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("DRYDOCK_", "PYTORCH_NPU"))}
        command = [drydock_command, "run", "--out", str(folder / "run"), *options, "--"]
        done = subprocess.run(
            [*command, sys.executable, str(program), *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=folder,
            env=clean,
        )
        shown = subprocess.run(
            [drydock_command, "ledger", str(folder / "run"), "--json"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return {
            "exit_code": done.returncode,
            "stdout": done.stdout,
            "stderr": done.stderr,
            "ledger": json.loads(shown.stdout),
        }

    return run


@pytest.fixture(scope="module")
def found(run_once: Callable[..., dict]) -> dict:
    """Return the run of all cases."""
    return run_once(PROGRAMS / "stream_races.py", *CHECK, "--check-exit-code", "9")


class TestSeededRaces:
    """One run of all cases: to import torch_npu takes longer than they do."""

    pytestmark = slow

    def test_each_is_found_once_with_both_lines(self, found: dict) -> None:
        cases = marked_lines(PROGRAMS / "stream_races.py")
        assert len(cases) == 13
        expected = sorted((case["first"], case["second"], case.get("freed", 0)) for case in cases.values())
        races = found["ledger"]["races"]
        lines = sorted(
            (
                line_number(race["first"]["line"]),
                line_number(race["second"]["line"]),
                line_number(race["freed_line"]) if race["freed_line"] else 0,
            )
            for race in races
        )
        assert lines == expected

    def test_a_report_names_operators_tensors_and_the_missing_wait(self, found: dict) -> None:
        cases = marked_lines(PROGRAMS / "stream_races.py")
        by_line = {line_number(race["second"]["line"]): race for race in found["ledger"]["races"]}
        plain = by_line[cases["read_after_write"]["second"]]
        assert plain["kind"] == "order"
        assert plain["first"]["what"] == "aclnnInplaceAdds"
        assert plain["first"]["writes"]
        assert plain["second"]["tensor"] == "self fp32[1024,1024]"
        assert not plain["second"]["writes"]
        assert plain["bytes"] == 4 << 20
        assert "wait_stream" in plain["cure"]
        reuse = by_line[cases["missing_record_stream"]["second"]]
        assert reuse["kind"] == "reuse"
        assert "record_stream" in reuse["cure"]
        host = by_line[cases["host_copy_without_wait"]["second"]]
        assert host["second"]["stream"] is None
        assert "synchronize()" in host["cure"]
        assert by_line[cases["pinned_copy_without_wait"]["second"]]["memory"] == "host"

    def test_the_exit_code_is_the_one_that_was_asked_for(self, found: dict) -> None:
        assert found["exit_code"] == 9
        assert "RACES" in found["stderr"]


class TestOrderedStreams:
    pytestmark = slow

    def test_no_alarm_where_streams_wait_as_they_should(self, run_once: Callable[..., dict]) -> None:
        found = run_once(PROGRAMS / "ordered_streams.py", *CHECK, "--check-exit-code", "9")
        assert found["exit_code"] == 0, found["stderr"]
        assert "all parts ran" in found["stdout"]
        assert found["ledger"]["races"] == []
        assert "streams   checked" in found["stderr"]

    def test_no_alarm_in_the_demo(self, run_once: Callable[..., dict]) -> None:
        demo = Path(__file__).parents[2] / "examples" / "dpo_7b.py"
        found = run_once(demo, *CHECK, "--values", "ghost", arguments=("--steps", "1"))
        assert found["exit_code"] == 0, found["stderr"]
        assert found["ledger"]["races"] == []
        assert found["ledger"]["operators"]["calls"] > 1000


def refused(command: str, *options: str) -> str:
    done = subprocess.run(
        [command, "run", *options, "--", "true"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    return done.stderr


def test_senseless_checks_are_refused_with_a_sentence(drydock_command: str) -> None:
    said = refused(drydock_command, "--check", "nonsense")
    assert said == 'drydock: --check "nonsense" makes no sense: it is one of none, streams.\n'
    assert "--record null keeps none" in refused(drydock_command, "--check", "streams", "--record", "null")
    assert "needs --check streams" in refused(drydock_command, "--check-exit-code", "1")
    assert "--check-exit-code" in refused(drydock_command, "--check", "streams", "--check-exit-code", "1000")
