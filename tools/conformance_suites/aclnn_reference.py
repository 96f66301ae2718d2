"""What an example of the vendor's should print, computed with torch on the CPU from the literals in its source.

The examples follow one pattern: `std::vector<T> xHostData = {...}`, `std::vector<int64_t> xShape = {...}`,
`CreateAclTensor(xHostData, xShape, ..., aclDataType::ACL_FLOAT, ..., x)`, scalars as plain variables, one call of
`aclnnXGetWorkspaceSize(x, ...)`, and lines "result[0] is: 1.000000". What does not follow it is not compared.
"""

from __future__ import annotations

import ast
import csv
import math
import operator
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[2] / "test" / "conformance" / "aclnn_references.csv"

_CALL = re.compile(r"\b(acl\w+?)GetWorkspaceSize\s*\(")
_PRINTED = re.compile(r"result\[\s*\d+\s*\]\s*(?:is)?\s*:?\s*([-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?))", re.IGNORECASE)
_VARIABLE = re.compile(
    r"\b(?:const\s+)?(float|double|int|bool|int8_t|int16_t|int32_t|int64_t|uint8_t|uint64_t|char\s*\*?)\s+(\w+)"
    r"\s*=\s*([^;{}]+);"
)
_VECTOR = re.compile(r"std::vector<\s*([\w:]+)\s*>\s*(\w+)\s*(?:=\s*\{([^{}]*)\}|\{([^{}]*)\}|\(([^();]*)\))\s*;")
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_DTYPES = {
    "ACL_FLOAT": "float32",
    "ACL_DOUBLE": "float64",
    "ACL_INT8": "int8",
    "ACL_UINT8": "uint8",
    "ACL_INT16": "int16",
    "ACL_INT32": "int32",
    "ACL_INT64": "int64",
    "ACL_BOOL": "bool",
}


class Unreadable(Exception):
    """The source does not follow the pattern."""


