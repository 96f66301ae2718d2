"""The rows in spec/, read and checked. Every complaint names the file and the line."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ENTRY_CLASSES = ("modelled", "constant", "hint", "refused", "absent")
EXPORTED_CLASSES = ("modelled", "constant", "hint", "refused")
OPERATOR_CLASSES = ("ghost", "refused")
ASSUMED_VALUES = ("default", "zero", "one", "balanced_index", "middle_of_range")
NO_KERNEL_REASON = "no kernel yet: shape, record and workspace only"


class SpecError(Exception):
    """A row that cannot be used."""


@dataclass(frozen=True)
class Param:
    """One parameter of a C function, in the vendor's types."""

    type: str
    name: str

    @property
    def base_type(self) -> str:
        return base_type(self.type)


@dataclass(frozen=True)
class Entry:
    name: str
    library: str
    entry_class: str
    wheel: str
    returns: str
    params: tuple[Param, ...]
    variadic: bool
    reason: str
    where: str

    @property
    def exported(self) -> bool:
        return self.entry_class in EXPORTED_CLASSES


@dataclass(frozen=True)
class OperatorArg:
    direction: str  # "in", "out", "inout"
    param: Param
    resized: bool = False  # its shape depends on values: the kernel sets it


@dataclass(frozen=True)
class Operator:
    name: str
    operator_class: str  # "modelled" where spec/kernels/ names a kernel
    args: tuple[OperatorArg, ...]
    kernel: str
    assumed: str
    reason: str
    where: str


# What ArgSpec::max_rank holds where the table does not say.
NO_MAX_RANK = 255


@dataclass(frozen=True)
class LegacyArg:
    """An argument of a legacy operator and where a call has it."""

    source: str  # "in", "values", "out", "attr"
    position: int  # among the inputs or outputs
    param: Param


@dataclass(frozen=True)
class LegacyOperator:
    name: str
    args: tuple[LegacyArg, ...]
    kernel: str
    where: str


@dataclass(frozen=True)
class Field:
    """One field of a vendor struct, or one member of a union."""

    name: str
    type: str  # "char[16]" for an array
    offset: int


@dataclass(frozen=True)
class Gate:
    """What the vendor's table for Atlas A3 lists for one tensor of one operator."""

    dtypes: tuple[str, ...]  # names of spec/data_types.csv; none: the table does not say
    max_rank: int
    where: str


@dataclass(frozen=True)
class KernelRow:
    kernel: str  # function, or "" for a row that gives `assumed` alone
    assumed: str
    family: str  # name of the table, and of the source file or folder below src/ops/
    where: str


@dataclass(frozen=True)
class Library:
    name: str
    needs: tuple[str, ...]
    why: str


def base_type(c_type: str) -> str:
    """`const aclTensor* const*` -> `aclTensor`."""
    return re.sub(r"\bconst\b|\*|\s", "", c_type)


def parse_param(text: str, where: str) -> Param:
    """`const aclTensorDesc* const[] inputDesc` -> type `const aclTensorDesc* const*`, name `inputDesc`."""
    match = re.fullmatch(r"\s*(.+?[\s*\]])(\w+)\s*", text)
    if match is None:
        raise SpecError(f"{where}: cannot read the parameter '{text.strip()}': write '<type> <name>'")
    c_type = match.group(1).strip()
    if c_type.endswith("[]"):
        c_type = c_type[:-2].strip() + "*"
    return Param(re.sub(r"\s+", " ", c_type), match.group(2))


