#include "ops/value_rules.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace drydock::ops {
namespace {

// After these torch_npu asks aclGetViewShape (contract H15).
constexpr std::array<std::string_view, 8> kDataDependent = {
    "aclnnMaskedSelect", "aclnnNonzero",           "aclnnNonzeroV2", "aclnnUnique",
    "aclnnUnique2",      "aclnnUniqueConsecutive", "aclnnUniqueDim", "aclnnRepeatInterleave"};

}  // namespace

std::optional<double> middle_of_random_range(const Executor& executor) noexcept {
  const std::string_view name = executor.row().name;
  if (name != "aclnnInplaceUniform" && name != "aclnnInplaceUniformTensor") return std::nullopt;
  double sum = 0;
  int bounds = 0;
  for (const Arg& arg : executor.args()) {
    if (arg.kind == ArgKind::kDouble && bounds < 2) {
      sum += arg.number;
      ++bounds;
    }
  }
  return bounds == 2 ? std::optional<double>(sum / 2) : std::nullopt;
}

bool has_data_dependent_shape(const OperatorRow& row) noexcept {
  return std::find(kDataDependent.begin(), kDataDependent.end(), row.name) != kDataDependent.end();
}

}  // namespace drydock::ops
