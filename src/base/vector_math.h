#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Functions of fp32 without branches, so that a loop over them vectorises. Every result is a function of the bits of
// its argument alone, whatever the instruction set. Errors are at most 2 units in the last place (measured over all
// arguments by base_vector_math_test); infinities, NaN and subnormal numbers are as with the C library's functions.
// The fp64 overloads are the C library's. Polynomials are minimax fits (Remez exchange).

namespace drydock::vector_math {

namespace detail {

// Adding and subtracting 1.5 * 2^23 (2^52) rounds to an integer, which then stands in the low bits.
inline constexpr float kRound = 0x1.8p23f;
inline constexpr double kRoundWide = 0x1.8p52;
inline constexpr double kLog2e = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

inline float power_of_two(int32_t exponent) { return std::bit_cast<float>((exponent + 127) << 23); }

/// e^x for results within fp32's range, with a relative error of 5e-12; beyond it, what overflows fp32 or rounds to 0.
inline double exp_wide(double x) {
  x = x > 300.0 ? 300.0 : x;
  x = x < -300.0 ? -300.0 : x;
  const double shifted = x * kLog2e + kRoundWide;
  const double n = shifted - kRoundWide;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double p = 2.48861299648232738e-5;
  p = p * r + 1.99089086843357897e-4;
  p = p * r + 1.38888007960353059e-3;
  p = p * r + 8.33328150613910678e-3;
  p = p * r + 4.16666670159532074e-2;
  p = p * r + 0.166666667937142548;
  p = p * r + 0.499999999996109016;
  p = p * r + 0.999999999995134013;
  return (1.0 + r * p) * std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
}

/// Natural logarithm of a positive normal number, with a relative error of 1e-13 (an absolute one near 1).
inline double log_wide(double x) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd;
  const uint64_t bits = std::bit_cast<uint64_t>(x) - kRootHalf;
  // Exponent as a double: below 2^52 an integer is the low bits of 2^52 + integer.
  const double exponent =
      std::bit_cast<double>(((bits + (uint64_t{1023} << 52)) >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
  const double m = std::bit_cast<double>((bits & 0x000fffffffffffff) + kRootHalf);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 0.166304370505068982;
  p = p * z + 0.181396108421153916;
  p = p * z + 0.222228759638053907;
  p = p * z + 0.285714240085530871;
  p = p * z + 0.400000000116318362;
  p = p * z + 0.666666666666618638;
  return exponent * kLn2 + (2.0 * s + s * z * p);
}

/// The same for any fp32: -infinity for 0, NaN below.
inline double log_wide_of(float x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double value = x;
  double result = log_wide(value);
  result = value < kInfinity ? result : value;  // also keeps NaN
  result = value == 0 ? -kInfinity : result;
  return value < 0 ? std::numeric_limits<double>::quiet_NaN() : result;
}

struct SineAndCosine {
  double sine, cosine;
  uint64_t quadrant;
};

inline SineAndCosine sine_and_cosine(float x) {
  const double value = x;
  const double shifted = value * 0.6366197723675814 + kRoundWide;
  const double n = shifted - kRoundWide;
  const double r = (value - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
  const double z = r * r;
  double s = 2.71756927827754551e-6;
  s = s * z - 1.98392572463168114e-4;
  s = s * z + 8.33332914632295772e-3;
  s = s * z - 0.166666666395841253;
  double c = -2.72033319126450517e-7;
  c = c * z + 2.47994367477206489e-5;
  c = c * z - 1.38888834397145731e-3;
  c = c * z + 4.16666666192196659e-2;
  return {r + r * z * s, 1.0 - 0.5 * z + z * z * c, std::bit_cast<uint64_t>(shifted)};
}

}  // namespace detail

inline double exp(double x) { return std::exp(x); }
inline double exp2(double x) { return std::exp2(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double log(double x) { return std::log(x); }
inline double log2(double x) { return std::log2(x); }
inline double log10(double x) { return std::log10(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }
inline double pow(double x, double y) { return std::pow(x, y); }

inline float exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = x * static_cast<float>(detail::kLog2e) + detail::kRound;
  const float n = shifted - detail::kRound;
  // ln 2 in two parts; the first has 9 bits, so that n times it is exact.
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.39517733180235431e-3f;
  p = p * r + 8.36959801193888406e-3f;
  p = p * r + 4.16661863709360159e-2f;
  p = p * r + 0.166665128938479791f;
  p = p * r + 0.500000010125903383f;
  // In two steps, so that subnormal results and those next to infinity come out.
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(detail::kRound);
  const int32_t half = exponent >> 1;
  return (1.0f + (r + r * r * p)) * detail::power_of_two(half) * detail::power_of_two(exponent - half);
}

inline float exp2(float x) { return static_cast<float>(detail::exp_wide(static_cast<double>(x) * detail::kLn2)); }

inline float expm1(float x) {
  const double value = x;
  const double near_zero = value + value * value * (0.5 + value * (1.0 / 6 + value * (1.0 / 24)));
  return static_cast<float>(std::abs(value) < 0x1p-8 ? near_zero : detail::exp_wide(value) - 1.0);
}

inline float log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int32_t kRootHalf = 0x3f3504f3;
  const bool subnormal = x < std::numeric_limits<float>::min();
  // In unsigned numbers: those below zero, whose result is thrown away, would overflow.
  const auto bits =
      static_cast<int32_t>(std::bit_cast<uint32_t>(subnormal ? x * 0x1p23f : x) - static_cast<uint32_t>(kRootHalf));
  const float exponent = static_cast<float>((bits >> 23) - (subnormal ? 23 : 0));
  const float f = std::bit_cast<float>((bits & 0x007fffff) + kRootHalf) - 1.0f;
  float p = 6.9154597738936176e-2f;
  p = p * f - 0.117898050432283932f;
  p = p * f + 0.118729411679917779f;
  p = p * f - 0.123843507509130252f;
  p = p * f + 0.142186631452016206f;
  p = p * f - 0.166692505100186671f;
  p = p * f + 0.200022263118364716f;
  p = p * f - 0.249999866117350063f;
  p = p * f + 0.333333104461177402f;
  const float z = f * f;
  float result = f * z * p + exponent * -2.12194440e-4f;
  result = f + (result - 0.5f * z) + exponent * 0.693359375f;
  result = x < kInfinity ? result : x;  // also keeps NaN
  result = x == 0.0f ? -kInfinity : result;
  return x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : result;
}

inline float log2(float x) { return static_cast<float>(detail::log_wide_of(x) * detail::kLog2e); }
inline float log10(float x) { return static_cast<float>(detail::log_wide_of(x) * 0.43429448190325183); }

inline float log1p(float x) {
  const double value = x;
  const double near_zero = value - value * value * (0.5 - value * (1.0 / 3 - value * 0.25));
  const double sum = 1.0 + value;
  double result = std::abs(value) < 0x1p-8 ? near_zero : detail::log_wide(sum);
  result = sum < std::numeric_limits<double>::infinity() ? result : sum;
  result = sum == 0 ? -std::numeric_limits<double>::infinity() : result;
  return static_cast<float>(sum < 0 ? std::numeric_limits<double>::quiet_NaN() : result);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline float tanh(float x) {
  const float magnitude = std::abs(x);
  const float z = x * x;
  float p = -5.66087822030588036e-3f;
  p = p * z + 2.06021351374821834e-2f;
  p = p * z - 5.37292887534117615e-2f;
  p = p * z + 0.133313299658372841f;
  p = p * z - 0.333332783635514127f;
  const float near_zero = x + x * z * p;
  const float far = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
  return magnitude < 0.625f ? near_zero : std::copysign(far, x);
}

inline float erf(float x) {
  const double value = x;
  const double z = value * value;
  double p = -9.68013705201456867e-6;
  p = p * z + 1.12705487627922659e-4;
  p = p * z - 8.48471269566868045e-4;
  p = p * z + 5.22107501721732708e-3;
  p = p * z - 2.68654458933599859e-2;
  p = p * z + 0.112837827488875241;
  p = p * z - 0.376126384839539327;
  p = p * z + 0.128379167063178358;
  double t = std::abs(value);
  t = t > 4.0 ? 4.0 : t;  // there erf rounds to 1
  // -ln(erfc(t))
  double q = 2.0910088186997634e-5;
  q = q * t - 4.32309046488451664e-4;
  q = q * t + 4.16055568973710154e-3;
  q = q * t - 2.50915707773985849e-2;
  q = q * t + 0.108236731218633363;
  q = q * t + 0.633386547338523545;
  q = q * t + 1.1294952068611197;
  q = q * t - 1.70561686089037775e-4;
  const double far = std::copysign(1.0 - detail::exp_wide(-q), value);
  return static_cast<float>(t < 0.95 ? value + value * p : far);
}

/// Sine and cosine of arguments up to kMostAngle; beyond, the C library's are needed.
inline constexpr float kMostAngle = 0x1p19f;
inline float sin_in_range(float x) {
  const auto [sine, cosine, quadrant] = detail::sine_and_cosine(x);
  const double value = (quadrant & 1) != 0 ? cosine : sine;
  return static_cast<float>((quadrant & 2) != 0 ? -value : value);
}
inline float cos_in_range(float x) {
  const auto [sine, cosine, quadrant] = detail::sine_and_cosine(x);
  const double value = (quadrant & 1) != 0 ? sine : cosine;
  return static_cast<float>(((quadrant + 1) & 2) != 0 ? -value : value);
}

inline float pow(float x, float y) {
  const double magnitude = std::abs(static_cast<double>(x));
  const double exponent = y;
  double result = detail::exp_wide(exponent * detail::log_wide_of(static_cast<float>(magnitude)));
  // Powers of negative numbers: whole exponents only, odd ones keep the sign. All beyond 2^24 are even.
  const auto is_whole = [](double v) { return (v + detail::kRoundWide) - detail::kRoundWide == v; };
  const bool huge = std::abs(exponent) >= 0x1p24;
  const bool whole = huge | is_whole(exponent);
  const bool odd = !huge & whole & !is_whole(0.5 * exponent);
  const bool negative = std::bit_cast<int32_t>(x) < 0;
  result = (negative & odd) ? -result : result;
  const bool undefined = (x < 0.0f) & (magnitude < std::numeric_limits<double>::infinity()) & !whole;
  result = undefined ? std::numeric_limits<double>::quiet_NaN() : result;
  result = (std::isnan(x) | std::isnan(y)) ? std::numeric_limits<double>::quiet_NaN() : result;
  const bool one = (x == 1.0f) | (y == 0.0f) | ((x == -1.0f) & (std::abs(y) == std::numeric_limits<float>::infinity()));
  return static_cast<float>(one ? 1.0 : result);
}

}  // namespace drydock::vector_math
