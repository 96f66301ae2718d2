"""Figures of torch_npu's own allocators that its own tests demand of real devices, for the settings of this process.

Prints one number a line: what `sys.argv[1]` names.
"""

import sys

import torch
import torch_npu  # noqa: F401

MEBIBYTE = 1 << 20


def padding() -> list[int]:
    """What allocated bytes grow by when 160 MiB go to the device."""
    before = torch.npu.memory_allocated()
    tensor = torch.ones(40, 1024, 1024).npu()
    return [torch.npu.memory_allocated() - before, tensor.numel()]


def segment_size() -> list[int]:
    tensor = torch.empty(2, 1024, 1024, dtype=torch.float32, device="npu")
    return [torch.npu.memory_reserved(), tensor.numel()]


def pinned_pages() -> list[int]:
    """Pinned memory in expandable pages of 20 MiB: what is in use and what is held; at the end the peaks of both."""

    def used_and_held(point: str = "current") -> list[int]:
        stats = torch.npu.host_memory_stats()
        return [stats.get(f"active_bytes.{point}", 0), stats.get(f"allocated_bytes.{point}", 0)]

    def pinned(mebibytes: int) -> torch.Tensor:
        return torch.ones(mebibytes * MEBIBYTE // 4).pin_memory()

    first = pinned(64)
    figures = used_and_held()
    del first
    figures += used_and_held()
    several = [pinned(size) for size in (4, 8, 16)]
    figures += used_and_held()
    del several
    torch.npu.host_empty_cache()
    figures += used_and_held()
    pair = [pinned(40), pinned(40)]
    del pair
    figures += used_and_held()
    joined = pinned(64)
    torch.npu.host_empty_cache()  # gives back the one page that nothing lies in
    figures += used_and_held()
    joined.fill_(2)
    if joined.npu().sum().item() != 2 * joined.numel():
        sys.exit("a copy from pinned pages brought something else to the device")
    del joined
    torch.npu.host_empty_cache()
    return figures + used_and_held() + used_and_held("peak")


if __name__ == "__main__":
    for figure in {"padding": padding, "segment_size": segment_size, "pinned_pages": pinned_pages}[sys.argv[1]]():
        print(figure)
