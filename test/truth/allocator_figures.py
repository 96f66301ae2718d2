"""Figures of torch_npu's own allocators that its own tests demand of real devices, for the settings of this process.

Prints one number a line: what `sys.argv[1]` names.
"""

import sys

import torch
import torch_npu  # noqa: F401


def padding() -> list[int]:
    """What allocated bytes grow by when 160 MiB go to the device."""
    before = torch.npu.memory_allocated()
    tensor = torch.ones(40, 1024, 1024).npu()
    return [torch.npu.memory_allocated() - before, tensor.numel()]


def segment_size() -> list[int]:
    tensor = torch.empty(2, 1024, 1024, dtype=torch.float32, device="npu")
    return [torch.npu.memory_reserved(), tensor.numel()]


if __name__ == "__main__":
    for figure in {"padding": padding, "segment_size": segment_size}[sys.argv[1]]():
        print(figure)
