#include "ops/type_promotion.h"

namespace drydock::ops::kernels {
namespace {

bool is_unsigned(DataType type) {
  return type == DataType::kUInt8 || type == DataType::kUInt16 || type == DataType::kUInt32 ||
         type == DataType::kUInt64;
}

/// bool 0, integer 1, floating 2.
int category_of(DataType type) {
  if (type == DataType::kBool) return 0;
  return is_floating(type) ? 2 : 1;
}

DataType signed_integer_of(int64_t bits) {
  switch (bits) {
    case 8: return DataType::kInt8;
    case 16: return DataType::kInt16;
    case 32: return DataType::kInt32;
    default: return DataType::kInt64;
  }
}

DataType promote_or_other(DataType a, DataType b) {
  if (a == DataType::kUndefined) return b;
  if (b == DataType::kUndefined) return a;
  return promote_types(a, b);
}

/// The heavier class of operands decides, unless the lighter one is of a higher category.
DataType combine(DataType heavy, DataType light) {
  if (heavy == DataType::kUndefined) return light;
  if (light == DataType::kUndefined) return heavy;
  return category_of(light) > category_of(heavy) ? light : heavy;
}

}  // namespace

bool is_real_element(DataType type) noexcept {
  switch (type) {
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUInt8:
    case DataType::kUInt16:
    case DataType::kUInt32:
    case DataType::kUInt64:
    case DataType::kFloat16:
    case DataType::kBFloat16:
    case DataType::kFloat:
    case DataType::kDouble: return true;
    default: return false;
  }
}

ComputeType compute_type_of(DataType type) noexcept {
  if (type == DataType::kDouble) return ComputeType::kDouble;
  if (type == DataType::kUInt64) return ComputeType::kUInt64;
  return is_floating(type) ? ComputeType::kFloat : ComputeType::kInt64;
}

DataType promote_types(DataType a, DataType b) noexcept {
  if (a == b) return a;
  const int category_a = category_of(a);
  const int category_b = category_of(b);
  if (category_a != category_b) return category_a > category_b ? a : b;
  if (category_a == 2) {
    if (bits_of(a) != bits_of(b)) return bits_of(a) > bits_of(b) ? a : b;
    return DataType::kFloat;  // fp16 with bf16
  }
  if (is_unsigned(a) == is_unsigned(b)) return bits_of(a) > bits_of(b) ? a : b;
  const DataType signed_one = is_unsigned(a) ? b : a;
  const DataType unsigned_one = is_unsigned(a) ? a : b;
  if (bits_of(signed_one) > bits_of(unsigned_one)) return signed_one;
  return signed_integer_of(2 * bits_of(unsigned_one));
}

Operand operand_of(const KernelCall& call, int index) {
  Operand operand{&call.operand(index), false};
  int position = 0;
  for (const ArgSpec& arg : call.row().args) {
    const bool is_scalar = arg.kind == ArgKind::kScalar;
    const bool is_read_tensor = arg.kind == ArgKind::kTensor && arg.direction != ArgDirection::kOut;
    if (!is_scalar && !is_read_tensor) continue;
    if (position++ == index) {
      operand.is_scalar = is_scalar;
      break;
    }
  }
  return operand;
}

DataType result_type(std::span<const Operand> operands) noexcept {
  DataType dimensioned = DataType::kUndefined;
  DataType rank_zero = DataType::kUndefined;
  DataType scalar = DataType::kUndefined;
  for (const Operand& operand : operands) {
    const DataType type = operand.view->dtype;
    if (operand.is_scalar) {
      scalar = promote_or_other(scalar, is_floating(type) ? DataType::kFloat : type);
    } else if (operand.view->dims.empty()) {
      rank_zero = promote_or_other(rank_zero, type);
    } else {
      dimensioned = promote_or_other(dimensioned, type);
    }
  }
  return combine(dimensioned, combine(rank_zero, scalar));
}

}  // namespace drydock::ops::kernels
