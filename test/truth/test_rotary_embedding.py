"""Row L1 of the measured numbers: peak memory of a rotary embedding on a real Ascend910B4, equal to the last byte.

Source: a public benchmark table of March 2026 (Liger-Kernel pull request 1143, provider huggingface, bf16).
"""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("rotary_embedding.py")


@pytest.mark.parametrize(
    ("hidden_size", "measured_mib"),
    [(512, 17.6474609375), (2048, 70.5224609375), (8192, 282.0234375)],
    ids=["head size 16", "head size 64", "head size 256"],
)
def test_peak_is_the_measured_one(drydock_command: str, tmp_path: Path, hidden_size: int, measured_mib: float) -> None:
    options = ["--profile", "ascend910b4", "--out", str(tmp_path / "run")]
    run = subprocess.run(
        [drydock_command, "run", *options, "--", sys.executable, str(PROGRAM), str(hidden_size)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout.strip().splitlines()[-1]) == measured_mib
