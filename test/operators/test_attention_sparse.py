"""Attention over chosen keys, and linear attention with a state, against plain torch on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from attention_reference import ends


def relative(got: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-2) -> None:
    """Assert that the largest difference is small beside the largest value."""
    difference = (got.cpu().float() - expected.float()).abs().max()
    assert difference <= tolerance * expected.float().abs().max(), difference


def chosen_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, seen: torch.Tensor, scale: float
) -> torch.Tensor:
    """Attention on [queries, heads, width] and [keys, width]; `seen` is [queries, keys]."""
    scores = torch.einsum("qhd,kd->qhk", query.float(), key.float()) * scale
    return scores.masked_fill(~seen[:, None], -torch.inf).softmax(-1) @ value.float()


def seen_keys(indices: torch.Tensor, keys: int, block: int, causal: bool) -> torch.Tensor:
    """Mask [queries, keys] of the blocks that indices [queries, n] name."""
    queries = indices.size(0)
    seen = torch.zeros(queries, keys, dtype=torch.bool)
    for query, row in enumerate(indices.tolist()):
        for number in row:
            if number >= 0:
                seen[query, number * block : (number + 1) * block] = True
    if causal:
        seen &= torch.arange(keys)[None] <= torch.arange(queries)[:, None] + keys - queries
    return seen


@pytest.mark.parametrize("block", [1, 8])
@pytest.mark.parametrize("layout", ["BSND", "TND"])
def test_sparse_flash_attention_and_its_gradient(layout, block):
    lengths, heads, width, rope = [6, 6], 4, 512, 64
    keys = [40, 40]
    dtype = torch.bfloat16
    shapes = [(12, heads, width), (80, 1, width), (12, heads, rope), (80, 1, rope)]
    query, key, query_rope, key_rope = (torch.randn(*shape).to(dtype) for shape in shapes)
    # The first block is seen by all, so that no query sees nothing.
    indices = torch.stack([torch.cat([torch.tensor([0]), 1 + torch.randperm(40 // block - 1)[:3]]) for _ in range(12)])
    indices[3, 2:] = -1
    indices = indices.int()[:, None]
    scale = 0.05
    moved = [tensor.npu() for tensor in (query, key, key, indices, query_rope, key_rope)]
    options: dict[str, Any] = {"layout_query": layout, "layout_kv": layout, "sparse_mode": 3}
    if layout == "TND":
        counts = {"actual_seq_lengths_query": ends(lengths), "actual_seq_lengths_kv": ends(keys)}
        options |= {name: torch.tensor(value, dtype=torch.int32).npu() for name, value in counts.items()}
    else:
        moved = [tensor.unflatten(0, (2, -1)) for tensor in moved]
    got, largest, total = torch_npu.npu_sparse_flash_attention(
        *moved[:4],
        scale,
        sparse_block_size=block,
        query_rope=moved[4],
        key_rope=moved[5],
        attention_mode=2,
        return_softmax_lse=True,
        **options,
    )
    leaves = [tensor.float().requires_grad_() for tensor in (query, key, key.clone(), query_rope, key_rope)]
    whole = torch.cat([leaves[0], leaves[3]], 2), torch.cat([leaves[1], leaves[4]], 2)
    parts = []
    for n in range(2):
        rows, columns = slice(6 * n, 6 * n + 6), slice(40 * n, 40 * n + 40)
        seen = seen_keys(indices[rows, 0], 40, block, True)
        parts.append(chosen_attention(whole[0][rows], whole[1][columns, 0], leaves[2][columns, 0], seen, scale))
    expected = torch.cat(parts)
    relative(got.reshape(12, heads, width), expected)
    seed = torch.randn_like(expected).to(dtype)
    expected.backward(seed.float())
    lengths_of = {"actual_seq_qlen": None, "actual_seq_kvlen": None}
    if layout == "TND":
        names = ("actual_seq_lengths_query", "actual_seq_lengths_kv")
        lengths_of = dict(zip(lengths_of, (options[name] for name in names), strict=True))
    gradients = torch_npu.npu_sparse_flash_attention_grad(
        *moved[:4],
        seed.npu().reshape(got.shape),
        got,
        largest,
        total,
        scale,
        block,
        query_rope=moved[4],
        key_rope=moved[5],
        layout=layout,
        sparse_mode=3,
        **lengths_of,
    )
    for gradient, leaf in zip(gradients, leaves, strict=True):
        relative(gradient.reshape(leaf.shape), leaf.grad, 4e-2)


@pytest.mark.parametrize("paged", [False, True])
def test_lightning_indexer(paged):
    batch, queries, keys, heads, width, count = 2, 5, 48, 8, 128, 10
    query = torch.randn(batch, queries, heads, width).half()
    key = torch.randn(batch, keys, 1, width).half()
    weights = torch.randn(batch, queries, heads).half()
    options: dict[str, Any] = {"sparse_count": count, "sparse_mode": 3}
    given = key
    if paged:
        order = torch.randperm(6)
        given = torch.empty(6, 16, 1, width).half()
        given[order] = key.reshape(6, 16, 1, width)
        options |= {"layout_key": "PA_BSND", "block_table": order.view(2, 3).int().npu()}
        options["actual_seq_lengths_key"] = torch.tensor([keys, keys], dtype=torch.int32).npu()
    got, _ = torch_npu.npu_lightning_indexer(query.npu(), given.npu(), weights.npu(), **options)
    scores = torch.einsum("bqhd,bkd->bqhk", query.float(), key[:, :, 0].float()).relu()
    scores = (scores * weights.float()[..., None]).sum(2)
    visible = torch.arange(keys)[None] <= torch.arange(queries)[:, None] + keys - queries
    expected = scores.masked_fill(~visible, -torch.inf).topk(count).indices
    assert (got.cpu()[:, :, 0].sort(-1).values == expected.sort(-1).values).float().mean() > 0.95
    short, _ = torch_npu.npu_lightning_indexer(
        query.npu(), key[:, :queries].contiguous().npu(), weights.npu(), sparse_count=count, sparse_mode=3
    )
    assert (short.cpu()[:, 0, 0, 1:] == -1).all() and (short.cpu()[:, 0, 0, 0] == 0).all()


def delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    decay: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Run [tokens, heads, width] from a state [heads, value width, key width]: results, and the state after each."""
    group = value.size(1) // key.size(1)
    results, states = [], []
    for t in range(value.size(0)):
        k, q = (rows[t].repeat_interleave(group, 0) for rows in (key, query))
        state = state * decay[t]
        error = value[t] - torch.einsum("hvk,hk->hv", state, k)
        state = state + torch.einsum("hv,hk->hvk", error * beta[t][:, None], k)
        results.append(torch.einsum("hvk,hk->hv", state, q) * scale)
        states.append(state)
    return torch.stack(results), states


