#include "values/policy.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace drydock::values {
namespace {

Policy read_policy() noexcept {
  Policy policy;
  // `drydock run` has refused nonsense before the program starts; here unknown words leave the default.
  if (const char* text = std::getenv("DRYDOCK_VALUES")) {
    const std::string_view mode(text);
    if (mode == "full") policy.mode = Mode::kFull;
    if (mode == "ghost") policy.mode = Mode::kGhost;
  }
  if (const char* text = std::getenv("DRYDOCK_VALUE_BUDGET")) {
    const std::string_view digits(text);
    uint64_t budget_bytes = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), budget_bytes);
    if (error == std::errc() && end == digits.data() + digits.size()) policy.budget_bytes = budget_bytes;
  }
  if (const char* text = std::getenv("DRYDOCK_RECORD")) policy.tracked = std::string_view(text) != "null";
  return policy;
}

}  // namespace

const Policy& policy() noexcept {
  static const Policy policy = read_policy();
  return policy;
}

}  // namespace drydock::values
