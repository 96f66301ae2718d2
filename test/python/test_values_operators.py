"""Values on the virtual NPU against the CPU: torch_npu's own operators on small known tensors (values_cases.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from drydock._layout import binary

PROGRAM = Path(__file__).with_name("values_cases.py")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict]:
    """What differs in each case, and the run's ledger."""
    folder = tmp_path_factory.mktemp("values") / "run"
    command = [binary(), "run", "--out", folder, "--", sys.executable, PROGRAM]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    ledger = subprocess.run(
        [binary(), "ledger", folder, "--json"], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(result.stdout), json.loads(ledger.stdout)


def test_values_equal_those_of_the_cpu(run):
    differences, _ = run
    assert len(differences) > 250
    wrong = {name: difference for name, difference in differences.items() if difference}
    assert not wrong, "\n".join(f"{name}: {difference}" for name, difference in wrong.items())


def test_every_value_was_computed_by_a_kernel(run):
    # Right values prove nothing about the kernels if the host computed them, or if they were never read.
    _, ledger = run
    operators = ledger["operators"]
    assert operators["distinct"] >= 150
    assert operators["ghost"] == 0
    assert operators["host_fallback"] == []
    assert operators["refused"] == []
    assert ledger["assumptions"] == []