def delta_inputs(tokens: int) -> list[torch.Tensor]:
    """Query, key, value, beta."""
    query, key = (torch.nn.functional.normalize(torch.randn(tokens, 2, 32), dim=-1) for _ in range(2))
    return [part.bfloat16() for part in (query, key, torch.randn(tokens, 4, 16), torch.rand(tokens, 4))]


def test_chunk_gated_delta_rule():
    lengths = [9, 1, 20]
    parts = delta_inputs(30)
    state = torch.randn(3, 4, 16, 32).bfloat16()
    decay = -torch.rand(30, 4)
    out, final = torch_npu.npu_chunk_gated_delta_rule(
        *(part.npu() for part in parts[:3]),
        beta=parts[3].npu(),
        initial_state=state.npu(),
        actual_seq_lengths=torch.tensor(lengths, dtype=torch.int32).npu(),
        scale=0.5,
        g=decay.npu(),
    )
    start = 0
    for n, length in enumerate(lengths):
        rows = slice(start, start + length)
        own = [part[rows].float() for part in parts]
        expected, states = delta_rule(*own, state[n].float(), decay[rows].exp()[:, :, None, None], 0.5)
        relative(out[rows], expected)
        relative(final[n], states[-1])
        start += length


def test_recurrent_gated_delta_rule():
    lengths, accepted = [3, 2], [2, 1]
    parts = delta_inputs(5)
    states = torch.randn(8, 4, 16, 32).bfloat16()
    places = [5, 2, 7, 0, 3]
    decay, key_decay = -torch.rand(5, 4), -torch.rand(5, 4, 32)
    moved = states.npu()
    out = torch_npu.npu_recurrent_gated_delta_rule(
        *(part.npu() for part in parts[:3]),
        moved,
        beta=parts[3].npu(),
        scale=0.5,
        actual_seq_lengths=torch.tensor(lengths, dtype=torch.int32).npu(),
        ssm_state_indices=torch.tensor(places, dtype=torch.int32).npu(),
        num_accepted_tokens=torch.tensor(accepted, dtype=torch.int32).npu(),
        g=decay.npu(),
        gk=key_decay.npu(),
    )
    start = 0
    for length, count in zip(lengths, accepted, strict=True):
        rows = slice(start, start + length)
        own = [part[rows].float() for part in parts]
        fade = decay[rows].exp()[:, :, None, None] * key_decay[rows].exp()[:, :, None]
        expected, after = delta_rule(*own, states[places[start + count - 1]].float(), fade, 0.5)
        relative(out[rows], expected)
        for place, state in zip(places[rows], after, strict=True):
            relative(moved[place], state)
        start += length
    relative(moved[1], states[1], 0)


