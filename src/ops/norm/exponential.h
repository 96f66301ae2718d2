#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// exp in a form that a compiler turns into vector instructions: no calls, no branches.

namespace drydock::ops::kernels {

/// exp(x) for x <= 0 within about one unit in the last place; 0 below the smallest normal number, NaN for NaN.
inline float exp_of_negative(float x) {
  constexpr float kLowest = -87.33654f;      // log of the smallest normal number
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const float clamped = x < kLowest ? kLowest : x;
  const float shifted = clamped * 1.44269504f + kToInteger;
  const float whole = shifted - kToInteger;
  const float rest = (clamped - whole * kLn2High) - whole * kLn2Low;
  float series = 1.9875691500e-4f;
  series = series * rest + 1.3981999507e-3f;
  series = series * rest + 8.3334519073e-3f;
  series = series * rest + 4.1665795894e-2f;
  series = series * rest + 1.6666665459e-1f;
  series = series * rest + 5.0000001201e-1f;
  const float fraction = series * (rest * rest) + rest + 1.0f;
  // The low bits of `shifted` are the exponent; 127 is that of 1.
  const float scale = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);
  return x < kLowest ? 0.0f : fraction * scale;
}

inline double exp_of_negative(double x) { return std::exp(x); }

}  // namespace drydock::ops::kernels
