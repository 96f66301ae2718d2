"""Streams, events and pinned memory as they are meant to be used: nothing here races."""

import threading
import time

import torch
import torch_npu  # noqa: F401
from torch.utils.data import DataLoader, TensorDataset

ROWS = 512
main = torch.npu.current_stream()
side = torch.npu.Stream()
third = torch.npu.Stream()


def ones() -> torch.Tensor:
    return torch.ones(ROWS, ROWS, device="npu")


def double_buffer() -> None:
    buffers = [ones(), ones()]
    filled = [torch.npu.Event(), torch.npu.Event()]
    used = [torch.npu.Event(), torch.npu.Event()]
    side.wait_stream(main)
    for event in used:
        event.record()
    for step in range(8):
        slot = step % 2
        with torch.npu.stream(side):
            side.wait_event(used[slot])
            buffers[slot].fill_(step)
            filled[slot].record()
        main.wait_event(filled[slot])
        buffers[slot].mul(2)
        used[slot].record()


def data_loader() -> None:
    data = TensorDataset(torch.ones(64, ROWS), torch.ones(64, dtype=torch.long))
    model = torch.nn.Linear(ROWS, 8).npu()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for inputs, labels in DataLoader(data, batch_size=8, pin_memory=True):
        x = inputs.to("npu", non_blocking=True)
        y = labels.to("npu", non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()


def prefetch() -> None:
    # The next batch is copied on a stream of its own while this one is worked on.
    sources = [torch.ones(ROWS, ROWS).pin_memory() for _ in range(6)]
    ready = None
    for source in sources:
        with torch.npu.stream(side):
            coming = source.to("npu", non_blocking=True)
        if ready is not None:
            ready.mul(2)
        main.wait_stream(side)
        coming.record_stream(main)
        ready = coming


def recorded_blocks() -> None:
    for _ in range(6):
        x = ones()
        side.wait_stream(main)
        with torch.npu.stream(side):
            x.mul(2)
        x.record_stream(side)
        del x


def autograd() -> None:
    weight = ones().requires_grad_()
    for _ in range(3):
        side.wait_stream(main)
        with torch.npu.stream(side):
            left = (weight * 2).sum()
        right = (weight * 3).sum()
        main.wait_stream(side)
        left.record_stream(main)
        (left + right).backward()
        with torch.no_grad():
            weight.sub_(weight.grad)
        weight.grad = None
    torch.npu.synchronize()


def disjoint_views() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x[:, : ROWS // 2].add_(1)
        x[::2, ROWS // 2 :].add_(1)
    x[1::2, ROWS // 2 :].add_(1)
    main.wait_stream(side)
    x.mul(2)


def queries() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.add_(1)
        done = torch.npu.Event()
        done.record()
    while not done.query():
        time.sleep(0.001)
    x.add_(1)
    third.wait_stream(main)
    with torch.npu.stream(third):
        x.add_(1)
    while not third.query():
        time.sleep(0.001)
    x.add_(1)


def host_waits() -> None:
    x = ones()
    result = torch.empty(ROWS, ROWS, pin_memory=True)
    main.synchronize()
    with torch.npu.stream(side):
        x.add_(1)
        result.copy_(x, non_blocking=True)
        done = torch.npu.Event()
        done.record()
    done.synchronize()
    assert result[0, 0] == 2
    result.to("npu", non_blocking=True)
    x.mul_(2)
    torch.npu.synchronize()
    with torch.npu.stream(third):
        x.add_(1)
    third.synchronize()
    x.cpu()


def chain() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.add_(1)
    third.wait_stream(side)
    main.wait_stream(third)
    x.add_(1)


def threads() -> None:
    # A worker thread fills, the main thread takes over after the worker waited for its stream.
    x = ones()
    main.synchronize()

    def fill() -> None:
        torch.npu.set_device(0)
        with torch.npu.stream(side):
            x.add_(1)
            side.synchronize()

    worker = threading.Thread(target=fill)
    worker.start()
    worker.join()
    x.add_(1)


def mixed_precision() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(ROWS, ROWS), torch.nn.GELU(), torch.nn.Linear(ROWS, 8)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.npu.amp.GradScaler()
    for _ in range(3):
        with torch.autocast("npu", dtype=torch.float16):
            loss = model(ones()).float().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


if __name__ == "__main__":
    for part in (
        double_buffer,
        data_loader,
        prefetch,
        recorded_blocks,
        autograd,
        disjoint_views,
        queries,
        host_waits,
        chain,
        threads,
        mixed_precision,
    ):
        part()
        main.wait_stream(side)
        side.wait_stream(main)
        third.wait_stream(main)
    print("all parts ran")
