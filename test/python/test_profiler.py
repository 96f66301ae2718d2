"""torch_npu's own profiler inside a program: it completes, and its own parser makes its tables of what Drydock left."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import json
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

pytest_plugins = ["isolated_command"]

needs_client = pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed")

PROGRAM = """
import sys

import torch
import torch_npu

level = getattr(torch_npu.profiler.ProfilerLevel, sys.argv[1])
config = torch_npu.profiler._ExperimentalConfig(profiler_level=level)
activity = torch_npu.profiler.ProfilerActivity
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).npu()
with torch_npu.profiler.profile(
    activities=[activity.CPU, activity.NPU],
    schedule=torch_npu.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
    on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("result"),
    record_shapes=True,
    experimental_config=config,
) as profiler:
    for _ in range(4):
        x = torch.randn(32, 64).npu()
        model(x).sum().backward()
        torch.npu.synchronize()
        profiler.step()
"""


def profile(drydock, level: str) -> subprocess.CompletedProcess[str]:
    (drydock.work / "program.py").write_text(textwrap.dedent(PROGRAM))
    done = drydock("run", "--out", "r1", "--", sys.executable, "program.py", level, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def table(folder, name: str) -> list[dict[str, str]]:
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


@needs_client
@pytest.mark.parametrize("level", ["Level0", "Level1", "Level2"])
def test_the_wheels_parser_reads_every_level(drydock, level):
    done = profile(drydock, level)
    (result,) = (drydock.work / "result").iterdir()
    logs = "".join(path.read_text() for path in (result / "logs").iterdir())
    assert "[ERROR]" not in done.stdout + done.stderr + logs
    output = result / "ASCEND_PROFILER_OUTPUT"
    kernels = table(output, "kernel_details.csv")
    # Each of the two active steps calls the same operators.
    steps = {step: Counter(row["Name"] for row in kernels if row["Step Id"] == step) for step in ("1", "2")}
    assert steps["1"] == steps["2"]
    assert steps["1"]["aclnnAddmm"] == 2
    assert steps["1"]["aclnnGelu"] == 1
    assert sum(steps["1"].values()) * 2 == len(kernels)
    first = next(row for row in kernels if row["Name"] == "aclnnAddmm")
    assert first["Input Shapes"] == '"64;32,64;64,64"'
    assert first["Input Data Types"] == "FLOAT;FLOAT;FLOAT"
    assert first["Output Shapes"] == '"32,64"'
    starts = [float(row["Start Time(us)"]) for row in kernels]
    assert starts == sorted(starts), "one stream, in order"
    for before, after in itertools.pairwise(kernels):
        assert float(after["Start Time(us)"]) >= float(before["Start Time(us)"]) + float(before["Duration(us)"]) - 0.01
    events = json.loads((output / "trace_view.json").read_text())
    launched = [event for event in events if event.get("cat") == "async_npu" and event["ph"] == "s"]
    copies = [event for event in events if event.get("args", {}).get("Task Type") == "MEMCPY_ASYNC"]
    assert len(launched) == len(kernels) + len(copies), "torch's operator of each is known"
    assert {row["Step"] for row in table(output, "step_trace_time.csv")} == {"1", "2"}
    if level != "Level0":  # where the wheel leaves the table out
        assert sum(int(row["Count"]) for row in table(output, "op_statistic.csv")) == len(kernels)


@pytest.fixture
def session(drydock):
    """A folder as a program's profiler leaves it, of a run that is not there."""
    host = drydock.work / "PROF_000001_1_A" / "host"
    host.mkdir(parents=True)
    parts = [{"start_monotonic_ns": 1, "stop_monotonic_ns": 0}]
    told = {"run": "nowhere", "pid": 1, "wall_ns": 1, "monotonic_ns": 1, "devices": [0], "parts": parts}
    (host / "drydock.json").write_text(json.dumps(told))
    return host / "drydock.json"


def test_msprof_says_what_it_cannot_do(drydock, session):
    missing = drydock("msprof", "--export=on", "--output=PROF_000001_1_A")
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr
    told = json.loads(session.read_text())
    session.write_text(json.dumps({**told, "run": ""}))
    assert "drydock run" in drydock("msprof", "--export=on", "--output=.").stderr
    for damaged in (
        "",
        "{",
        "[]",
        "null",
        '{"run": 3}',
        json.dumps({**told, "parts": [{}]}),
        json.dumps({**told, "pid": "x"}),
    ):
        session.write_text(damaged)
        done = drydock("msprof", "--export=on", "--output=PROF_000001_1_A")
        assert done.returncode == 2, damaged
        assert "is damaged" in done.stderr, damaged
    session.unlink()
    assert "no folder of Drydock's profiler" in drydock("msprof", "--export=on", "--output=PROF_000001_1_A").stderr
    (drydock.work / "empty").mkdir()
    assert "no folder of a profiler" in drydock("msprof", "--export=on", "--output=empty").stderr
    assert drydock("msprof", "--output=empty").returncode == 2
    assert "--output" in drydock("msprof", "--export=on").stderr
    assert drydock("msprof", "--export=maybe", "--output=empty").returncode == 2
