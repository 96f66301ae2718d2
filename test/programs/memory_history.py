"""Trains a little, with torch_npu's own record of its allocator beside: what exports are compared with."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import torch
import torch_npu  # noqa: F401

torch.npu.memory._record_memory_history(max_entries=1_000_000)
net = torch.nn.Sequential(torch.nn.Linear(256, 3000), torch.nn.ReLU(), torch.nn.Linear(3000, 256)).npu()
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    rows = torch.randn(500 + 300 * step, 256).npu()
    loss = (net(rows) - rows).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 1:
        try:
            torch.empty(80 << 30, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError:
            print("refused", file=sys.stderr)
Path("torch.pickle").write_bytes(pickle.dumps(torch.npu.memory._snapshot()))
figures = {
    "allocated": torch.npu.memory_allocated(),
    "reserved": torch.npu.memory_reserved(),
    "peak_allocated": torch.npu.max_memory_allocated(),
    "peak_reserved": torch.npu.max_memory_reserved(),
}
loss.item()  # the last thing that is done on the device
print(json.dumps(figures))
