#include "values/element.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace drydock::values {
namespace {

uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

// For the readings of ghosts, which are far from the ends of the range: normal halves only.
uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude < 0x38800000U) return static_cast<uint16_t>(sign);             // below the normal halves: zero
  if (magnitude >= 0x477fe000U) return static_cast<uint16_t>(sign | 0x7bffU);  // the largest half
  return static_cast<uint16_t>(sign | (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13);
}

template <class T>
void put(unsigned char* element, T value) {
  std::memcpy(element, &value, sizeof value);
}

}  // namespace

void put_element(unsigned char* element, DataType dtype, double value) noexcept {
  switch (dtype) {
    case DataType::kFloat:
    case DataType::kComplex64: put(element, static_cast<float>(value)); break;
    case DataType::kDouble:
    case DataType::kComplex128: put(element, value); break;
    case DataType::kFloat16:
    case DataType::kComplex32: put(element, half_bits(static_cast<float>(value))); break;
    case DataType::kBFloat16: put(element, bfloat16_bits(static_cast<float>(value))); break;
    case DataType::kFloat8E4M3FN: put(element, static_cast<uint8_t>(value == 0 ? 0 : 0x38)); break;
    case DataType::kFloat8E5M2: put(element, static_cast<uint8_t>(value == 0 ? 0 : 0x3C)); break;
    case DataType::kBool: put(element, static_cast<uint8_t>(value != 0 ? 1 : 0)); break;
    default:
      if (is_integral(dtype) && bits_of(dtype) >= 8) {
        const auto integer = static_cast<int64_t>(value);  // little-endian: the low bytes are the element
        std::memcpy(element, &integer, static_cast<size_t>(bits_of(dtype) / 8));
      }
      break;
  }
}

}  // namespace drydock::values
