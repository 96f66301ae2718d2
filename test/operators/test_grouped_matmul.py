"""Grouped matrix products and what is fused with them, against loops over groups in plain torch."""

from __future__ import annotations

import pytest
import torch
import torch_npu

ENDS = [2, 2, 5, 6]


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def groups():
    """Group and rows of each non-empty group of ENDS."""
    begin = 0
    for group, end in enumerate(ENDS):
        if end > begin:
            yield group, slice(begin, end)
        begin = end


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("list_type", [0, 1])
def test_groups_of_rows(dtype, list_type):
    x, weight = torch.randn(6, 24).to(dtype), torch.randn(4, 24, 8).to(dtype)
    sizes = torch.tensor(ENDS)
    given = sizes if list_type == 0 else torch.diff(sizes, prepend=torch.tensor([0]))
    (got,) = torch_npu.npu_grouped_matmul(
        [x.npu()], [weight.npu()], group_list=given.npu(), split_item=3, group_type=0, group_list_type=list_type
    )
    expected = torch.cat([x[rows].float() @ weight[group].float() for group, rows in groups()])
    torch.testing.assert_close(got.cpu(), expected.to(dtype), rtol=1.6e-2, atol=2e-2)


def test_lists_of_matrices_with_bias():
    x, weight = [torch.randn(2, 8), torch.randn(3, 16)], [torch.randn(8, 4), torch.randn(16, 6)]
    bias = [torch.randn(4), torch.randn(6)]
    got = torch_npu.npu_grouped_matmul(
        [one.npu() for one in x],
        [one.npu() for one in weight],
        bias=[one.npu() for one in bias],
        split_item=0,
        group_type=-1,
    )
    for one, left, right, shift in zip(got, x, weight, bias, strict=True):
        torch.testing.assert_close(one.cpu(), left @ right + shift, rtol=1e-4, atol=1e-4)


def test_groups_of_the_depth():
    x, weight = torch.randn(6, 4).half(), torch.randn(6, 8).half()
    (got,) = torch_npu.npu_grouped_matmul(
        [x.npu().t()],
        [weight.npu()],
        group_list=torch.tensor(ENDS).npu(),
        split_item=3,
        group_type=2,
        group_list_type=0,
    )
    expected = torch.zeros(4, 4, 8)
    for group, rows in groups():
        expected[group] = x[rows].float().t() @ weight[rows].float()
    torch.testing.assert_close(got.cpu().float(), expected, rtol=2e-3, atol=5e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_int8_with_scales(dtype):
    x, weight, tokens = int8(6, 64), int8(4, 64, 16), torch.rand(6)
    scale = (torch.rand(4, 16) * 1e-3).to(torch.float32 if dtype is torch.float16 else torch.bfloat16)
    (got,) = torch_npu.npu_grouped_matmul(
        [x.npu()],
        [weight.npu()],
        scale=[scale.npu()],
        per_token_scale=[tokens.npu()],
        group_list=torch.tensor(ENDS).npu(),
        split_item=3,
        group_type=0,
        group_list_type=0,
        output_dtype=dtype,
    )
    expected = torch.cat(
        [
            (x[rows].long() @ weight[group].long()).float() * scale[group].float() * tokens[rows, None]
            for group, rows in groups()
        ]
    )
    torch.testing.assert_close(got.cpu(), expected.to(dtype), rtol=1.6e-2, atol=1e-2)


def test_int8_weights_under_floats():
    x, weight = torch.randn(6, 32).half(), int8(4, 32, 8)
    scale, offset = torch.rand(4, 8).half() * 0.01, torch.randn(4, 8).half()
    (got,) = torch_npu.npu_grouped_matmul(
        [x.npu()],
        [weight.npu()],
        antiquant_scale=[scale.npu()],
        antiquant_offset=[offset.npu()],
        group_list=torch.tensor(ENDS).npu(),
        split_item=3,
        group_type=0,
        group_list_type=0,
    )
    expected = torch.cat(
        [
            x[rows].float() @ ((weight[group].float() + offset[group].float()) * scale[group].float())
            for group, rows in groups()
        ]
    )
    torch.testing.assert_close(got.cpu().float(), expected, rtol=5e-3, atol=5e-2)


def test_add_in_place():
    x, weight, total = torch.randn(6, 4).half(), torch.randn(6, 8).half(), torch.randn(16, 8)
    expected = total.clone()
    for group, rows in groups():
        expected[4 * group : 4 * group + 4] += x[rows].float().t() @ weight[rows].float()
    got = total.npu()
    torch_npu.npu_grouped_matmul_add_(
        got, x.npu(), weight.npu(), torch.tensor(ENDS).npu(), transpose_x=True, transpose_weight=False, group_type=2
    )
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-3, atol=1e-3)
