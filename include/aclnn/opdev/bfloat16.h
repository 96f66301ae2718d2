#pragma once

#include <cstdint>
#include <cstring>

namespace op {

/// A bfloat16 number as host code of operators holds it: the upper 16 bits of a float, rounded to nearest even.
struct bfloat16 {
  uint16_t value = 0;

  bfloat16() = default;
  bfloat16(float number) : value(from_float(number)) {}
  operator float() const {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }

  static uint16_t from_float(float number) {
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);  // NaN stays one
    return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  }
};

}  // namespace op
