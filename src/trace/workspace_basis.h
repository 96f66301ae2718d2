#pragma once

#include <cstdint>
#include <string_view>

namespace drydock::trace {

/// What the size of a workspace rests on. Numbers are part of the trace format.
enum class WorkspaceBasis : uint8_t {
  kUnknown = 0,  ///< the trace does not say
  kHigh = 1,     ///< a rule that was read in the vendor's sources or confirmed to the byte
  kMedium = 2,   ///< a rule whose branch may be another in this version of CANN
  kLow = 3,      ///< closed code: a guess from what is known of its kind
  kAssumed = 4,  ///< no rule for this operator: only copies of views that are not contiguous
  kUpper = 5,    ///< an upper bound, as --workspace upper asks for
};

/// "high", "medium", "low", "assumed", "upper bound", "unknown".
constexpr std::string_view name_of(WorkspaceBasis basis) noexcept {
  switch (basis) {
    case WorkspaceBasis::kHigh: return "high";
    case WorkspaceBasis::kMedium: return "medium";
    case WorkspaceBasis::kLow: return "low";
    case WorkspaceBasis::kAssumed: return "assumed";
    case WorkspaceBasis::kUpper: return "upper bound";
    case WorkspaceBasis::kUnknown: break;
  }
  return "unknown";
}

}  // namespace drydock::trace
