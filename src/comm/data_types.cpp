#include "comm/data_types.h"

#include <string>

#include <fmt/format.h>

#include "base/generated/error_codes.h"

namespace drydock::comm {

uint64_t bytes_of(HcclType type) noexcept {
  switch (type) {
    case HcclType::kInt8:
    case HcclType::kUInt8:
    case HcclType::kHiFloat8:
    case HcclType::kFloat8E4M3:
    case HcclType::kFloat8E5M2:
    case HcclType::kFloat8E8M0: return 1;
    case HcclType::kInt16:
    case HcclType::kUInt16:
    case HcclType::kFloat16:
    case HcclType::kBFloat16: return 2;
    case HcclType::kInt32:
    case HcclType::kUInt32:
    case HcclType::kFloat32: return 4;
    case HcclType::kInt64:
    case HcclType::kUInt64:
    case HcclType::kFloat64: return 8;
    case HcclType::kInt128: return 16;
  }
  return 0;
}

DataType data_type_of(HcclType type) noexcept {
  switch (type) {
    case HcclType::kInt8: return DataType::kInt8;
    case HcclType::kInt16: return DataType::kInt16;
    case HcclType::kInt32: return DataType::kInt32;
    case HcclType::kInt64: return DataType::kInt64;
    case HcclType::kUInt8: return DataType::kUInt8;
    case HcclType::kUInt16: return DataType::kUInt16;
    case HcclType::kUInt32: return DataType::kUInt32;
    case HcclType::kUInt64: return DataType::kUInt64;
    case HcclType::kFloat16: return DataType::kFloat16;
    case HcclType::kFloat32: return DataType::kFloat;
    case HcclType::kFloat64: return DataType::kDouble;
    case HcclType::kBFloat16: return DataType::kBFloat16;
    case HcclType::kHiFloat8: return DataType::kHiFloat8;
    case HcclType::kFloat8E4M3: return DataType::kFloat8E4M3FN;
    case HcclType::kFloat8E5M2: return DataType::kFloat8E5M2;
    case HcclType::kFloat8E8M0: return DataType::kFloat8E8M0;
    case HcclType::kInt128: break;
  }
  return DataType::kUndefined;
}

std::string_view name_of(HcclType type) noexcept {
  return type == HcclType::kInt128 ? "int128" : drydock::name_of(data_type_of(type));
}

std::string_view name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kProd: return "product";
    case ReduceOp::kMax: return "maximum";
    case ReduceOp::kMin: return "minimum";
  }
  return "unknown";
}

Status check_type(std::string_view entry, int32_t type) {
  if (bytes_of(static_cast<HcclType>(type)) != 0) return Status::ok();
  return Status::error(code::HCCL_E_PARA, fmt::format("{}: there is no data type {} (HcclDataType).", entry, type));
}

Status check_reduction(std::string_view entry, int32_t type, int32_t op) {
  DRYDOCK_RETURN_IF_ERROR(check_type(entry, type));
  if (op < 0 || op > static_cast<int32_t>(ReduceOp::kMin)) {
    return Status::error(code::HCCL_E_PARA,
                         fmt::format("{}: there is no reduction {}. They are 0 (sum), 1 (product), 2 (maximum) and 3 "
                                     "(minimum).",
                                     entry, op));
  }
  const auto element = static_cast<HcclType>(type);
  const bool is_product = static_cast<ReduceOp>(op) == ReduceOp::kProd;
  switch (element) {
    case HcclType::kInt8:
    case HcclType::kInt32:
    case HcclType::kInt64:
    case HcclType::kFloat16:
    case HcclType::kFloat32: return Status::ok();
    case HcclType::kInt16:
    case HcclType::kBFloat16:
      if (!is_product) return Status::ok();
      break;
    default: break;
  }
  return Status::error(
      code::HCCL_E_NOT_SUPPORT,
      fmt::format("{}: the {} of {} is not among the reductions of Atlas A3, which are those of int8, "
                  "int16, int32, int64, fp16, fp32 and bf16, products of int16 and bf16 excepted. Cast "
                  "before.",
                  entry, name_of(static_cast<ReduceOp>(op)), name_of(element)));
}

}  // namespace drydock::comm
