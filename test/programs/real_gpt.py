"""A 4-layer GPT learns text that this program makes: the losses of every step on the CPU and on the NPU, as JSON."""

import copy
import json
import math
import random
import sys

import torch
from torch import nn
from torch.nn import functional

STEPS = 200
CONTEXT = 32
BATCH = 8
WIDTH = 48
HEADS = 4
LAYERS = 4


def made_text(length: int) -> str:
    """Sentences of a small grammar: something to learn, the same on every machine."""
    chance = random.Random(7)
    names, verbs, things = ["anna", "ben", "carl"], ["sees", "takes", "paints"], ["a boat", "the sea", "two ropes"]
    text = ""
    while len(text) < length:
        text += f"{chance.choice(names)} {chance.choice(verbs)} {chance.choice(things)}. "
    return text[:length]


class Block(nn.Module):
    """Attention and a feed-forward part, each after a layer norm and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        split = self.qkv(self.first_norm(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed_forward(self.second_norm(x))


class Gpt(nn.Module):
    """A decoder over characters."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def train(model: Gpt, data: torch.Tensor, device: str, dtype: torch.dtype) -> list[float]:
    """Return the loss of every step."""
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * step / STEPS))
    )
    chance = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(STEPS):
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=chance).tolist()
        rows = torch.stack([data[start : start + CONTEXT + 1] for start in starts]).to(device)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
            scores = model(rows[:, :-1])
            loss = functional.cross_entropy(scores.flatten(0, 1).float(), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


text = made_text(4000)
letters = sorted(set(text))
data = torch.tensor([letters.index(letter) for letter in text])
torch.manual_seed(0)
model = Gpt(len(letters))
dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
print(json.dumps({device: train(model, data, device, dtype) for device in ("cpu", "npu")}))
