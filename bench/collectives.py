"""Times of collectives among the local ranks: run it under `drydock run --devices 4 --values full -- torchrun`.

Prints JSON from rank 0: the time of 64 MiB all_reduces beside memcpy's, and of small all_reduces, through
torch.distributed and by HcclAllReduce itself (most of the former is torch's own).
"""

import ctypes
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401


def times_of_the_door(rank: int, tensor: torch.Tensor, rounds: int) -> list[float]:
    """Seconds of all_reduces that are called without torch, each to its end."""
    hccl, acl = ctypes.CDLL("libhccl.so"), ctypes.CDLL("libascendcl.so")
    group = dist.group.WORLD._get_backend(torch.device("npu"))
    communicator = ctypes.c_void_p(group.get_hccl_comm(rank))
    stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
    buffer, count = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_uint64(tensor.numel())
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        failure = hccl.HcclAllReduce(buffer, buffer, count, 4, 0, communicator, stream)
        failure = failure or acl.aclrtSynchronizeStream(stream)
        times.append(time.perf_counter() - begin)
        if failure:
            message = f"HcclAllReduce or the wait for it failed: {failure}"
            raise RuntimeError(message)
    return times


def main() -> None:
    rank = int(os.environ["LOCAL_RANK"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    large = torch.ones(16 << 20).npu()
    dist.all_reduce(large)
    torch.npu.synchronize()
    times = []
    for _ in range(7):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(large)
        torch.npu.synchronize()
        times.append(time.perf_counter() - begin)
    dist.barrier()
    copies = []
    if rank == 0:
        source, target = torch.ones(16 << 20), torch.zeros(16 << 20)
        for _ in range(7):
            begin = time.perf_counter()
            target.copy_(source)
            copies.append(time.perf_counter() - begin)
    dist.barrier()
    small = torch.ones(8).npu()
    dist.all_reduce(small)
    torch.npu.synchronize()
    begin = time.perf_counter()
    for _ in range(1000):
        dist.all_reduce(small)
    torch.npu.synchronize()
    streamed = (time.perf_counter() - begin) / 1000
    alone = []
    for _ in range(1000):
        begin = time.perf_counter()
        dist.all_reduce(small)
        torch.npu.synchronize()
        alone.append(time.perf_counter() - begin)
    dist.barrier()
    torch.npu.synchronize()
    door = times_of_the_door(rank, small, 1000)
    if rank == 0:
        result = {
            "ranks": dist.get_world_size(),
            "all_reduce_64MiB_ms": round(min(times) * 1e3, 2),
            "all_reduce_64MiB_median_ms": round(statistics.median(times) * 1e3, 2),
            "memcpy_64MiB_ms": round(min(copies) * 1e3, 2),
            "memcpy_64MiB_median_ms": round(statistics.median(copies) * 1e3, 2),
            "small_in_a_row_us": round(streamed * 1e6, 1),
            "small_each_synchronised_us": round(statistics.median(alone) * 1e6, 1),
            "small_by_the_door_us": round(statistics.median(door) * 1e6, 1),
        }
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
