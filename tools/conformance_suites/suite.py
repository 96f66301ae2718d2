"""`tools/conformance suite`: runs test files of a checkout on the virtual NPU, each in processes of its own.

pytest collects them, unittest classes and torch's device-generic tests included. A plugin writes down each test as it
begins and ends, so a crash or a timeout costs that test only: the file is started again with the tests that are left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from conformance_suites import outcomes, processes, traces, virtual_npu
from conformance_suites.outcomes import CRASH, FAIL, FALLBACK, PASS, TIMEOUT, Result, Results

ROOT = virtual_npu.ROOT
BUILD = ROOT / "build" / "conformance"
LISTS = ROOT / "test" / "conformance"
_POLL_S = 0.2


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="tools/conformance suite",
        description="Run test files written for device npu from a checkout that you have.",
    )
    add = result.add_argument
    add("--checkout", type=Path, required=True, metavar="DIR", help="the folder of the checkout")
    add("files", nargs="*", metavar="FILE", help="files or patterns below it (default: every test_*.py)")
    add("--name", help="name of the list in test/conformance/ (default: the folder's name)")
    add("--timeout", type=float, default=120, metavar="SECONDS", help="processor time for one test (default 120)")
    add("--memory", type=int, default=8192, metavar="MIB", help="resident memory of a process (default 8192)")
    add("--accept", action="store_true", help="write the outcomes into the list in place of comparing them")
    add("--list", action="store_true", help="print the files that would be run, and run nothing")
    return result


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    checkout = options.checkout.resolve()
    if not checkout.is_dir():
        raise ValueError(f"--checkout: {options.checkout} is no folder")
    files = find_files(checkout, options.files)
    if options.list:
        print("\n".join(files))
        return 0
    name = options.name or checkout.name
    limits = processes.Limits(options.timeout, options.timeout * 10, options.memory << 20)
    results: Results = {}
    began = time.monotonic()
    stopped = False
    with Server(limits) as server:
        for number, file in enumerate(files, 1):
            if sys.stderr.isatty():
                counted = outcomes.counts(results.values())
                line = f"suite: file {number} of {len(files)}, {file}: {counted}"
                print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
            try:
                for test, result in File(checkout, file, server).run().items():
                    results[file, test] = result
            except KeyboardInterrupt:
                stopped = True
                break
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    seconds = time.monotonic() - began
    counted = outcomes.counts(results.values())
    print(f"suite {name}: {len(results)} tests of {len(files)} files in {seconds:.0f} s: {counted}")
    return finish(name, results, files, options.accept, stopped)


def finish(name: str, results: Results, files: list[str], accepted: bool, stopped: bool) -> int:
    """Write or compare the list; the exit code."""
    path = LISTS / f"suite-{name}.csv"
    listed = outcomes.read_list(path)
    if accepted:
        done = {file for file, _ in results}
        kept = {key: result for key, result in listed.items() if key[0] not in done}
        path.parent.mkdir(parents=True, exist_ok=True)
        short = {key: Result(result.outcome) for key, result in results.items()}
        path.write_text(outcomes.list_text(kept | short, "file"), encoding="utf-8")
        print(f"suite {name}: written into {path.relative_to(ROOT)}")
        return 130 if stopped else 0
    outcomes.print_bad(f"suite {name}", results)
    if stopped:
        return 130
    differs = outcomes.print_differences(f"suite {name}", listed, results)
    gone = [key for key in listed if key[0] in files and key not in results]
    for key in gone:
        print(f"suite {name}: gone: {' '.join(key)}")
    if not listed:
        print(f"suite {name}: there is no {path.relative_to(ROOT)} to compare with; --accept writes it")
    return 1 if differs or gone else 0


def find_files(checkout: Path, wanted: list[str]) -> list[str]:
    """Test files below the checkout, relative to it. Raises ValueError with a sentence."""
    found: list[str] = []
    for pattern in wanted or ["**/test_*.py"]:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise ValueError(f"{pattern} is not below the checkout: name files relative to it")
        matches = sorted(path.relative_to(checkout).as_posix() for path in checkout.glob(pattern) if path.is_file())
        if not matches:
            raise ValueError(f"{checkout} has no file {pattern}")
        found += [match for match in matches if match not in found]
    return found


class Server:
    """The process whose forks run the files, and where they leave what they have to say."""

    def __init__(self, limits: processes.Limits) -> None:
        self.limits = limits
        BUILD.mkdir(parents=True, exist_ok=True)
        self.events = BUILD / f"suite-{os.getpid()}.jsonl"
        self.log = BUILD / f"suite-{os.getpid()}.log"
        self.run_folder = BUILD / f"suite-run-{os.getpid()}"
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(
            [virtual_npu.python(), "-m", "conformance_suites.suite_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=virtual_npu.environment(self.run_folder, threads=os.cpu_count() or 1),
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.events.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        virtual_npu.remove(self.run_folder)

    def start(self, request: dict[str, Any]) -> int:
        """Have a file run; the process that does."""
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return int(self._answer()["pid"])

    def status(self) -> int:
        """Wait for the end of the process; its wait status."""
        return int(self._answer()["status"])

    def _answer(self) -> dict[str, Any]:
        assert self.process is not None and self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            raise virtual_npu.Missing(f"the server of the suite ended:\n{self.process.stderr.read()[-2000:]}")
        return json.loads(line)


class File:
    """One test file, run until each of its tests has an outcome."""

    def __init__(self, checkout: Path, file: str, server: Server) -> None:
        self.checkout = checkout
        self.file = file
        self.server = server

    def run(self) -> dict[str, Result]:
        results: dict[str, Result] = {}
        while self._run_once(results):
            pass
        return results

    def _run_once(self, results: dict[str, Result]) -> bool:
        """Run the tests that have no outcome; true if some may be left."""
        server = self.server
        server.events.write_text("")
        paths = [str(self.checkout), str((self.checkout / self.file).parent), str(self.checkout / "test")]
        arguments = ["-q", "-p", "no:cacheprovider", "-p", "conformance_suites.events", "--rootdir", str(self.checkout)]
        arguments += ["-c", os.devnull, "--continue-on-collection-errors", self.file]
        pid = server.start(
            {
                "folder": str(self.checkout),
                "paths": paths,
                "log": str(server.log),
                "environment": {
                    "CONFORMANCE_EVENTS": str(server.events),
                    "CONFORMANCE_DONE": json.dumps(sorted(results)),
                },
                "arguments": arguments,
            }
        )
        excess, at, done = self._watch(pid)
        status = server.status()
        evidence = self._evidence(pid)
        for number, (test, result) in enumerate(done):
            seen = evidence[number] if number < len(evidence) else traces.Evidence()
            results[test] = weighed(result, seen)
        if at:
            outcome = TIMEOUT if excess and "memory" not in excess else CRASH
            results[at] = Result(outcome, excess or processes.describe_end(status))
            return True
        if not done and not results:
            results["(file)"] = Result(FAIL, self._last_words(excess or processes.describe_end(status)))
        return False

    def _watch(self, pid: int) -> tuple[str, str, list[tuple[str, Result]]]:
        """Wait for the process; the limit it exceeded, the test it was at, the tests it ended."""
        watch = processes.Watch(pid, self.server.limits)
        excess, at = "", ""
        done: list[tuple[str, Result]] = []
        rest = ""
        with self.server.events.open(encoding="utf-8") as events:
            try:
                while True:
                    running = processes.is_running(pid)
                    rest += events.read()
                    *lines, rest = rest.split("\n")
                    for line in lines:
                        event = json.loads(line)
                        if "at" in event:
                            at = event["at"]
                            watch.begin()
                        else:
                            at = ""
                            done.append((event["done"], Result(event["outcome"], event["reason"], event["seconds"])))
                    if not running:
                        return excess, at, done
                    excess = excess or watch.excess()
                    if excess:
                        processes.kill_group(pid)
                    time.sleep(_POLL_S)
            finally:
                processes.kill_group(pid)

    def _evidence(self, pid: int) -> list[traces.Evidence]:
        trace = next((self.server.run_folder / "traces").glob(f"{pid}-*.ddtrace"), None)
        if trace is None:
            return []
        command = traces.filter_command(virtual_npu.drydock(), trace)
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        trace.unlink(missing_ok=True)
        return traces.read_evidence(done.stdout)

    def _last_words(self, end: str) -> str:
        lines = [line for line in self.server.log.read_text(errors="replace").splitlines() if line.startswith("E ")]
        return " ".join(lines[-1:]).removeprefix("E").strip()[:200] or f"no test was collected ({end})"


def weighed(result: Result, seen: traces.Evidence) -> Result:
    """The result in the light of what the trace says about the operators of the test."""
    if result.outcome == FAIL and seen.ghosts:
        return Result(FAIL, f"not computed: {' '.join(sorted(seen.ghosts))}; {result.reason}", result.seconds)
    if result.outcome == PASS and seen.fallbacks:
        return Result(FALLBACK, " ".join(sorted(seen.fallbacks)), result.seconds)
    return result
