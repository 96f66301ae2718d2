#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The largest value of a number that a program survives, by running it with few of them.

namespace drydock::tune {

/// Finds the largest value of [first, last] that fits, where all values below one that fits do. Begins with the first,
/// doubles until one does not fit, then halves the rest. Once two values with different margins are known, it guesses
/// from them where the margin is used up, a few times: memory mostly grows by as much with each step of the value.
/// Not thread-safe.
class FitSearch {
 public:
  FitSearch(int64_t first, int64_t last) : first_(first), last_(last) {}

  /// The value to try next; none when the answer is known.
  std::optional<int64_t> next() const;
  /// Values to try after that: beyond the smallest that does not fit, to see that none of them does. None when two, or
  /// all there are, were tried.
  std::optional<int64_t> next_check() const;
  /// `margin_bytes`: what was left of the device, where known.
  void tell(int64_t value, bool fits, std::optional<int64_t> margin_bytes = std::nullopt);

  /// The largest value that is known to fit.
  std::optional<int64_t> best() const { return best_; }
  /// The smallest value that is known not to fit.
  std::optional<int64_t> too_large() const { return too_large_; }
  /// False if a value fits that is larger than one that does not.
  bool is_monotone() const { return !best_ || !too_large_ || *best_ < *too_large_; }
  /// How many more values `next` gives at most.
  int most_left() const;

 private:
  std::optional<int64_t> guess() const;
  std::optional<int64_t> step() const;
  int most_steps_left() const;

  int64_t first_;
  int64_t last_;
  std::optional<int64_t> best_;
  std::optional<int64_t> too_large_;
  std::set<int64_t> tried_;
  std::vector<std::pair<int64_t, int64_t>> margins_;  // of values that fit, by value
  int guesses_left_ = 4;
};

/// "1..128" as its two ends; none if it is no range of positive numbers.
std::optional<std::pair<int64_t, int64_t>> parse_range(const std::string& text);

}  // namespace drydock::tune
