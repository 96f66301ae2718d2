#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace drydock::cli {

/// One line of the support table: an entry, or an operator with both of its phases.
struct SupportLine {
  std::string_view name;
  std::string_view library;
  std::string_view support_class;  ///< modelled, constant, hint, ghost, refused, absent
  std::string_view reason;         ///< empty for modelled
  int32_t operator_index = -1;     ///< index of the operator's row, -1 for entries

  bool is_operator() const { return operator_index >= 0; }
  /// True if a client that looks the name up finds it.
  bool exported() const { return support_class != "absent"; }
};

/// All lines: entries in the order of spec/entries.csv, then operators.
const std::vector<SupportLine>& support_lines();

/// The line of a symbol, null where it has none. Both symbols of an operator lead to its line.
const SupportLine* find_support_line(std::string_view symbol);

/// What a line says in full, for one name alone: with arguments and workspace for operators.
std::string describe(const SupportLine& line);

}  // namespace drydock::cli
