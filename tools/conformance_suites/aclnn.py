"""`tools/conformance aclnn`: the vendor's C++ examples of operators, built against our headers and run.

An example passes if it builds with no CANN present, ends with 0, says of no call that it failed, and prints the numbers
that torch computes on the CPU from the inputs in its source. Where those are not simple enough to read, or torch has no
such function, its status alone counts, and the list says so.
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from generators.tables import Spec

from conformance_suites import aclnn_reference, outcomes, processes, virtual_npu
from conformance_suites.outcomes import CRASH, FAIL, PASS, REFUSED, SKIPPED, TIMEOUT, Result, Results

ROOT = virtual_npu.ROOT
LIST = ROOT / "test" / "conformance" / "aclnn.csv"
FAULTS = ROOT / "test" / "conformance" / "aclnn_faults.csv"
STATUS_ONLY = "status only"
# How the reason of an outcome begins that says nothing against the device.
FAULT = "the example's own fault: "
BUILDS = "it builds; "
FOREIGN_OPERATOR = "is no operator of the wheel"
SEVERAL_DEVICES = "it needs several devices, between which nothing communicates here"
# Examples of other products (arch22 is the 910B and 910C), and of operators that are no part of a release.
_FOREIGN = re.compile(r"/(arch(?!22/)\d+|experimental|template)/|^experimental/")
_FOLDER = re.compile(r"(^|/)examples?/")
_MAIN = re.compile(r"\bmain\s*\(")
_OPERATOR_CALL = re.compile(r"\b(aclnn[A-Z]\w*)\s*\(")
_RESIDENT_BYTES = 4 << 30
# A header of the standard library that some versions of others include and g++'s since 12 do not.
_UNINCLUDED = re.compile(r"'(array|unique_ptr|function|optional)' is not a member of 'std'")
_STANDARD_HEADERS = {"array": "array", "unique_ptr": "memory", "function": "functional", "optional": "optional"}
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
        raise ValueError("no program in an examples folder there that the words given match")
    # The reference is torch on the CPU, in this process, which is no client of the device.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    device = Device()
    results: Results = {}
    began = time.monotonic()
    stopped = False
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        waiting = [(key, pool.submit(judge, key, path, device, options.timeout)) for key, path in examples]
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
    print("\n".join(f"aclnn: {line}" for line in figures(results)))
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


def figures(results: Results) -> list[str]:
    """How many examples there are, build, have operators that compute, and pass. A sentence each."""
    foreign = sum(FOREIGN_OPERATOR in result.reason for result in results.values())
    several = sum(result.reason == SEVERAL_DEVICES for result in results.values())
    single = [
        result
        for result in results.values()
        if FOREIGN_OPERATOR not in result.reason and result.reason != SEVERAL_DEVICES
    ]
    unbuilt = sum("does not build" in result.reason for result in single)
    ghosts = sum(result.reason.startswith(BUILDS) and result.outcome == SKIPPED for result in single)
    refused = sum(result.reason.startswith(BUILDS) and result.outcome == REFUSED for result in single)
    computing = [result for result in single if not result.reason.startswith(BUILDS)]
    passed = [result for result in computing if result.outcome == PASS]
    valued = sum(result.reason != STATUS_ONLY for result in passed)
    faults = sum(result.reason.startswith(FAULT) for result in computing)
    share = f" ({100 * len(passed) / len(computing):.1f} %)" if computing else ""
    return [
        f"{len(results)} examples. {foreign} call operators that the wheel does not, {several} need several devices; "
        f"of the other {len(single)}, {len(single) - unbuilt} build.",
        f"{ghosts} of these are not run because an operator has no kernel, {refused} because the manual gives it to "
        "other products only.",
        f"Of the {len(computing)} whose operators compute, {len(passed)}{share} build, run and agree, {valued} "
        f"of them compared by value; {faults} fail by their own fault, "
        f"{len(computing) - len(passed) - faults} by the device's.",
    ]


def find_examples(checkout: Path, words: list[str]) -> list[tuple[outcomes.Key, Path]]:
    """The examples of a checkout by (checkout's name and folder, file), sorted. Raises ValueError with a sentence."""
    root = checkout.resolve()
    if not root.is_dir():
        raise ValueError(f"--checkout: {checkout} is no folder")
    found = []
    for path in sorted(root.glob("**/*.cpp")):
        relative = path.relative_to(root).as_posix()
        if _FOREIGN.search(relative) or not _FOLDER.search(relative):
            continue
        if words and not any(word in relative for word in words):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.name.startswith("test_aclnn_") or (_MAIN.search(text) and aclnn_reference.Example(text).operators()):
            folder, _, name = relative.rpartition("/")
            found.append(((f"{root.name}/{folder}", name), path))
    return found


@functools.cache
def faults() -> dict[outcomes.Key, tuple[str, str]]:
    """Example -> a text that its outcome's reason has if nothing else is wrong, and what it does wrong itself."""
    with FAULTS.open(encoding="utf-8", newline="") as file:
        return {(row["folder"], row["file"]): (row["shows"], row["fault"]) for row in csv.DictReader(file)}


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
        spec = Spec(ROOT / "spec")
        self.classes = {operator.name: operator for operator in spec.operators}
        self.entries = {entry.name for entry in spec.entries}

    def build(self, source: Path, program: Path, also: tuple[str, ...] = ()) -> str:
        """Compile an example with headers that it forgot; the first error, or nothing."""
        compiler = shlex.split(os.environ.get("CXX", "g++"))
        headers = ROOT / "include"
        made = program.with_suffix(".o")
        command = [*compiler, "-std=c++17", "-O0", "-w", f"-I{headers}", f"-I{headers / 'aclnnop'}"]
        command += [*(f"-include{header}" for header in also), "-c", str(source), "-o", str(made)]
        plain = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=plain)
        lacking = _UNINCLUDED.search(done.stderr)
        if lacking and not also:
            return self.build(source, program, (_STANDARD_HEADERS[lacking[1]],))
        if done.returncode == 0:
            command = [*compiler, str(made), "-o", str(program), f"-L{self.libraries}", "-lascendcl", "-lopapi"]
            command += ["-lnnopbase", "-lhccl", f"-Wl,-rpath-link,{self.libraries}", "-lpthread"]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=plain)
        if done.returncode == 0:
            return ""
        errors = re.findall(r"(?:error: |undefined reference to |cannot find )(.*)", done.stderr)
        return errors[0].lstrip("./") if errors else done.stderr.strip().splitlines()[-1]

    def run(self, program: Path, run_folder: Path, timeout_s: float) -> Result | tuple[int, str, str]:
        """Exit code, stdout and stderr of a program; a result if it exceeds a limit."""
        with subprocess.Popen(
            [str(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=program.parent,
            env=self.environment(run_folder),
        ) as child:
            watch = processes.Watch(child.pid, processes.Limits(timeout_s, 10 * timeout_s, _RESIDENT_BYTES))
            while True:
                try:
                    stdout, stderr = child.communicate(timeout=0.1)
                    return child.returncode, stdout, stderr
                except subprocess.TimeoutExpired:
                    excess = watch.excess()
                    if excess:
                        child.kill()
                        child.communicate()
                        return Result(TIMEOUT if " s" in excess else CRASH, excess)

    def foreign_call(self, text: str) -> str:
        """The first function of the vendor's operators that a program calls, does not define and we do not have."""
        for name in _OPERATOR_CALL.findall(text):
            operator = name.removesuffix("GetWorkspaceSize")
            defined = re.search(rf"\b(?:int|void|bool|auto|aclError|aclnnStatus)\s+{name}\s*\(", text)
            if operator not in self.classes and name not in self.entries and not defined:
                return operator
        return ""

    def sentence(self, run_folder: Path) -> str:
        """The sentence of the first call that failed in a run, or nothing. Examples print the code alone."""
        shown = subprocess.run(
            [virtual_npu.drydock(), "trace", "--no-times", str(run_folder)], capture_output=True, text=True, check=False
        )
        failures = [line for line in shown.stdout.splitlines() if " failed " in line or "failed:" in line]
        return failures[0][:400] if failures else ""

    def environment(self, run_folder: Path) -> dict[str, str]:
        """Variables of an example's process."""
        variables = dict(os.environ)
        variables["LD_LIBRARY_PATH"] = str(self.libraries)
        variables["DRYDOCK_VALUES"] = "full"
        variables["DRYDOCK_RUN_DIR"] = str(run_folder)
        variables["ASCEND_GLOBAL_LOG_LEVEL"] = "4"
        return variables


def judge(key: outcomes.Key, source: Path, device: Device, timeout_s: float) -> Result:
    """Build and run one example."""
    return excused(key, _judge(source, device, timeout_s))


def excused(key: outcomes.Key, result: Result) -> Result:
    """The outcome, as REFUSED where the example itself is at fault for it."""
    shows, fault = faults().get(key, ("", ""))
    if fault and result.outcome not in (PASS, SKIPPED) and shows in result.reason:
        return Result(REFUSED, f"{FAULT}{fault} ({result.reason})")
    return result


def _judge(source: Path, device: Device, timeout_s: float) -> Result:
    text = source.read_text(encoding="utf-8", errors="replace")
    example = aclnn_reference.Example(text)
    operators = example.operators()
    unknown = [name for name in operators if name not in device.classes]
    if unknown:
        return Result(SKIPPED, f"{unknown[0]} {FOREIGN_OPERATOR}")
    if "Hccl" in example.text:
        return Result(SKIPPED, SEVERAL_DEVICES)
    with tempfile.TemporaryDirectory(prefix="drydock-aclnn-") as folder:
        program = Path(folder) / "example"
        error = device.build(source, program)
        if error:
            foreign = device.foreign_call(example.text)
            if foreign:
                return Result(SKIPPED, f"{foreign} {FOREIGN_OPERATOR}")
            return Result(FAIL, f"does not build: {error}")
        for name in operators:
            operator = device.classes[name]
            if operator.operator_class == "refused":
                return Result(REFUSED, f"{BUILDS}{name}: {operator.reason}")
        for name in operators:
            if device.classes[name].operator_class == "ghost":
                return Result(SKIPPED, f"{BUILDS}{name} has no kernel")
        run_folder = Path(folder) / "run"
        (run_folder / "traces").mkdir(parents=True)
        result = device.run(program, run_folder, timeout_s)
        if isinstance(result, Result):
            return result
        result = weigh(example, device.classes, *result)
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
