"""Runs entries of torch's OpInfo database, each in a process of its own, inside a virtual NPU.

torch and torch_npu are imported once; every entry is run in a fork made before anything uses the device. Started by
`tools/conformance opinfo`, with a JSON object of the plan on standard input; results go to a file, a JSON line each.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import warnings
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import torch
import torch_npu  # noqa: F401

from conformance_suites import client_differences, opinfo_entries, opinfo_samples, processes, refusals, traces
from conformance_suites.outcomes import CRASH, FAIL, FALLBACK, PASS, REFUSED, TIMEOUT, Result, counts

_POLL_S = 0.1


@dataclass
class Plan:
    """What to run, and how."""

    pairs: list[tuple[str, list[str]]]
    results: Path
    run_folder: Path
    logs: Path
    drydock: str
    jobs: int
    limits: processes.Limits
    progress: bool

    @staticmethod
    def read(text: str) -> Plan:
        plan = json.loads(text)
        return Plan(
            pairs=[(name, list(dtypes)) for name, dtypes in plan["pairs"]],
            results=Path(plan["results"]),
            run_folder=Path(plan["run_folder"]),
            logs=Path(plan["logs"]),
            drydock=plan["drydock"],
            jobs=plan["jobs"],
            limits=processes.Limits(plan["cpu_s"], plan["wall_s"], plan["resident_bytes"]),
            progress=plan["progress"],
        )


@dataclass
class Job:
    """A process that runs dtypes of an entry, then the reading of its trace."""

    entry: str
    dtypes: list[str]
    pid: int
    pipe: int
    watch: processes.Watch
    log: Path
    buffer: bytes = b""
    done: list[tuple[str, Result]] = field(default_factory=list)
    at: str = ""
    unstarted: list[str] = field(default_factory=list)
    reader: subprocess.Popen[bytes] | None = None
    trace: Path | None = None


def child(entry: Any, dtypes: list[str], differences: client_differences.Table, pipe: int, log: Path) -> None:
    """Run the dtypes one by one and tell the parent. Does not return."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.enable(file=sys.__stderr__)
    from drydock import _recorder

    fell_back = [False]
    _note_fallback_warnings(fell_back)
    torch.npu.conv.allow_hf32 = False
    torch.npu.matmul.allow_hf32 = False
    with os.fdopen(pipe, "wb", buffering=0) as out:
        for dtype in dtypes:
            out.write(json.dumps({"at": dtype}).encode() + b"\n")
            try:
                pair = opinfo_samples.Pair(entry, getattr(torch, dtype), differences)
                result = pair.run()
            except Exception as error:
                result = Result(FAIL, f"the samples: {type(error).__name__}: {refusals.one_line(str(error))}")
            _recorder.step_ended()
            # torch_npu warns of some fallbacks only once in a process, and a device that failed stays so.
            again = fell_back[0] or refusals.ends_the_process(result.reason)
            told = {"done": dtype, "outcome": result.outcome, "reason": result.reason, "again": again}
            out.write(json.dumps(told | {"seconds": result.seconds}).encode() + b"\n")
            if again:
                break
        out.write(b'{"end": true}\n')
    os._exit(0)


def _note_fallback_warnings(fell_back: list[bool]) -> None:
    previous = warnings._showwarnmsg  # type: ignore[attr-defined]

    def show(message: warnings.WarningMessage) -> None:
        if "to run on the CPU" in str(message.message):
            fell_back[0] = True
        previous(message)

    warnings._showwarnmsg = show  # type: ignore[attr-defined]


