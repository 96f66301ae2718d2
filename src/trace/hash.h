#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace drydock::trace {

/// Folds the 128-bit product of two words into one word: every input bit reaches every output bit.
inline uint64_t fold_product(uint64_t left, uint64_t right) noexcept {
  const auto product = static_cast<unsigned __int128>(left) * right;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// Hash of bytes, 16 at a time. Not for hostile input; tables compare the bytes as well.
inline uint64_t hash_bytes(std::span<const std::byte> bytes) noexcept {
  // Odd constants with bits spread evenly (fractions of the golden ratio, of the square roots of 2 and 3).
  constexpr uint64_t kFirst = 0x9e3779b97f4a7c15ULL, kSecond = 0x6a09e667f3bcc909ULL, kThird = 0xbb67ae8584caa73bULL;
  const std::byte* cursor = bytes.data();
  size_t left = bytes.size();
  uint64_t state = kFirst ^ (left * kThird);
  uint64_t low = 0, high = 0;
  for (; left >= 16; left -= 16, cursor += 16) {
    std::memcpy(&low, cursor, 8);
    std::memcpy(&high, cursor + 8, 8);
    state = fold_product(low ^ state ^ kSecond, high ^ kThird);
  }
  low = high = 0;
  if (left > 8) {
    std::memcpy(&low, cursor, 8);
    std::memcpy(&high, cursor + 8, left - 8);
  } else if (left > 0) {
    std::memcpy(&low, cursor, left);
  }
  state = fold_product(low ^ state ^ kFirst, high ^ kSecond);
  return fold_product(state ^ kThird, kFirst);
}

}  // namespace drydock::trace
