"""A plain PyTorch training loop: an MLP classifier, AdamW, a learning-rate schedule and gradient clipping."""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("npu:0")
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
for step in range(20):
    inputs = torch.randn(32, 64).to(device)
    labels = torch.randint(0, 10, (32,)).to(device)
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 10 == 0:
        value = loss.item()
        if value != value or norm.item() < 0:
            raise SystemExit("the loss is no number or the norm negative")
print("done", torch.npu.max_memory_allocated())
