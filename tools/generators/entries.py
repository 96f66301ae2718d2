"""Doors and declarations of the entries: everything that is not an aclnn operator."""

from __future__ import annotations

from .abi_types import abi_type, declaration, returns_status, unnamed
from .tables import Entry, Spec
from .text import BANNER, c_string, wrap

_CALLS_HANDLER = ("modelled", "constant")
# What a door answers when something of ours failed, by the family of codes its callers know.
_INTERNAL_CODES = {"aclnnStatus": 561000, "HcclResult": 4}
_REFUSED_CODES = {"HcclResult": 5}
_ACL_INTERNAL, _ACL_NOT_SUPPORTED = 500000, 200001


def generate(spec: Spec) -> dict[str, str]:
    files = {
        "src/abi/generated/entries.h": _handlers_header(spec),
        "src/abi/generated/entry_rows.h": _rows_header(spec),
        "src/abi/generated/entry_rows.cpp": _rows_source(spec),
    }
    for library in spec.libraries:
        rows = [entry for entry in spec.entries if entry.library == library.name and entry.exported]
        if rows:
            files[f"src/abi/generated/{library.name}_doors.cpp"] = _doors(spec, library.name, rows)
    return files


def _handler_return(spec: Spec, entry: Entry) -> str:
    return "Status" if returns_status(spec, entry) else abi_type(spec, entry.returns, entry.where)


def _param_list(spec: Spec, entry: Entry) -> list[str]:
    return [declaration(spec, param, entry.where) for param in entry.params]


def _handlers_header(spec: Spec) -> str:
    lines = [
        BANNER,
        "#pragma once",
        "",
        "#include <cstdarg>",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        '#include "base/export.h"',
        '#include "base/status.h"',
        "",
        "// The handlers behind the doors, one for each entry of class modelled or constant. Above each: the vendor's",
        "// declaration. Handles and structs arrive as void*, enumerations as int32_t. Check pointers.",
        "",
        "namespace drydock::entries {",
        "",
    ]
    for entry in spec.entries:
        if entry.entry_class not in _CALLS_HANDLER:
            continue
        vendor = ", ".join(f"{param.type} {param.name}" for param in entry.params) or "void"
        lines += wrap(f"// {entry.returns} {entry.name}({vendor}{', ...' if entry.variadic else ''})", "//     ")
        params = _param_list(spec, entry) + (["va_list arguments"] if entry.variadic else [])
        lines += wrap(f"DRYDOCK_API {_handler_return(spec, entry)} {entry.name}({', '.join(params)});", "    ")
    lines += ["", "}  // namespace drydock::entries", ""]
    return "\n".join(lines)


def _rows_header(spec: Spec) -> str:
    lines = [
        BANNER,
        "#pragma once",
        "",
        "#include <cstdint>",
        "#include <span>",
        "#include <string_view>",
        "",
        '#include "base/export.h"',
        "",
        "namespace drydock::abi {",
        "",
        "/// Index of a row in spec/entries.csv; the number that traces hold.",
        "enum class EntryId : uint32_t {",
    ]
    lines += [f"  {entry.name} = {index}," for index, entry in enumerate(spec.entries)]
    lines += [
        "};",
        "",
        "enum class EntryClass : uint8_t { kModelled, kConstant, kHint, kRefused, kAbsent };",
        "",
        "struct EntryRow {",
        "  std::string_view name;     ///< the symbol",
        "  std::string_view library;  ///< file name stem of the library that exports it, or would",
        "  EntryClass entry_class;",
        "  int32_t internal_code;     ///< what the door answers when Drydock itself failed",
        "  int32_t refused_code;      ///< what the door of a refused entry answers",
        "  std::string_view reason;   ///< empty for kModelled",
        "};",
        "",
        "/// All rows of spec/entries.csv, in order; an EntryId is an index.",
        "DRYDOCK_API std::span<const EntryRow> entry_rows() noexcept;",
        "",
        "}  // namespace drydock::abi",
        "",
    ]
    return "\n".join(lines)


