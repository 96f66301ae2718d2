"""Thirteen missing waits, each with the two lines that race marked `# NAME: first` and `# NAME: second`.

A case in which a block is freed too early marks that line `# NAME: freed`.
"""

import torch
import torch_npu  # noqa: F401

ROWS = 1024
main = torch.npu.current_stream()
side = torch.npu.Stream()
other = torch.npu.Stream()


def ones() -> torch.Tensor:
    return torch.ones(ROWS, ROWS, device="npu")


def read_after_write() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.add_(1)  # read_after_write: first
    x.mul(2)  # read_after_write: second
    x.mul(3)


def write_after_read() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.mul(2)  # write_after_read: first
    x.add_(1)  # write_after_read: second


def write_after_write() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.zero_()  # write_after_write: first
    x.fill_(3)  # write_after_write: second


def event_too_early() -> None:
    x = ones()
    side.wait_stream(main)
    done = torch.npu.Event()
    with torch.npu.stream(side):
        x.add_(1)
        done.record()
        x.add_(2)  # event_too_early: first
    main.wait_event(done)
    x.mul(2)  # event_too_early: second


def wrong_stream() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.add_(1)  # wrong_stream: first
    main.wait_stream(other)
    x.mul(2)  # wrong_stream: second


def missing_record_stream() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.mul(2)  # missing_record_stream: first
    del x  # missing_record_stream: freed
    torch.full((ROWS, ROWS), 2.0, device="npu")  # missing_record_stream: second


def missing_record_of_the_other_side() -> None:
    with torch.npu.stream(side):
        x = torch.ones(ROWS, ROWS, device="npu")
    main.wait_stream(side)
    x.mul(2)  # missing_record_of_the_other_side: first
    del x  # missing_record_of_the_other_side: freed
    with torch.npu.stream(side):
        torch.ones(ROWS, ROWS, device="npu")  # missing_record_of_the_other_side: second


def columns_that_overlap() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x[:, :600].add_(1)  # columns_that_overlap: first
    x[:, 512:].add_(1)  # columns_that_overlap: second


def prefetch_without_wait() -> None:
    source = torch.ones(ROWS, ROWS).pin_memory()
    with torch.npu.stream(side):
        batch = source.to("npu", non_blocking=True)  # prefetch_without_wait: first
    batch.mul(2)  # prefetch_without_wait: second
    torch.npu.synchronize()


def pinned_copy_without_wait() -> None:
    x = ones()
    result = torch.empty(ROWS, ROWS, pin_memory=True)
    side.wait_stream(main)
    with torch.npu.stream(side):
        result.copy_(x, non_blocking=True)  # pinned_copy_without_wait: first
    result.to("npu", non_blocking=True)  # pinned_copy_without_wait: second
    torch.npu.synchronize()


def buffer_taken_too_early() -> None:
    buffer = ones()
    side.wait_stream(main)
    for _ in range(4):
        buffer.fill_(1)  # buffer_taken_too_early: second
        side.wait_stream(main)
        with torch.npu.stream(side):
            buffer.mul(2)  # buffer_taken_too_early: first


def host_copy_without_wait() -> None:
    x = ones()
    side.wait_stream(main)
    with torch.npu.stream(side):
        x.add_(1)  # host_copy_without_wait: first
    x.cpu()  # host_copy_without_wait: second


def one_of_a_list() -> None:
    xs = [ones() for _ in range(4)]
    side.wait_stream(main)
    with torch.npu.stream(side):
        torch._foreach_add_(xs, 1)  # one_of_a_list: first
    xs[2].mul(2)  # one_of_a_list: second


CASES = [
    read_after_write,
    write_after_read,
    write_after_write,
    event_too_early,
    wrong_stream,
    missing_record_stream,
    missing_record_of_the_other_side,
    columns_that_overlap,
    prefetch_without_wait,
    pinned_copy_without_wait,
    buffer_taken_too_early,
    host_copy_without_wait,
    one_of_a_list,
]

if __name__ == "__main__":
    for case in CASES:
        case()
        torch.npu.synchronize()
        torch.npu.empty_cache()