class Example:
    """The source of one example."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)

    def operators(self) -> list[str]:
        """The operators that it calls, in order, each once."""
        return list(dict.fromkeys(_CALL.findall(self.text)))

    def arguments(self, name: str) -> list[str]:
        """The texts of the arguments of a call, without workspace size and executor."""
        start = re.search(rf"\b{name}GetWorkspaceSize\s*\(", self.text)
        if start is None:
            raise Unreadable("no call")
        depth, parts, current = 1, [], ""
        for character in self.text[start.end() :]:
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
                if depth == 0:
                    break
            if character == "," and depth == 1:
                parts.append(current.strip())
                current = ""
            else:
                current += character
        parts.append(current.strip())
        return parts[:-2]

    def vector(self, name: str) -> list[float]:
        """The numbers of a std::vector."""
        if re.search(rf"\b{name}\s*\[[^\]]*\]\s*=[^=]", self.text):
            raise Unreadable(f"elements of {name} are set one by one")
        for _, found, braces, plain, sized in _VECTOR.findall(self.text):
            if found != name:
                continue
            if sized:
                count, _, value = sized.partition(",")
                return [self.number(value or "0")] * int(self.number(count))
            return [self.number(item) for item in (braces or plain).split(",") if item.strip()]
        raise Unreadable(f"no literals for {name}")

    def number(self, text: str) -> float:
        """The value of a literal, an expression of literals, or a variable that holds one."""
        plain = text.strip()
        plain = re.sub(r"\b(\d+\.?\d*(?:e[-+]?\d+)?)[fFlLuU]+\b", r"\1", plain)
        plain = re.sub(r"(\d+\.)[fF]", r"\1", plain)
        known = {"true": 1, "false": 0, "NAN": math.nan, "INFINITY": math.inf, "nullptr": None}
        if plain in known:
            return known[plain]
        try:
            return self._evaluate(ast.parse(plain, mode="eval").body)
        except (SyntaxError, ZeroDivisionError) as error:
            raise Unreadable(f"no number: {text}") from error

    def _evaluate(self, node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](self._evaluate(node.left), self._evaluate(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](self._evaluate(node.operand))
        if isinstance(node, ast.Name):
            if node.id in ("NAN", "INFINITY"):
                return math.nan if node.id == "NAN" else math.inf
            return self.variable(node.id)
        raise Unreadable(ast.dump(node))

    def variable(self, name: str) -> float:
        """The value of a plain variable."""
        values = [value for _, found, value in _VARIABLE.findall(self.text) if found == name]
        if len(values) != 1 or values[0].strip() == name:
            raise Unreadable(f"no single value for {name}")
        return self.number(values[0])

    def tensor(self, name: str) -> Any:
        """The CPU tensor behind an aclTensor variable; None for a null pointer."""
        import torch

        if name == "nullptr":
            return None
        data, shape, dtype = self._created(name)
        sizes = [int(size) for size in self.vector(shape)]
        return torch.tensor(self.vector(data), dtype=getattr(torch, dtype)).reshape(sizes)

    def _created(self, name: str) -> tuple[str, str, str]:
        """The variables of the elements and of the shape of an aclTensor variable, and its type in torch."""
        name = name.removesuffix(".get()")
        made = re.search(
            rf"CreateAclTensor\w*(?:<[^>]*>)?\s*\(\s*(\w+)\s*,\s*(\w+)\s*,[^;]*?\b(?:aclDataType::)?(ACL_\w+)[^;]*?&?\b{name}\s*\)",
            self.text,
        )
        if made is None or made[3] not in _DTYPES:
            raise Unreadable(f"no tensor {name}")
        return made[1], made[2], _DTYPES[made[3]]

    def prints_bits_as_floats(self, name: str) -> bool:
        """True if the example reads a tensor of int32 back as floats."""
        try:
            dtype = self._created(name)[2]
        except Unreadable:
            return False
        types = set(re.findall(r"std::vector<\s*(\w+)\s*>\s*\w*[rR]esult\w*\s*\(", self.text))
        return dtype == "int32" and types == {"float"}

    def scalar(self, name: str) -> float:
        """The value behind an aclScalar variable."""
        name = name.removesuffix(".get()")
        made = re.search(rf"\b{name}\b[^;=]*=?[^;]*?aclCreateScalar\s*\(\s*&\s*(\w+)", self.text)
        made = made or re.search(rf"\b{name}\.reset\s*\(\s*aclCreateScalar\s*\(\s*&\s*(\w+)", self.text)
        if made is None:
            raise Unreadable(f"no scalar {name}")
        return self.variable(made[1])

    def array(self, name: str) -> list[int]:
        """The numbers behind an aclIntArray variable."""
        name = name.removesuffix(".get()")
        made = re.search(rf"\b{name}\b[^;=]*=\s*aclCreateIntArray\s*\(\s*(\w+)", self.text)
        if made is None:
            raise Unreadable(f"no array {name}")
        return [int(value) for value in self.vector(made[1].removesuffix(".data"))]

    def value(self, c_type: str, text: str) -> Any:
        """The argument of a C type as torch takes it."""
        if "aclTensorList" in c_type:
            raise Unreadable("a list")
        if "aclTensor" in c_type:
            return self.tensor(text)
        if "aclScalar" in c_type:
            return self.scalar(text)
        if "aclIntArray" in c_type:
            return self.array(text)
        if "*" in c_type or "aclDataType" in c_type:
            raise Unreadable(c_type)
        return self.number(text)


@cache
def references() -> dict[str, str]:
    """Operator -> an expression of torch's over its arguments by name."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["operator"]: row["expression"] for row in csv.DictReader(file)}


def compare(example: Example, operators: dict, stdout: str) -> str | None:
    """A phrase about the first wrong number, "" if all agree, None if there is nothing to compare with."""
    import torch

    names = example.operators()
    printed = [float(text) for text in _PRINTED.findall(stdout)]
    if not printed or names[-1] not in references():
        return None
    # An example that calls two forms of an operator prints the results of both; the first call's are compared.
    name = names[0] if names[0] in references() else names[-1]
    given: dict[str, Any] = {}
    expression = references()[name]
    arguments = operators[name].args
    try:
        texts = example.arguments(name)
        if len(texts) != len(arguments):
            return None
        for argument, text in zip(arguments, texts, strict=True):
            if argument.direction != "out" and re.search(rf"\b{argument.param.name}\b", expression):
                given[argument.param.name] = example.value(argument.param.type, text)
        # The expressions are rows of this repository, not text of the checkout.
        expected = eval(expression, {"torch": torch, "F": torch.nn.functional, "math": math}, given)
    except (Unreadable, RuntimeError, TypeError, ValueError, IndexError):
        return None
    tensors = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    outputs = [text for argument, text in zip(arguments, texts, strict=True) if argument.direction in ("out", "inout")]
    for index, output in enumerate(outputs[: len(tensors)]):
        if example.prints_bits_as_floats(output):
            tensors[index] = tensors[index].to(torch.int32).view(torch.float32)
    wanted = [float(number) for tensor in tensors for number in tensor.flatten().tolist()]
    if len(printed) < len(wanted):
        wanted = wanted[: len(printed)]
    for index, (got, want) in enumerate(zip(printed, wanted, strict=False)):
        same = math.isnan(got) if math.isnan(want) else math.isclose(got, want, rel_tol=1e-4, abs_tol=2e-5)
        if not same:
            return f"result[{index}] is {got:g}, torch computes {want:g}"
    return ""
