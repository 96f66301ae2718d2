"""Matrix products against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch_npu

FLOATING = [torch.float32, torch.float16, torch.bfloat16]


def matrix(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))).to(dtype)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 5), (5, 7)),
        ((1, 1), (1, 1)),
        ((65, 300), (300, 70)),
        ((5,), (5,)),
        ((4, 5), (5,)),
        ((5,), (5, 6)),
        ((2, 3, 4, 5), (5, 6)),
        ((2, 1, 4, 5), (3, 5, 6)),
        ((7, 4, 33), (7, 33, 2)),
        ((5,), (3, 5, 2)),
        ((3, 2, 5), (5,)),
    ],
)
def test_matmul_of_all_ranks(check, left, right, dtype):
    a, b = matrix(*left, dtype=dtype).requires_grad_(), matrix(*right, dtype=dtype, seed=1).requires_grad_()
    check(torch.matmul, a, b)


@pytest.mark.parametrize("dtype", FLOATING)
def test_strides(check, dtype):
    a, b = matrix(40, 30, dtype=dtype), matrix(30, 50, dtype=dtype)
    check(torch.mm, a, b)
    check(torch.mm, a.t().contiguous().t(), b)
    check(torch.mm, a, b.t().contiguous().t())
    check(torch.mm, a[::2, ::3], b[::3, 1::2])
    check(torch.mm, a[:1].expand(9, 30), b[:, :1].expand(30, 9))
    check(torch.bmm, matrix(6, 4, 5, dtype=dtype).transpose(0, 1), matrix(4, 5, 3, dtype=dtype))


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty_sizes(check, sizes):
    rows, depth, columns = sizes
    a, b = torch.ones(rows, depth), torch.ones(depth, columns)
    check(torch.mm, a, b)
    check(torch.addmm, torch.full((columns,), 2.0), a, b, beta=3)
    check(torch.bmm, a.expand(2, rows, depth), b.expand(2, depth, columns))


@pytest.mark.parametrize("dtype", FLOATING)
def test_addends(check, dtype):
    a, b = matrix(20, 30, dtype=dtype), matrix(30, 10, dtype=dtype)
    for addend in (matrix(20, 10, dtype=dtype), matrix(10, dtype=dtype), matrix(20, 1, dtype=dtype)):
        check(torch.addmm, addend, a, b)
        check(torch.addmm, addend, a, b, alpha=0.5, beta=-2, rtol=1e-2, atol=1e-1 if dtype.itemsize == 2 else 1e-5)
    poison = torch.full((20, 10), float("nan"), dtype=dtype)
    check(torch.addmm, poison, a, b, beta=0)
    check(lambda out, a, b: out.addmm_(a, b, beta=0.5), matrix(20, 10, dtype=dtype), a, b)
    check(
        torch.addmv,
        matrix(20, dtype=dtype),
        a,
        matrix(30, dtype=dtype),
        alpha=2,
        beta=3,
        atol=1e-1 if dtype.itemsize == 2 else 1e-5,
    )
    check(torch.baddbmm, matrix(2, 20, 10, dtype=dtype), a.expand(2, 20, 30), b.expand(2, 30, 10))
    check(torch.mv, a, matrix(30, dtype=dtype))
    check(torch.dot, a[0], a[1])


@pytest.mark.parametrize("dtype", FLOATING)
def test_sum_of_products(check, dtype):
    batches = matrix(3, 4, 20, dtype=dtype), matrix(3, 20, 6, dtype=dtype)
    tolerance = {"rtol": 1e-2, "atol": 1e-1} if dtype.itemsize == 2 else {}
    check(torch.addbmm, matrix(4, 6, dtype=dtype), *batches, alpha=0.5, beta=2, **tolerance)
    check(torch.addbmm, matrix(6, dtype=dtype), matrix(20, 3, 4, dtype=dtype).permute(1, 2, 0), batches[1], **tolerance)


@pytest.mark.parametrize("parts", [1, 3])
def test_transposed_batch_product(check, parts):
    def on_npu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_transpose_batchmatmul(
            a, b, perm_x1=[1, 0, 2], perm_x2=[0, 1, 2], perm_y=[1, 0, 2], batch_split_factor=parts
        )

    def expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = torch.bmm(a.transpose(0, 1).float(), b.float()).transpose(0, 1).half()
        return product if parts == 1 else product.flatten(1).unflatten(1, (parts, -1)).transpose(0, 1).contiguous()

    check(on_npu, matrix(5, 6, 16, dtype=torch.float16), matrix(6, 16, 8, dtype=torch.float16), reference=expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.bfloat16])
def test_outer_product_added(check, dtype):
    added, left, right = (torch.arange(1, n + 1).to(dtype) for n in (4, 3, 4))
    check(torch.addr, added.expand(3, 4), left, right)
    check(torch.addr, added.expand(3, 4), left, right, alpha=2, beta=3)
    check(lambda a, b, c: a.addr_(b, c), torch.ones(3, 4, dtype=dtype), left, right)


def test_integer_dot(check):
    check(torch.dot, torch.arange(9, dtype=torch.int32), torch.arange(9, dtype=torch.int32) - 4)


@pytest.mark.parametrize("dtype", FLOATING)
def test_linear_and_its_gradient(check, dtype):
    x, weight, bias = matrix(4, 6, 32, dtype=dtype), matrix(24, 32, dtype=dtype), matrix(24, dtype=dtype)
    tolerance = {"rtol": 2e-2, "atol": 5e-2} if dtype.itemsize == 2 else {}
    args = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    check(torch.nn.functional.linear, *args, **tolerance)


def test_inf_and_nan_stay(check):
    a = torch.tensor([[float("inf"), 1.0], [float("nan"), 0.0], [0.0, 1.0]])
    check(torch.mm, a, torch.ones(2, 3))


def test_16_bit_sums_are_exact_until_the_end(check):
    # 2048 ones and then 1: a sum that is kept in fp16 would stick at 2048.
    a = torch.ones(1, 4097, dtype=torch.float16)
    assert check(torch.mm, a, a.t().contiguous()).item() == 4096  # 4097 to nearest even


def test_hf32_when_asked():
    a = torch.tensor([[1 + 2**-11, 1 + 2**-12 + 2**-20]], device="npu")
    eye = torch.eye(2, device="npu")
    before = torch.npu.matmul.allow_hf32
    try:
        torch.npu.matmul.allow_hf32 = False
        assert torch.equal(torch.mm(a, eye), a)
        torch.npu.matmul.allow_hf32 = True
        assert torch.mm(a, eye).cpu().tolist() == [[1 + 2**-11, 1 + 2**-11]]
    finally:
        torch.npu.matmul.allow_hf32 = before


def test_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3, device="npu"), torch.ones(2, 3, device="npu"))
