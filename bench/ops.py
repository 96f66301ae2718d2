"""How fast 50 operators are on a virtual NPU, against torch's own CPU kernels in the same process.

    drydock run --values full --threads 2 -- python bench/ops.py --threads 2

Each operator runs on both devices in turn, over and over; the figures are medians, or minima. A ratio of 1 is the
speed of torch's CPU kernel.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
# An operator: its name, and what makes its inputs on a device and returns the call to measure.
Case = tuple[str, Callable[[Callable[..., Tensor]], Callable[[], Any]]]

MEBI = 1 << 20


def unary(function: Callable[[Tensor], Tensor], positive: bool = False) -> Callable[..., Callable[[], Any]]:
    """A function of a million fp32 values."""

    def make(random: Callable[..., Tensor]) -> Callable[[], Any]:
        x = random(MEBI)
        if positive:
            x = x.abs() + 0.1
        return lambda: function(x)

    return make


def binary(function: Callable[..., Tensor], dtype: torch.dtype = torch.float32) -> Callable[..., Callable[[], Any]]:
    """A function of two tensors of a million values."""

    def make(random: Callable[..., Tensor]) -> Callable[[], Any]:
        x, y = random(MEBI).to(dtype), random(MEBI).to(dtype)
        return lambda: function(x, y)

    return make


def on_matrix(function: Callable[[Tensor], Any]) -> Callable[..., Callable[[], Any]]:
    """A function of a matrix of a million values."""

    def make(random: Callable[..., Tensor]) -> Callable[[], Any]:
        x = random(1024, 1024)
        return lambda: function(x)

    return make


def where(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Choice between two tensors."""
    x, y = random(MEBI), random(MEBI)
    condition = x > 0
    return lambda: torch.where(condition, x, y)


