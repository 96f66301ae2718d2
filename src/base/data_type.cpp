#include "base/data_type.h"

namespace drydock {
namespace {

struct DataTypeFacts {
  int bits = 0;
  bool floating = false;
  std::string_view name = "unknown";
};

constexpr DataTypeFacts facts_of(DataType type) {
  switch (type) {
    case DataType::kUndefined: return {};
    case DataType::kFloat: return {32, true, "fp32"};
    case DataType::kFloat16: return {16, true, "fp16"};
    case DataType::kInt8: return {8, false, "int8"};
    case DataType::kInt32: return {32, false, "int32"};
    case DataType::kUInt8: return {8, false, "uint8"};
    case DataType::kInt16: return {16, false, "int16"};
    case DataType::kUInt16: return {16, false, "uint16"};
    case DataType::kUInt32: return {32, false, "uint32"};
    case DataType::kInt64: return {64, false, "int64"};
    case DataType::kUInt64: return {64, false, "uint64"};
    case DataType::kDouble: return {64, true, "fp64"};
    case DataType::kBool: return {8, false, "bool"};
    case DataType::kString: return {0, false, "string"};
    case DataType::kComplex64: return {64, true, "complex64"};
    case DataType::kComplex128: return {128, true, "complex128"};
    case DataType::kBFloat16: return {16, true, "bf16"};
    case DataType::kInt4: return {4, false, "int4"};
    case DataType::kUInt1: return {1, false, "uint1"};
    case DataType::kComplex32: return {32, true, "complex32"};
    case DataType::kHiFloat8: return {8, true, "hifloat8"};
    case DataType::kFloat8E5M2: return {8, true, "fp8_e5m2"};
    case DataType::kFloat8E4M3FN: return {8, true, "fp8_e4m3fn"};
    case DataType::kFloat8E8M0: return {8, true, "fp8_e8m0"};
    case DataType::kFloat6E3M2: return {6, true, "fp6_e3m2"};
    case DataType::kFloat6E2M3: return {6, true, "fp6_e2m3"};
    case DataType::kFloat4E2M1: return {4, true, "fp4_e2m1"};
    case DataType::kFloat4E1M2: return {4, true, "fp4_e1m2"};
  }
  return {};
}

}  // namespace

int64_t bits_of(DataType type) noexcept { return facts_of(type).bits; }

int64_t bytes_of(DataType type, int64_t count) noexcept { return (bits_of(type) * count + 7) / 8; }

std::string_view name_of(DataType type) noexcept { return facts_of(type).name; }

bool is_floating(DataType type) noexcept { return facts_of(type).floating; }

bool is_integral(DataType type) noexcept { return bits_of(type) > 0 && !is_floating(type); }

}  // namespace drydock
