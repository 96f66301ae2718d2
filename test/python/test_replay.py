"""The allocator's model against the real one: random programs through torch_npu. `tools/replay_programs` has more."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["isolated_command"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed"),
]

TOOL = Path(__file__).resolve().parents[2] / "tools" / "replay_programs"
SETTINGS = (
    "roundup_power2_divisions:[1:8,64:4,256:2,>:1]",
    "expandable_segments:True",
    "max_split_size_mb:64,garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
    "multi_stream_lazy_reclaim:True",
)


def test_two_hundred_random_programs_get_the_same_addresses(drydock_command, clean_environment):
    options = [part for settings in SETTINGS for part in ("--settings", settings)]
    environment = dict(os.environ, PATH=f"{Path(drydock_command).parent}{os.pathsep}{os.environ['PATH']}")
    result = subprocess.run(
        [sys.executable, TOOL, "--programs", "200", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == len(SETTINGS)
    for line in lines:
        blocks = re.search(r"50 programs, ([\d,]+) blocks", line)
        assert blocks is not None, line
        assert int(blocks[1].replace(",", "")) > 1000, line


@pytest.mark.parametrize("settings", ["max_split_size_mb:20", "expandable_segments:True"])
def test_pools_that_are_let_go_give_back_the_same(settings, drydock_command, clean_environment, tmp_path):
    program = TOOL.parents[1] / "test" / "programs" / "private_pools.py"
    environment = dict(os.environ, PYTORCH_NPU_ALLOC_CONF=settings)
    options = ["--values", "ghost", "--out", str(tmp_path / "run")]
    command = [drydock_command, "run", *options, "--", sys.executable, program]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "pools done" in ran.stdout, ran.stderr
    replayed = subprocess.run(
        [drydock_command, "replay", str(tmp_path / "run"), "--json"], capture_output=True, text=True, check=False
    )
    (device,) = json.loads(replayed.stdout)["devices"]
    assert device["is_equal"], device["difference"]
    assert device["blocks_equal"] > 30
    assert device["segment_calls_equal"] > 40
