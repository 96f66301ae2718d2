"""A data loader with worker processes and pinned memory feeding the device asynchronously from several threads."""

import threading

import torch
from torch.utils.data import DataLoader, TensorDataset


def consume(name: int, results: list) -> None:
    """Copy every batch to the device on a stream of this thread's own, and back."""
    data = TensorDataset(torch.arange(256, dtype=torch.float32).reshape(64, 4) + name, torch.arange(64))
    loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
    stream = torch.npu.Stream()
    total = 0
    with torch.npu.stream(stream):
        for values, labels in loader:
            if not values.is_pinned():
                raise SystemExit("the loader's batch is not pinned")
            on_device = values.to("npu", non_blocking=True)
            back = on_device.cpu()
            if not torch.equal(back, values):
                raise SystemExit("the copy came back changed")
            total += int(labels.to("npu", non_blocking=True).sum().item())
    stream.synchronize()
    results[name] = total


if __name__ == "__main__":
    results = [0, 0]
    torch.npu.set_device(0)
    threads = [threading.Thread(target=consume, args=(name, results)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if results != [2016, 2016]:
        raise SystemExit(f"wrong sums {results}")
    print("done", results)
