"""`tools/conformance aclnn`: the vendor's C++ examples of operators, built against our headers and run.

An example passes if it builds with no CANN present, ends with 0, says of no call that it failed, and prints the numbers
that torch computes on the CPU from the inputs in its source. Where those are not simple enough to read, or torch has no
such function, its status alone counts, and the list says so.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from generators.tables import Spec

from conformance_suites import aclnn_reference, outcomes, virtual_npu
from conformance_suites.outcomes import CRASH, FAIL, PASS, REFUSED, SKIPPED, TIMEOUT, Result, Results

ROOT = virtual_npu.ROOT
LIST = ROOT / "test" / "conformance" / "aclnn.csv"
STATUS_ONLY = "status only"
# Examples of other products, and of operators that are no part of a release.
_FOREIGN = re.compile(r"/(arch\d+|experimental|template)/|^experimental/")
_FAILURE = re.compile(r"^.*\b(failed|ERROR)\b.*$", re.MULTILINE)


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="tools/conformance aclnn",
        description="Build and run the vendor's C++ examples (test_aclnn_*.cpp) of checkouts that you have.",
    )
    add = result.add_argument
    add("--checkout", type=Path, required=True, action="append", metavar="DIR", help="a checkout; may be repeated")
    add("files", nargs="*", metavar="FILE", help="only examples whose path has one of these texts")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="examples at a time (default: the cores)")
    add("--timeout", type=float, default=60, metavar="SECONDS", help="for one example to run (default 60)")
    add("--accept", action="store_true", help="write the outcomes into the list in place of comparing them")
    return result


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    examples = [example for checkout in options.checkout for example in find_examples(checkout, options.files)]
    if not examples:
        raise ValueError("no test_aclnn_*.cpp in an examples folder there that the words given match")
    # The reference is torch on the CPU, in this process, which is no client of the device.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    device = Device()
    results: Results = {}
    began = time.monotonic()
    stopped = False
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        waiting = [(key, pool.submit(judge, path, device, options.timeout)) for key, path in examples]
        try:
            for number, (key, future) in enumerate(waiting, 1):
                results[key] = future.result()
                if sys.stderr.isatty():
                    counted = outcomes.counts(results.values())
                    at = f"{number} of {len(waiting)}"
                    print(f"\r\033[Kaclnn: {at}: {counted}", end="", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    counted = outcomes.counts(results.values())
    compared = sum(result.outcome == PASS and result.reason != STATUS_ONLY for result in results.values())
    print(
        f"aclnn: {len(results)} examples in {time.monotonic() - began:.0f} s: {counted}; {compared} compared by value"
    )
    return finish(results, options.accept, stopped)


def finish(results: Results, accepted: bool, stopped: bool) -> int:
    """Write or compare the list; the exit code."""
    listed = outcomes.read_list(LIST)
    if accepted:
        LIST.write_text(outcomes.list_text(listed | results, "folder"), encoding="utf-8")
        print(f"aclnn: written into {LIST.relative_to(ROOT)}")
        return 130 if stopped else 0
    outcomes.print_bad("aclnn", results)
    if stopped:
        return 130
    return 1 if outcomes.print_differences("aclnn", listed, results) else 0


def find_examples(checkout: Path, words: list[str]) -> list[tuple[outcomes.Key, Path]]:
    """The examples of a checkout by (folder, file), sorted. Raises ValueError with a sentence."""
    root = checkout.resolve()
    if not root.is_dir():
        raise ValueError(f"--checkout: {checkout} is no folder")
    found = []
    for path in sorted(root.glob("**/examples/**/test_aclnn_*.cpp")):
        relative = path.relative_to(root).as_posix()
        if not _FOREIGN.search(relative) and (not words or any(word in relative for word in words)):
            folder, _, name = relative.rpartition("/")
            found.append(((folder, name), path))
    return found


class Device:
    """What examples are built and run with."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory(prefix="drydock-aclnn-") as folder:
            done = subprocess.run(
                [virtual_npu.drydock(), "env", "--values", "full", "--out", str(Path(folder) / "run")],
                capture_output=True,
                text=True,
                check=False,
            )
        home = re.search(r"ASCEND_HOME_PATH=['\"]?([^'\"\n]+)", done.stdout)
        if home is None:
            raise virtual_npu.Missing(f"drydock env names no ASCEND_HOME_PATH: {done.stderr.strip()}")
        self.libraries = Path(home[1]) / "lib64"
        self.classes = {operator.name: operator for operator in Spec(ROOT / "spec").operators}

    def build(self, source: Path, program: Path) -> str:
        """Compile an example; the first error, or nothing."""
        command = ["g++", "-std=c++17", "-O0", "-w", f"-I{ROOT / 'include'}", f"-I{ROOT / 'include' / 'aclnnop'}"]
        command += [str(source), "-o", str(program), f"-L{self.libraries}", "-lascendcl", "-lopapi", "-lnnopbase"]
        command += ["-lhccl", f"-Wl,-rpath-link,{self.libraries}", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == 0:
            return ""
        errors = re.findall(r"(?:error: |undefined reference to |cannot find )(.*)", done.stderr)
        return errors[0].lstrip("./") if errors else done.stderr.strip().splitlines()[-1]

    def sentence(self, run_folder: Path) -> str:
        """The sentence of the last call that failed in a run, or nothing. Examples print the code alone."""
        shown = subprocess.run(
            [virtual_npu.drydock(), "trace", "--no-times", str(run_folder)], capture_output=True, text=True, check=False
        )
        failures = [line for line in shown.stdout.splitlines() if " failed " in line or "failed:" in line]
        return failures[-1][:400] if failures else ""

    def environment(self, run_folder: Path) -> dict[str, str]:
        """Variables of an example's process."""
        variables = dict(os.environ)
        variables["LD_LIBRARY_PATH"] = str(self.libraries)
        variables["DRYDOCK_VALUES"] = "full"
        variables["DRYDOCK_RUN_DIR"] = str(run_folder)
        variables["ASCEND_GLOBAL_LOG_LEVEL"] = "4"
        return variables


def judge(source: Path, device: Device, timeout_s: float) -> Result:
    """Build and run one example."""
    text = source.read_text(encoding="utf-8", errors="replace")
    example = aclnn_reference.Example(text)
    operators = example.operators()
    if "Hccl" in text:
        return Result(SKIPPED, "it needs several devices")
    unknown = [name for name in operators if name not in device.classes]
    if unknown:
        return Result(SKIPPED, f"{unknown[0]} is no operator of the wheel")
    for name in operators:
        operator = device.classes[name]
        if operator.operator_class == "refused":
            return Result(REFUSED, f"{name}: {operator.reason}")
    with tempfile.TemporaryDirectory(prefix="drydock-aclnn-") as folder:
        program = Path(folder) / "example"
        error = device.build(source, program)
        missing = re.match(r"(aclnnop/\w+\.h): No such file", error)
        if missing:
            return Result(SKIPPED, f"it includes {missing[1]}, whose operators are none of the wheel's")
        if error:
            return Result(FAIL, f"does not build: {error}")
        ghosts = [name for name in operators if device.classes[name].operator_class == "ghost"]
        if ghosts:
            return Result(SKIPPED, f"it builds; {ghosts[0]} has no kernel")
        run_folder = Path(folder) / "run"
        (run_folder / "traces").mkdir(parents=True)
        try:
            done = subprocess.run(
                [str(program)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                cwd=folder,
                env=device.environment(run_folder),
            )
        except subprocess.TimeoutExpired:
            return Result(TIMEOUT, f"more than {timeout_s:g} s")
        result = weigh(example, device.classes, done.returncode, done.stdout, done.stderr)
        return Result(FAIL, device.sentence(run_folder) or result.reason) if result.outcome == FAIL else result


def weigh(example: aclnn_reference.Example, operators: dict, code: int, stdout: str, stderr: str) -> Result:
    """The outcome of an example that ran."""
    if code < 0:
        return Result(CRASH, f"signal {-code}")
    said = _FAILURE.search(stdout)
    if said or code != 0:
        words = said[0] if said else f"exit code {code}"
        return Result(FAIL, " ".join((words + " " + stderr.strip()[-200:]).split())[:300])
    difference = aclnn_reference.compare(example, operators, stdout)
    if difference is None:
        return Result(PASS, STATUS_ONLY)
    return Result(FAIL, difference) if difference else Result(PASS)
