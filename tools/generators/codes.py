"""Numbers with names: error codes and SoC names."""

from __future__ import annotations

from .tables import Spec, SpecError
from .text import BANNER, c_string


def generate(spec: Spec) -> dict[str, str]:
    return {
        "src/base/generated/error_codes.h": _error_codes(spec),
        "src/base/generated/error_codes.cpp": _code_names(spec),
        "src/base/generated/soc_names.h": _soc_names(spec),
    }


def _errors(spec: Spec) -> list[tuple[str, int, str]]:
    result: list[tuple[str, int, str]] = []
    seen: set[str] = set()
    for where, row in spec.rows("errors.csv", ("constant", "number", "meaning")):
        if not row["constant"].isidentifier() or row["constant"] in seen:
            raise SpecError(f"{where}: '{row['constant']}' is no identifier, or has two rows")
        seen.add(row["constant"])
        try:
            result.append((row["constant"], int(row["number"]), row["meaning"]))
        except ValueError:
            raise SpecError(f"{where}: '{row['number']}' is not a whole number") from None
    return result


def _error_codes(spec: Spec) -> str:
    lines = [
        BANNER,
        "#pragma once",
        "",
        "#include <cstdint>",
        "#include <string_view>",
        "",
        '#include "base/export.h"',
        "",
        "namespace drydock {",
        "",
        "// The vendor's error codes, by the vendor's names (spec/errors.csv).",
        "namespace code {",
        "",
    ]
    for constant, number, meaning in _errors(spec):
        lines += [f"/// {meaning}", f"inline constexpr int32_t {constant} = {number};"]
    lines += [
        "",
        "}  // namespace code",
        "",
        "/// The vendor's name of a code, empty where there is none. Numbers below 100000 are read as codes of HCCL.",
        "DRYDOCK_API std::string_view name_of_code(int32_t number) noexcept;",
        "",
        "}  // namespace drydock",
        "",
    ]
    return "\n".join(lines)


def _code_names(spec: Spec) -> str:
    first_names: dict[int, str] = {}
    for constant, number, _ in _errors(spec):
        first_names.setdefault(number, constant)
    lines = [
        BANNER,
        '#include "base/generated/error_codes.h"',
        "",
        "namespace drydock {",
        "",
        "std::string_view name_of_code(int32_t number) noexcept {",
        "  switch (number) {",
    ]
    lines += [f"    case {number}: return {c_string(name)};" for number, name in sorted(first_names.items())]
    return "\n".join([*lines, "    default: return {};", "  }", "}", "", "}  // namespace drydock", ""])


def _soc_names(spec: Spec) -> str:
    rows = spec.rows("soc_names.csv", ("name", "torch_npu_enum", "product"))
    lines = [
        BANNER,
        "#pragma once",
        "",
        "#include <cstdint>",
        "#include <string_view>",
        "",
        "namespace drydock {",
        "",
        "struct SocName {",
        "  std::string_view name;   ///< what aclrtGetSocName answers",
        "  int32_t torch_npu_enum;  ///< torch_npu's number for it",
        "};",
        "",
        '/// The names that torch_npu accepts besides those that begin with "Ascend950"; any other throws at its init.',
        "inline constexpr SocName kSocNames[] = {",
    ]
    for where, row in rows:
        if not row["torch_npu_enum"].isdigit():
            raise SpecError(f"{where}: torch_npu_enum is a whole number")
        lines.append(f"    {{{c_string(row['name'])}, {row['torch_npu_enum']}}},")
    return "\n".join([*lines, "};", "", "}  // namespace drydock", ""])
