"""`tools/conformance opinfo`: chooses entries, starts their server, and holds the outcomes against the list."""

from __future__ import annotations

import argparse
import csv
import difflib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from conformance_suites import outcomes, rotation, virtual_npu
from conformance_suites.outcomes import Result, Results

ROOT = virtual_npu.ROOT
LIST = ROOT / "test" / "conformance" / "opinfo.csv"
SECONDS = ROOT / "test" / "conformance" / "opinfo_seconds.csv"
BUILD = ROOT / "build" / "conformance"
_MOST_SENTENCES = 100
_CATALOGUE = """
import json
from conformance_suites import opinfo_entries
entries = opinfo_entries.load()
print(json.dumps({
    "entries": {name: [entry.name, opinfo_entries.dtypes_of(entry)] for name, entry in entries.items()},
    "order": opinfo_entries.ORDER,
}))
"""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="tools/conformance opinfo", description="Run torch's OpInfo samples on a virtual NPU against the CPU."
    )
    add = result.add_argument
    add(
        "--entry",
        action="append",
        default=[],
        metavar="NAME",
        help="only this entry (repeatable), such as add or std.unbiased",
    )
    add("--dtype", action="append", default=[], metavar="NAME", help="only this dtype (repeatable), such as float32")
    add("--outcome", action="append", default=[], metavar="NAME", help="only what the list has with this outcome")
    add("--sample", type=float, metavar="SECONDS", help="only a sample that takes about this long, chosen by rotation")
    add("--rotation", type=int, metavar="N", help="which sample: default is the number of today")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time (default: all cores)")
    add(
        "--timeout",
        type=float,
        default=60,
        metavar="SECONDS",
        help="processor time for one entry and dtype (default 60)",
    )
    add("--memory", type=int, default=4096, metavar="MIB", help="resident memory of a process (default 4096)")
    add("--resume", action="store_true", help="go on where the last run was stopped")
    add("--retry", action="store_true", help="like --resume, and run what failed again")
    add("--accept", action="store_true", help="write the outcomes into the list in place of comparing them")
    add("--junit", type=Path, metavar="FILE", help="also write the comparison as a JUnit file")
    add("--list", action="store_true", help="print entries and dtypes that would be run, and run nothing")
    add("--out", type=Path, default=BUILD / "opinfo.jsonl", metavar="FILE", help="where results go, a JSON line each")
    return result


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.jobs < 1 or options.timeout <= 0 or options.memory < 256 or (options.sample or 1) <= 0:
        raise ValueError("--jobs is 1 or more, --timeout and --sample are more than 0, --memory is 256 or more")
    for name in options.outcome:
        if name not in outcomes.OUTCOMES:
            raise ValueError(f"there is no outcome {name}; there are {', '.join(outcomes.OUTCOMES)}")
    catalogue, order = read_catalogue()
    pairs = choose(options, catalogue, order)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = read_results(options.out) if options.resume or options.retry else {}
    if options.retry:
        done = {key: result for key, result in done.items() if result.outcome in outcomes.GOOD}
    left = [(name, [dtype for dtype in dtypes if (name, dtype) not in done]) for name, dtypes in pairs]
    left = [(name, dtypes) for name, dtypes in left if dtypes]
    if options.list:
        for name, dtypes in left:
            print(name, " ".join(dtypes))
        return 0
    if not (options.resume or options.retry):
        options.out.unlink(missing_ok=True)
    began = time.monotonic()
    stopped = serve(options, left)
    chosen = {(name, dtype) for name, dtypes in pairs for dtype in dtypes}
    got = {key: result for key, result in read_results(options.out).items() if key in chosen}
    seconds = time.monotonic() - began
    print(f"opinfo: {len(got)} of {len(chosen)} pairs in {seconds:.0f} s: {outcomes.counts(got.values())}")
    if stopped:
        print("opinfo: stopped; --resume goes on from here")
        return 130
    if options.accept:
        accept(got, order, catalogue)
        print(f"opinfo: written into {LIST.relative_to(ROOT)}")
        return 0
    everything = {(name, dtype) for name, (_, dtypes) in catalogue.items() for dtype in dtypes}
    return compare(got, everything, options.junit)


