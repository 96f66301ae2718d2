"""Random programs for the client's allocator, one after another: its model is compared with what they do.

random_allocations.py FIRST_SEED COUNT. Each program makes and drops tensors of odd sizes on several streams, uses them
on other streams, waits, empties the cache, limits the process's memory, and goes on after out-of-memory. In between
everything is freed.
"""

from __future__ import annotations

import random
import sys

import torch
import torch_npu  # noqa: F401


def one_size(draw: random.Random, largest_bits: int) -> int:
    bits = draw.randint(0, largest_bits)
    return draw.randint(1 << bits, 2 << bits)


def run_program(seed: int, streams: list[torch.npu.Stream]) -> None:
    draw = random.Random(seed)
    # From programs of small tensors to such as fill the device.
    largest_bits = draw.choice((12, 20, 24, 27, 31))
    limited = draw.random() < 0.4
    if limited:
        torch.npu.set_per_process_memory_fraction(draw.choice((0.002, 0.01, 0.05, 0.3)))
    mine = draw.sample(streams, draw.randint(1, len(streams)))
    live: list[torch.Tensor] = []
    for _ in range(draw.randint(50, 300)):
        dice = draw.random()
        if dice < 0.55 or not live:
            with torch.npu.stream(draw.choice(mine)):
                try:
                    live.append(torch.empty(one_size(draw, largest_bits), dtype=torch.uint8, device="npu"))
                except torch.OutOfMemoryError:
                    del live[: len(live) // 2]
        elif dice < 0.9:
            tensor = live.pop(draw.randrange(len(live)))
            for _ in range(draw.choice((0, 0, 0, 1, 2))):
                tensor.record_stream(draw.choice(streams))
            del tensor
        elif dice < 0.93:
            draw.choice(live).record_stream(draw.choice(streams))
        elif dice < 0.95:
            torch.npu.synchronize()
        elif dice < 0.97:
            event = torch.npu.Event()
            event.record(draw.choice(streams))
            draw.choice(streams).wait_event(event)
        elif dice < 0.98:
            torch.npu.empty_cache()
        else:
            live[-1].zero_()
    live.clear()
    if limited:
        torch.npu.set_per_process_memory_fraction(1.0)
    torch.npu.synchronize()
    torch.npu.empty_cache()


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    torch.npu.set_device(0)
    streams = [torch.npu.default_stream(), *(torch.npu.Stream() for _ in range(3))]
    for seed in range(first, first + count):
        run_program(seed, streams)
    print(f"{count} programs done")


if __name__ == "__main__":
    main()
