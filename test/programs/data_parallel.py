"""A GPT of two layers under DDP and FSDP2, beside one process that sees the whole batch. Started by torchrun."""

import os
import sys

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH, HEADS, WORDS, LENGTH, BATCH, STEPS = 32, 2, 64, 16, 8, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (p.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for p in parts)
        scores = q @ k.transpose(-2, -1) / (width // HEADS) ** 0.5
        mask = torch.ones(length, length, device=x.device).tril() == 0
        seen = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(model: nn.Module, tokens: torch.Tensor) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def fresh() -> Gpt:
    torch.manual_seed(7)
    return Gpt().npu()


def main() -> None:
    rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    torch.manual_seed(1)
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH + 1)).npu()
    mine = tokens.chunk(ranks)[rank]

    alone = fresh()
    train(alone, tokens)
    wanted = {name: value.detach().cpu() for name, value in alone.named_parameters()}

    ddp = DistributedDataParallel(fresh(), device_ids=[rank])
    train(ddp, mine)
    trained = {"ddp": {name: value.detach().cpu() for name, value in ddp.module.named_parameters()}}

    sharded = fresh()
    for block in sharded.blocks:
        fully_shard(block)
    fully_shard(sharded)
    train(sharded, mine)
    trained["fsdp2"] = {name: value.full_tensor().detach().cpu() for name, value in sharded.named_parameters()}

    for way, values in trained.items():
        worst = max((values[name] - wanted[name]).abs().max().item() for name in wanted)
        moved = max(
            (wanted[name] - start.detach().cpu()).abs().max().item() for name, start in fresh().named_parameters()
        )
        print(f"{way} rank {rank}: off by {worst:.3g} at most, of changes up to {moved:.3g}", flush=True)
        if not (worst <= 2e-6 < moved):
            sys.exit(f"{way} differs from one process")
    dist.destroy_process_group()
    print(f"equal on rank {rank}", flush=True)


if __name__ == "__main__":
    main()
