"""Random operators: their distributions, and that a seed gives the same values again."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

COUNT = 100_000
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
DRAWS: dict[str, Callable[[], torch.Tensor]] = {
    "uniform": lambda: torch.empty(COUNT, device="npu").uniform_(-1, 3),
    "rand": lambda: torch.rand(COUNT, device="npu"),
    "normal": lambda: torch.empty(COUNT, device="npu").normal_(1, 2),
    "randn": lambda: torch.randn(COUNT, device="npu"),
    "normal_of_numbers": lambda: torch.normal(1.0, 2.0, (COUNT,), device="npu"),
    "normal_of_tensors": lambda: torch.normal(torch.zeros(COUNT, device="npu"), torch.ones(1, device="npu")),
    "bernoulli": lambda: torch.empty(COUNT, device="npu").bernoulli_(0.3),
    "bernoulli_of_tensor": lambda: torch.bernoulli(torch.full((COUNT,), 0.3, device="npu")),
    "random": lambda: torch.empty(COUNT, dtype=torch.int64, device="npu").random_(5, 90),
    "randint": lambda: torch.randint(-7, 8, (COUNT,), device="npu"),
    "randperm": lambda: torch.randperm(1000, device="npu"),
    "multinomial": lambda: torch.multinomial(torch.tensor([1.0, 2.0, 0.0, 5.0]).npu(), COUNT, replacement=True),
    "exponential": lambda: torch.empty(COUNT, device="npu").exponential_(2),
}


def distance(values: torch.Tensor, distribution: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Kolmogorov-Smirnov distance of the values from a distribution function."""
    ordered = distribution(values.double().cpu().flatten().sort().values)
    steps = torch.arange(len(ordered) + 1, dtype=torch.double) / len(ordered)
    return max((ordered - steps[:-1]).abs().max().item(), (ordered - steps[1:]).abs().max().item())


# What one sample in a thousand of a right generator exceeds.
LARGEST_DISTANCE = 1.95 / math.sqrt(COUNT)


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_same_values_again(name):
    torch.manual_seed(11)
    first, second = DRAWS[name]().cpu(), DRAWS[name]().cpu()
    torch.manual_seed(11)
    assert torch.equal(DRAWS[name]().cpu(), first)
    assert not torch.equal(first, second)
    torch.manual_seed(12)
    assert not torch.equal(DRAWS[name]().cpu(), first)


def test_the_state_of_the_generator_can_be_restored():
    torch.npu.manual_seed(3)
    torch.rand(10, device="npu")
    state = torch.npu.get_rng_state()
    first = torch.randn(100, device="npu").cpu()
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(100, device="npu").cpu(), first)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
def test_uniform_values_stay_below_the_end(dtype):
    torch.manual_seed(1)
    for low, high in ((0.0, 1.0), (-2.0, -1.0), (100.0, 101.0)):
        values = torch.empty(COUNT, dtype=dtype, device="npu").uniform_(low, high)
        assert values.min().item() >= low
        assert values.max().item() < high
        assert abs(values.double().mean().item() - (low + high) / 2) < 0.005 + (0.5 if dtype in FLOATS[1:] else 0)
    values = torch.empty(COUNT, dtype=torch.float32, device="npu").uniform_(-1, 3)
    assert distance(values, lambda x: (x + 1) / 4) < LARGEST_DISTANCE


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
def test_normal_values(dtype):
    torch.manual_seed(2)
    values = torch.empty(COUNT, dtype=dtype, device="npu").normal_(1, 2).cpu().double()
    assert abs(values.mean().item() - 1) < 0.03
    assert abs(values.std().item() - 2) < 0.03
    slack = 0.01 if dtype is torch.bfloat16 else 0.002 if dtype is torch.float16 else 0
    assert distance(values, lambda x: torch.special.ndtr((x - 1) / 2)) < LARGEST_DISTANCE + slack
    assert abs(values[0::2].sub(1).mul(values[1::2].sub(1)).mean().item()) < 0.06


def test_normal_of_tensors_broadcasts():
    torch.manual_seed(3)
    mean = torch.tensor([0.0, 100.0]).npu()
    std = torch.tensor([[1.0], [5.0], [0.0]]).npu()
    values = torch.normal(mean.expand(3, 2).repeat(20_000, 1, 1), std.expand(3, 2).repeat(20_000, 1, 1)).cpu()
    assert torch.allclose(values.mean(0), mean.cpu().expand(3, 2), atol=0.15)
    assert torch.allclose(values.std(0), std.cpu().expand(3, 2), atol=0.1)
    assert torch.normal(mean, 0.0).cpu().tolist() == [0, 100]
    assert torch.normal(4.0, torch.zeros(2, device="npu")).cpu().tolist() == [4, 4]


