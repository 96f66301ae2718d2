"""Private formats: casts there and back, the sizes of their storage, and products with weights in NZ."""

from __future__ import annotations

import pytest
import torch
import torch_npu

pytestmark = pytest.mark.usefixtures("internal_formats")

NC1HWC0, FRACTAL_Z, FRACTAL_NZ, NDC1HWC0, FRACTAL_Z_3D = 3, 4, 29, 32, 33


def counting(sizes: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    count = torch.Size(sizes).numel()
    return (torch.arange(count) % 100).reshape(sizes).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int32])
@pytest.mark.parametrize("sizes", [(3, 5), (16, 16), (33, 40), (2, 20, 17)])
def test_matrices_in_blocks(sizes, dtype):
    plain = counting(sizes, dtype)
    blocked = torch_npu.npu_format_cast(plain.npu(), FRACTAL_NZ)
    assert torch_npu.get_npu_format(blocked) == FRACTAL_NZ
    block = 32 if dtype == torch.int8 else 16
    rows, columns = -(-sizes[-2] // 16) * 16, -(-sizes[-1] // block) * block
    assert torch_npu.get_storage_size(blocked) == torch.Size(sizes[:-2]).numel() * rows * columns
    assert torch.equal(blocked.cpu(), plain)
    back = torch_npu.npu_format_cast(blocked, 2)
    assert torch_npu.get_npu_format(back) == 2
    assert torch.equal(back.cpu(), plain)


@pytest.mark.parametrize(
    ("private", "sizes", "elements"),
    [
        (NC1HWC0, (2, 5, 3, 4), 2 * 16 * 3 * 4),
        (NC1HWC0, (1, 33, 2, 2), 48 * 4),
        (FRACTAL_Z, (5, 17, 3, 2), 32 * 6 * 16),
        (NDC1HWC0, (2, 18, 3, 2, 2), 2 * 32 * 12),
        (FRACTAL_Z_3D, (17, 3, 2, 2, 1), 2 * 16 * 2 * 32),
    ],
)
def test_images_and_filters_in_blocks(private, sizes, elements):
    plain = counting(sizes, torch.float16)
    base = torch_npu.npu_format_cast(plain.npu(), 0 if len(sizes) == 4 else 30)
    blocked = torch_npu.npu_format_cast(base, private)
    assert torch_npu.get_npu_format(blocked) == private
    assert torch_npu.get_storage_size(blocked) == elements
    assert torch.equal(blocked.cpu(), plain)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_with_weights_in_blocks(check, dtype):
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(*sizes, generator=generator).to(dtype) for sizes in ((5, 33), (33, 20)))
    bias, batch = torch.randn(20, generator=generator).to(dtype), torch.randn(3, 5, 33, generator=generator).to(dtype)

    def blocked(tensor: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_format_cast(tensor, FRACTAL_NZ) if tensor.device.type == "npu" else tensor

    check(lambda a, b: torch.mm(a, blocked(b)), x, weight)
    check(lambda a, b: torch.matmul(a, blocked(b)), batch, weight)
    check(lambda a, b: torch.mm(a, blocked(b.t().contiguous()).t()), x, weight)
    check(lambda c, a, b: torch.addmm(c, a, blocked(b)), bias, x, weight)


@pytest.mark.parametrize(
    ("private", "sizes"), [(FRACTAL_NZ, (2, 5, 3, 4)), (NC1HWC0, (2, 5, 3, 4)), (NC1HWC0, (20, 7)), (FRACTAL_Z, (6,))]
)
def test_casts_of_the_legacy_route(private, sizes):
    """Pairs of formats that aclnn does not convert go through Identity."""
    plain = counting(sizes, torch.float16)
    blocked = torch_npu.npu_format_cast(plain.npu(), private)
    assert torch_npu.get_npu_format(blocked) == private
    assert torch.equal(torch_npu.npu_format_cast(blocked, 2).cpu(), plain)


def test_views_of_blocks():
    plain = counting((20, 37), torch.float16)
    blocked = torch_npu.npu_format_cast(plain.npu(), FRACTAL_NZ)
    assert torch.equal(blocked[2:5].cpu(), plain[2:5])
    assert torch.equal(blocked.t().contiguous().cpu(), plain.t())
    assert torch.equal(blocked.clone().cpu(), plain)


def test_functions_of_blocks_by_the_legacy_route(check):
    """torch_npu sends tensors in a private format through operators of the legacy kind."""
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(20, 33, generator=generator).half() for _ in range(2))

    def blocked(tensor: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_format_cast(tensor, FRACTAL_NZ) if tensor.device.type == "npu" else tensor

    for function in (torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum):
        check(lambda a, b, function=function: function(blocked(a), blocked(b)), x, y)
    for function in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        check(lambda a, b, function=function: function(blocked(a), blocked(b)), x, x.roll(1, 0))
    for function in (torch.abs, torch.neg, torch.relu, torch.sigmoid, torch.tanh, torch.exp):
        check(lambda a, function=function: function(blocked(a)), x)
    for function in (torch.softmax, torch.log_softmax):
        check(lambda a, function=function: function(blocked(a), 1), x)
        check(lambda a, function=function: function(blocked(a), 0), x.float().requires_grad_())


def test_transposes_of_reshaped_tensors():
    x = torch.randn(2, 12, 20)
    got = torch_npu.npu_confusion_transpose(x.npu(), (0, 2, 1, 3), (2, 12, 4, 5), False)
    assert torch.equal(got.cpu(), x.view(2, 12, 4, 5).permute(0, 2, 1, 3))
    back = torch_npu.npu_confusion_transpose(got, (0, 2, 1, 3), (2, 12, 20), True)
    assert torch.equal(back.cpu(), x)
