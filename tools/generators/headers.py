"""Headers for programs that call the libraries directly: include/acl, include/aclnn, include/aclnnop, include/hccl."""

from __future__ import annotations

import re

from .abi_types import kind_of
from .tables import Entry, Operator, Spec, SpecError
from .text import BANNER, wrap

# Header -> libraries whose entries it declares.
_RUNTIME_LIBRARIES = ("libascendcl", "libacl_op_compiler")
_META_LIBRARIES = ("libnnopbase",)
_COMMUNICATION_LIBRARIES = ("libhccl", "libhcomm")
# Names under which clients include the runtime's declarations as well.
_RUNTIME_ALIASES = ("acl_base.h", "acl_rt.h", "acl_op.h", "acl_op_compiler.h", "acl_base_rt.h")


def generate(spec: Spec) -> dict[str, str]:
    if not spec.enums:
        return {}
    files = {
        "include/acl/acl.h": _runtime_header(spec),
        "include/aclnn/acl_meta.h": _entries_header(spec, _META_LIBRARIES, "The objects that operators take."),
        "include/aclnn/aclnn_base.h": _header(["#include <aclnn/acl_meta.h>"], []),
        "include/hccl/hccl.h": _entries_header(spec, _COMMUNICATION_LIBRARIES, "Communication between devices."),
    }
    for alias in _RUNTIME_ALIASES:
        files[f"include/acl/{alias}"] = _header(["#include <acl/acl.h>"], [])
    for alias, included, why in spec.header_aliases:
        files[f"include/{alias}"] = _header([*wrap(f"// {why}", "// "), f"#include <{included}>"], [])
    by_header: dict[str, list[Operator]] = {}
    for operator in spec.operators:
        by_header.setdefault(spec.header_of(operator.name), []).append(operator)
    for header, operators in sorted(by_header.items()):
        helpers = [entry for entry in spec.entries if entry.exported and spec.given_header_of(entry.name) == header]
        files[f"include/aclnnop/{header}"] = _operators_header(operators, helpers)
    return files


def _header(includes: list[str], lines: list[str]) -> str:
    """A whole header: banner, guard, includes, C linkage around the declarations."""
    text = [BANNER.rstrip(), "#pragma once", "", *includes]
    if lines:
        text += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *lines, ""]
        text += ["#ifdef __cplusplus", '}  // extern "C"', "#endif"]
    return "\n".join([*text, ""])


def _runtime_header(spec: Spec) -> str:
    entries = _exported(spec, _RUNTIME_LIBRARIES)
    # Types of all libraries: the smaller headers include this one.
    everything = entries + _exported(spec, _META_LIBRARIES) + _exported(spec, _COMMUNICATION_LIBRARIES)
    # Objects that the operators' own headers name in their signatures.
    kinds = ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList", "OpExecutor")
    lines = ["// Error codes."]
    lines += [f"#define {name} {number}" for name, number in spec.error_numbers.items() if name.startswith("ACL")]
    lines += [""]
    done: set[str] = set()
    for kind in kinds:
        _declare(spec, f"acl{kind}", lines, done)
    for entry in everything:
        for name in re.findall(r"\b[A-Za-z_]\w*\b", " ".join([entry.returns, *(p.type for p in entry.params)])):
            _declare(spec, name, lines, done)
    for name in spec.enums:
        _declare(spec, name, lines, done)
    lines += ["", "// Functions.", *_functions(entries)]
    return _header(["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>"], lines)


def _entries_header(spec: Spec, libraries: tuple[str, ...], what: str) -> str:
    return _header(["#include <acl/acl.h>"], [f"// {what}", *_functions(_exported(spec, libraries))])


def _operators_header(operators: list[Operator], helpers: list[Entry]) -> str:
    lines = _functions(helpers)
    for operator in operators:
        if lines:
            lines.append("")
        if operator.operator_class == "refused":
            lines += wrap(f"// {operator.name} is refused: {operator.reason}", "// ")
        params = [_parameter(arg.param.type, arg.param.name) for arg in operator.args]
        params += ["uint64_t* workspaceSize", "aclOpExecutor** executor"]
        lines += wrap(f"aclnnStatus {operator.name}GetWorkspaceSize({', '.join(params)});", "    ")
        phase2 = f"aclnnStatus {operator.name}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, "
        lines += wrap(f"{phase2}aclrtStream stream);", "    ")
    return _header(["#include <aclnn/aclnn_base.h>"], lines)


def _exported(spec: Spec, libraries: tuple[str, ...]) -> list[Entry]:
    # Names of other layers (rt..., Msprof...) live in the same library; their types are no one's business here.
    return [e for e in spec.entries if e.exported and e.library in libraries and e.name.startswith(("acl", "Hccl"))]


def _functions(entries: list[Entry]) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        params = [_parameter(param.type, param.name) for param in entry.params]
        if entry.variadic:
            params.append("...")
        lines += wrap(f"{_parameter(entry.returns, entry.name)}({', '.join(params) or 'void'});", "    ")
    return lines


def _parameter(c_type: str, name: str) -> str:
    return f"{c_type} {name}"


def _declare(spec: Spec, name: str, lines: list[str], done: set[str]) -> None:
    """Appends the declaration of a vendor type, after those that it needs."""
    if name in done or kind_of(spec, name) == "builtin":
        return
    if name in spec.enums:
        done.add(name)
        lines.append(f"typedef enum {name} {{")
        lines.extend(f"  {constant} = {value}," for constant, value in spec.enums[name])
        lines += [f"}} {name};", ""]
        return
    if name in spec.structs:
        done.add(name)
        fields = spec.structs[name]
        for field in fields:
            for other in re.findall(r"\b[A-Za-z_]\w*\b", field.type):
                _declare(spec, other, lines, done)
        # Fields that share an offset are the members of a union.
        word = "union" if len(fields) > 1 and all(field.offset == 0 for field in fields) else "struct"
        lines.append(f"typedef {word} {name} {{")
        for field in fields:
            base, _, extent = field.type.partition("[")
            lines.append(f"  {base} {field.name}{'[' + extent if extent else ''};")
        lines += [f"}} {name};", ""]
        return
    if name not in spec.types:
        return
    done.add(name)
    kind, abi = spec.types[name]
    if kind in ("object", "struct"):
        lines += [f"typedef struct {name} {name};", ""]
    elif "(*)" in abi:
        lines += [f"typedef {abi.replace('(*)', f'(*{name})')};", ""]
    elif kind in ("handle", "status", "value", "function"):
        lines += [f"typedef {abi} {name};", ""]
    else:
        raise SpecError(f"spec/types.csv: {name}: an enumeration without constants in spec/enums.csv")
