#pragma once

#include <cstdint>
#include <limits>
#include <span>

// Sums and products of integers that a client chose. They stop at the ends of int64 where the true value lies beyond,
// so that a comparison with a size that exists is as right as with the true value, and nothing is undefined.

namespace drydock {

constexpr int64_t saturating_product(int64_t a, int64_t b) noexcept {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

constexpr int64_t saturating_sum(int64_t a, int64_t b) noexcept {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

constexpr int64_t saturating_difference(int64_t a, int64_t b) noexcept {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a > b ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

template <class... More>
constexpr int64_t saturating_product(int64_t a, int64_t b, More... more) noexcept {
  return saturating_product(saturating_product(a, b), more...);
}

template <class... More>
constexpr int64_t saturating_sum(int64_t a, int64_t b, More... more) noexcept {
  return saturating_sum(saturating_sum(a, b), more...);
}

/// Of all sizes; 1 for none.
constexpr int64_t saturating_product(std::span<const int64_t> sizes) noexcept {
  int64_t product = 1;
  for (const int64_t size : sizes) product = saturating_product(product, size);
  return product;
}

}  // namespace drydock
