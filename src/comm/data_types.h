#pragma once

#include <cstdint>
#include <string_view>

#include "base/data_type.h"
#include "base/export.h"
#include "base/status.h"

namespace drydock::comm {

/// HcclDataType (the vendor's numbers).
enum class HcclType : int32_t {
  kInt8 = 0,
  kInt16 = 1,
  kInt32 = 2,
  kFloat16 = 3,
  kFloat32 = 4,
  kInt64 = 5,
  kUInt64 = 6,
  kUInt8 = 7,
  kUInt16 = 8,
  kUInt32 = 9,
  kFloat64 = 10,
  kBFloat16 = 11,
  kInt128 = 12,
  kHiFloat8 = 14,
  kFloat8E4M3 = 15,
  kFloat8E5M2 = 16,
  kFloat8E8M0 = 17,
};

/// HcclReduceOp (the vendor's numbers).
enum class ReduceOp : int32_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

/// Bytes of one element; 0 for a number that is no type.
DRYDOCK_API uint64_t bytes_of(HcclType type) noexcept;
/// The same type in the numbering of operators; undefined where it has none (int128).
DRYDOCK_API DataType data_type_of(HcclType type) noexcept;
DRYDOCK_API std::string_view name_of(HcclType type) noexcept;
DRYDOCK_API std::string_view name_of(ReduceOp op) noexcept;

/// 1 (HCCL_E_PARA) with a sentence for a number that is no type.
DRYDOCK_API Status check_type(std::string_view entry, int32_t type);
/// 5 (HCCL_E_NOT_SUPPORT) with a sentence for what the 910C does not reduce; 1 for numbers that do not exist.
///
/// Source: the vendor's manual of HcclAllReduce for Atlas A3: int8, int16, int32, int64, fp16, fp32 and bf16; the
/// product takes neither int16 nor bf16.
DRYDOCK_API Status check_reduction(std::string_view entry, int32_t type, int32_t op);

}  // namespace drydock::comm