def test_nsa_compress_and_its_gradient():
    lengths, size, stride = [48, 20, 100], 32, 16
    tokens = torch.randn(168, 2, 32).half()
    weight = torch.randn(size, 2).half()
    leaves = [tokens.float().requires_grad_(), weight.float().requires_grad_()]
    rows, start = [], 0
    for length in lengths:
        for first in range(0, length - size + 1, stride):
            window = leaves[0][start + first : start + first + size]
            rows.append((window * leaves[1][:, :, None]).sum(0))
        start += length
    expected = torch.stack(rows)
    options = {"actual_seq_len": ends(lengths)}
    got = torch_npu.npu_nsa_compress(tokens.npu(), weight.npu(), size, stride, **options)
    relative(got, expected)
    seed = torch.randn_like(expected).half()
    expected.backward(seed.float())
    gradients = torch_npu.npu_nsa_compress_grad(seed.npu(), tokens.npu(), weight.npu(), size, stride, **options)
    for gradient, leaf in zip(gradients, leaves, strict=True):
        relative(gradient, leaf.grad)


def test_floyd_attention_and_its_gradient():
    batch, heads, rows, columns, keys, width = 1, 2, 16, 128, 128, 32
    shapes = [(rows, columns), (rows, keys), (rows, keys), (keys, columns), (keys, columns)]
    parts = [torch.randn(batch, heads, *shape, width).bfloat16() for shape in shapes]
    mask = torch.rand(batch, 1, rows, 1, keys) > 0.7
    leaves = [part.float().requires_grad_() for part in parts]
    query, key1, value1, key2, value2 = leaves
    scores = torch.einsum("bhnmd,bhnkd->bhnmk", query, key1) + torch.einsum("bhnmd,bhkmd->bhnmk", query, key2)
    weights = (scores * 0.1).masked_fill(mask, -torch.inf).softmax(-1)
    expected = torch.einsum("bhnmk,bhnkd->bhnmd", weights, value1) + torch.einsum("bhnmk,bhkmd->bhnmd", weights, value2)
    moved = [part.npu() for part in parts]
    results = torch_npu.npu_fused_floyd_attention(*moved, atten_mask=mask.npu(), scale_value=0.1)
    out = next(result for result in results if result.shape == expected.shape)
    statistics = [result for result in results if result.shape[-1] == 8]
    relative(out, expected)
    seed = torch.randn_like(expected).bfloat16()
    expected.backward(seed.float())
    gradients = torch_npu.npu_fused_floyd_attention_backward(
        seed.npu(), *moved, out, *statistics, atten_mask=mask.npu(), scale_value=0.1
    )
    for gradient, leaf in zip(gradients, leaves, strict=True):
        relative(gradient, leaf.grad)
