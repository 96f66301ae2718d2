#include "tune/fit.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <string_view>

namespace drydock::tune {
namespace {

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > INT32_MAX) return std::nullopt;
  return number;
}

}  // namespace

std::optional<int64_t> FitSearch::guess() const {
  if (guesses_left_ == 0 || margins_.size() < 2) return std::nullopt;
  const auto& [low, low_margin] = margins_[margins_.size() - 2];
  const auto& [high, high_margin] = margins_.back();
  if (high_margin >= low_margin || high_margin < 0) return std::nullopt;
  const double slope = static_cast<double>(low_margin - high_margin) / static_cast<double>(high - low);
  const double more = std::floor(static_cast<double>(high_margin) / slope);
  const int64_t guessed = more >= static_cast<double>(last_ - high) ? last_ : high + static_cast<int64_t>(more);
  const int64_t value = std::max(guessed, *best_ + 1);
  if (too_large_ && value >= *too_large_) return std::nullopt;
  return value;
}

std::optional<int64_t> FitSearch::step() const {
  if (!too_large_) return *best_ > last_ / 2 ? last_ : *best_ * 2;
  return *best_ + (*too_large_ - *best_) / 2;
}

std::optional<int64_t> FitSearch::next() const {
  if (!best_) return too_large_ ? std::nullopt : std::optional(first_);
  if (*best_ + 1 >= too_large_.value_or(last_ + 1)) return std::nullopt;
  if (const auto value = guess()) return value;
  return step();
}

std::optional<int64_t> FitSearch::next_check() const {
  if (next() || !too_large_ || !is_monotone()) return std::nullopt;
  const auto middle = static_cast<int64_t>(std::sqrt(static_cast<double>(*too_large_) * static_cast<double>(last_)));
  for (const int64_t value : {last_, middle})
    if (value > *too_large_ && !tried_.contains(value)) return value;
  return std::nullopt;
}

void FitSearch::tell(int64_t value, bool fits, std::optional<int64_t> margin_bytes) {
  if (best_ && guess() == value) --guesses_left_;
  tried_.insert(value);
  if (fits) {
    best_ = std::max(best_.value_or(value), value);
    if (margin_bytes) {
      margins_.emplace_back(value, *margin_bytes);
      std::sort(margins_.begin(), margins_.end());
    }
  } else {
    too_large_ = std::min(too_large_.value_or(value), value);
  }
}

int FitSearch::most_left() const {
  if (!next()) return 0;
  const int64_t values = too_large_.value_or(last_ + 1) - (best_ ? *best_ + 1 : first_);
  return static_cast<int>(std::min<int64_t>(values, most_steps_left()));
}

int FitSearch::most_steps_left() const {
  // Halving n values takes as many runs as n has binary digits; doubling may turn into it at each value.
  const auto halvings = [](int64_t best, int64_t too_large) {
    return static_cast<int>(std::bit_width(static_cast<uint64_t>(too_large - best - 1)));
  };
  if (too_large_) return guesses_left_ + halvings(*best_, *too_large_);
  int most = 0;
  FitSearch fitting(first_, last_);
  fitting.best_ = best_;
  for (int runs = 1; const auto value = fitting.next(); ++runs) {
    most = std::max(most, runs + (fitting.best_ ? halvings(*fitting.best_, *value) : 0));
    fitting.tell(*value, true);
  }
  return 2 * guesses_left_ + most;  // what follows a guess may take one run more than what it took the place of
}

std::optional<std::pair<int64_t, int64_t>> parse_range(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto first = number_of(std::string_view(text).substr(0, dots));
  const auto last = number_of(std::string_view(text).substr(dots + 2));
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

}  // namespace drydock::tune