def read_catalogue() -> tuple[dict[str, tuple[str, list[str]]], dict[str, int]]:
    """All entries with their plain names and dtypes, and the order of dtypes."""
    environment = os.environ | {
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "tools"), os.environ.get("PYTHONPATH")])),
    }
    done = subprocess.run(
        [virtual_npu.python(), "-c", _CATALOGUE], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise virtual_npu.Missing(
            f"torch's OpInfo database can't be loaded: {last}. tools/setup installs what it needs"
        )
    read = json.loads(done.stdout)
    return {name: (plain, dtypes) for name, (plain, dtypes) in read["entries"].items()}, read["order"]


def choose(
    options: argparse.Namespace, catalogue: dict[str, tuple[str, list[str]]], order: dict[str, int]
) -> list[tuple[str, list[str]]]:
    """The entries and dtypes that the options ask for."""
    names = list(catalogue)
    if options.entry:
        names = []
        for wanted in options.entry:
            found = [name for name, (plain, _) in catalogue.items() if wanted in (name, plain)]
            if not found:
                near = difflib.get_close_matches(wanted, catalogue, n=3)
                hint = f"; near it: {', '.join(near)}" if near else ""
                raise ValueError(f"the OpInfo database has no entry {wanted}{hint} (--list prints all)")
            names += [name for name in found if name not in names]
    for dtype in options.dtype:
        if dtype not in order:
            raise ValueError(f"there is no dtype {dtype}; there are {', '.join(order)}")
    listed = outcomes.read_list(LIST) if options.outcome else {}
    pairs = []
    for name in names:
        dtypes = [dtype for dtype in catalogue[name][1] if not options.dtype or dtype in options.dtype]
        if options.outcome:
            dtypes = [d for d in dtypes if (name, d) in listed and listed[name, d].outcome in options.outcome]
        if dtypes:
            pairs.append((name, dtypes))
    if options.sample is not None:
        chosen = set(
            rotation.sample(
                [name for name, _ in pairs], read_seconds(), options.sample * options.jobs, options.rotation
            )
        )
        pairs = [pair for pair in pairs if pair[0] in chosen]
    if not pairs:
        raise ValueError("nothing is left to run with these options")
    return pairs


def serve(options: argparse.Namespace, pairs: list[tuple[str, list[str]]]) -> bool:
    """Run the pairs; true if the user stopped it."""
    if not pairs:
        return False
    seconds = read_seconds()
    run_folder = BUILD / f"run-{os.getpid()}"
    logs = options.out.with_suffix(".logs")
    environment = virtual_npu.environment(run_folder, threads=1 if options.jobs > 1 else os.cpu_count() or 1)
    plan = {
        # The long ones first, so that no core is left waiting at the end.
        "pairs": sorted(pairs, key=lambda pair: -seconds.get(pair[0], 1.0)),
        "results": str(options.out),
        "run_folder": str(run_folder),
        "logs": str(logs),
        "drydock": virtual_npu.drydock(),
        "jobs": options.jobs,
        "cpu_s": options.timeout,
        "wall_s": options.timeout * 10,
        "resident_bytes": options.memory << 20,
        "progress": sys.stderr.isatty(),
    }
    server = subprocess.Popen(
        [virtual_npu.python(), "-m", "conformance_suites.opinfo_server"],
        stdin=subprocess.PIPE,
        stderr=None if sys.stderr.isatty() else subprocess.PIPE,
        env=environment,
        text=True,
    )
    try:
        _, said = server.communicate(json.dumps(plan))
    except KeyboardInterrupt:
        server.send_signal(signal.SIGINT)
        server.wait()
        return True
    finally:
        virtual_npu.remove(run_folder)
    if server.returncode == 130:
        return True
    if server.returncode != 0:
        raise virtual_npu.Missing(f"the server ended with {server.returncode}:\n{(said or '')[-3000:]}")
    return False


def read_results(path: Path) -> Results:
    """What a server has written, the last line of a pair counts."""
    results: Results = {}
    if not path.is_file():
        return results
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut by a kill
        results[row["entry"], row["dtype"]] = Result(row["outcome"], row["reason"], row["seconds"])
    return results


def read_seconds() -> dict[str, float]:
    """Processor time of entries as it was last recorded."""
    if not SECONDS.is_file():
        return {}
    with SECONDS.open(newline="", encoding="utf-8") as file:
        return {row["entry"]: float(row["seconds"]) for row in csv.DictReader(file)}


def accept(got: Results, order: dict[str, int], catalogue: dict[str, tuple[str, list[str]]]) -> None:
    """Write outcomes, and the times of entries of which all dtypes were run."""
    kept = {
        key: result
        for key, result in outcomes.read_list(LIST).items()
        if key[0] in catalogue and key[1] in catalogue[key[0]][1]
    }
    LIST.parent.mkdir(parents=True, exist_ok=True)
    LIST.write_text(outcomes.list_text(kept | got, "entry", order), encoding="utf-8")
    seconds = {name: spent for name, spent in read_seconds().items() if name in catalogue}
    for name, (_, dtypes) in catalogue.items():
        if all((name, dtype) in got for dtype in dtypes):
            seconds[name] = sum(got[name, dtype].seconds for dtype in dtypes)
    lines = [f"{name},{max(spent, 0.1):.1f}" for name, spent in sorted(seconds.items())]
    SECONDS.write_text("\n".join(["entry,seconds", *lines]) + "\n", encoding="utf-8")


def compare(got: Results, everything: set[outcomes.Key], junit: Path | None) -> int:
    """Print how outcomes differ from the list; the exit code.

    A list that lacks pairs of the database was not made by one run of all of it: its differences are told, not judged.
    """
    expected = outcomes.read_list(LIST)
    worse, better = outcomes.differences(expected, got)
    missing = len(everything - expected.keys())
    if junit is not None:
        outcomes.write_junit(junit, "opinfo", got, {*worse, *better}, judged=not missing)
    for kind, sentences in (("worse", worse), ("unexpected", better)):
        for sentence in list(sentences.values())[:_MOST_SENTENCES]:
            print(f"opinfo: {kind}: {sentence}")
        if len(sentences) > _MOST_SENTENCES:
            print(f"opinfo: {kind}: and {len(sentences) - _MOST_SENTENCES} more")
    if not worse and not better:
        print(f"opinfo: all outcomes are those of {LIST.relative_to(ROOT)}")
        return 0
    if missing:
        print(
            f"opinfo: {len(worse)} worse, {len(better)} better or new, not judged: {LIST.relative_to(ROOT)} lacks "
            f"{missing} of {len(everything)} pairs. tools/conformance opinfo --accept makes it whole"
        )
        return 0
    print(
        f"opinfo: {len(worse)} worse, {len(better)} better or new. If that is meant, run it again with --accept, then "
        "tools/conformance document"
    )
    return 1
