"""Outcomes, and the lists of them that are kept in test/conformance/."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PASS = "PASS"
FAIL = "FAIL"
CRASH = "CRASH"
TIMEOUT = "TIMEOUT"
REFUSED = "REFUSED"
FALLBACK = "FALLBACK"
SKIPPED = "SKIPPED"

OUTCOMES = (PASS, REFUSED, FALLBACK, FAIL, CRASH, TIMEOUT, SKIPPED)
# What an outcome must be for the device to be right.
GOOD = frozenset((PASS, REFUSED, FALLBACK, SKIPPED))

# Where a case belongs, and the case: an OpInfo entry and a dtype, or a file and a test.
Key = tuple[str, str]


@dataclass(frozen=True)
class Result:
    """What came out of one case, and why if that needs a reason."""

    outcome: str
    reason: str = ""
    seconds: float = 0.0


Results = dict[Key, Result]


def counts(results: Iterable[Result]) -> str:
    """All outcomes that occur, with their numbers: "6 PASS, 1 FAIL"."""
    found = Counter(result.outcome for result in results)
    return ", ".join(f"{found[outcome]} {outcome}" for outcome in OUTCOMES if found[outcome]) or "nothing"


def read_list(path: Path) -> Results:
    """Read a list. A row names a group, all its cases of one outcome and one reason, and these two."""
    if not path.is_file():
        return {}
    results: Results = {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(line for line in file if not line.startswith("#"))
        header = next(rows, None)
        if header is None or header[1:] != ["cases", "outcome", "reason"]:
            raise ValueError(f"{path} is not a list of outcomes: its first row is {header}")
        for row in rows:
            if len(row) != 4 or row[2] not in OUTCOMES:
                raise ValueError(f"{path}: the row {row} is not group, cases, outcome, reason")
            for case in row[1].split(" "):
                results[row[0], case] = Result(row[2], row[3])
    return results


def list_text(results: Results, group: str, case_order: dict[str, int] | None = None) -> str:
    """The text of a list: sorted, one row for the cases of a group that share outcome and reason."""
    order = case_order or {}
    rows: dict[tuple[str, str, str], list[str]] = {}
    for (name, case), result in sorted(
        results.items(), key=lambda item: (item[0][0], order.get(item[0][1], -1), item[0][1])
    ):
        rows.setdefault((name, result.outcome, result.reason), []).append(case)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([group, "cases", "outcome", "reason"])
    for (name, outcome, reason), cases in rows.items():
        writer.writerow([name, " ".join(cases), outcome, reason])
    return text.getvalue()


def differences(expected: Results, got: Results) -> tuple[dict[Key, str], dict[Key, str]]:
    """Regressions and unexpected passes of `got`, a sentence each. Cases that were not run are no difference."""
    worse: dict[Key, str] = {}
    better: dict[Key, str] = {}
    for key in sorted(got):
        new = got[key]
        old = expected.get(key)
        name = " ".join(key)
        because = f": {new.reason}" if new.reason else ""
        if old is None:
            where = better if new.outcome in GOOD else worse
            where[key] = f"{name} is {new.outcome} and not in the list{because}"
        elif old.outcome != new.outcome:
            improved = new.outcome in GOOD and (old.outcome not in GOOD or new.outcome == PASS)
            where = better if improved else worse
            where[key] = f"{name} was {old.outcome}, is {new.outcome}{because}"
    return worse, better


def print_bad(name: str, results: Results) -> None:
    """Print a line for each outcome that a right device does not have."""
    for key, result in sorted(results.items()):
        if result.outcome not in GOOD:
            print(f"{name}: {' '.join(key)}: {result.outcome}: {result.reason}")


def print_differences(name: str, listed: Results, results: Results) -> bool:
    """Print how results differ from their list; true if they do. Nothing differs from a list that is not there yet."""
    worse, better = differences(listed, results) if listed else ({}, {})
    for kind, sentences in (("worse", worse), ("unexpected", better)):
        for sentence in sentences.values():
            print(f"{name}: {kind}: {sentence}")
    return bool(worse or better)


def write_junit(path: Path, suite: str, results: Results, different: set[Key], judged: bool = True) -> None:
    """Write a JUnit file: a case fails, or is skipped if that is not judged, where its outcome is not the list's."""
    root = ElementTree.Element("testsuite", name=suite, tests=str(len(results)), failures=str(len(different)))
    for (group, case), result in sorted(results.items()):
        told = ElementTree.SubElement(root, "testcase", classname=group, name=case, time=f"{result.seconds:.3f}")
        if (group, case) in different and not judged:
            ElementTree.SubElement(told, "skipped", message=f"{result.outcome} {result.reason}".strip())
        elif (group, case) in different:
            ElementTree.SubElement(told, "failure", message=f"{result.outcome} {result.reason}".strip())
        elif result.outcome == SKIPPED:
            ElementTree.SubElement(told, "skipped")
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
