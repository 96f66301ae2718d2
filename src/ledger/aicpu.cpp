#include "ledger/aicpu.h"

#include <algorithm>

#include "ledger/generated/aicpu_rows.h"

namespace drydock::ledger {
namespace {

constexpr int kDtypeBits = 64;

bool is_widest(DataType type) {
  return type == DataType::kDouble || type == DataType::kComplex64 || type == DataType::kComplex128;
}

}  // namespace

bool runs_on_aicpu(std::string_view name, const trace::Call& call, const trace::Signature& signature) {
  const auto row = std::lower_bound(kAicpuRows.begin(), kAicpuRows.end(), name,
                                    [](const AicpuRow& one, std::string_view other) { return one.name < other; });
  if (row == kAicpuRows.end() || row->name != name) return false;
  bool any = false;
  bool all = true;
  for (size_t index = 0; index < std::min(call.arguments.size(), signature.arguments.size()); ++index) {
    if (signature.arguments[index].direction == ops::ArgDirection::kOut) continue;
    if (call.arguments[index].kind != ops::ArgKind::kTensor) continue;
    for (const trace::CallTensor& tensor : call.arguments[index].tensors) {
      const auto number = static_cast<int32_t>(tensor.dtype);
      if (!tensor.defined || number < 0 || number >= kDtypeBits) continue;
      const bool is_listed = (row->dtypes >> number & 1) != 0;
      if (is_listed && is_widest(tensor.dtype)) return true;
      any = true;
      all = all && is_listed;
    }
  }
  return any && all;
}

}  // namespace drydock::ledger
