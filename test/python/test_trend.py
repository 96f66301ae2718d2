"""Growth and saw-teeth of real programs: found from their own events, with the line and the step."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import pytest

pytest_plugins = ["isolated_command"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed"),
]

# One program, so that torch_npu is loaded once for each case alone.
PROGRAM = """
    import gc, sys
    import torch, torch_npu
    mode = sys.argv[1]
    model = torch.nn.Linear(1024, 1024).npu()
    optimizer = torch.optim.SGD(model.parameters())
    kept = []
    class Node: pass
    gc.disable()
    for step in range(40):
        rows = 4096 * (step + 1) if mode == "longer" else 4096
        output = model(torch.ones(rows, 1024).npu())
        output.mean().backward(); optimizer.step(); optimizer.zero_grad()
        if mode == "leak":
            kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="npu"))
        if mode == "cycle":
            node = Node(); node.itself = node; node.tensor = torch.empty(1 << 30, dtype=torch.uint8, device="npu")
            if step % 8 == 7: del node; gc.collect()
"""


def trend_of(drydock, mode: str) -> dict:
    (drydock.work / "program.py").write_text(textwrap.dedent(PROGRAM))
    result = drydock("run", "--values", "ghost", "--out", mode, "--", sys.executable, "program.py", mode, timeout=300)
    assert result.returncode == 0, result.stderr
    trend = drydock.ledger(mode)["verdict"]["trend"]
    trend["page"] = " ".join(result.stderr.split())
    return trend


def test_a_leak_is_named_with_its_line_and_the_step_that_will_not_fit(drydock):
    trend = trend_of(drydock, "leak")
    assert trend["growth"] == "leak"
    assert trend["growing_line"] == "program.py:15"
    assert trend["bytes_per_step"] == pytest.approx(1 << 30, rel=0.01)
    # 61.27 GiB in all, and the program's own part is small.
    assert 59 <= trend["full_at_step"] <= 62
    assert f"step {trend['full_at_step']} will be the first that does not fit" in trend["page"]


def test_longer_inputs_are_no_leak(drydock):
    trend = trend_of(drydock, "longer")
    assert trend["growth"] == "longer inputs"
    assert trend["tooth"] is None


def test_reference_cycles_make_a_saw_tooth_of_the_collector(drydock):
    trend = trend_of(drydock, "cycle")
    assert trend["growth"] is None
    assert trend["tooth"] == "garbage collection"
    assert trend["period_steps"] == 8
    assert trend["tooth_line"] == "program.py:17"
    assert "garbage collector" in trend["page"]
