#include "ops/legacy_operator.h"

#include <algorithm>

namespace drydock::ops {

const LegacyRow* find_legacy_row(std::string_view op_type) noexcept {
  const auto rows = legacy_rows();
  const auto found = std::lower_bound(
      rows.begin(), rows.end(), op_type,
      [](const LegacyRow& row, std::string_view name) { return operator_rows()[row.operator_index].name < name; });
  return found != rows.end() && operator_rows()[found->operator_index].name == op_type ? &*found : nullptr;
}

}  // namespace drydock::ops
