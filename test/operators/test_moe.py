"""Routing of tokens to experts and back, against references in plain torch."""

from __future__ import annotations

import pytest
import torch
import torch_npu


def scores(tokens=6, experts=8, dtype=torch.float32):
    """Scores without ties."""
    return torch.randperm(tokens * experts).reshape(tokens, experts).to(dtype) / 7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gating_softmax(dtype):
    x = scores(dtype=dtype)
    finished = torch.tensor([False, True] + [False] * 4)
    values, experts, rows = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), finished.npu(), 3)
    expected, places = x.float().softmax(-1).topk(3)
    torch.testing.assert_close(values.cpu(), expected.to(dtype), rtol=1.6e-2, atol=1e-5)
    places[1] = 8
    assert torch.equal(experts.cpu().long(), places)
    assert torch.equal(rows.cpu().long(), torch.arange(18).reshape(3, 6).T)


def test_gating_softmax_after_top_k():
    x = scores()
    values, experts, _ = torch_npu.npu_moe_gating_top_k_softmax_v2(x.npu(), k=3, renorm=1)
    expected, places = x.topk(3)
    torch.testing.assert_close(values.cpu(), expected.softmax(-1))
    assert torch.equal(experts.cpu().long(), places)
    values, _, softmax = torch_npu.npu_moe_gating_top_k_softmax_v2(x.npu(), k=3, renorm=0, output_softmax=True)
    torch.testing.assert_close(softmax.cpu(), x.softmax(-1))
    torch.testing.assert_close(values.cpu(), x.softmax(-1).topk(3)[0])


@pytest.mark.parametrize("norm_type", [0, 1])
@pytest.mark.parametrize("select_mode", [0, 1])
def test_gating_by_groups(norm_type, select_mode):
    x, bias = torch.randn(5, 16), torch.randn(16) * 0.1
    values, experts, norm = torch_npu.npu_moe_gating_top_k(
        x.npu(),
        4,
        bias=bias.npu(),
        k_group=2,
        group_count=4,
        group_select_mode=select_mode,
        renorm=0,
        norm_type=norm_type,
        out_flag=True,
        routed_scaling_factor=2.5,
        eps=1e-20,
    )
    plain = x.softmax(-1) if norm_type == 0 else x.sigmoid()
    biased = (plain + bias).reshape(5, 4, 4)
    group = biased.amax(-1) if select_mode == 0 else biased.topk(2)[0].sum(-1)
    keep = torch.zeros(5, 4, dtype=torch.bool).scatter_(1, group.topk(2)[1], True)
    places = biased.masked_fill(~keep.unsqueeze(-1), -torch.inf).reshape(5, 16).topk(4)[1]
    expected = plain.gather(1, places)
    if norm_type == 1:
        expected = expected / (expected.sum(-1, keepdim=True) + 1e-20)
    assert torch.equal(experts.cpu().long(), places)
    torch.testing.assert_close(values.cpu(), expected * 2.5)
    torch.testing.assert_close(norm.cpu(), plain)


def test_gating_backward():
    x = torch.randn(4, 8, requires_grad=True)
    norm = x.sigmoid()
    places = norm.topk(3)[1]
    chosen = norm.gather(1, places)
    y = chosen / (chosen.sum(-1, keepdim=True) + 1e-20) * 2.0
    upstream = torch.randn(4, 3)
    (expected,) = torch.autograd.grad(y, x, upstream)
    got = torch_npu.npu_moe_gating_top_k_backward(
        norm.detach().npu(),
        upstream.npu(),
        places.int().npu(),
        renorm=0,
        norm_type=1,
        routed_scaling_factor=2.0,
        eps=1e-20,
    )
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-6)


def expert_choices(tokens=5, experts=4, choices=2):
    return torch.stack([torch.randperm(experts)[:choices] for _ in range(tokens)]).int()


