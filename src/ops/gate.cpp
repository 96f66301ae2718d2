#include "ops/gate.h"

#include <string>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/profile.h"

namespace drydock::ops {
namespace {

constexpr int kDtypeBits = 64;

std::string names_of(uint64_t dtypes) {
  std::string names;
  for (int number = 0; number < kDtypeBits; ++number) {
    if ((dtypes >> number & 1) == 0) continue;
    if (!names.empty()) names += ", ";
    names += name_of(static_cast<DataType>(number));
  }
  return names;
}

bool lists(const ArgSpec& spec, DataType dtype) {
  const auto number = static_cast<int32_t>(dtype);
  return spec.dtypes == 0 || number < 0 || number >= kDtypeBits || (spec.dtypes >> number & 1) != 0;
}

/// The first generation of the chip (npu_arch 1001) has no bf16 in any unit; the vendor's tables say so per product.
constexpr int32_t kFirstArchWithBf16 = 2200;

Status check_tensor(const OperatorRow& row, const ArgSpec& spec, const Tensor& tensor) {
  if (tensor.dtype == DataType::kBFloat16 && device::profile().npu_arch < kFirstArchWithBf16) {
    return Status::error(code::ACLNN_ERR_PARAM_INVALID,
                         fmt::format("{}: argument {} is bf16, which {} does not have. Use fp16 or fp32.", row.name,
                                     spec.name, device::profile().soc_name));
  }
  if (!lists(spec, tensor.dtype)) {
    return Status::error(
        code::ACLNN_ERR_PARAM_INVALID,
        fmt::format("{}: argument {} is {}, which the vendor's table for Atlas A3 does not list: it takes {}.",
                    row.name, spec.name, name_of(tensor.dtype), names_of(spec.dtypes)));
  }
  if (tensor.dims.size() > spec.max_rank) {
    return Status::error(
        code::ACLNN_ERR_PARAM_INVALID,
        fmt::format("{}: argument {} has {} dimensions; the vendor's table for Atlas A3 lists at most {}.", row.name,
                    spec.name, tensor.dims.size(), spec.max_rank));
  }
  return Status::ok();
}

}  // namespace

Status check_gates(const OperatorRow& row, std::span<const Arg> args) {
  for (size_t index = 0; index < args.size(); ++index) {
    const Arg& arg = args[index];
    const ArgSpec& spec = row.args[index];
    if (arg.pointer == nullptr) continue;
    if (arg.kind == ArgKind::kTensor) {
      DRYDOCK_RETURN_IF_ERROR(check_tensor(row, spec, *arg.tensor));
    } else if (arg.kind == ArgKind::kTensorList) {
      for (const Tensor* tensor : arg.tensors->tensors) {
        // Clients fill the gaps of a list with empty tensors of any type (contract H8).
        if (tensor != nullptr && tensor->numel() > 0) DRYDOCK_RETURN_IF_ERROR(check_tensor(row, spec, *tensor));
      }
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops
