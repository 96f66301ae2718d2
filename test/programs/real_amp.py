"""Mixed precision with a GradScaler that meets overflows and skips those steps, as JSON for both devices."""

import copy
import json

import torch
from torch import nn

STEPS = 24

torch.manual_seed(0)
start = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
inputs, wanted = torch.randn(STEPS, 8, 16), torch.randn(STEPS, 8, 4)
for step in (5, 15):
    inputs[step] *= 10000  # gradients far beyond what fp16 holds at any of the scales


def train(device: str) -> dict[str, list]:
    model = copy.deepcopy(start).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**13, growth_interval=8)
    losses, scales, skipped = [], [], []
    for step in range(STEPS):
        before = [parameter.detach().clone() for parameter in model.parameters()]
        with torch.autocast(device, dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs[step].to(device)).float(), wanted[step].to(device))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        skipped.append(all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)))
        scales.append(scaler.get_scale())
        losses.append(loss.item())
    return {"losses": losses, "scales": scales, "skipped": skipped}


print(json.dumps({device: train(device) for device in ("cpu", "npu")}))
