"""Expressions whose values must be the same on a virtual NPU as on the CPU. Run as a program, compares and prints JSON.

Each case is a function of a device name. Inputs are small and known, so that every operator on the way is computed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32]
INF, NAN = float("inf"), float("nan")

Case = Callable[[str], Any]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    def register(function: Case) -> Case:
        assert name not in CASES, name
        CASES[name] = function
        return function

    return register


def add(cases: dict[str, Case]) -> None:
    for name, function in cases.items():
        case(name)(function)


def ints(device: str, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor([[3, 1, 4], [1, 5, 9]], dtype=dtype, device=device)


def floats(device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([[0.5, -1.25, 2.0], [3.75, -0.5, 0.0]], dtype=dtype, device=device)


def mask(device: str) -> torch.Tensor:
    return torch.tensor([[True, False, True], [False, False, True]], device=device)


def edges(device: str) -> torch.Tensor:
    return torch.tensor([1.5, INF, -INF, NAN, -0.0], device=device)


# Arithmetic, in every element type that the device takes.
for dtype in [*INTEGERS, *FLOATS]:
    short = str(dtype).removeprefix("torch.")
    add(
        {
            f"add {short}": lambda d, t=dtype: ints(d, t) + ints(d, t),
            f"subtract {short}": lambda d, t=dtype: ints(d, t) - ints(d, t).flip(1),
            f"multiply {short}": lambda d, t=dtype: ints(d, t) * ints(d, t),
            f"add scalar {short}": lambda d, t=dtype: ints(d, t) + 7,
            f"multiply floating scalar {short}": lambda d, t=dtype: ints(d, t) * 0.5,
            f"compare {short}": lambda d, t=dtype: (ints(d, t) > 3, ints(d, t) == ints(d, t).flip(0)),
            f"maximum {short}": lambda d, t=dtype: torch.maximum(ints(d, t), ints(d, t).flip(1)),
            f"clamp {short}": lambda d, t=dtype: ints(d, t).clamp(2, 4),
            f"fill {short}": lambda d, t=dtype: torch.full((3,), 5, dtype=t, device=d),
            f"sum {short}": lambda d, t=dtype: (ints(d, t).sum(), ints(d, t).sum(0)),
            f"cumsum {short}": lambda d, t=dtype: ints(d, t).cumsum(1),
            f"cast {short}": lambda d, t=dtype: floats(d).abs().to(t),
            f"where {short}": lambda d, t=dtype: torch.where(mask(d), ints(d, t), ints(d, t).flip(0)),
            f"sort {short}": lambda d, t=dtype: ints(d, t).sort(dim=1, stable=True).values,
            f"gather {short}": lambda d, t=dtype: ints(d, t).gather(1, torch.tensor([[2, 0], [1, 1]], device=d)),
            f"cat {short}": lambda d, t=dtype: torch.cat([ints(d, t), ints(d, t)[:, :1]], dim=1),
            f"index_put {short}": lambda d, t=dtype: ints(d, t).index_put_(
                (torch.tensor([0, 1], device=d),), torch.ones(3, dtype=t, device=d)
            ),
        }
    )

# The device's masked_fill takes neither uint8 nor int16.
for dtype in [torch.int8, torch.int32, torch.int64, *FLOATS]:
    case(f"masked_fill {str(dtype).removeprefix('torch.')}")(lambda d, t=dtype: ints(d, t).masked_fill(mask(d), 2))

add(
    {
        "unsigned wraps": lambda d: torch.tensor([3], dtype=torch.uint8, device=d) - 5,
        "int8 wraps": lambda d: torch.tensor([127], dtype=torch.int8, device=d) + 1,
        "alpha": lambda d: (torch.add(floats(d), floats(d), alpha=0.5), torch.rsub(ints(d), 2, alpha=3)),
        "divide": lambda d: (ints(d) / 2, floats(d) / 4, ints(d) / ints(d).flip(1)),
        "divide floor": lambda d: (
            torch.div(ints(d) - 4, 2, rounding_mode="floor"),
            torch.div(floats(d), 0.75, rounding_mode="floor"),
        ),
        "divide trunc": lambda d: torch.div(ints(d) - 4, 2, rounding_mode="trunc"),
        "floor_divide": lambda d: ((ints(d) - 4) // 2, floats(d) // 0.75),
        "remainder": lambda d: ((ints(d) - 4) % 3, (ints(d) - 4) % -3, floats(d) % 0.75),
        "fmod": lambda d: (torch.fmod(ints(d) - 4, 3), torch.fmod(floats(d), 0.75)),
        "pow": lambda d: (ints(d) ** 2, floats(d) ** 2, 2 ** ints(d), ints(d) ** ints(d).flip(1)),
        "negate and abs": lambda d: (-ints(d), (ints(d) - 4).abs(), -floats(d), floats(d).abs()),
        "addcmul": lambda d: torch.addcmul(floats(d), floats(d), floats(d), value=0.5),
        "lerp": lambda d: torch.lerp(floats(d), floats(d).flip(0), 0.25),
        "rank 0 with tensors": lambda d: ints(d) + torch.tensor(2.5, device=d),
        "broadcast": lambda d: ints(d)[:, :1] * ints(d)[0],
        "transposed": lambda d: ints(d).t() + torch.arange(2, device=d),
        "in place on a slice": lambda d: ints(d).clone()[:, ::2].mul_(10),
        "zero size": lambda d: (torch.empty(0, 3, device=d) + 1, torch.zeros(0, device=d).sum()),
    }
)

FUNCTIONS = [
    *(torch.sqrt, torch.rsqrt, torch.reciprocal, torch.exp, torch.exp2, torch.expm1),
    *(torch.log, torch.log2, torch.log10, torch.log1p, torch.sin, torch.cos, torch.tan, torch.tanh),
    *(torch.sigmoid, torch.erf, torch.ceil, torch.floor, torch.round, torch.trunc, torch.frac, torch.sign, torch.relu),
]
for function in FUNCTIONS:
    add(
        {
            f"{function.__name__} of floats": lambda d, f=function: f(floats(d).abs() + 0.25),
            f"{function.__name__} of halves": lambda d, f=function: f(floats(d, torch.float16).abs() + 0.25),
        }
    )

add(
    {
        "silu": lambda d: torch.nn.functional.silu(floats(d)),
        "logsigmoid": lambda d: torch.nn.functional.logsigmoid(floats(d)),
        "softplus": lambda d: torch.nn.functional.softplus(floats(d)),
        "softmax": lambda d: (floats(d).softmax(-1), floats(d).log_softmax(0)),
        "round decimals": lambda d: torch.round(floats(d) * 1.237, decimals=1),
        "finite": lambda d: (edges(d).isfinite(), edges(d).isinf(), edges(d).isnan()),
        "signed infinities": lambda d: (edges(d).isposinf(), edges(d).isneginf()),
        "nan_to_num": lambda d: edges(d).nan_to_num(7.0, 8.0, 9.0),
        "nan in maximum": lambda d: torch.maximum(edges(d), torch.zeros(5, device=d)),
        "logic": lambda d: (
            mask(d).logical_and(ints(d) > 1),
            mask(d).logical_or(ints(d) > 4),
            ints(d).logical_xor(mask(d)),
            ints(d).logical_not(),
        ),
        "bits": lambda d: (ints(d) & 5, ints(d) | 8, ints(d) ^ ints(d).flip(0), ~ints(d), ~mask(d)),
        "bits of masks": lambda d: (mask(d) & mask(d).flip(0), mask(d) | mask(d).flip(1), mask(d) ^ True),
        "shifts": lambda d: (ints(d) << 2, ints(d) >> 1),
        "comparisons": lambda d: (
            floats(d) < 0.5,
            floats(d) <= 0.5,
            floats(d) > ints(d),
            floats(d) >= 0,
            floats(d) != 2,
            floats(d).eq(floats(d)),
        ),
        "halves compare with scalars": lambda d: torch.tensor([0.1, 0.5], dtype=torch.float16, device=d) == 0.1,
        "large integers compare": lambda d: torch.tensor([2**53 + 1], device=d) == torch.tensor([2**53], device=d),
        "equal": lambda d: (torch.equal(ints(d), ints(d)), torch.equal(ints(d), ints(d).flip(0))),
        "isclose": lambda d: torch.isclose(floats(d), floats(d) + 1e-6),
        "isin": lambda d: (torch.isin(ints(d), 1), torch.isin(ints(d), torch.tensor([1, 9], device=d))),
        "clamp one side": lambda d: (ints(d).clamp(min=3), floats(d).clamp(max=0.5)),
        "clamp by tensors": lambda d: ints(d).clamp(ints(d).flip(1), ints(d).flip(0).abs() + 5),
    }
)

# Making and copying.
add(
    {
        "arange": lambda d: (torch.arange(5, device=d), torch.arange(2, 9, 3, device=d)),
        "arange of floats": lambda d: torch.arange(0.0, 1.0, 0.25, device=d),
        "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
        "eye": lambda d: torch.eye(3, 4, device=d),
        "zeros and ones": lambda d: (torch.zeros(3, device=d, dtype=torch.bool), torch.ones(2, 2, device=d)),
        "triangles": lambda d: (ints(d).tril(), ints(d).triu(1), torch.ones(3, 3, device=d).tril_(-1)),
        "causal mask": lambda d: torch.full((4, 4), -INF, device=d).triu(1),
        "one_hot": lambda d: torch.nn.functional.one_hot(ints(d), 10),
        "fill_diagonal": lambda d: torch.zeros(5, 2, device=d).fill_diagonal_(1, wrap=True),
        "copy converts": lambda d: torch.empty(2, 3, dtype=torch.int32, device=d).copy_(floats(d)),
        "copy broadcasts": lambda d: torch.empty(2, 3, device=d).copy_(floats(d)[0]),
        "stack": lambda d: torch.stack([ints(d), ints(d) + 1], dim=1),
        "split": lambda d: torch.split(torch.arange(7, device=d), [2, 5]),
        "chunk": lambda d: [part + 0 for part in torch.arange(7, device=d).chunk(3)],
        "flip and roll": lambda d: (ints(d).flip(0, 1), ints(d).roll(1, 1), ints(d).roll(2)),
        "repeat": lambda d: ints(d).repeat(2, 1, 2),
        "expand": lambda d: ints(d)[:, :1].expand(2, 4).contiguous(),
        "permute": lambda d: torch.arange(24, device=d).view(2, 3, 4).permute(2, 0, 1).contiguous(),
        "pad": lambda d: torch.nn.functional.pad(ints(d), (1, 2, 0, 1), value=-1),
        "repeat_interleave": lambda d: (
            ints(d).repeat_interleave(2),
            ints(d).repeat_interleave(torch.tensor([2, 1], device=d), dim=0),
            ints(d).repeat_interleave(2, dim=1),
        ),
        "slices": lambda d: (ints(d)[1:, ::2] + 0, ints(d)[:, -1] + 0),
        "bool from bytes": lambda d: torch.tensor([0, 2, 255], dtype=torch.uint8, device=d).bool(),
    }
)

# Reductions, order, search.
add(
    {
        "mean": lambda d: (floats(d).mean(), floats(d).mean(1, keepdim=True), floats(d, torch.float16).mean(0)),
        "product": lambda d: (ints(d).prod(), floats(d).prod(1)),
        "sum as type": lambda d: (mask(d).sum(), mask(d).sum(1, dtype=torch.int32), ints(d).sum(dtype=torch.float32)),
        "extrema": lambda d: (ints(d).max(), floats(d).min(), ints(d).amax(0), floats(d).amin((0, 1))),
        "extrema of dim": lambda d: (tuple(ints(d).max(1)), tuple(floats(d).min(0))),
        "aminmax": lambda d: tuple(ints(d).aminmax()),
        "arguments": lambda d: (ints(d).argmax(), ints(d).argmin(1), floats(d).argmax(0, keepdim=True)),
        "all and any": lambda d: (mask(d).all(), mask(d).any(1), ints(d).all(0), (ints(d) > 8).any()),
        "norms": lambda d: (floats(d).norm(), floats(d).norm(1, dim=1), torch.linalg.vector_norm(floats(d), 3)),
        "spread": lambda d: (floats(d).var(), floats(d).std(1), floats(d).var(0, correction=0)),
        "logsumexp": lambda d: floats(d).logsumexp(1),
        "running": lambda d: (tuple(ints(d).cummax(1)), tuple(ints(d).cummin(1)), ints(d).cumprod(0)),
        "count_nonzero": lambda d: (mask(d).count_nonzero(), (ints(d) - 1).count_nonzero(1)),
        "sort": lambda d: (tuple(ints(d).sort(dim=1, stable=True)), tuple(floats(d).sort(0, descending=True))),
        "argsort": lambda d: ints(d).argsort(dim=1, stable=True),
        "topk": lambda d: (tuple(floats(d).topk(2)), tuple(floats(d).topk(1, dim=0, largest=False))),
        "kthvalue": lambda d: tuple(floats(d).kthvalue(2, dim=1)),
        "median": lambda d: (floats(d).median(), tuple(floats(d).median(1))),
        "searchsorted": lambda d: (
            torch.searchsorted(torch.tensor([1, 3, 3, 7], device=d), ints(d)),
            torch.searchsorted(torch.tensor([1, 3, 3, 7], device=d), ints(d), right=True),
            torch.bucketize(ints(d), torch.tensor([2, 4], device=d)),
        ),
        "bincount": lambda d: torch.bincount(ints(d).flatten(), minlength=12),
        "histc": lambda d: torch.histc(floats(d), 4, -2, 4),
        "trace": lambda d: floats(d).trace(),
    }
)

# Shapes that depend on values, and indices.
add(
    {
        "nonzero": lambda d: (mask(d).nonzero(), ints(d).nonzero(as_tuple=True), torch.zeros(3, device=d).nonzero()),
        "masked_select": lambda d: (ints(d).masked_select(mask(d)), ints(d)[mask(d)], ints(d)[ints(d) > 100]),
        "unique": lambda d: (
            torch.unique(ints(d)),
            *torch.unique(ints(d), return_inverse=True, return_counts=True),
        ),
        "unique by dim": lambda d: torch.unique(torch.tensor([[5, 6], [1, 2], [5, 6]], device=d), dim=0),
        "unique_consecutive": lambda d: torch.unique_consecutive(
            torch.tensor([1, 1, 2, 1, 1], device=d), return_counts=True
        ),
        "masked_scatter": lambda d: ints(d).masked_scatter(mask(d), torch.tensor([10, 20, 30], device=d)),
        "index": lambda d: (
            ints(d)[torch.tensor([1, 0, 1], device=d)],
            ints(d)[:, torch.tensor([2, 0], device=d)],
            ints(d)[torch.tensor([[0], [1]], device=d), torch.tensor([0, 2], device=d)],
        ),
        "index with gaps": lambda d: torch.arange(24, device=d).view(2, 3, 4)[
            torch.tensor([0, 1], device=d), :, torch.tensor([3, 1], device=d)
        ],
        "negative indices": lambda d: ints(d)[torch.tensor([-1], device=d)],
        "index_select": lambda d: floats(d).index_select(1, torch.tensor([2, 0], device=d)),
        "take": lambda d: ints(d).take(torch.tensor([5, 0], device=d)),
        "embedding": lambda d: torch.nn.functional.embedding(ints(d) % 2, floats(d)),
        "scatter": lambda d: (
            torch.zeros(2, 3, device=d).scatter(1, ints(d) % 3, floats(d)),
            torch.zeros(2, 3, device=d).scatter(1, ints(d)[:, :1] % 3, 1.0),
            torch.zeros(2, 3, device=d).scatter_add(0, ints(d) % 2, floats(d)),
        ),
        "scatter_reduce": lambda d: torch.ones(2, 3, device=d, dtype=torch.int32).scatter_reduce(
            0, ints(d) % 2, ints(d, torch.int32), "amax"
        ),
        "index_add": lambda d: torch.zeros(3, 3, device=d).index_add(0, torch.tensor([2, 0], device=d), floats(d)),
        "index_fill": lambda d: ints(d).index_fill(1, torch.tensor([0, 2], device=d), -1),
        "index_copy": lambda d: torch.zeros(3, 3, device=d).index_copy(0, torch.tensor([2, 0], device=d), floats(d)),
        "index_put accumulates": lambda d: torch.zeros(3, device=d).index_put_(
            (torch.tensor([0, 0, 2], device=d),), torch.tensor([1.0, 2.0, 3.0], device=d), accumulate=True
        ),
        "put": lambda d: torch.zeros(2, 3, device=d).put_(
            torch.tensor([5, 0], device=d), torch.tensor([1.0, 2.0], device=d)
        ),
        "assignment": lambda d: assigned(ints(d), mask(d)),
        "foreach": lambda d: torch._foreach_add([floats(d), floats(d)[0]], 0.5),
        "loss scale": lambda d: loss_scale(d),
    }
)


def assigned(tensor: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    tensor[chosen] = 0
    tensor[0, 1:] = 7
    tensor[1] = tensor[0]
    return tensor


def loss_scale(device: str) -> Any:
    """Steps of a gradient scaler: the scale grows after two good ones and backs off after an infinite gradient."""
    scale = torch.tensor([1024.0], device=device)
    tracker = torch.tensor([0], dtype=torch.int32, device=device)
    seen = []
    for gradient in (1.0, 2.0, INF):
        found = torch.zeros(1, device=device)
        gradients = [torch.tensor([gradient, 4.0], device=device)]
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, torch.tensor([0.5], device=device))
        torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 2)
        seen.append((found.clone(), gradients[0].clone(), scale.clone(), tracker.clone()))
    return seen


def on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, (list, tuple)):
        return [on_cpu(item) for item in value]
    return value


def compare(function: Case) -> str:
    """What differs, or an empty string."""
    expected = on_cpu(function("cpu"))
    try:
        found = on_cpu(function("npu"))
        torch.testing.assert_close(found, expected, equal_nan=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    import torch_npu  # noqa: F401

    json.dump({name: compare(function) for name, function in CASES.items()}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
