"""Filters and samples of language models' logits, and the step to the next token."""

from __future__ import annotations

import pytest
import torch
import torch_npu


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_top_k_top_p(dtype):
    logits = torch.randperm(5 * 40).reshape(5, 40).to(dtype) / 20
    p, k = torch.tensor([0.9, 0.5, 1.0, 0.1, 0.7]).to(dtype), torch.tensor([10, 40, 3, 1, 20], dtype=torch.int32)
    got = torch_npu.npu_top_k_top_p(logits.npu(), p.npu(), k.npu())
    ordered, places = logits.sort(dim=-1, stable=True)
    least = ordered.gather(1, 40 - k.long().unsqueeze(1))
    ordered = ordered.masked_fill(ordered < least, -torch.inf)
    drop = ordered.float().softmax(-1).cumsum(-1) <= 1 - p.float().unsqueeze(1)
    drop[:, -1] = False
    ordered = ordered.masked_fill(drop, -torch.inf)
    assert torch.equal(got.cpu(), torch.empty_like(ordered).scatter_(1, places, ordered))


def test_sample():
    logits = torch.randn(3, 50).half()
    k, p = torch.tensor([5, 50, 8], dtype=torch.int32), torch.tensor([1.0, 0.8, 0.6]).half()
    random = torch.rand(3, 50)
    chosen, _ = torch_npu.npu_top_k_top_p_sample(logits.npu(), k.npu(), p.npu(), q=random.npu())[:2]
    for row in range(3):
        values, places = logits[row].float().sort(descending=True, stable=True)
        probs = values[: k[row]].softmax(-1)
        kept = probs.cumsum(-1) - probs < p[row].float() if p[row] < 1 else torch.ones_like(probs, dtype=torch.bool)
        weights = probs[kept] / (random[row, : int(kept.sum())] + 1e-8)
        assert chosen[row].item() == places[: k[row]][kept][weights.argmax()].item()
    greedy, _ = torch_npu.npu_top_k_top_p_sample(logits.npu(), k.npu(), p.npu())[:2]
    assert torch.equal(greedy.cpu(), logits.argmax(-1))


def test_advance_step():
    tokens, positions = torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)
    lengths, slots = torch.tensor([4, 7, 1]), torch.zeros(3, dtype=torch.int64)
    tables, sampled = torch.tensor([[10, 11, 12]] * 3), torch.tensor([[21], [22]])
    on_device = [one.npu() for one in (tokens, positions, lengths, slots)]
    torch_npu.npu_advance_step_flashattn(
        on_device[0], sampled.npu(), on_device[1], on_device[2], on_device[3], tables.npu(), 3, 2, 4
    )
    assert [one.cpu().tolist() for one in on_device] == [
        [21, 22, 0],
        [4, 7, 0],
        [5, 8, 1],
        [11 * 4 + 0, (11 + 3) * 4 + 3, -1],
    ]


def test_advance_step_with_speculation():
    tokens, positions = torch.zeros(4, dtype=torch.int64), torch.tensor([3, 4, 6, 7])
    lengths, slots = torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    tables, sampled = torch.tensor([[10, 11, 12], [20, 21, 22]]), torch.tensor([[5, -1], [6, 7]])
    on_device = [one.npu() for one in (tokens, positions, lengths, slots)]
    torch_npu.npu_advance_step_flashattn(
        on_device[0],
        sampled.npu(),
        on_device[1],
        on_device[2],
        on_device[3],
        tables.npu(),
        2,
        2,
        4,
        spec_token=torch.tensor([[8], [9]]).npu(),
        accepted_num=torch.tensor([0, 1]).npu(),
    )
    assert [one.cpu().tolist() for one in on_device] == [[5, 8, 7, 9], [4, 5, 8, 9], [5, 6, 9, 10], [44, 45, 88, 89]]
