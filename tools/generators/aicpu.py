"""Which calls the device's own CPU computes: rows that the ledger reads."""

from __future__ import annotations

from .tables import Spec
from .text import BANNER, c_string


def generate(spec: Spec) -> dict[str, str]:
    return {"src/ledger/generated/aicpu_rows.h": _rows(spec)}


def _rows(spec: Spec) -> str:
    lines = [
        BANNER,
        "#pragma once",
        "",
        "#include <array>",
        "#include <cstdint>",
        "#include <string_view>",
        "",
        "namespace drydock::ledger {",
        "",
        "/// An operator, and a bit for each DataType that it sends to the device's own CPU (spec/aicpu.csv).",
        "struct AicpuRow {",
        "  std::string_view name;",
        "  uint64_t dtypes;",
        "};",
        "",
        "/// Sorted by name.",
        f"inline constexpr std::array<AicpuRow, {len(spec.aicpu)}> kAicpuRows = {{{{",
    ]
    for name, dtypes in sorted(spec.aicpu.items()):
        mask = sum(1 << spec.data_type_numbers[dtype] for dtype in dtypes)
        lines.append(f"    {{{c_string(name)}, {mask:#x}}},")
    return "\n".join([*lines, "}};", "", "}  // namespace drydock::ledger", ""])
