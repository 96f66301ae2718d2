"""Peak memory that people read off real NPUs, beside what the virtual device says for the same program.

    python test/truth             all rows of measured.csv: predicted, measured, error, why they differ
    python test/truth L1 P3       some

The table is a test as well (test_measured.py). No constant of Drydock is chosen to meet a row.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
UNIT_BYTES = {"B": 1, "MB": 10**6, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class Row:
    """One measured number: `measured` in bytes, known to `resolution_bytes`; the program prints bytes last."""

    name: str
    program: Path
    arguments: list[str]
    profile: str
    measured: float
    resolution_bytes: float
    tolerance_percent: float
    chip: str
    deviation: str

    def error_percent(self, predicted: int) -> float:
        """Return the error of a prediction, 0 where the measurement was not printed finely enough to tell."""
        error = predicted - self.measured
        return 0.0 if abs(error) <= self.resolution_bytes / 2 else 100 * error / self.measured


def rows() -> list[Row]:
    """Return the rows of measured.csv."""
    with (HERE / "measured.csv").open(newline="", encoding="utf-8") as file:
        return [
            Row(
                f"{row['id']} {row['case']}".strip(),
                HERE / row["program"],
                row["arguments"].split(),
                row["profile"],
                float(row["measured"]) * UNIT_BYTES[row["unit"]],
                float(row["resolution_bytes"]),
                float(row["tolerance_percent"]),
                row["chip"],
                row["deviation"],
            )
            for row in csv.DictReader(file)
        ]


def predict(row: Row, drydock: str, folder: Path) -> int:
    """Run the row's program on the virtual device, as a ghost; return the bytes that it prints last.

    Raises RuntimeError with the end of what the program wrote, if it fails.
    """
    run = subprocess.run(
        [
            *[drydock, "run", "--profile", row.profile, "--out", str(folder)],
            *["--", sys.executable, str(row.program), *row.arguments],
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if run.returncode != 0:
        raise RuntimeError(f"{row.name}: exit code {run.returncode}: {run.stderr.strip()[-2000:]}")
    return int(run.stdout.strip().splitlines()[-1])


def main() -> None:
    """Print the table."""
    beside = Path(sys.executable).parent / "drydock"
    drydock = os.environ.get("DRYDOCK_BINARY") or (str(beside) if beside.exists() else shutil.which("drydock"))
    if drydock is None:
        sys.exit("there is no drydock command: install the wheel, or set DRYDOCK_BINARY")
    known = rows()
    wanted = sys.argv[1:]
    unknown = [name for name in wanted if not any(row.name.split()[0] == name for row in known)]
    if unknown:
        sys.exit(
            f"there is no row {', '.join(unknown)}: they are {', '.join({row.name.split()[0]: 0 for row in known})}"
        )
    print(f"{'row':<20} {'chip':<14} {'predicted':>14} {'measured':>14} {'error':>9}")
    for row in known:
        if wanted and row.name.split()[0] not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            predicted = predict(row, drydock, Path(folder) / "run")
        error = row.error_percent(predicted)
        print(
            f"{row.name:<20} {row.chip:<14} {predicted:>14,} {row.measured:>14,.0f} {error:>+8.3f}%",
            flush=True,
        )
        if row.deviation:
            print(textwrap.fill(row.deviation, 96, initial_indent="    ", subsequent_indent="    "), flush=True)


if __name__ == "__main__":
    main()
