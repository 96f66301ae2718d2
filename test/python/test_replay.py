"""The allocator's model against the real one: random programs through torch_npu. `tools/replay_programs` has more."""

from __future__ import annotations

import importlib.util
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