def test_init_routing_first_version():
    x, experts = torch.randn(5, 8).half(), expert_choices()
    rows = torch.arange(10, dtype=torch.int32).reshape(2, 5).T.contiguous()
    expanded, row_of, sorted_experts = torch_npu.npu_moe_init_routing(x.npu(), rows.npu(), experts.npu(), 5)
    expected_experts, order = experts.flatten().sort(stable=True)
    numbers = rows.flatten()[order].long()
    assert torch.equal(sorted_experts.cpu(), expected_experts)
    assert torch.equal(expanded.cpu(), x[numbers % 5])
    assert torch.equal(row_of.cpu().long()[numbers], torch.arange(10))
    counts = torch_npu.npu_moe_compute_expert_tokens(sorted_experts, 4)
    assert torch.equal(counts.cpu().long(), torch.bincount(experts.flatten(), minlength=4).cumsum(0))


@pytest.mark.parametrize("quant_mode", [-1, 1])
@pytest.mark.parametrize("active", [[0, 4], [1, 3]])
def test_init_routing(quant_mode, active):
    x, experts = torch.randn(5, 32).bfloat16(), expert_choices()
    expanded, row_of, counts, scale = torch_npu.npu_moe_init_routing_v2(
        x.npu(),
        experts.npu(),
        active_num=10,
        expert_num=4,
        expert_tokens_num_type=1,
        expert_tokens_num_flag=True,
        quant_mode=quant_mode,
        active_expert_range=active,
        row_idx_type=0,
    )
    flat = experts.flatten().long()
    inside = (flat >= active[0]) & (flat < active[1])
    order = torch.where(inside, flat, 99).sort(stable=True)[1][: int(inside.sum())]
    expected_rows = torch.full((10,), -1).index_copy_(0, order, torch.arange(len(order)))
    assert torch.equal(row_of.cpu().long(), expected_rows)
    assert torch.equal(counts.cpu(), torch.bincount(flat[inside] - active[0], minlength=active[1] - active[0]))
    values = x[order // 2]
    if quant_mode == -1:
        assert torch.equal(expanded.cpu()[: len(order)], values)
        return
    expected_scale = values.float().abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu().flatten()[: len(order)], expected_scale)
    difference = expanded.cpu()[: len(order)].int() - torch.round(values.float() / expected_scale.unsqueeze(-1)).int()
    assert difference.abs().max() <= 1


def test_init_routing_drops_and_pads():
    x = torch.randn(4, 8)
    experts = torch.tensor([[0], [2], [0], [0]], dtype=torch.int32)
    expanded, row_of, counts, _ = torch_npu.npu_moe_init_routing_v2(
        x.npu(),
        experts.npu(),
        active_num=4,
        expert_capacity=2,
        expert_num=3,
        drop_pad_mode=1,
        expert_tokens_num_type=1,
        expert_tokens_num_flag=True,
        quant_mode=-1,
        active_expert_range=[0, 3],
        row_idx_type=0,
    )
    expected = torch.zeros(3, 2, 8)
    expected[0, 0], expected[0, 1], expected[2, 0] = x[0], x[2], x[1]
    assert torch.equal(expanded.cpu(), expected)
    assert row_of.cpu().tolist() == [0, 4, 1, -1]
    assert counts.cpu().tolist() == [3, 0, 1]


@pytest.mark.parametrize("mode", [0, 2])
def test_finalize_routing(mode):
    tokens, choices, hidden = 5, 2, 8
    expanded, shared = torch.randn(tokens * choices, hidden), torch.randn(tokens, hidden)
    bias, scales, experts = torch.randn(4, hidden), torch.rand(tokens, choices), expert_choices()
    rows = torch.randperm(tokens * choices).int()
    got = torch_npu.npu_moe_finalize_routing(
        expanded.npu(), shared.npu(), None, bias.npu(), scales.npu(), rows.npu(), experts.npu(), drop_pad_mode=mode
    )
    numbers = rows.long().reshape(choices, tokens).T if mode == 0 else rows.long().reshape(tokens, choices)
    expected = shared + (scales.unsqueeze(-1) * (expanded[numbers] + bias[experts.long()])).sum(1)
    torch.testing.assert_close(got.cpu(), expected)


