#pragma once

#include <cstdint>
#include <cstring>

namespace op {

/// A half-precision number as host code of operators holds it: 16 bits, converted through float. Rounds to nearest
/// even; values above the largest half become infinity.
struct fp16_t {
  uint16_t val = 0;

  fp16_t() = default;
  fp16_t(float value) : val(from_float(value)) {}
  fp16_t(double value) : fp16_t(static_cast<float>(value)) {}
  fp16_t(int32_t value) : fp16_t(static_cast<float>(value)) {}
  fp16_t(int64_t value) : fp16_t(static_cast<float>(value)) {}
  operator float() const { return to_float(val); }

  static uint16_t from_float(float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);   // NaN
    if (magnitude >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7C00U);  // 65536 and above
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    const uint32_t fraction = (magnitude & 0x7FFFFFU) | (magnitude >= 0x800000U ? 0x800000U : 0U);
    if (exponent < -25) return static_cast<uint16_t>(sign);
    // Subnormal halves lose more of the fraction; a carry out of it raises the exponent, as it should.
    const int shift = exponent < -14 ? -1 - exponent : 13;
    const uint32_t half = exponent < -14 ? 0U : static_cast<uint32_t>(exponent + 14) << 10;
    const uint32_t kept = fraction >> shift;
    const uint32_t lost = fraction & ((1U << shift) - 1U);
    const uint32_t middle = 1U << (shift - 1);
    const uint32_t up = lost > middle || (lost == middle && (kept & 1U) != 0U) ? 1U : 0U;
    return static_cast<uint16_t>(sign | (half + kept + up));
  }

  static float to_float(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
    const uint32_t exponent = half >> 10 & 0x1FU;
    const uint32_t fraction = half & 0x3FFU;
    float value = 0;
    if (exponent == 0) {
      value = static_cast<float>(fraction) / 16777216.0F;  // 2^-24 each
      return sign != 0 ? -value : value;
    }
    const uint32_t bits =
        sign | (exponent == 31 ? 0x7F800000U | fraction << 13 : (exponent + 112) << 23 | fraction << 13);
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

}  // namespace op