def test_exponential_values():
    torch.manual_seed(4)
    values = torch.empty(COUNT, device="npu").exponential_(2)
    assert values.min().item() > 0
    assert math.isfinite(values.max().item())
    assert distance(values, lambda x: 1 - torch.exp(-2 * x)) < LARGEST_DISTANCE


def test_bernoulli_and_its_edges():
    torch.manual_seed(6)
    assert abs(torch.empty(COUNT, device="npu").bernoulli_(0.3).mean().item() - 0.3) < 0.006
    probabilities = torch.tensor([0.0, 0.25, 0.5, 1.0]).npu()
    means = torch.bernoulli(probabilities.expand(40_000, 4)).mean(0).cpu()
    assert torch.allclose(means, probabilities.cpu(), atol=0.012)
    assert means[0].item() == 0
    assert means[3].item() == 1
    mask = torch.zeros(1000, dtype=torch.bool, device="npu").bernoulli_(0.5).cpu()
    assert 400 < mask.sum().item() < 600


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32])
def test_random_integers(dtype):
    torch.manual_seed(7)
    values = torch.empty(COUNT, dtype=dtype, device="npu").random_(3, 13).cpu()
    counts = torch.bincount(values.long(), minlength=13)
    assert counts[:3].sum().item() == 0
    assert (counts[3:].float() / COUNT - 0.1).abs().max().item() < 0.005


def test_permutations():
    torch.manual_seed(8)
    for count in (0, 1, 2, 257, 5000):
        order = torch.randperm(count, device="npu").cpu()
        assert torch.equal(order.sort().values, torch.arange(count))
    firsts = torch.stack([torch.randperm(4, device="npu") for _ in range(400)]).cpu()
    for place in range(4):
        assert torch.bincount(firsts[:, place], minlength=4).min().item() > 60
    assert torch.randperm(10, dtype=torch.int32, device="npu").dtype is torch.int32


def test_multinomial():
    torch.manual_seed(9)
    weights = torch.tensor([[1.0, 2.0, 0.0, 5.0], [0.0, 0.0, 3.0, 0.0]]).npu()
    drawn = torch.multinomial(weights, 20_000, replacement=True).cpu()
    shares = torch.stack([torch.bincount(row, minlength=4) for row in drawn]) / 20_000
    assert torch.allclose(shares, (weights / weights.sum(1, keepdim=True)).cpu(), atol=0.012)
    some = torch.multinomial(weights[:1].expand(5000, 4), 2).cpu()
    assert (some[:, 0] != some[:, 1]).all()
    assert (some != 2).all()
    first = torch.bincount(some[:, 0], minlength=4) / 5000
    assert torch.allclose(first, torch.tensor([0.125, 0.25, 0, 0.625]), atol=0.025)


def test_strides_do_not_change_what_is_drawn():
    torch.manual_seed(10)
    dense = torch.empty(40, 30, device="npu").normal_().cpu()
    torch.manual_seed(10)
    strided = torch.empty(30, 40, device="npu").t().normal_().cpu()
    assert torch.equal(strided, dense)
    torch.manual_seed(10)
    base = torch.zeros(40, 60, device="npu")
    base[:, ::2].normal_()
    assert torch.equal(base[:, ::2].cpu(), dense)
    assert base[:, 1::2].abs().sum().item() == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_rrelu(dtype):
    torch.manual_seed(11)
    values = torch.randn(5000, dtype=dtype).npu().requires_grad_()
    result = torch.nn.functional.rrelu(values, 0.1, 0.3, training=True)
    slopes = (result / values).detach().float().cpu()
    negative = values.detach().cpu() < 0
    assert (slopes[~negative] == 1).all()
    assert slopes[negative].min().item() >= 0.09
    assert slopes[negative].max().item() <= 0.31
    assert abs(slopes[negative].mean().item() - 0.2) < 0.01
    inplace = values.detach().clone()
    torch.nn.functional.rrelu_(inplace, 0.1, 0.3, training=False)
    expected = torch.nn.functional.leaky_relu(values.detach().cpu(), 0.2)
    torch.testing.assert_close(inplace.cpu(), expected, rtol=1e-2, atol=1e-3)


def test_a_dropout_in_place_drops_the_same_elements():
    x = torch.randn(100, 12, device="npu")
    torch.manual_seed(2)
    kept = torch.nn.functional.dropout(x, 0.3)
    torch.manual_seed(2)
    torch.nn.functional.dropout(x, 0.3, inplace=True)
    assert torch.equal(kept.cpu(), x.cpu())
    assert 0.2 < (kept == 0).float().mean().item() < 0.4