def test_permute_and_unpermute():
    tokens, experts, probs = torch.randn(5, 8), expert_choices(), torch.rand(5, 2)
    order = experts.flatten().sort(stable=True)[1]
    inverse = order.argsort()

    def expected(tokens, probs):
        permuted = tokens[order // 2] * 2
        return (permuted[inverse].reshape(5, 2, 8) * probs.unsqueeze(-1)).sum(1)

    def run(tokens, probs):
        permuted, indices = torch_npu.npu_moe_token_permute(tokens, experts.npu())
        assert torch.equal(indices.cpu().long(), inverse)
        return torch_npu.npu_moe_token_unpermute(permuted * 2, indices, probs)

    compare_with_gradients(run, expected, tokens, probs)


def compare_with_gradients(run, expected, *tensors):
    results = []
    for work, device in ((expected, "cpu"), (run, "npu")):
        own = [tensor.detach().to(device).requires_grad_() for tensor in tensors]
        out = work(*own)
        seed = torch.linspace(0.5, 1.5, out.numel()).reshape(out.shape).to(device)
        results.append([out, *torch.autograd.grad(out, own, seed)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other.detach().cpu(), one.detach())


@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_routing_map(padded, weighs):
    tokens, hidden, experts, choices = 6, 8, 4, 2
    marks = torch.zeros(tokens, experts, dtype=torch.bool)
    for token in range(tokens):
        marks[token, torch.randperm(experts)[:choices]] = True
    x, probs = torch.randn(tokens, hidden), torch.rand(tokens, experts)
    capacity = tokens * choices // experts
    if padded:
        source = marks.T.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :capacity].flatten()
        owner = torch.arange(experts).repeat_interleave(capacity)
    else:
        owner, source = marks.T.nonzero(as_tuple=True)

    def expected(x, probs):
        permuted = x[source] * 2
        if weighs:
            permuted = permuted * probs[source, owner].unsqueeze(-1)
        return torch.zeros(tokens, hidden).index_add(0, source, permuted) + (0 * probs).sum()

    def run(x, probs):
        permuted, _, indices = torch_npu.npu_moe_token_permute_with_routing_map(
            x, marks.npu(), num_out_tokens=tokens * choices, drop_and_pad=padded
        )
        out = torch_npu.npu_moe_token_unpermute_with_routing_map(
            permuted * 2,
            indices,
            [tokens, hidden],
            probs=probs if weighs else None,
            routing_map=marks.npu(),
            drop_and_pad=padded,
        )
        return out + (0 * probs).sum()

    compare_with_gradients(run, expected, x, probs)


def test_routing_map_moves_probabilities():
    marks = torch.tensor([[True, False], [True, True], [False, True]])
    x, probs = torch.randn(3, 4), torch.rand(3, 2)

    def run(x, probs):
        permuted, moved, _ = torch_npu.npu_moe_token_permute_with_routing_map(
            x, marks.npu(), probs=probs, num_out_tokens=2, drop_and_pad=True
        )
        return permuted * moved.unsqueeze(-1)

    def expected(x, probs):
        return x[[0, 1]] * torch.stack([probs[0, 0], probs[1, 1]]).unsqueeze(-1)

    compare_with_gradients(run, expected, x, probs)


def test_re_routing():
    counts = torch.tensor([[1, 2, 0], [2, 0, 1]])
    tokens, scales = torch.randn(6, 4).half(), torch.rand(6)
    permuted, permuted_scales, places, of_expert = torch_npu.npu_moe_re_routing(
        tokens.npu(), counts.npu(), per_token_scales=scales.npu(), expert_token_num_type=1, idx_type=0
    )
    expected = torch.tensor([0, 3, 4, 1, 2, 5])
    assert torch.equal(places.cpu().long(), expected)
    assert torch.equal(permuted.cpu(), tokens[expected])
    assert torch.equal(permuted_scales.cpu(), scales[expected])
    assert of_expert.cpu().tolist() == [3, 2, 1]


def test_update_expert():
    table = torch.tensor([[1, 5, 0], [2, 3, 7]], dtype=torch.int32)
    ids = torch.tensor([[0, 1], [1, 0], [1, 1]], dtype=torch.int32)
    scale = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5]])
    got, mask = torch_npu.npu_moe_update_expert(
        ids.npu(),
        table.npu(),
        local_rank_id=1,
        world_size=2,
        balance_mode=0,
        expert_scales=scale.npu(),
        pruning_threshold=torch.tensor([0.2, 0.2]).npu(),
        active_mask=torch.tensor([True, True, False]).npu(),
    )
    assert got.cpu().tolist() == [[5, 7], [7, 5], [7, 7]]
    assert mask.cpu().tolist() == [[True, False], [True, True], [False, False]]