def _rows_source(spec: Spec) -> str:
    lines = [
        BANNER,
        '#include "abi/generated/entry_rows.h"',
        "",
        "namespace drydock::abi {",
        "",
        "namespace {",
        "",
        "constexpr EntryRow kRows[] = {",
    ]
    for entry in spec.entries:
        internal = _INTERNAL_CODES.get(entry.returns, _ACL_INTERNAL)
        refused = _REFUSED_CODES.get(entry.returns, _ACL_NOT_SUPPORTED)
        row_class = f"EntryClass::k{entry.entry_class.capitalize()}"
        lines.append(f"    {{{c_string(entry.name)}, {c_string(entry.library)}, {row_class}, {internal}, {refused},")
        lines.append(f"     {c_string(entry.reason)}}},")
    lines += [
        "};",
        "",
        "}  // namespace",
        "",
        "std::span<const EntryRow> entry_rows() noexcept { return kRows; }",
        "",
        "}  // namespace drydock::abi",
        "",
    ]
    return "\n".join(lines)


def _doors(spec: Spec, library: str, rows: list[Entry]) -> str:
    lines = [
        BANNER,
        f"// Doors of {library}.so.",
        "",
        "#include <cstdarg>",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        '#include "abi/door_guard.h"',
        '#include "abi/generated/entries.h"',
        '#include "abi/generated/entry_rows.h"',
        '#include "base/export.h"',
        "",
        "using drydock::abi::EntryId;",
        "",
        'extern "C" {',
        "",
    ]
    for entry in rows:
        lines += _door(spec, entry)
    lines += ['}  // extern "C"', ""]
    return "\n".join(lines)


def _door(spec: Spec, entry: Entry) -> list[str]:
    door_return = abi_type(spec, entry.returns, entry.where)
    if entry.entry_class in _CALLS_HANDLER:
        return _handler_door(spec, entry, door_return)
    # The name of the legacy operator is the one argument of a refused call that tells the user what to replace.
    named = next((p for p in entry.params if entry.entry_class == "refused" and p.name == "opType"), None)
    params = [
        declaration(spec, param, entry.where) if param is named else unnamed(spec, param, entry.where)
        for param in entry.params
    ]
    head = f"DRYDOCK_API {door_return} {entry.name}({', '.join(params)}) {{"
    cast = "" if returns_status(spec, entry) else f"static_cast<{door_return}>(0)"
    if entry.entry_class == "hint":
        body = [f"  drydock::abi::took_hint(EntryId::{entry.name});"]
        body += [] if door_return == "void" else [f"  return {cast or 0};"]
    else:
        call = f"drydock::abi::refuse(EntryId::{entry.name}, {named.name if named else 'nullptr'})"
        if returns_status(spec, entry):
            body = [f"  return {call};"]
        else:
            value = "nullptr" if "*" in door_return else cast
            body = [f"  {call};"] + ([] if door_return == "void" else [f"  return {value};"])
    return [*wrap(head, "    "), *body, "}", ""]


def _handler_door(spec: Spec, entry: Entry, door_return: str) -> list[str]:
    params = ", ".join(_param_list(spec, entry) + (["..."] if entry.variadic else []))
    names = [param.name for param in entry.params]
    lines = wrap(f"DRYDOCK_API {door_return} {entry.name}({params}) {{", "    ")
    if entry.variadic:
        lines += [
            "  va_list arguments;",
            f"  va_start(arguments, {names[-1]});",
            f"  drydock::abi::run_door(EntryId::{entry.name}, [&] {{",
            f"    drydock::entries::{entry.name}({', '.join([*names, 'arguments'])});",
            "  });",
            "  va_end(arguments);",
        ]
    else:
        lines += wrap(
            f"  return drydock::abi::run_door(EntryId::{entry.name}, "
            f"[&] {{ return drydock::entries::{entry.name}({', '.join(names)}); }});",
            "      ",
        )
    return [*lines, "}", ""]
