"""What the ledger says blocks are for, against torch's own objects."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import Callable

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed"),
]

PROGRAM = """
import json
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(300, 300) for _ in range(4)])
        self.register_buffer("scale", torch.ones(7))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * self.scale[0]
        return x

net = Net().npu()
net.layers[0].weight.requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad])
for _ in range(3):
    optimizer.zero_grad()
    loss = net(torch.randn(64, 300).npu()).square().mean()
    loss.backward()
    optimizer.step()

def bytes_of(tensors):
    return sum(t.untyped_storage().nbytes() for t in tensors if t is not None and t.device.type == "npu")

states = [value for state in optimizer.state.values() for value in state.values()]
print(json.dumps({
    "parameters": bytes_of(net.parameters()),
    "gradients": bytes_of(p.grad for p in net.parameters()),
    "optimizer state": bytes_of(states),
    "buffers": bytes_of(net.buffers()),
    "allocated": torch.npu.memory_allocated(),
}))
"""


def test_kinds_are_what_torchs_own_objects_say_to_the_byte(run_program: Callable) -> None:
    run = run_program(PROGRAM)
    said = json.loads(run.stdout.splitlines()[-1])
    moments = {moment["moment"]: moment for moment in run.ledger()["account"]}
    end = {row["kind"]: row for row in moments["end"]["blocks"]}
    peak = {row["kind"]: row for row in moments["peak"]["blocks"]}
    told = {kind: end[kind]["requested_bytes"] for kind in said if kind != "allocated"}
    print("torch says", said, "the ledger says", told)
    assert told == {kind: size for kind, size in said.items() if kind != "allocated"}
    allocated = sum(row["bytes"] for row in peak.values())
    assert allocated == run.ledger()["memory"]["peak_allocated_bytes"]
    assert peak["unexplained"]["bytes"] <= allocated * 0.005
    for moment in moments.values():
        total = sum(row["bytes"] for row in moment["blocks"]) + sum(moment["rest"].values())
        assert total == moment["capacity_bytes"]
    assert run.ledger()["problems"] == []


def test_blocks_of_a_backward_pass_belong_to_the_modules_that_made_its_nodes(run_program: Callable) -> None:
    run = run_program(
        """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x

net = Net().npu()
for _ in range(2):
    net(torch.randn(8192, 64).npu()).sum().backward()
"""
    )
    rows = sqlite3.connect(run.folder / "ledger.sqlite").execute(
        "SELECT moment, kind, module, name, bytes FROM account_holders WHERE phase = 'backward'"
    )
    held = list(rows)
    layers = {f"layers.{index}" for index in range(3)}
    assert {module for moment, kind, module, _, _ in held if moment == "end" and kind == "gradients"} == layers
    told = {module for moment, kind, module, _, _ in held if moment == "peak" and kind == "temporaries"}
    assert told & (layers | {"Net"})
    assert told <= layers | {"Net", ""}


def test_holders_can_be_switched_off(run_program: Callable) -> None:
    run = run_program(PROGRAM, options=("--holders", "off"))
    peak = {row["kind"]: row["bytes"] for row in run.ledger()["account"][0]["blocks"]}
    assert peak["unexplained"] > 0
    assert peak["parameters"] == peak["activations"] == peak["temporaries"] == 0
