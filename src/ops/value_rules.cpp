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

bool has_data_dependent_shape(const OperatorRow& row) noexcept {
  return std::find(kDataDependent.begin(), kDataDependent.end(), row.name) != kDataDependent.end();
}

}  // namespace drydock::ops
