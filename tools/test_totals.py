"""Adds up what tools/test has left in its results folder and prints the closing line "N passed, N failed, N skipped".

Exit code 0 if at least one test passed and none failed.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped test cases of a JUnit file."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(results: Path) -> int:
    totals = [0, 0, 0]
    for report in sorted(results.glob("*.xml")):
        counts = count(report)
        print(f"{report.stem:<18} {counts[0]:>5} passed {counts[1]:>5} failed {counts[2]:>5} skipped")
        totals = [total + one for total, one in zip(totals, counts, strict=True)]
    for broken in sorted(results.glob("broken-*")):
        print(f"{broken.name.removeprefix('broken-'):<18} did not run to its end")
        totals[1] += 1
    checks = results / "checks.log"
    if checks.exists():
        closing = re.search(r"^checks: (\d+) passed, (\d+) failed", checks.read_text(), re.MULTILINE)
        counts = (int(closing.group(1)), int(closing.group(2))) if closing else (0, 1)
        print(f"{'checks':<18} {counts[0]:>5} passed {counts[1]:>5} failed")
        totals[0] += counts[0]
        totals[1] += counts[1]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 0 if totals[0] > 0 and totals[1] == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
