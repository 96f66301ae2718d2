#include "ops/random/philox.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/instruction_set.h"
#include "base/vector_math.h"

namespace drydock::ops::kernels {
namespace {

constexpr int kRounds = 10;
constexpr uint64_t kMultiplier0 = 0xD2511F53;
constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kLanes = 32;
constexpr int64_t kWordsAtOnce = 4 * kLanes;

/// `kLanes` blocks, of counters (first + lane, offset).
[[gnu::always_inline]] inline void lanes_of_blocks(uint64_t seed, uint64_t offset, uint64_t first,
                                                   uint32_t* __restrict out) {
  uint32_t c0[kLanes];
  uint32_t c1[kLanes];
  uint32_t c2[kLanes];
  uint32_t c3[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t index = first + static_cast<uint64_t>(lane);
    c0[lane] = static_cast<uint32_t>(index);
    c1[lane] = static_cast<uint32_t>(index >> 32);
    c2[lane] = static_cast<uint32_t>(offset);
    c3[lane] = static_cast<uint32_t>(offset >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t product0 = kMultiplier0 * c0[lane];
      const uint64_t product1 = kMultiplier1 * c2[lane];
      c0[lane] = static_cast<uint32_t>(product1 >> 32) ^ c1[lane] ^ key0;
      c2[lane] = static_cast<uint32_t>(product0 >> 32) ^ c3[lane] ^ key1;
      c1[lane] = static_cast<uint32_t>(product1);
      c3[lane] = static_cast<uint32_t>(product0);
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    out[4 * lane] = c0[lane];
    out[4 * lane + 1] = c1[lane];
    out[4 * lane + 2] = c2[lane];
    out[4 * lane + 3] = c3[lane];
  }
}

/// Box-Muller: elements 2k and 2k + 1 of words 2k (the radius, in (0, 1]) and 2k + 1 (the angle, in [0, 1) turns).
[[gnu::always_inline]] inline void normals_of_words(const uint32_t* __restrict words, int64_t pairs,
                                                    float* __restrict out) {
  for (int64_t pair = 0; pair < pairs; ++pair) {
    // Half a step above 0, whose logarithm has no value.
    const float radius = (static_cast<float>(static_cast<int32_t>(words[2 * pair] >> 8)) + 0.5F) * 0x1p-24F;
    const float length = std::sqrt(-2.0F * vector_math::log(radius));
    // The nearest quarter of the turn, and the rest of the angle in [-pi/4, pi/4]; polynomials of the Cephes library.
    const int32_t turn = static_cast<int32_t>(words[2 * pair + 1] >> 8);
    const int32_t quarter = (turn + (1 << 21)) >> 22;
    const float x = static_cast<float>(turn - (quarter << 22)) * (0x1p-22F * std::numbers::pi_v<float> / 2);
    const float square = x * x;
    const float sine = x + x * square * (-1.6666654611E-1F + square * (8.3321608736E-3F - 1.9515295891E-4F * square));
    const float cosine =
        1.0F - 0.5F * square +
        square * square * (4.166664568298827E-2F + square * (-1.388731625493765E-3F + 2.443315711809948E-5F * square));
    const bool swapped = (quarter & 1) != 0;
    const float x_sign = ((quarter + 1) & 2) != 0 ? -length : length;
    const float y_sign = (quarter & 2) != 0 ? -length : length;
    out[2 * pair] = x_sign * (swapped ? sine : cosine);
    out[2 * pair + 1] = y_sign * (swapped ? cosine : sine);
  }
}

[[gnu::always_inline]] inline void units_of_words(const uint32_t* __restrict words, int64_t count,
                                                  float* __restrict out) {
  for (int64_t k = 0; k < count; ++k) out[k] = static_cast<float>(static_cast<int32_t>(words[k] >> 8)) * 0x1p-24F;
}

double unit_of(uint32_t low, uint32_t high) noexcept {
  return static_cast<double>((static_cast<uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
}

void normals_of_words(const uint32_t* words, int64_t pairs, double* out) noexcept {
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const uint32_t* four = words + 4 * pair;
    const double length = std::sqrt(-2 * std::log(unit_of(four[0], four[1]) + 0x1p-54));
    const double angle = 2 * std::numbers::pi * unit_of(four[2], four[3]);
    out[2 * pair] = length * std::cos(angle);
    out[2 * pair + 1] = length * std::sin(angle);
  }
}

/// Elements [first, first + count) where `words_each` words make one.
template <class C>
void draw_normals(const Philox& generator, uint64_t first, int64_t count, C* out, int words_each) noexcept {
  uint32_t words[kWordsAtOnce];
  C values[kWordsAtOnce];
  const int64_t most = kWordsAtOnce / words_each;
  // The pair that the first element belongs to may begin before it.
  int64_t skipped = static_cast<int64_t>(first & 1);
  uint64_t element = first - static_cast<uint64_t>(skipped);
  while (count > 0) {
    const int64_t length = std::min(most, (count + skipped + 1) / 2 * 2);
    generator.words(element * static_cast<uint64_t>(words_each), length * words_each, words);
    base::vectorized([from = static_cast<const uint32_t*>(words), pairs = length / 2, to = static_cast<C*>(values)] {
      normals_of_words(from, pairs, to);
    });
    const int64_t wanted = std::min(count, length - skipped);
    std::copy_n(values + skipped, wanted, out);
    out += wanted;
    count -= wanted;
    element += static_cast<uint64_t>(length);
    skipped = 0;
  }
}

}  // namespace

Philox::Block Philox::block(uint64_t index) const noexcept {
  Block counter = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(offset_),
                   static_cast<uint32_t>(offset_ >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed_);
  uint32_t key1 = static_cast<uint32_t>(seed_ >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

void Philox::words(uint64_t first, int64_t count, uint32_t* out) const noexcept {
  uint64_t index = first / 4;
  uint64_t within = first % 4;
  if (within == 0) {
    for (; count >= kWordsAtOnce; count -= kWordsAtOnce, out += kWordsAtOnce, index += kLanes) {
      base::vectorized([seed = seed_, offset = offset_, index, out] { lanes_of_blocks(seed, offset, index, out); });
    }
  }
  while (count > 0) {
    if (within == 0 && count >= kWordsAtOnce) return words(index * 4, count, out);
    const Block next = block(index++);
    const int64_t length = std::min(count, static_cast<int64_t>(4 - within));
    std::copy_n(next.data() + within, length, out);
    out += length;
    count -= length;
    within = 0;
  }
}

void Philox::units(uint64_t first, int64_t count, float* out) const noexcept {
  uint32_t buffer[kWordsAtOnce];
  while (count > 0) {
    const int64_t length = std::min(count, kWordsAtOnce);
    words(first, length, buffer);
    base::vectorized(
        [words = static_cast<const uint32_t*>(buffer), length, out] { units_of_words(words, length, out); });
    first += static_cast<uint64_t>(length);
    out += length;
    count -= length;
  }
}

void Philox::units(uint64_t first, int64_t count, double* out) const noexcept {
  uint32_t buffer[kWordsAtOnce];
  while (count > 0) {
    const int64_t length = std::min(count, kWordsAtOnce / 2);
    words(2 * first, 2 * length, buffer);
    for (int64_t k = 0; k < length; ++k) out[k] = unit_of(buffer[2 * k], buffer[2 * k + 1]);
    first += static_cast<uint64_t>(length);
    out += length;
    count -= length;
  }
}

void Philox::normals(uint64_t first, int64_t count, float* out) const noexcept {
  draw_normals(*this, first, count, out, 1);
}

void Philox::normals(uint64_t first, int64_t count, double* out) const noexcept {
  draw_normals(*this, first, count, out, 2);
}

uint64_t Philox::bits(uint64_t index) const noexcept {
  const Block words = block(index / 2);
  const uint64_t within = 2 * (index % 2);
  return static_cast<uint64_t>(words[within + 1]) << 32 | words[within];
}

}  // namespace drydock::ops::kernels
