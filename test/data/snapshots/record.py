"""Records the snapshots of this folder: the allocator of torch_npu on a virtual device, as it dumps them itself.

drydock run -- python record.py whole.pickle            the history from the first allocation on
drydock run -- python record.py ring.pickle --entries 60    a ring buffer that was full: it lost its head
PYTORCH_NPU_ALLOC_CONF=expandable_segments:True drydock run -- python record.py expandable.pickle --protocol 2
drydock run -- python record.py late.pickle --late --protocol 5     recording was switched on mid-run

Frames are cut to the program's own, so that the files stay small.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

import torch
import torch_npu  # noqa: F401


def own_frames(frames: list[dict]) -> list[dict]:
    """Return the frames of this program, without the folder."""
    return [{**frame, "filename": "record.py"} for frame in frames if frame["filename"].endswith("record.py")]


def work(rounds: int) -> list[torch.Tensor]:
    """Allocate, free, split, merge and use blocks on a second stream; return what stays."""
    kept: list[torch.Tensor] = []
    side = torch.npu.Stream()
    for index in range(rounds):
        small = [torch.empty(100 + 37 * index + 10 * piece, device="npu") for piece in range(4)]
        large = torch.empty((3 + index) << 18, device="npu")
        larger = torch.empty((5 + 3 * index) << 19, device="npu")
        with torch.npu.stream(side):
            large.record_stream(side)
        kept += [small[index % 4], larger[: 1 << 10].clone()]
        if index % 2:
            kept.append(large)
        del small, large, larger
        if index == rounds // 2:
            torch.npu.empty_cache()
    return kept


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--protocol", type=int, default=4)
    parser.add_argument("--late", action="store_true")
    options = parser.parse_args()
    kept = work(6) if options.late else []
    torch.npu.memory._record_memory_history(max_entries=options.entries)
    kept += work(8)
    snapshot = torch.npu.memory._snapshot()
    for trace in snapshot["device_traces"]:
        for entry in trace:
            entry["frames"] = own_frames(entry.get("frames", []))
    for segment in snapshot["segments"]:
        segment["frames"] = own_frames(segment.get("frames", []))
        for block in segment["blocks"]:
            block["frames"] = own_frames(block.get("frames", []))
    Path(options.file).write_bytes(pickle.dumps(snapshot, protocol=options.protocol))
    print(len(kept), torch.npu.memory_allocated(), torch.npu.memory_reserved())


if __name__ == "__main__":
    main()
