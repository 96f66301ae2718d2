#include "tune/fit.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace drydock::tune {
namespace {

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// "--batch_size" or "--batch-size", alone or with "=value" behind.
bool is_option(const std::string& argument, const std::string& name, bool with_equals) {
  for (const std::string& spelling : {"--" + name, "--" + with_dashes(name)}) {
    if (with_equals ? argument.starts_with(spelling + "=") : argument == spelling) return true;
  }
  return false;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

}  // namespace

std::optional<int64_t> FitSearch::next() const {
  if (!best_) return too_large_ ? std::nullopt : std::optional(first_);
  const int64_t ceiling = too_large_.value_or(last_ + 1);
  if (*best_ + 1 >= ceiling) return std::nullopt;
  if (!too_large_) return *best_ > last_ / 2 ? last_ : *best_ * 2;
  return *best_ + (ceiling - *best_) / 2;
}

void FitSearch::tell(int64_t value, bool fits) {
  if (fits) best_ = std::max(best_.value_or(value), value);
  if (!fits) too_large_ = std::min(too_large_.value_or(value), value);
}

int FitSearch::most_left() const {
  // Halving n values takes as many runs as n has binary digits; doubling may turn into it at each value.
  const auto halvings = [](int64_t best, int64_t too_large) {
    return static_cast<int>(std::bit_width(static_cast<uint64_t>(too_large - best - 1)));
  };
  if (too_large_) return best_ ? halvings(*best_, *too_large_) : 0;
  int most = 0;
  FitSearch fitting = *this;
  for (int runs = 1; const auto value = fitting.next(); ++runs) {
    most = std::max(most, runs + (fitting.best_ ? halvings(*fitting.best_, *value) : 0));
    fitting.tell(*value, true);
  }
  return most;
}

std::optional<std::pair<int64_t, int64_t>> parse_range(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto first = number_of(std::string_view(text).substr(0, dots));
  const auto last = number_of(std::string_view(text).substr(dots + 2));
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

Channel channel_of(const std::vector<std::string>& command, const std::string& name) {
  const auto any = [&](auto holds) { return std::any_of(command.begin(), command.end(), holds); };
  if (any([&](const std::string& argument) { return argument.find("{" + name + "}") != std::string::npos; }))
    return Channel::kPlaceholder;
  if (any([&](const std::string& argument) {
        return is_option(argument, name, true) || is_option(argument, name, false);
      }))
    return Channel::kOption;
  return Channel::kVariable;
}

std::vector<std::string> with_value(const std::vector<std::string>& command, const std::string& name, int64_t value) {
  const std::string placeholder = "{" + name + "}";
  const std::string number = std::to_string(value);
  const Channel channel = channel_of(command, name);
  std::vector<std::string> result = command;
  for (size_t index = 0; index < result.size(); ++index) {
    std::string& argument = result[index];
    if (channel == Channel::kPlaceholder) {
      for (size_t at = argument.find(placeholder); at != std::string::npos; at = argument.find(placeholder, at))
        argument.replace(at, placeholder.size(), number);
    } else if (channel == Channel::kOption) {
      if (is_option(argument, name, true)) argument = argument.substr(0, argument.find('=') + 1) + number;
      if (is_option(argument, name, false) && index + 1 < result.size()) result[index + 1] = number;
    }
  }
  return result;
}

}  // namespace drydock::tune
