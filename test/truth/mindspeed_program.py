"""One rank of a MindSpeed-LLM training program: `mindspeed_program.py ENTRY ARGUMENTS...`.

Crops each micro-batch to the length that TRUTH_LENGTHS says, and adds to the program's memory report which bytes of
its blocks are remainders: what the allocator did not split off a cached segment, because it was not more than 1 MiB.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PADDING = 32
UNIT = 512


def remainders() -> list[int]:
    """Return the bytes that live blocks have beyond their rounded sizes, one number for each that has any."""
    import torch

    found = []
    for segment in torch.npu.memory_snapshot():
        for block in segment["blocks"]:
            if block["state"] != "active_allocated":
                continue
            rounded = (block["requested_size"] + PADDING + UNIT - 1) // UNIT * UNIT
            if block["size"] > rounded:
                found.append(block["size"] - rounded)
    return found


def with_remainders(report: Callable[..., None]) -> Callable[..., None]:
    """Return Megatron's memory report with a line of ours behind it."""

    def both(name: str) -> None:
        import torch

        report(name)
        told = {"rank": torch.distributed.get_rank(), "remainders": remainders()}
        print("drydock-truth: " + json.dumps(told), flush=True)

    return both


def cropping(broadcast: Callable[..., Any], lengths: list[int]) -> Callable[..., Any]:
    """Return Megatron's broadcast of a micro-batch, which crops the n-th one to the n-th length."""
    count = 0

    def broadcast_cropped(keys: list[str], data: dict[str, Any] | None, dtype: Any) -> Any:
        nonlocal count
        if data is not None:
            length = lengths[min(count, len(lengths) - 1)]
            count += 1
            data = {key: value[:, :length].contiguous() if value.dim() > 1 else value for key, value in data.items()}
        return broadcast(keys, data, dtype)

    return broadcast_cropped


def main() -> None:
    """Run the entry program."""
    entry = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(entry).parent)
    from mindspeed_llm import megatron_adaptor  # noqa: F401  (the entry's own first import: it patches Megatron)

    lengths = [int(length) for length in os.environ["TRUTH_LENGTHS"].split(",") if length]
    if lengths:
        from megatron.core import tensor_parallel

        tensor_parallel.broadcast_data = cropping(tensor_parallel.broadcast_data, lengths)
    import mindspeed_llm.training.training

    mindspeed_llm.training.training.report_memory = with_remainders(mindspeed_llm.training.training.report_memory)
    runpy.run_path(entry, run_name="__main__")


if __name__ == "__main__":
    main()
