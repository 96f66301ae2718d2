"""Quantised products with weights in NZ: what the same operators give for plain weights, and plain references."""

from __future__ import annotations

import pytest
import torch
import torch_npu

pytestmark = pytest.mark.usefixtures("internal_formats")

FRACTAL_NZ = 29
COUNTS = [2, 0, 3, 1]


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def blocked(weight: torch.Tensor) -> torch.Tensor:
    weight = torch_npu.npu_format_cast(weight.npu(), FRACTAL_NZ)
    assert torch_npu.get_npu_format(weight) == FRACTAL_NZ
    return weight


def sums_of_groups(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Each row of x times the weight of its group, with both scales."""
    experts = torch.repeat_interleave(torch.arange(len(COUNTS)), torch.tensor(COUNTS))
    exact = torch.einsum("mk,mkn->mn", x.double(), weight[experts].double())
    return (exact * scale[experts] * tokens[:, None]).float()


def test_quant_matmul():
    x, weight, scale, tokens = int8(6, 96), int8(96, 64), torch.rand(64) * 1e-3, torch.rand(6)

    def product(on_device: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quant_matmul(
            x.npu(), on_device, scale.npu(), pertoken_scale=tokens.npu(), output_dtype=torch.bfloat16
        ).cpu()

    assert torch.equal(product(blocked(weight)), product(weight.npu()))
    expected = (x.double() @ weight.double()) * scale * tokens[:, None]
    torch.testing.assert_close(product(blocked(weight)).double(), expected, rtol=1.6e-2, atol=1e-2)


def test_grouped_matmul():
    x, weight, scale, tokens = int8(6, 64), int8(4, 64, 32), torch.rand(4, 32) * 1e-3, torch.rand(6)
    (got,) = torch_npu.npu_grouped_matmul(
        [x.npu()],
        [blocked(weight)],
        scale=[scale.npu()],
        per_token_scale=[tokens.npu()],
        group_list=torch.tensor(COUNTS).npu(),
        split_item=3,
        group_type=0,
        group_list_type=1,
        output_dtype=torch.float16,
    )
    torch.testing.assert_close(got.cpu().float(), sums_of_groups(x, weight, scale, tokens), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("version", [1, 2])
def test_swiglu_and_quantisation(version):
    x, weight, scale, tokens = int8(6, 64), int8(4, 64, 64), torch.rand(4, 64) * 1e-3, torch.rand(6)
    ends = torch.tensor(COUNTS).cumsum(0).npu()
    if version == 1:
        quantised, row_scale, _ = torch_npu.npu_grouped_matmul_swiglu_quant(
            x.npu(), blocked(weight), group_list=ends, weight_scale=scale.npu(), x_scale=tokens.npu()
        )
    else:
        quantised, row_scale = torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x.npu(), [blocked(weight)], [scale.npu()], tokens.npu(), ends
        )
    left, right = sums_of_groups(x, weight, scale, tokens).chunk(2, dim=1)
    expected = torch.nn.functional.silu(left) * right
    torch.testing.assert_close(row_scale.cpu(), expected.abs().amax(1) / 127, rtol=1e-4, atol=1e-7)
    restored = quantised.cpu().float() * row_scale.cpu()[:, None]
    assert ((restored - expected).abs() <= 0.51 * row_scale.cpu()[:, None]).all()


def test_finalize_routing():
    x, weight, scale, tokens = int8(6, 64), int8(4, 64, 32), torch.rand(4, 32) * 1e-3, torch.rand(6)
    logit, rows = torch.rand(6), torch.tensor([0, 1, 2, 0, 1, 2])
    got = torch_npu.npu_grouped_matmul_finalize_routing(
        x.npu(),
        blocked(weight),
        torch.tensor(COUNTS).npu(),
        scale=scale.npu(),
        pertoken_scale=tokens.npu(),
        logit=logit.npu(),
        row_index=rows.npu(),
        output_bs=3,
        dtype=torch.float32,
    )
    terms = sums_of_groups(x, weight, scale, tokens) * logit[:, None]
    torch.testing.assert_close(got.cpu(), torch.zeros(3, 32).index_add(0, rows, terms), rtol=1e-4, atol=1e-4)