class Spec:
    """All tables of one spec/ folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, file: str, columns: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
        """The rows of a table with their place ("spec/entries.csv:12"); complains about columns and ragged rows."""
        path = self.folder / file
        if not path.is_file():
            raise SpecError(f"{path}: no such table")
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise SpecError(f"spec/{file}:1: no column '{missing[0]}'")
            result = []
            for row in reader:
                where = f"spec/{file}:{reader.line_num}"
                if None in row or None in row.values():
                    raise SpecError(f"{where}: the row does not have {len(reader.fieldnames or ())} cells")
                result.append((where, {key: value.strip() for key, value in row.items()}))
            return result

    @cached_property
    def types(self) -> dict[str, tuple[str, str]]:
        """Vendor type -> (kind, type in our ABI)."""
        table: dict[str, tuple[str, str]] = {}
        for where, row in self.rows("types.csv", ("name", "kind", "abi")):
            if row["name"] in table:
                raise SpecError(f"{where}: the type {row['name']} has two rows")
            table[row["name"]] = (row["kind"], row["abi"])
        return table

    @cached_property
    def libraries(self) -> list[Library]:
        return [
            Library(row["name"], tuple(row["needs"].split()), row["why"])
            for _, row in self.rows("libraries.csv", ("name", "needs", "why"))
        ]

    @cached_property
    def entries(self) -> list[Entry]:
        result: list[Entry] = []
        seen: set[str] = set()
        built = {library.name for library in self.libraries}
        columns = ("name", "library", "class", "wheel", "returns", "params", "reason")
        for where, row in self.rows("entries.csv", columns):
            name, entry_class = row["name"], row["class"]
            if name in seen:
                raise SpecError(f"{where}: {name} has two rows; a name belongs to one library")
            seen.add(name)
            if entry_class not in ENTRY_CLASSES:
                raise SpecError(f"{where}: {name}: class '{entry_class}' is none of {', '.join(ENTRY_CLASSES)}")
            if (entry_class == "modelled") != (row["reason"] == ""):
                raise SpecError(
                    f"{where}: {name}: every class but 'modelled' needs a reason, and 'modelled' takes none"
                )
            if row["wheel"] not in ("hard", "soft", "python", "-"):
                raise SpecError(f"{where}: {name}: wheel is hard, soft, python or -")
            texts = [text for text in row["params"].split(";") if text.strip()]
            variadic = bool(texts) and texts[-1].strip() == "..."
            params = tuple(parse_param(text, where) for text in (texts[:-1] if variadic else texts))
            entry = Entry(
                name, row["library"], entry_class, row["wheel"], row["returns"], params, variadic, row["reason"], where
            )
            if entry.exported:
                if entry.library not in built:
                    raise SpecError(f"{where}: {name}: no row in spec/libraries.csv for {entry.library}")
                if not entry.returns:
                    raise SpecError(f"{where}: {name}: an exported entry needs its C signature")
                if entry_class == "hint" and "*" in entry.returns:
                    raise SpecError(f"{where}: {name}: a hint returns no object; make it modelled, refused or absent")
            result.append(entry)
        return result

    @cached_property
    def kernels(self) -> dict[str, KernelRow]:
        """Operator -> its row in spec/kernels/<family>.csv. The folder may be absent."""
        table: dict[str, KernelRow] = {}
        for path in sorted((self.folder / "kernels").glob("*.csv")):
            for where, row in self.rows(f"kernels/{path.name}", ("operator", "kernel", "assumed")):
                if row["operator"] in table:
                    raise SpecError(f"{where}: {row['operator']} has a row already: {table[row['operator']].where}")
                assumed = row["assumed"] or "default"
                if assumed not in ASSUMED_VALUES:
                    raise SpecError(f"{where}: assumed '{assumed}' is none of {', '.join(ASSUMED_VALUES)}")
                table[row["operator"]] = KernelRow(row["kernel"], assumed, path.stem, where)
        return table

    @cached_property
    def legacy_operators(self) -> list[LegacyOperator]:
        """Operators of the aclop route, sorted by name. The table may be absent."""
        result: list[LegacyOperator] = []
        if not (self.folder / "legacy_operators.csv").is_file():
            return result
        for where, row in self.rows("legacy_operators.csv", ("name", "args", "kernel", "note")):
            args = []
            for text in filter(None, map(str.strip, row["args"].split(";"))):
                source, _, rest = text.partition(" ")
                match = re.fullmatch(r"(in|values|out)(\d+)|(attr)", source)
                if match is None:
                    raise SpecError(f"{where}: '{text}' begins with none of in0, values0, out0, attr")
                args.append(LegacyArg(match[1] or match[3], int(match[2] or 0), parse_param(rest, where)))
            if result and result[-1].name >= row["name"]:
                raise SpecError(f"{where}: {row['name']} is out of order")
            if not row["kernel"]:
                raise SpecError(f"{where}: {row['name']} needs a kernel; an operator without one has no row")
            result.append(LegacyOperator(row["name"], tuple(args), row["kernel"], where))
        return result

    @cached_property
    def enums(self) -> dict[str, list[tuple[str, str]]]:
        """Vendor enumeration -> its constants with their numbers. The table may be absent."""
        table: dict[str, list[tuple[str, str]]] = {}
        if (self.folder / "enums.csv").is_file():
            for _, row in self.rows("enums.csv", ("enum", "constant", "value")):
                table.setdefault(row["enum"], []).append((row["constant"], row["value"]))
        return table

    @cached_property
    def structs(self) -> dict[str, list[Field]]:
        """Vendor struct -> its fields in order. The table may be absent."""
        table: dict[str, list[Field]] = {}
        if (self.folder / "structs.csv").is_file():
            for _, row in self.rows("structs.csv", ("struct", "field", "type", "offset", "size_bytes")):
                field = Field(row["field"], row["type"], int(row["offset"]))
                table.setdefault(row["struct"], []).append(field)
        return table

    @cached_property
    def error_numbers(self) -> dict[str, int]:
        """Name of an error code -> its number."""
        return {row["constant"]: int(row["number"]) for _, row in self.rows("errors.csv", ("constant", "number"))}

    @cached_property
    def _headers(self) -> dict[str, str]:
        if not (self.folder / "operator_headers.csv").is_file():
            return {}
        return {row["operator"]: row["header"] for _, row in self.rows("operator_headers.csv", ("operator", "header"))}

    @cached_property
    def header_aliases(self) -> list[tuple[str, str, str]]:
        """Headers of other names: the path in include/, the header that it includes, why. The table may be absent."""
        columns = ("header", "includes", "why")
        if not (self.folder / "header_aliases.csv").is_file():
            return []
        return [(row["header"], row["includes"], row["why"]) for _, row in self.rows("header_aliases.csv", columns)]

    def given_header_of(self, name: str) -> str:
        """The header in aclnnop/ that a row names for an operator or an entry, or nothing."""
        return self._headers.get(name, "")

    def header_of(self, operator: str) -> str:
        """The header in aclnnop/ that declares an operator: its name in snake case, unless a row says otherwise."""
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operator.removeprefix("aclnn"))
        return self._headers.get(operator, f"aclnn_{words.lower()}.h")

    @cached_property
    def data_type_numbers(self) -> dict[str, int]:
        """Short name of an element type -> the vendor's number."""
        return {row["name"]: int(row["number"]) for _, row in self.rows("data_types.csv", ("name", "number"))}

    @cached_property
    def aicpu(self) -> dict[str, tuple[str, ...]]:
        """Operator -> element types that the device's own CPU computes. The table may be absent."""
        table: dict[str, tuple[str, ...]] = {}
        if not (self.folder / "aicpu.csv").is_file():
            return table
        names = {operator.name for operator in self.operators}
        for where, row in self.rows("aicpu.csv", ("operator", "dtypes", "note")):
            if row["operator"] not in names or row["operator"] in table:
                raise SpecError(f"{where}: '{row['operator']}' is no operator, or has two rows")
            dtypes = tuple(row["dtypes"].split())
            if not dtypes or set(dtypes) - self.data_type_numbers.keys():
                raise SpecError(f"{where}: '{row['dtypes']}' are not names of spec/data_types.csv")
            table[row["operator"]] = dtypes
        return table

    @cached_property
    def gates(self) -> dict[tuple[str, str], Gate]:
        """(Operator, tensor argument) -> dtypes and ranks that the device takes. The table may be absent."""
        table: dict[tuple[str, str], Gate] = {}
        if not (self.folder / "dtypes.csv").is_file():
            return table
        known = self.data_type_numbers.keys()
        for where, row in self.rows("dtypes.csv", ("operator", "param", "dtypes", "max_rank", "note")):
            key = (row["operator"], row["param"])
            if key in table:
                raise SpecError(f"{where}: {key[0]} {key[1]} has a row already: {table[key].where}")
            dtypes = tuple(row["dtypes"].split())
            if unknown := set(dtypes) - known:
                raise SpecError(f"{where}: spec/data_types.csv has no type '{min(unknown)}'")
            if row["max_rank"] and not row["max_rank"].isdigit():
                raise SpecError(f"{where}: max_rank '{row['max_rank']}' is not a number of dimensions")
            table[key] = Gate(dtypes, int(row["max_rank"] or NO_MAX_RANK), where)
        return table

    @cached_property
    def operators(self) -> list[Operator]:
        """Operators in the order of the table. Those without a door are rows of spec/entries.csv."""
        result: list[Operator] = []
        entries = {entry.name for entry in self.entries}
        seen: set[str] = set()
        for where, row in self.rows("operators.csv", ("name", "class", "args", "reason", "note")):
            name, operator_class = row["name"], row["class"]
            if name in seen:
                raise SpecError(f"{where}: {name} has two rows")
            if name in entries or f"{name}GetWorkspaceSize" in entries:
                raise SpecError(f"{where}: {name} is an entry already")
            seen.add(name)
            if operator_class not in OPERATOR_CLASSES:
                raise SpecError(f"{where}: {name}: class '{operator_class}' is none of {', '.join(OPERATOR_CLASSES)}")
            if (operator_class == "ghost") != (row["reason"] == ""):
                raise SpecError(f"{where}: {name}: a refused operator needs a reason, others take none")
            row_of_kernel = self.kernels.get(name)
            kernel, assumed = (row_of_kernel.kernel, row_of_kernel.assumed) if row_of_kernel else ("", "default")
            reason = row["reason"]
            if operator_class == "ghost":
                operator_class = "modelled" if kernel else "ghost"
                reason = "" if kernel else NO_KERNEL_REASON
            else:
                kernel = ""  # another product may have the operator; the device refuses it
            args = tuple(_operator_arg(text, where) for text in row["args"].split(";") if text.strip())
            result.append(Operator(name, operator_class, args, kernel, assumed, reason, where))
        tensors = {
            (operator.name, arg.param.name)
            for operator in result
            for arg in operator.args
            if arg.param.base_type in ("aclTensor", "aclTensorList")
        }
        for key, gate in self.gates.items():
            if key not in tensors:
                raise SpecError(f"{gate.where}: {key[0]} has no tensor argument '{key[1]}' in spec/operators.csv")
        for name, kernel_row in self.kernels.items():
            if name not in seen:
                raise SpecError(f"{kernel_row.where}: {name} has no row in spec/operators.csv")
        return result


def _operator_arg(text: str, where: str) -> OperatorArg:
    direction, _, rest = text.strip().partition(" ")
    if direction not in ("in", "out", "inout"):
        return OperatorArg("in", parse_param(text, where))
    resized = rest.startswith("resized ")
    if resized and direction != "out":
        raise SpecError(f"{where}: only what is written can be resized: '{text.strip()}'")
    return OperatorArg(direction, parse_param(rest.removeprefix("resized "), where), resized)
