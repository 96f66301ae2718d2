"""Figures of torch_npu's own allocators that its own tests demand of real devices, for the settings of this process.

Prints one number a line: what `sys.argv[1]` names.
"""

import sys

import torch
import torch_npu  # noqa: F401

MEBIBYTE = 1 << 20


def pinned(megabytes: int) -> torch.Tensor:
    return torch.ones(megabytes * MEBIBYTE // 4).pin_memory()


def host_bytes() -> tuple[int, int]:
    stats = torch.npu.host_memory_stats()
    return stats.get("active_bytes.current", 0), stats.get("allocated_bytes.current", 0)


def padding() -> list[int]:
    """What allocated bytes grow by when 160 MiB go to the device."""
    before = torch.npu.memory_allocated()
    tensor = torch.ones(40, 1024, 1024).npu()
    return [torch.npu.memory_allocated() - before, tensor.numel()]


def segment_size() -> list[int]:
    tensor = torch.empty(2, 1024, 1024, dtype=torch.float32, device="npu")
    return [torch.npu.memory_reserved(), tensor.numel()]


def host_pages() -> list[int]:
    """Active and allocated bytes with 64 MiB pinned, with nothing, and with 4, 8 and 16 MiB."""
    large = pinned(64)
    figures = [*host_bytes()]
    del large
    figures += host_bytes()
    small = [pinned(4), pinned(8), pinned(16)]
    figures += host_bytes()
    del small
    torch.npu.host_empty_cache()
    return [*figures, *host_bytes()]


if __name__ == "__main__":
    for figure in {"padding": padding, "segment_size": segment_size, "host_pages": host_pages}[sys.argv[1]]():
        print(figure)
