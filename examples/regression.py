"""Trains a small regression on npu:0 and on the CPU, then asks the device for something that a 910C refuses.

drydock run --values full -- python examples/regression.py
"""

from __future__ import annotations

import torch
import torch_npu  # noqa: F401


def train(device: str) -> float:
    """The loss after 100 steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(device)
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(1)).to(device)
    targets = inputs.sum(1, keepdim=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(100):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


print(f"loss on the CPU {train('cpu'):.5f}, on npu:0 {train('npu'):.5f}")
torch.expm1(torch.ones(2, dtype=torch.float64).npu())
