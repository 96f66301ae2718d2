"""The rows of spec/workspace.csv, read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tables import Spec, SpecError

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


@dataclass(frozen=True)
class WorkspaceRow:
    """How much workspace calls of some operators ask for (tools/generators/workspace.py)."""

    operators: tuple[str, ...]
    when: str  # a condition; "" for all calls
    path: str
    constant: str  # of the kernel's own part; "" with no formula: the kernel has none
    formula: str
    temporaries: str
    copies: str
    upper: str
    confidence: str
    where: str

    @property
    def constant_bytes(self) -> int:
        """`constant`, a sum of numbers such as "16MiB + 256", as one number; 0 where it is empty."""
        total = 0
        for part in self.constant.split("+") if self.constant else ():
            match = re.fullmatch(r"\s*(\d+)(KiB|MiB)?\s*", part)
            if match is None:
                raise SpecError(f"{self.where}: the constant '{self.constant}' is a sum of numbers such as 16MiB + 256")
            total += int(match.group(1)) * UNITS[match.group(2) or ""]
        return total


def read_rows(spec: Spec) -> list[WorkspaceRow]:
    """Rules for the size of workspaces, in the order in which they are tried. The table may be absent."""
    table: list[WorkspaceRow] = []
    if not (spec.folder / "workspace.csv").is_file():
        return table
    names = {operator.name for operator in spec.operators}
    texts = ("when", "path", "constant", "formula", "temporaries", "copies", "upper", "confidence")
    choices = {
        "path": ("composite", "individual"),
        "copies": ("none", "inputs", "all", "matrices"),
        "confidence": ("high", "medium", "low"),
    }
    closed: set[str] = set()
    for where, row in spec.rows("workspace.csv", ("operators", *texts, "source", "note")):
        operators = tuple(row["operators"].split())
        if unknown := set(operators) - names:
            raise SpecError(f"{where}: '{min(unknown)}' is no operator of spec/operators.csv")
        if late := set(operators) & closed:
            raise SpecError(f"{where}: {min(late)} has a row for all calls already: this one is never tried")
        for column, allowed in choices.items():
            if row[column] not in allowed:
                raise SpecError(f"{where}: {column} '{row[column]}' is none of {', '.join(allowed)}")
        if not operators or not row["source"]:
            raise SpecError(f"{where}: a rule names its operators and its source")
        if not row["when"]:
            closed |= set(operators)
        table.append(WorkspaceRow(operators, *(row[text] for text in texts), where))
    return table
