#include "values/element.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/element_types.h"

namespace drydock::values {
namespace {

// A ghost never reads as infinite: what a half can't hold reads as its largest, what is below its normal numbers as
// zero.
float held_by_half(float value) {
  constexpr float kLargest = 65504;
  constexpr float kSmallestNormal = 0x1p-14F;
  return std::abs(value) < kSmallestNormal ? std::copysign(0.0F, value) : std::clamp(value, -kLargest, kLargest);
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
    case DataType::kComplex32: put(element, float16_of(held_by_half(static_cast<float>(value))).bits); break;
    case DataType::kBFloat16: put(element, bfloat16_of(static_cast<float>(value)).bits); break;
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
