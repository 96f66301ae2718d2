"""Figures of the main job, as ratios of runs that alternate on the same machine.

    bench/demo_figures.py recording   full recording against the null device: wall time, median of alternating runs
    bench/demo_figures.py long        500 steps: wall time, resident memory, trace size per million operators, and the
                                      report: time to make it, its size, time until Chromium has loaded it
    bench/demo_figures.py account     with and without --holders, and with and without --workspace rules: processor time
    bench/demo_figures.py start       cold start of `drydock run` against the same with the null device

Run it with the Python of .venv, on a machine that does nothing else. It prints what it measured and judges nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "python"))
from headless_browser import Browser  # noqa: E402

DEMO = ROOT / "examples" / "dpo_7b.py"
DRYDOCK = Path(os.environ.get("DRYDOCK_BINARY", Path(sys.executable).parent / "drydock"))


@dataclass(frozen=True)
class Measured:
    """One run: wall time of the whole command, of the training loop, and the largest process."""

    wall_s: float
    train_s: float
    processor_s: float
    resident_bytes: int
    folder: Path


def run(folder: Path, options: list[str], command: list[str]) -> Measured:
    """Run a command under drydock and measure it."""
    environment = os.environ | {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True", "HF_HUB_OFFLINE": "1"}
    used_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = subprocess.run(
        [str(DRYDOCK), "run", *options, "--out", str(folder), "--", *command],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    wall_s = time.monotonic() - began
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found = re.search(r"'train_runtime': '?([0-9.]+)", done.stdout + done.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = used.ru_utime + used.ru_stime - used_before.ru_utime - used_before.ru_stime
    return Measured(wall_s, float(found.group(1)) if found else 0.0, processor_s, used.ru_maxrss * 1024, folder)


def compare(kind: str, rounds: int, command: list[str], folder: Path) -> None:
    """Alternate full and null runs and print the medians and their ratio."""
    walls: dict[str, list[Measured]] = {"full": [], "null": []}
    for number in range(rounds):
        for record in ("null", "full"):
            measured = run(folder / f"{record}{number}", ["--record", record], command)
            walls[record].append(measured)
            print(f"  {record} {number + 1}: {measured.wall_s:.2f} s, training {measured.train_s:.2f} s", flush=True)
    full, null = (statistics.median(one.wall_s for one in walls[record]) for record in ("full", "null"))
    print(f"{kind}: full {full:.2f} s, null {null:.2f} s, ratio {full / null:.3f}, difference {full - null:.2f} s")
    if walls["full"][0].train_s:
        full, null = (statistics.median(one.train_s for one in walls[record]) for record in ("full", "null"))
        print(f"{kind}, training loop alone: full {full:.2f} s, null {null:.2f} s, ratio {full / null:.3f}")


def compare_account(rounds: int, command: list[str], folder: Path) -> None:
    """Alternate runs with and without parts of the account and print the ratios of their processor times."""
    ways = {
        "all of it": [],
        "--holders off": ["--holders", "off"],
        "--workspace none": ["--workspace", "none"],
    }
    used: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for index, (way, options) in enumerate(ways.items()):
            measured = run(folder / f"{number}-{index}", options, command)
            used[way].append(measured.processor_s)
            print(f"  {way} {number + 1}: {measured.processor_s:.2f} s of processor time", flush=True)
    whole = statistics.median(used["all of it"])
    for way, times in used.items():
        print(f"{way}: {statistics.median(times):.2f} s, all of it is {whole / statistics.median(times):.3f} of that")


def measure_report(folder: Path) -> None:
    """Print what a run's report takes to make and to open, medians of five."""
    page = folder / "report.html"
    made, opened = [], []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run([str(DRYDOCK), "report", str(folder), "-o", str(page)], capture_output=True, check=True)
        made.append(time.monotonic() - began)
        with Browser() as browser:
            opened.append(browser.open(page))
    print(
        f"report: made in {statistics.median(made):.2f} s, {page.stat().st_size / 2**20:.2f} MiB, "
        f"loaded by Chromium in {statistics.median(opened):.2f} s"
    )


def measure_long(folder: Path, steps: int) -> None:
    """Print wall time, resident memory and trace size of a long run."""
    measured = run(folder / "long", [], [sys.executable, str(DEMO), "--steps", str(steps)])
    shown = subprocess.run(
        [str(DRYDOCK), "ledger", str(measured.folder), "--json"], capture_output=True, text=True, check=True
    )
    ledger = json.loads(shown.stdout)
    calls = ledger["operators"]["calls"]
    size_bytes = ledger["trace"]["bytes"]
    print(
        f"{steps} steps: {measured.wall_s:.1f} s wall in all, {measured.train_s:.1f} s training, "
        f"{measured.resident_bytes / 2**30:.2f} GiB resident"
    )
    per_million = size_bytes / calls * 1e6 / 2**20
    measure_report(measured.folder)
    print(f"trace: {size_bytes / 2**20:.1f} MiB for {calls:,} operators: {per_million:.1f} MiB a million")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=["recording", "long", "account", "start"])
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs (default: 5)")
    parser.add_argument("--steps", type=int, help="steps of the demo (default: 100, for long 500)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.figure == "recording":
            command = [sys.executable, str(DEMO), "--steps", str(options.steps or 100)]
            compare("recording", options.rounds, command, Path(folder))
        elif options.figure == "account":
            compare_account(
                options.rounds, [sys.executable, str(DEMO), "--steps", str(options.steps or 20)], Path(folder)
            )
        elif options.figure == "start":
            command = [sys.executable, "-c", "import torch; torch.zeros(1).npu()"]
            compare("cold start", options.rounds, command, Path(folder))
        else:
            measure_long(Path(folder), options.steps or 500)


if __name__ == "__main__":
    main()
