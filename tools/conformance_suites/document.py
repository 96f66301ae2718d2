"""`tools/conformance document`: writes docs/conformance.md from the lists in test/conformance/."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path

from conformance_suites import aclnn, outcomes
from conformance_suites.outcomes import FALLBACK, GOOD, OUTCOMES, PASS, REFUSED, Results
from conformance_suites.virtual_npu import ROOT

DOCUMENT = ROOT / "docs" / "conformance.md"
LISTS = ROOT / "test" / "conformance"

_HEAD = """# Conformance

What the virtual device makes of suites that others wrote. This page is generated from the lists in `test/conformance/`
by `tools/conformance document`; `test/conformance/README.md` says how the suites are run and what an outcome means.
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/conformance document", description="Write docs/conformance.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, say whether the page is current")
    options = parser.parse_args(arguments)
    text = document_text(LISTS)
    current = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.is_file() else ""
    if options.check:
        if text == current:
            return 0
        print(
            "conformance: docs/conformance.md is not what the lists give: run tools/conformance document",
            file=sys.stderr,
        )
        return 1
    DOCUMENT.write_text(text, encoding="utf-8")
    return 0


def document_text(folder: Path) -> str:
    """The page that the lists of a folder give."""
    parts = [_HEAD]
    opinfo = outcomes.read_list(folder / "opinfo.csv")
    if opinfo:
        parts.append(_opinfo(opinfo))
    examples = outcomes.read_list(folder / "aclnn.csv")
    if examples:
        parts.append(_aclnn(examples))
    for path in sorted(folder.glob("suite-*.csv")):
        parts.append(_suite(path.stem.removeprefix("suite-"), outcomes.read_list(path)))
    return "\n".join(parts)


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in body]
    return "\n".join(lines) + "\n"


def _outcome_table(first: str, groups: dict[str, Counter[str]]) -> str:
    used = [outcome for outcome in OUTCOMES if any(count[outcome] for count in groups.values())]
    total: Counter[str] = sum(groups.values(), Counter())
    rows = [[first, *used, "all"]]
    for name, count in [*groups.items(), ("all", total)]:
        rows.append([name, *(str(count[outcome]) for outcome in used), str(sum(count.values()))])
    return _table(rows)


def _opinfo(results: Results) -> str:
    by_dtype: dict[str, Counter[str]] = defaultdict(Counter)
    for (_, dtype), result in results.items():
        by_dtype[dtype][result.outcome] += 1
    entries = {entry for entry, _ in results}
    parts = [
        "## torch's OpInfo database\n",
        f"{len(entries)} entries of torch 2.13.0, {len(results)} pairs of entry and dtype.\n",
        _outcome_table("dtype", by_dtype),
        _reasons("Refused, as the real device or its client does", results, REFUSED),
        _reasons("Computed on the host's CPU by torch_npu", results, FALLBACK),
        _remarks(results),
    ]
    for outcome in OUTCOMES:
        if outcome not in GOOD:
            parts.append(_reasons(f"{outcome}", results, outcome))
    return "\n".join(part for part in parts if part)


def _by_reason(results: Results, outcome: str) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (entry, dtype), result in results.items():
        if result.outcome == outcome:
            found[result.reason][entry].append(dtype)
    return found


def _reasons(title: str, results: Results, outcome: str) -> str:
    found = _by_reason(results, outcome)
    if not found:
        return ""
    rows = [["reason", "pairs", "entries and dtypes"]]
    for reason, entries in sorted(found.items(), key=lambda item: (-sum(map(len, item[1].values())), item[0])):
        total = sum(len(dtypes) for dtypes in entries.values())
        rows.append([reason, str(total), "; ".join(f"{name} {' '.join(dtypes)}" for name, dtypes in entries.items())])
    return f"### {title}\n\n{_table(rows)}"


def _remarks(results: Results) -> str:
    rows = [["compared less than values", "entries"]]
    for reason, entries in sorted(_by_reason(results, PASS).items()):
        if reason:
            rows.append([reason, "; ".join(entries)])
    return f"### Remarks on what passes\n\n{_table(rows)}" if len(rows) > 1 else ""


def _aclnn(results: Results) -> str:
    by_checkout: dict[str, Counter[str]] = defaultdict(Counter)
    short: Results = {}
    for (folder, file), result in results.items():
        checkout, _, rest = folder.partition("/")
        by_checkout[checkout][result.outcome] += 1
        if result.outcome != PASS and aclnn.FOREIGN_OPERATOR not in result.reason:
            # Classes of reasons that name an operator each; the list has the names.
            short[rest.removesuffix("/examples"), file] = result
    parts = [
        "## The vendor's examples of operators\n",
        "The C++ programs in the `examples` folders of ops-math, ops-nn, ops-cv and ops-transformer that are for\n"
        "Atlas A2 and A3, built against `include/` with no CANN present and run (`tools/conformance aclnn`).\n",
        "\n".join(f"* {line}" for line in aclnn.figures(results)) + "\n",
        _outcome_table("checkout", by_checkout),
    ]
    for outcome in OUTCOMES:
        rows = [["reason", "examples"]]
        found: dict[str, list[str]] = defaultdict(list)
        for (_, file), result in short.items():
            if result.outcome == outcome:
                found[result.reason].append(file.removeprefix("test_aclnn_").removesuffix(".cpp"))
        rows += [[reason, " ".join(files)] for reason, files in sorted(found.items())]
        if len(rows) > 1:
            parts.append(f"### Examples that are {outcome}\n\n{_table(rows)}")
    return "\n".join(parts)


def _suite(name: str, results: Results) -> str:
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for (file, _), result in results.items():
        by_file[file][result.outcome] += 1
    return f"## Suite {name}\n\n{_outcome_table('file', by_file)}"
