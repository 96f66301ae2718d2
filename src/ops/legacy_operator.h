#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/export.h"
#include "ops/operator_row.h"

// Operators of the legacy route (aclopCompileAndExecute): rows of spec/legacy_operators.csv over the kernels of the
// aclnn operators. A row's OperatorRow stands behind those of the aclnn operators in operator_rows(); here is where its
// arguments come from in a call that knows only inputs, outputs and named attributes.

namespace drydock::ops {

struct LegacyArgSource {
  enum class From : uint8_t {
    kInput,        ///< the tensor at `position` among the inputs; null where its description is undefined
    kInputValues,  ///< the integers of the tensor there, which may lie on the host
    kOutput,       ///< the tensor at `position` among the outputs
    kAttribute,    ///< the attribute with the argument's name; 0, false or absent where it was not set
  };
  From from;
  uint8_t position;
};

struct LegacyRow {
  uint32_t operator_index;                   ///< in operator_rows()
  std::span<const LegacyArgSource> sources;  ///< one for each argument of the row
};

/// All rows, sorted by name.
DRYDOCK_API std::span<const LegacyRow> legacy_rows() noexcept;

/// The row of a legacy operator ("Identity"), or null.
DRYDOCK_API const LegacyRow* find_legacy_row(std::string_view op_type) noexcept;

}  // namespace drydock::ops