class Server:
    """Keeps a number of jobs running until all pairs have a result."""

    def __init__(self, plan: Plan, out: TextIO) -> None:
        self.plan = plan
        self.out = out
        self.entries = opinfo_entries.load()
        opinfo_samples.take_over_seeds()
        self.differences = client_differences.read()
        self.waiting = deque(plan.pairs)
        self.jobs: list[Job] = []
        self.selector = selectors.DefaultSelector()
        self.results: list[Result] = []
        self.total = sum(len(dtypes) for _, dtypes in plan.pairs)
        self.began = time.monotonic()
        self.shown_at = 0.0

    def run(self) -> None:
        parent = os.getppid()
        try:
            while self.waiting or self.jobs:
                if os.getppid() != parent:
                    raise KeyboardInterrupt  # nobody waits for the results any more
                while self.waiting and len(self.jobs) < self.plan.jobs:
                    self.start(*self.waiting.popleft())
                for key, _ in self.selector.select(_POLL_S if self.jobs else 0):
                    self.receive(key.data)
                for job in list(self.jobs):
                    self.look_after(job)
                self.show()
        finally:
            for job in self.jobs:
                processes.kill_group(job.pid)
                if job.reader is not None:
                    job.reader.kill()
        self.show(last=True)

    def start(self, name: str, dtypes: list[str]) -> None:
        receiving, sending = os.pipe()
        log = self.plan.logs / f"{name}.log"
        sys.stderr.flush()
        self.out.flush()
        pid = os.fork()
        if pid == 0:
            # Nothing of the parent's may run in the child, whatever happens there.
            try:
                os.close(receiving)
                child(self.entries[name], dtypes, self.differences, sending, log)
            finally:
                os._exit(70)
        os.close(sending)
        os.set_blocking(receiving, False)
        job = Job(name, dtypes, pid, receiving, processes.Watch(pid, self.plan.limits), log, unstarted=list(dtypes))
        self.selector.register(receiving, selectors.EVENT_READ, job)
        self.jobs.append(job)

    def receive(self, job: Job) -> None:
        try:
            data = os.read(job.pipe, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self.ended(job, "")
            return
        job.buffer += data
        *lines, job.buffer = job.buffer.split(b"\n")
        for line in lines:
            self.told(job, json.loads(line))

    def told(self, job: Job, message: dict[str, Any]) -> None:
        if "at" in message:
            job.at = message["at"]
            job.unstarted.remove(job.at)
            job.watch.begin()
        elif "done" in message:
            job.at = ""
            result = Result(message["outcome"], message["reason"], message["seconds"])
            job.done.append((message["done"], result))

    def look_after(self, job: Job) -> None:
        if job.reader is not None:
            if job.reader.poll() is not None:
                self.finish(job)
            return
        excess = job.watch.excess()
        if excess:
            processes.kill_group(job.pid)
            self.ended(job, excess)

    def ended(self, job: Job, excess: str) -> None:
        """The process is gone, or about to be; what it was at has failed."""
        seconds = job.watch.seconds()
        self.selector.unregister(job.pipe)
        os.close(job.pipe)
        _, status = os.waitpid(job.pid, 0)
        if job.at or (job.unstarted and not job.done):
            at = job.at or job.unstarted.pop(0)
            if excess:
                outcome = CRASH if "memory" in excess else TIMEOUT
                job.done.append((at, Result(outcome, excess, seconds)))
            else:
                job.done.append((at, Result(CRASH, processes.describe_end(status), seconds)))
            with contextlib.suppress(OSError):
                job.log.rename(job.log.with_suffix(f".{at}.crash"))
        else:
            job.log.unlink(missing_ok=True)
        if job.unstarted:
            self.waiting.appendleft((job.entry, job.unstarted))
        job.trace = next((self.plan.run_folder / "traces").glob(f"{job.pid}-*.ddtrace"), None)
        if job.trace is None:
            self.record(job, [])
            return
        command = traces.filter_command(self.plan.drydock, job.trace)
        with Path(f"{job.trace}.txt").open("wb") as text:
            job.reader = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=text, stderr=subprocess.DEVNULL)

    def finish(self, job: Job) -> None:
        text = Path(f"{job.trace}.txt")
        evidence = traces.read_evidence(text.read_text(errors="replace"))
        text.unlink()
        if job.trace is not None:
            job.trace.unlink(missing_ok=True)
        self.record(job, evidence)

    def record(self, job: Job, evidence: list[traces.Evidence]) -> None:
        self.jobs.remove(job)
        for number, (dtype, result) in enumerate(job.done):
            seen = evidence[number] if number < len(evidence) else traces.Evidence()
            final = weighed(result, seen)
            self.results.append(final)
            line = {"entry": job.entry, "dtype": dtype, "outcome": final.outcome, "reason": final.reason}
            self.out.write(json.dumps(line | {"seconds": round(final.seconds, 3)}) + "\n")
        self.out.flush()

    def show(self, last: bool = False) -> None:
        now = time.monotonic()
        if not self.plan.progress or (now - self.shown_at < 0.5 and not last):
            return
        self.shown_at = now
        minutes, seconds = divmod(int(now - self.began), 60)
        done = f"{len(self.results)} of {self.total} pairs"
        text = f"opinfo: {minutes}:{seconds:02} {done}: {counts(self.results)}"
        print(f"\r\033[K{text[:200]}", end="\n" if last else "", file=sys.stderr, flush=True)


def weighed(result: Result, seen: traces.Evidence) -> Result:
    """The result in the light of what the trace says about the operators of the case."""
    # Only what is uninitialised may be read without having been computed.
    if result.outcome in (FAIL, PASS, REFUSED) and seen.ghosts and not result.reason.startswith("uninitialised"):
        return Result(FAIL, f"not computed: {' '.join(sorted(seen.ghosts))}", result.seconds)
    if result.outcome == PASS and seen.fallbacks:
        names = " ".join(sorted(seen.fallbacks))
        return Result(FALLBACK, f"{names}" + (f"; {result.reason}" if result.reason else ""), result.seconds)
    return result


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    # A shell that starts a job in the background has it ignore SIGINT.
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    plan = Plan.read(sys.stdin.read())
    plan.logs.mkdir(parents=True, exist_ok=True)
    with plan.results.open("a", encoding="utf-8") as out:
        try:
            Server(plan, out).run()
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
