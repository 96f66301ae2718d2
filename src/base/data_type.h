#pragma once

#include <cstdint>
#include <string_view>

#include "base/export.h"

namespace drydock {

/// Element types with the vendor's numbers (aclDataType; source: spec/data_types.csv).
enum class DataType : int32_t {
  kUndefined = -1,
  kFloat = 0,
  kFloat16 = 1,
  kInt8 = 2,
  kInt32 = 3,
  kUInt8 = 4,
  kInt16 = 6,
  kUInt16 = 7,
  kUInt32 = 8,
  kInt64 = 9,
  kUInt64 = 10,
  kDouble = 11,
  kBool = 12,
  kString = 13,
  kComplex64 = 16,
  kComplex128 = 17,
  kBFloat16 = 27,
  kInt4 = 29,
  kUInt1 = 30,
  kComplex32 = 33,
  kHiFloat8 = 34,
  kFloat8E5M2 = 35,
  kFloat8E4M3FN = 36,
  kFloat8E8M0 = 37,
  kFloat6E3M2 = 38,
  kFloat6E2M3 = 39,
  kFloat4E2M1 = 40,
  kFloat4E1M2 = 41,
};

/// Bits of one element; 0 for types without a size (undefined, string).
DRYDOCK_API int64_t bits_of(DataType type) noexcept;
/// Bytes of `count` elements, rounded up to whole bytes (packed types: two int4 a byte).
DRYDOCK_API int64_t bytes_of(DataType type, int64_t count) noexcept;
/// Short name as the ledger prints it: "fp32", "bf16", "int64", "bool". "dtype(N)" never: unknown is "unknown".
DRYDOCK_API std::string_view name_of(DataType type) noexcept;
/// True for real and complex floating types, including the 8-, 6- and 4-bit ones.
DRYDOCK_API bool is_floating(DataType type) noexcept;
/// True for signed, unsigned and boolean types.
DRYDOCK_API bool is_integral(DataType type) noexcept;

}  // namespace drydock
