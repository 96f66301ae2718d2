"""torch.distributed over hccl among real ranks: processes of this machine that torchrun starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"

pytest_plugins = ["isolated_command"]


def torchrun(ranks: int, values: str, *program: object) -> list[object]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
    return ["run", "--values", values, "--devices", ranks, "--", *launcher, *program]


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_collective_gives_exact_values(drydock, ranks: int) -> None:
    run = drydock(*torchrun(ranks, "full", PROGRAMS / "collectives.py"), timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("right on rank") == ranks


def test_ddp_and_fsdp2_equal_one_process(drydock) -> None:
    run = drydock(*torchrun(2, "full", PROGRAMS / "data_parallel.py"), timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("equal on rank") == 2
