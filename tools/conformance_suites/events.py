"""A pytest plugin: writes down each test as it begins and as it ends, and leaves out those that are done."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance_suites import refusals
from conformance_suites.outcomes import FAIL, PASS, REFUSED, SKIPPED

_began = [0.0]
_outcome: list[tuple[str, str]] = []


def _tell(event: dict[str, Any]) -> None:
    with Path(os.environ["CONFORMANCE_EVENTS"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def _name(item: pytest.Item) -> str:
    """The test within its file. Blanks separate tests in a list."""
    return item.nodeid.partition("::")[2].replace(" ", "_")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    done = set(json.loads(os.environ["CONFORMANCE_DONE"]))
    items[:] = [item for item in items if _name(item) not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _began[0] = time.process_time()
    _outcome.clear()
    _tell({"at": _name(item)})
    result = yield
    outcome, reason = _outcome[-1] if _outcome else (FAIL, "pytest reported nothing")
    from drydock import _recorder

    _recorder.step_ended()
    seconds = round(time.process_time() - _began[0], 3)
    _tell({"done": _name(item), "outcome": outcome, "reason": reason, "seconds": seconds})
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        error = call.excinfo.value if call.excinfo else None
        outcome, reason = _judged(error)
        _outcome.append((outcome, reason))
    elif report.skipped:
        _outcome.append((SKIPPED, ""))
    elif report.when == "call" and not any(outcome != PASS for outcome, _ in _outcome):
        _outcome.append((PASS, ""))
    return report  # type: ignore[return-value]


def _judged(error: BaseException | None) -> tuple[str, str]:
    """A test that fails is a failure, unless an error of the device or its client says that it refuses."""
    if error is None:
        return FAIL, ""
    if isinstance(error, RuntimeError):
        outcome, reason = refusals.judge(error)
        if outcome == REFUSED and "161002" in str(error):
            return outcome, reason
    return FAIL, f"{type(error).__name__}: {refusals.one_line(str(error))}"
