#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/data_type.h"

// The element types as C++ types, and their conversion to and from compute values.

namespace drydock {

struct Bool {
  uint8_t byte;
};
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float float_of(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

inline float float_of(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // Rebiasing by a multiplication handles subnormal numbers too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

inline BFloat16 bfloat16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return {static_cast<uint16_t>(0x7fc0u | ((bits >> 16) & 0x8000u))};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline Float16 float16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x47800000u) {
    half = 0x7c00u;  // 65,536 and more; smaller overflow comes from the rounding below
  } else if (magnitude < 0x38800000u) {
    // Subnormal result: adding 0.5 puts the last kept bit at the end of the significand and rounds to nearest even.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

/// Element to compute value.
template <class C, class S>
inline C to_compute(S element) {
  if constexpr (std::is_same_v<S, Bool>) {
    return static_cast<C>(element.byte != 0 ? 1 : 0);
  } else if constexpr (std::is_same_v<S, Float16> || std::is_same_v<S, BFloat16>) {
    return to_compute<C>(float_of(element));
  } else if constexpr (std::is_floating_point_v<S> && std::is_integral_v<C>) {
    if (std::isnan(element)) return 0;
    // The limits are powers of two but for the maximum, which rounds up to one: >= is right for both.
    if (element >= static_cast<S>(std::numeric_limits<C>::max())) return std::numeric_limits<C>::max();
    if (element <= static_cast<S>(std::numeric_limits<C>::min())) return std::numeric_limits<C>::min();
    return static_cast<C>(element);
  } else {
    return static_cast<C>(element);
  }
}

/// Compute value to element.
template <class S, class C>
inline S to_element(C value) {
  if constexpr (std::is_same_v<S, Bool>) {
    return {static_cast<uint8_t>(value != C(0) ? 1 : 0)};
  } else if constexpr (std::is_same_v<S, Float16>) {
    return float16_of(static_cast<float>(value));
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    return bfloat16_of(static_cast<float>(value));
  } else {
    return to_compute<S>(value);
  }
}

}  // namespace drydock
