"""pytest --drydock: the session runs on a virtual NPU and ends with the verdict; fixture `drydock_run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class DrydockRun:
    """The run that the session is recorded in."""

    run_dir: Path

    def step(self) -> None:
        """Marks the end of a step (see drydock.step)."""
        import drydock

        drydock.step()

    def verdict(self) -> dict[str, Any]:
        """The ledger so far, as `drydock ledger --json` prints it."""
        from drydock import _session

        return _session.verdict(self.run_dir)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("drydock", "a virtual Ascend NPU")
    group.addoption("--drydock", action="store_true", help="run the session on a virtual NPU and print its verdict")
    group.addoption("--drydock-out", metavar="DIR", help="run folder of the session: new or empty (implies --drydock)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before any conftest can import torch.
    options = early_config.known_args_namespace
    if not (options.drydock or options.drydock_out):
        return
    from drydock import _recorder, _session

    if _recorder.run_dir() is not None:
        return
    try:
        _session.start(options.drydock_out, report_at_exit=False)
    except RuntimeError as error:
        raise pytest.UsageError(f"drydock: {error}") from error


@pytest.fixture(scope="session")
def drydock_run() -> DrydockRun:
    from drydock import _recorder

    run = _recorder.run_dir()
    if run is None:
        pytest.fail("the fixture drydock_run needs pytest --drydock, or drydock run -- pytest", pytrace=False)
    return DrydockRun(run)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not (config.getoption("drydock") or config.getoption("drydock_out")):
        return
    import subprocess

    from drydock import _layout, _recorder

    run = _recorder.run_dir()
    if run is None:
        return
    terminalreporter.section("drydock")
    result = subprocess.run(
        [str(_layout.binary()), "ledger", "--rebuild", str(run)], capture_output=True, text=True, check=False
    )
    terminalreporter.write(result.stdout or result.stderr)
