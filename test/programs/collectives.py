"""Every collective among the ranks that torchrun starts, with exact values: names what is wrong, else says `right`."""

import os
import sys

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

RANK, RANKS = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
EVERY = range(RANKS)
wrong: list[str] = []


def check(name: str, got: object, want: object) -> None:
    equal = torch.equal(got.cpu(), want) if isinstance(got, torch.Tensor) else got == want
    if not equal:
        wrong.append(name)
        print(f"rank {RANK}: {name} gave {got}, not {want}", flush=True)


def given(rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What `rank` brings: small whole numbers, so that every order of a sum gives the same."""
    return (torch.arange(count) % 3 + rank + 1).to(dtype)


def reductions() -> None:
    fold = {"SUM": torch.add, "PRODUCT": torch.mul, "MAX": torch.maximum, "MIN": torch.minimum}
    types = (torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32)
    for dtype in types:
        for op, combine in fold.items():
            if op == "PRODUCT" and dtype in (torch.int16, torch.bfloat16):
                continue  # not on this chip
            want = given(0, 5)
            for rank in EVERY[1:]:
                want = combine(want, given(rank, 5))
            got = given(RANK, 5, dtype).npu()
            dist.all_reduce(got, op=getattr(dist.ReduceOp, op))
            check(f"all_reduce {op} {dtype}", got, want.to(dtype))
    for count in (3001, 100003):
        got = given(RANK, count).npu()
        dist.all_reduce(got)
        check(f"all_reduce of {count}", got, sum(given(rank, count) for rank in EVERY))
    got = torch.full((6,), float(RANK)).npu()
    dist.all_reduce(got, op=dist.ReduceOp.AVG)
    check("average", got, torch.full((6,), sum(EVERY) / RANKS))


def gathers(count: int) -> None:
    mine = given(RANK, count).npu()
    all_of_them = torch.cat([given(rank, count) for rank in EVERY])
    pieces = [torch.zeros(count).npu() for _ in EVERY]
    dist.all_gather(pieces, mine)
    check("all_gather", torch.cat(pieces), all_of_them)
    got = torch.zeros(RANKS * count).npu()
    dist.all_gather_into_tensor(got, mine)
    check("all_gather_into_tensor", got, all_of_them)
    got = torch.zeros(RANKS * count).npu()
    got[RANK * count : (RANK + 1) * count] = mine
    dist.all_gather_into_tensor(got, got[RANK * count : (RANK + 1) * count])
    check("all_gather in place", got, all_of_them)
    pieces = [torch.zeros(count + rank).npu() for rank in EVERY]
    dist.all_gather(pieces, torch.full((count + RANK,), float(RANK)).npu())
    check("uneven all_gather", torch.cat(pieces), torch.cat([torch.full((count + k,), float(k)) for k in EVERY]))
    last = RANKS - 1
    got = mine.clone() if last == RANK else torch.zeros(count).npu()
    dist.broadcast(got, src=last)
    check("broadcast", got, given(last, count))
    got = mine.clone()
    dist.reduce(got, dst=last)
    if last == RANK:
        check("reduce", got, sum(given(rank, count) for rank in EVERY))
    pieces = [torch.zeros(count).npu() for _ in EVERY] if RANK == 0 else None
    dist.gather(mine, pieces, dst=0)
    if pieces is not None:
        check("gather", torch.cat(pieces), all_of_them)


def scatters(count: int) -> None:
    whole = [given(RANK + part, count) for part in EVERY]
    want = sum(given(rank + RANK, count) for rank in EVERY)
    got = torch.zeros(count).npu()
    dist.reduce_scatter_tensor(got, torch.cat(whole).npu())
    check("reduce_scatter_tensor", got, want)
    both = torch.cat(whole).npu()
    dist.reduce_scatter_tensor(both[RANK * count : (RANK + 1) * count], both)
    check("reduce_scatter in place", both[RANK * count : (RANK + 1) * count], want)
    dist.reduce_scatter(got, [part.npu() for part in whole])
    check("reduce_scatter", got, want)
    got = torch.zeros(count + RANK).npu()
    dist.reduce_scatter(got, [torch.full((count + part,), float(RANK + part)).npu() for part in EVERY])
    check("uneven reduce_scatter", got, torch.full((count + RANK,), float(sum(rank + RANK for rank in EVERY))))
    got = torch.zeros(count).npu()
    dist.scatter(got, [given(part, count).npu() for part in EVERY] if RANK == 0 else None, src=0)
    check("scatter", got, given(RANK, count))
    got = torch.zeros(RANKS * count).npu()
    dist.all_to_all_single(got, torch.cat(whole).npu())
    check("all_to_all_single", got, torch.cat([given(rank + RANK, count) for rank in EVERY]))
    sent, taken = [RANK + part + 1 for part in EVERY], [rank + RANK + 1 for rank in EVERY]
    got = torch.zeros(sum(taken)).npu()
    parts = [torch.full((size,), 10.0 * RANK + part) for part, size in enumerate(sent)]
    dist.all_to_all_single(got, torch.cat(parts).npu(), taken, sent)
    check("uneven all_to_all", got, torch.cat([torch.full((taken[rank],), 10.0 * rank + RANK) for rank in EVERY]))


def messages(count: int) -> None:
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    mine, got = given(RANK, count).npu(), torch.zeros(count).npu()
    steps = [lambda: dist.send(mine, after), lambda: dist.recv(got, before)]
    for step in steps if RANK % 2 == 0 else reversed(steps):
        step()
    check("send and recv", got, given(before, count))
    got = torch.zeros(count).npu()
    batch = [dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, got, before)]
    for request in dist.batch_isend_irecv(batch):
        request.wait()
    check("batch_isend_irecv", got, given(before, count))


def objects() -> None:
    got: list = [None] * RANKS
    dist.all_gather_object(got, {"rank": RANK, "text": "y" * (RANK * 3000)})
    check("all_gather_object", got, [{"rank": rank, "text": "y" * (rank * 3000)} for rank in EVERY])
    got = [("root", RANKS)] if RANK == RANKS - 1 else [None]
    dist.broadcast_object_list(got, src=RANKS - 1)
    check("broadcast_object_list", got, [("root", RANKS)])
    got = [None]
    dist.scatter_object_list(got, [f"for {rank}" for rank in EVERY] if RANK == 0 else [None] * RANKS, src=0)
    check("scatter_object_list", got, [f"for {RANK}"])
    gathered: list | None = [None] * RANKS if RANK == 0 else None
    dist.gather_object(("from", RANK), gathered, dst=0)
    if gathered is not None:
        check("gather_object", gathered, [("from", rank) for rank in EVERY])


def groups() -> None:
    halves = [dist.new_group(list(EVERY[part::2])) for part in (0, 1)]
    got = torch.tensor([float(RANK)]).npu()
    dist.all_reduce(got, group=halves[RANK % 2])
    check("subgroup", got, torch.tensor([float(sum(EVERY[RANK % 2 :: 2]))]))
    # Two groups, and one rank that takes them in the other order.
    pair = [(dist.new_group(list(EVERY)), torch.ones(200000).npu()) for _ in range(2)]
    for group, _ in pair:
        dist.all_reduce(torch.ones(1).npu(), group=group)
    for _ in range(3):
        order = pair if RANK == 0 else pair[::-1]
        for work in [dist.all_reduce(tensor, group=group, async_op=True) for group, tensor in order]:
            work.wait()
    for _, tensor in pair:
        check("groups in two orders", tensor, torch.full((200000,), float(RANKS**3)))


def main() -> None:
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl")
    objects()
    if "--objects" not in sys.argv:
        reductions()
        for count in (4, 50000):
            gathers(count)
            scatters(count)
            messages(count)
        groups()
    dist.barrier()
    dist.destroy_process_group()
    if wrong:
        sys.exit(f"rank {RANK}: {len(wrong)} wrong")
    print(f"right on rank {RANK}", flush=True)


if __name__ == "__main__":
    main()
