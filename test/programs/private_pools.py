"""Private pools that come and go, and addresses that are given up while their memory is kept.

Run under any setting of the allocator; what needs expandable segments is left out without them.
"""

from __future__ import annotations

import gc
import os

import torch
import torch_npu

MIB = 1 << 20


def fill(sizes: list[int]) -> list[torch.Tensor]:
    return [torch.empty(size, dtype=torch.uint8, device="npu") for size in sizes]


def use_and_drop_pool(held: int) -> list[torch.Tensor]:
    """Return the first `held` of the tensors of a pool that is let go; what is left of it goes back later."""
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        tensors = fill([30 * MIB, 1000, 3 * MIB, 5000, 12 * MIB])
    other = torch.npu.Stream()
    tensors[2].record_stream(other)
    outside = fill([2 * MIB, 700])
    kept = tensors[:held]
    del tensors
    torch.npu.empty_cache()
    del pool
    gc.collect()
    del outside
    return kept


def main() -> None:
    torch.npu.set_device(0)
    for held in (0, 1, 3, 5):
        kept = use_and_drop_pool(held)
        again = fill([20 * MIB, 300])
        torch.npu.empty_cache()
        del kept
        torch.npu.empty_cache()
        del again
    if "expandable_segments:True" in os.environ.get("PYTORCH_NPU_ALLOC_CONF", ""):
        held_tensors = fill([MIB, 40 * MIB, 100])
        fill([90 * MIB])
        torch_npu.npu.empty_virt_addr_cache()
        more = fill([70 * MIB, 4000])
        del held_tensors, more
        torch.npu.empty_cache()
        fill([50 * MIB])
    print("pools done")


if __name__ == "__main__":
    main()