def masked_fill(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Fill where a mask says."""
    x = random(MEBI)
    mask = x > 0
    return lambda: x.masked_fill(mask, 1.0)


def concatenate(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Join two halves along the last dimension."""
    x, y = random(1024, 512), random(1024, 512)
    return lambda: torch.cat([x, y], 1)


def dropout(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Zero one value in ten."""
    x = random(MEBI)
    return lambda: F.dropout(x, 0.1, training=True)


def layer_norm(backward: bool) -> Callable[..., Callable[[], Any]]:
    """Normalise rows of 1024, forward or both ways."""

    def make(random: Callable[..., Tensor]) -> Callable[[], Any]:
        x, weight, bias, grad = random(1024, 1024), random(1024), random(1024), random(1024, 1024)
        if not backward:
            return lambda: F.layer_norm(x, (1024,), weight, bias)
        leaves = [t.requires_grad_() for t in (x, weight, bias)]
        return lambda: torch.autograd.grad(F.layer_norm(x, (1024,), weight, bias), leaves, grad)

    return make


def rms_norm(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Normalise rows of 1024 by their root mean square."""
    x, weight = random(1024, 1024), random(1024)
    if x.device.type == "npu":
        import torch_npu

        return lambda: torch_npu.npu_rms_norm(x, weight, 1e-6)[0]
    return lambda: F.rms_norm(x, (1024,), weight, 1e-6)


def batch_norm(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Batch statistics of 64 channels, in training."""
    x, mean, variance, weight, bias = random(16, 64, 32, 32), random(64), random(64), random(64), random(64)
    return lambda: F.batch_norm(x, mean, variance, weight, bias, training=True)


def embedding(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """8192 rows of 128 from a table of 32000."""
    table = random(32000, 128)
    rows = (random(8192).abs() * 8000).long().clamp(max=31999)
    return lambda: F.embedding(rows, table)


def gather(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """One element for each place, along the last dimension."""
    x = random(1024, 1024)
    places = (random(1024, 1024).abs() * 250).long().clamp(max=1023)
    return lambda: torch.gather(x, 1, places)


def index_select(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """1024 rows in another order."""
    x = random(1024, 1024)
    rows = (random(1024).abs() * 250).long().clamp(max=1023)
    return lambda: torch.index_select(x, 0, rows)


def scatter_add(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Sums at places along the last dimension."""
    x, source = random(1024, 1024), random(1024, 1024)
    places = (random(1024, 1024).abs() * 250).long().clamp(max=1023)
    return lambda: torch.scatter_add(x, 1, places, source)


def matmul(dtype: torch.dtype) -> Callable[..., Callable[[], Any]]:
    """Product of two matrices of 1024 by 1024."""

    def make(random: Callable[..., Tensor]) -> Callable[[], Any]:
        x, y = random(1024, 1024).to(dtype), random(1024, 1024).to(dtype)
        return lambda: x @ y

    return make


def linear(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """256 rows through a layer of 1024 by 4096 with a bias."""
    x, weight, bias = random(256, 1024), random(4096, 1024), random(4096)
    return lambda: F.linear(x, weight, bias)


def convolution(
    batch: int, channels: int, filters: int, size: int, kernel: int, stride: int
) -> Callable[..., Callable[[], Any]]:
    """One of ResNet's convolutions."""

    def make(random: Callable[..., Tensor]) -> Callable[[], Any]:
        x, weight = random(batch, channels, size, size), random(filters, channels, kernel, kernel)
        return lambda: F.conv2d(x, weight, stride=stride, padding=kernel // 2)

    return make


def max_pool(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """ResNet's pooling."""
    x = random(4, 64, 112, 112)
    return lambda: F.max_pool2d(x, 3, 2, 1)


def attention(backward: bool) -> Callable[..., Callable[[], Any]]:
    """8 batches, 8 heads, 512 tokens, 64 values a head; forward or both ways."""

    def make(random: Callable[..., Tensor]) -> Callable[[], Any]:
        q, k, v, grad = (random(8, 8, 512, 64).to(torch.bfloat16) for _ in range(4))
        if not backward:
            return lambda: F.scaled_dot_product_attention(q, k, v)
        leaves = [t.requires_grad_() for t in (q, k, v)]
        return lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), leaves, grad)

    return make


def cross_entropy(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """Loss of 256 rows of 4096 classes, both ways."""
    logits = random(256, 4096).requires_grad_()
    labels = (random(256).detach().abs() * 1000).long().clamp(max=4095)
    return lambda: torch.autograd.grad(F.cross_entropy(logits, labels), [logits])


def adamw(random: Callable[..., Tensor]) -> Callable[[], Any]:
    """A step of AdamW over four parameters of 256 Ki values."""
    parameters = [random(MEBI // 4).requires_grad_() for _ in range(4)]
    for parameter in parameters:
        parameter.grad = parameter.detach() * 0.1
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    return optimizer.step


CASES: list[Case] = [
    ("add", binary(torch.add)),
    ("mul", binary(torch.mul)),
    ("div", binary(torch.div)),
    ("add bf16", binary(torch.add, torch.bfloat16)),
    ("exp", unary(torch.exp)),
    ("log", unary(torch.log, positive=True)),
    ("tanh", unary(torch.tanh)),
    ("sigmoid", unary(torch.sigmoid)),
    ("gelu", unary(F.gelu)),
    ("silu", unary(F.silu)),
    ("sqrt", unary(torch.sqrt, positive=True)),
    ("rsqrt", unary(torch.rsqrt, positive=True)),
    ("sin", unary(torch.sin)),
    ("pow 2.5", unary(lambda x: torch.pow(x, 2.5), positive=True)),
    ("clamp", unary(lambda x: x.clamp(-0.5, 0.5))),
    ("where", where),
    ("masked_fill", masked_fill),
    ("fp32 to bf16", unary(lambda x: x.to(torch.bfloat16))),
    ("copy of a transpose", on_matrix(lambda x: x.t().contiguous())),
    ("cat", concatenate),
    ("sum", unary(torch.sum)),
    ("sum of rows", on_matrix(lambda x: x.sum(1))),
    ("mean of columns", on_matrix(lambda x: x.mean(0))),
    ("max of rows", on_matrix(lambda x: x.max(1))),
    ("argmax", on_matrix(lambda x: x.argmax(1))),
    ("softmax", on_matrix(lambda x: x.softmax(1))),
    ("log_softmax", on_matrix(lambda x: x.log_softmax(1))),
    ("cumsum", on_matrix(lambda x: x.cumsum(1))),
    ("sort", on_matrix(lambda x: x.sort(1))),
    ("topk 50", on_matrix(lambda x: x.topk(50, 1))),
    ("dropout", dropout),
    ("layer_norm", layer_norm(backward=False)),
    ("layer_norm, both ways", layer_norm(backward=True)),
    ("rms_norm", rms_norm),
    ("batch_norm", batch_norm),
    ("embedding", embedding),
    ("gather", gather),
    ("index_select", index_select),
    ("scatter_add", scatter_add),
    ("matmul fp32", matmul(torch.float32)),
    ("matmul bf16", matmul(torch.bfloat16)),
    ("linear", linear),
    ("conv 7x7/2, 3 to 64", convolution(4, 3, 64, 224, 7, 2)),
    ("conv 3x3, 64 to 64", convolution(4, 64, 64, 56, 3, 1)),
    ("conv 1x1, 256 to 64", convolution(4, 256, 64, 56, 1, 1)),
    ("max_pool", max_pool),
    ("attention bf16", attention(backward=False)),
    ("attention bf16, both ways", attention(backward=True)),
    ("cross_entropy, both ways", cross_entropy),
    ("adamw", adamw),
]


def generator_on(device: str) -> Callable[..., Tensor]:
    """Normal values from one seed, the same on both devices."""
    generator = torch.Generator().manual_seed(1)
    return lambda *size: torch.randn(*size, generator=generator).to(device)


# What the times are of: the wall clock, or the processor time of all threads of this process.
clock = time.perf_counter


def milliseconds(call: Callable[[], Any], repeats: int, synchronize: bool) -> float:
    """Mean time of some calls in a row."""
    start = clock()
    for _ in range(repeats):
        call()
    if synchronize:
        torch.npu.synchronize()
    return (clock() - start) * 1e3 / repeats


def measure(case: Case, rounds: int, budget_ms: float, of_turns: Callable[[list[float]], float]) -> tuple[float, float]:
    """What `of_turns` makes of the times on the CPU and on the device, taken in turns."""
    calls = [(case[1](generator_on(device)), device == "npu") for device in ("cpu", "npu")]
    repeats = []
    for call, synchronize in calls:
        milliseconds(call, 1, synchronize)
        once = min(milliseconds(call, 1, synchronize) for _ in range(2))
        repeats.append(max(1, min(100, int(budget_ms / max(once, 1e-3)))))
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for side, (call, synchronize) in enumerate(calls):
            times[side].append(milliseconds(call, repeats[side], synchronize))
    return of_turns(times[0]), of_turns(times[1])


def results(
    cases: list[Case], rounds: int, budget_ms: float, of_turns: Callable[[list[float]], float]
) -> Iterator[dict[str, Any]]:
    """Measure one case after the other; an operator that the device refuses has a reason and no times."""
    for number, case in enumerate(cases, 1):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{number} of {len(cases)}: {case[0]}", end="", file=sys.stderr, flush=True)
        try:
            cpu, npu = measure(case, rounds, budget_ms, of_turns)
            yield {"operator": case[0], "cpu_ms": cpu, "npu_ms": npu, "ratio": npu / cpu}
        except RuntimeError as error:
            yield {"operator": case[0], "reason": str(error).strip().splitlines()[0]}
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def main() -> int:
    """Measure, and print a table or JSON."""
    global clock
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of torch's CPU side")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each operator on each device")
    parser.add_argument("--budget-ms", type=float, default=40, help="aim of one turn")
    parser.add_argument(
        "--minima", action="store_true", help="take the shortest turn, not the median: for machines with other work"
    )
    parser.add_argument(
        "--processor-time", action="store_true", help="measure processor time, not the wall clock, where others compute"
    )
    parser.add_argument("--only", default="", help="operators with this text in their name")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_args()
    if not torch.npu.is_available() or os.environ.get("DRYDOCK_VALUES") != "full":
        print("no NPU: run this as `drydock run --values full -- python bench/ops.py`", file=sys.stderr)
        return 2
    if int(os.environ.get("DRYDOCK_THREADS") or len(os.sched_getaffinity(0))) != options.threads:
        print(
            "the device computes with another number of threads: give --threads to `drydock run` too", file=sys.stderr
        )
        return 2
    torch.set_num_threads(options.threads)
    if options.processor_time:
        clock = time.process_time
    cases = [case for case in CASES if options.only in case[0]]
    of_turns = min if options.minima else statistics.median
    found = list(results(cases, options.rounds, options.budget_ms, of_turns))
    measured = [row["ratio"] for row in found if "ratio" in row]
    geomean = math.exp(statistics.fmean(map(math.log, measured))) if measured else math.nan
    if options.json:
        print(json.dumps({"threads": options.threads, "geomean": geomean, "operators": found}, indent=1))
        return 0
    print(f"{'operator':28} {'CPU ms':>9} {'NPU ms':>9} {'ratio':>6}")
    for row in found:
        if "ratio" in row:
            print(f"{row['operator']:28} {row['cpu_ms']:9.3f} {row['npu_ms']:9.3f} {row['ratio']:6.2f}")
        else:
            print(f"{row['operator']:28} {row['reason'][:70]}")
    print(f"geometric mean of {len(measured)} ratios, {options.threads} threads: {geomean:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
