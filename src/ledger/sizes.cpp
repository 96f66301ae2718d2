#include "ledger/sizes.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace drydock::ledger {
namespace {

constexpr double kKiB = 1024.0;
constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {{
    {"GiB", kKiB* kKiB* kKiB},
    {"MiB", kKiB* kKiB},
    {"KiB", kKiB},
    {"bytes", 1.0},
    {"B", 1.0},
}};

}  // namespace

std::string human_size(uint64_t size_bytes) {
  const auto size = static_cast<double>(size_bytes);
  for (const auto& [unit, factor] : kUnits) {
    // What would print as 1024.00 of a unit is 1.00 of the next.
    if (factor > 1.0 && size >= factor * (1.0 - 0.005 / kKiB)) return fmt::format("{:.2f} {}", size / factor, unit);
  }
  return fmt::format("{} B", size_bytes);
}

std::string human_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (int position = static_cast<int>(digits.size()) - 3; position > 0; position -= 3)
    digits.insert(static_cast<size_t>(position), 1, ',');
  return digits;
}

std::optional<uint64_t> size_after(std::string_view text, std::string_view after) {
  const size_t found = text.find(after);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string rest(text.substr(found + after.size(), 64));
  char* end = nullptr;
  const double number = std::strtod(rest.c_str(), &end);
  if (end == rest.c_str() || !(number >= 0.0) || number > 1e18) return std::nullopt;
  while (*end == ' ') ++end;
  for (const auto& [unit, factor] : kUnits) {
    if (std::string_view(end).substr(0, unit.size()) != unit) continue;
    const double bytes = number * factor;
    if (bytes > 9e18) return std::nullopt;
    return static_cast<uint64_t>(std::llround(bytes));
  }
  return std::nullopt;
}

uint64_t rounding_of(uint64_t size_bytes) {
  for (const auto& [unit, factor] : kUnits) {
    if (factor > 1.0 && static_cast<double>(size_bytes) >= factor * 0.999)
      return static_cast<uint64_t>(factor * 0.005) + 1;
  }
  return 0;
}

}  // namespace drydock::ledger
