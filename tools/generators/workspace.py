"""Functions that say how much workspace a call asks for, from the rows of spec/workspace.csv.

The language of the formulas: whole numbers (16MiB, 64KiB), arguments of the operator by name, `+ - * /` (a division
rounds down), comparisons, `and or not`, calls of the functions below, and names defined before the formula
(`rows = dim(x, 0); rows * 4`). Nothing in it can fail or loop: see src/ops/workspace_call.h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tables import Operator, OperatorArg, Spec, SpecError
from .text import BANNER, c_string, wrap
from .workspace_rows import UNITS, WorkspaceRow, read_rows

_CONSTANTS = ("aic", "aiv", "sys")
# Functions of one tensor, list or array.
_OF_ARGUMENT = ("n", "bytes", "size", "rank", "length", "inner", "outer")
_BASES = {"high": "kHigh", "medium": "kMedium", "low": "kLow"}
_PATHS = {"composite": "kComposite", "individual": "kIndividual"}
_COPIES = {"none": "kNone", "inputs": "kInputs", "all": "kInputsAndOutputs", "matrices": "kMatrices"}
_TOKEN = re.compile(r"\s*(?:(\d+)(KiB|MiB)?|([A-Za-z_]\w*)|(==|!=|<=|>=|[-+*/(),<>;=])|(\S))")
_TENSORS = ("aclTensor", "aclTensorList")


@dataclass(frozen=True)
class _Value:
    """A piece of a formula as C++."""

    code: str
    is_truth: bool


class _Formula:
    """One formula of one operator, read from left to right."""

    def __init__(self, text: str, operator: Operator, spec: Spec, where: str) -> None:
        self._text = text
        self._operator = operator
        self._spec = spec
        self._where = where
        self._tokens = self._split(text)
        self._at = 0
        self._defined: dict[str, _Value] = {}
        self._definitions: list[str] = []

    def body(self, wants_truth: bool) -> list[str]:
        """The statements of a function of `call`."""
        while self._peek(1) == "=":
            name = self._take()
            self._take()
            if not name.isidentifier() or name in _CONSTANTS or name in self._defined:
                raise self._wrong(f"'{name}' can't be given a meaning")
            value = self._either()
            self._expect(";")
            kind = "bool" if value.is_truth else "int64_t"
            self._definitions.append(f"const {kind} of_{name} = {value.code};")
            self._defined[name] = _Value(f"of_{name}", value.is_truth)
        result = self._either()
        if self._at != len(self._tokens):
            raise self._wrong(f"'{self._tokens[self._at]}' stands behind the end")
        self._check(result, wants_truth)
        return [*self._definitions, f"return {result.code};"]

    def _wrong(self, what: str) -> SpecError:
        return SpecError(f"{self._where}: {self._operator.name}: formula '{self._text}': {what}")

    def _split(self, text: str) -> list[str]:
        tokens = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None or match.group(5):
                raise self._wrong(f"can't read on from '{text[position:]}'")
            position = match.end()
            digits, unit, name, sign, _ = match.groups()
            if digits is not None:
                number = int(digits) * UNITS[unit or ""]
                if number > 1 << 50:
                    raise self._wrong(f"{number} is too large")
                tokens.append(str(number))
            else:
                tokens.append(name or sign)
        return tokens

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise self._wrong("it ends too early")
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._wrong(f"'{sign}' is missing before '{self._peek()}'")
        self._at += 1

    def _check(self, value: _Value, wants_truth: bool) -> None:
        if value.is_truth != wants_truth:
            raise self._wrong("a condition where a number is needed" if value.is_truth else "a number for a condition")

    def _number(self) -> _Value:
        value = self._sum()
        self._check(value, False)
        return value

    def _either(self) -> _Value:
        left = self._both()
        while self._peek() == "or":
            self._at += 1
            left = self._join(left, "||", self._both())
        return left

    def _both(self) -> _Value:
        left = self._negation()
        while self._peek() == "and":
            self._at += 1
            left = self._join(left, "&&", self._negation())
        return left

    def _join(self, left: _Value, sign: str, right: _Value) -> _Value:
        self._check(left, True)
        self._check(right, True)
        return _Value(f"({left.code} {sign} {right.code})", True)

    def _negation(self) -> _Value:
        if self._peek() != "not":
            return self._comparison()
        self._at += 1
        value = self._negation()
        self._check(value, True)
        return _Value(f"!{value.code}", True)

    def _comparison(self) -> _Value:
        left = self._sum()
        if self._peek() not in ("==", "!=", "<", ">", "<=", ">="):
            return left
        sign = self._take()
        right = self._number()
        self._check(left, False)
        return _Value(f"({left.code} {sign} {right.code})", True)

    def _sum(self) -> _Value:
        left = self._product()
        while self._peek() in ("+", "-"):
            function = "saturating_sum" if self._take() == "+" else "saturating_difference"
            right = self._product()
            self._check(left, False)
            self._check(right, False)
            left = _Value(f"{function}({left.code}, {right.code})", False)
        return left

    def _product(self) -> _Value:
        left = self._atom()
        while self._peek() in ("*", "/"):
            function = "saturating_product" if self._take() == "*" else "call.divide"
            right = self._atom()
            self._check(left, False)
            self._check(right, False)
            left = _Value(f"{function}({left.code}, {right.code})", False)
        return left

    def _atom(self) -> _Value:
        token = self._take()
        if token.isdigit():
            return _Value(f"int64_t{{{token}}}", False)
        if token == "(":
            value = self._either()
            self._expect(")")
            return value
        if not token.isidentifier():
            raise self._wrong(f"'{token}' is no number and no name")
        if self._peek() == "(":
            self._at += 1
            value = self._call(token)
            self._expect(")")
            return value
        if token in self._defined:
            return self._defined[token]
        if token in _CONSTANTS:
            return _Value(f"call.{token}()", False)
        index, arg = self._argument(token)
        if arg.param.base_type in _TENSORS:
            raise self._wrong(f"{token} is a tensor: say n({token}), bytes({token}) or dim({token}, 0)")
        return _Value(f"call.number({index})", False)

    def _call(self, name: str) -> _Value:
        if name in _OF_ARGUMENT:
            return _Value(f"call.{name}({self._argument(self._take())[0]})", False)
        if name in ("is", "given", "text"):
            return self._question(name)
        if name == "cast":
            tensor = self._argument(self._take())[0]
            self._expect(",")
            return _Value(f"call.cast({tensor}, {self._argument(self._take())[0]})", False)
        if name == "dim":
            tensor = self._argument(self._take())[0]
            self._expect(",")
            sign = "-" if self._peek() == "-" and self._take() else ""
            return _Value(f"call.dim({tensor}, {sign}{self._take()})", False)
        if name == "axis":
            tensor = self._argument(self._take())[0]
            self._expect(",")
            letter = self._take()
            self._expect(",")
            layout = self._argument(self._take())[0]
            self._expect(",")
            return _Value(f"call.axis({tensor}, '{letter}', {layout}, {self._number().code})", False)
        if name == "if":
            condition = self._either()
            self._check(condition, True)
            self._expect(",")
            yes = self._number()
            self._expect(",")
            return _Value(f"({condition.code} ? {yes.code} : {self._number().code})", False)
        return self._arithmetic(name)

    def _question(self, name: str) -> _Value:
        index = self._argument(self._take())[0]
        if name == "given":
            return _Value(f"call.given({index})", True)
        self._expect(",")
        if name == "text":
            return _Value(f"call.has_text({index}, {c_string(self._take())})", True)
        dtypes = [self._take()]
        while self._peek() == ",":
            self._at += 1
            dtypes.append(self._take())
        if unknown := set(dtypes) - self._spec.data_type_numbers.keys():
            raise self._wrong(f"'{min(unknown)}' is no element type of spec/data_types.csv")
        mask = sum(1 << self._spec.data_type_numbers[dtype] for dtype in dtypes)
        return _Value(f"call.is({index}, {mask:#x})", True)

    def _arithmetic(self, name: str) -> _Value:
        functions = {"min": "std::min<int64_t>", "max": "std::max<int64_t>", "up": "call.up", "ceil": "call.ceil"}
        if name == "align":
            return _Value(f"call.align({self._number().code})", False)
        if name not in functions:
            raise self._wrong(f"there is no function '{name}'")
        first = self._number()
        self._expect(",")
        return _Value(f"{functions[name]}({first.code}, {self._number().code})", False)

    def _argument(self, name: str) -> tuple[int, OperatorArg]:
        """By name; in0, in1 and out0 are the first tensors read and written."""
        if match := re.fullmatch(r"(in|out)(\d)", name):
            directions = ("in", "inout") if match.group(1) == "in" else ("out", "inout")
            found = [
                (index, arg)
                for index, arg in enumerate(self._operator.args)
                if arg.param.base_type in _TENSORS and arg.direction in directions
            ]
            if int(match.group(2)) < len(found):
                return found[int(match.group(2))]
        for index, arg in enumerate(self._operator.args):
            if arg.param.name == name:
                return index, arg
        raise self._wrong(f"'{name}' is no argument, no constant, and was given no meaning")


def generate(spec: Spec) -> dict[str, str]:
    return {"src/ops/generated/workspace_rules.cpp": _Source(spec).text()}


class _Source:
    """The generated file: functions, each once, and the table that names them."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._functions: dict[tuple[str, ...], str] = {}
        self._lines: list[str] = []

    def text(self) -> str:
        by_operator: dict[str, list[WorkspaceRow]] = {}
        for row in read_rows(self._spec):
            for name in row.operators:
                by_operator.setdefault(name, []).append(row)
        rules: list[str] = []
        ends: list[int] = []
        for operator in self._spec.operators:
            for row in by_operator.get(operator.name, ()):
                rules.append(self._rule(operator, row))
            ends.append(len(rules))
        head = [
            BANNER,
            "",
            "#include <algorithm>",
            "#include <array>",
            "",
            '#include "base/saturating.h"',
            '#include "ops/workspace.h"',
            '#include "ops/workspace_call.h"',
            "",
            "namespace drydock::ops {",
            "namespace {",
            "",
            "using enum WorkspaceCopies;",
            "using enum WorkspacePath;",
            "using trace::WorkspaceBasis;",
            "",
        ]
        table = [
            f"constexpr std::array<WorkspaceRule, {len(rules)}> kRules = {{{{",
            *rules,
            "}};",
            "",
            "// Of each operator of spec/operators.csv: where its rules end.",
        ]
        table += wrap(
            f"constexpr std::array<uint16_t, {len(ends)}> kEnds = {{{', '.join(str(end) for end in ends)}}};", "    "
        )
        tail = [
            "",
            "}  // namespace",
            "",
            "std::span<const WorkspaceRule> workspace_rules(uint32_t operator_index) noexcept {",
            "  if (operator_index >= kEnds.size()) return {};",
            "  const size_t begin = operator_index == 0 ? 0 : kEnds[operator_index - 1];",
            "  return std::span<const WorkspaceRule>(kRules).subspan(begin, kEnds[operator_index] - begin);",
            "}",
            "",
            "}  // namespace drydock::ops",
        ]
        return "\n".join([*head, *self._lines, *table, *tail, ""])

    def _rule(self, operator: Operator, row: WorkspaceRow) -> str:
        has_kernel = bool(row.constant or row.formula)
        text = " + ".join(part for part in (row.constant, row.formula, row.temporaries) if part) or "0"
        functions = ", ".join(
            [
                self._function(row.when, True, operator, row),
                "true" if has_kernel else "false",
                str(row.constant_bytes),
                self._function(row.formula, False, operator, row),
                self._function(row.temporaries, False, operator, row),
                self._function(row.upper, False, operator, row),
            ]
        )
        kinds = f"{_PATHS[row.path]}, {_COPIES[row.copies]}, WorkspaceBasis::{_BASES[row.confidence]}"
        shown = text if len(text) <= 100 else text[:97] + "..."
        return f"    {{{functions}, {kinds},\n     {c_string(shown)}}},  // {operator.name}"

    def _function(self, text: str, is_truth: bool, operator: Operator, row: WorkspaceRow) -> str:
        if not text:
            return "nullptr"
        body = (str(is_truth), *_Formula(text, operator, self._spec, row.where).body(is_truth))
        if body not in self._functions:
            name = f"{'holds' if is_truth else 'size'}_{len(self._functions)}"
            self._functions[body] = name
            is_used = any("call." in line for line in body[1:])
            parameter = "const WorkspaceCall& call" if is_used else "const WorkspaceCall&"
            self._lines.append(f"{'bool' if is_truth else 'int64_t'} {name}({parameter}) {{")
            for statement in body[1:]:
                self._lines += wrap(f"  {statement}", "      ")
            self._lines += ["}", ""]
        return self._functions[body]
