#include "base/instruction_set.h"

#include <algorithm>
#include <atomic>

namespace drydock::base {
namespace {

InstructionSet detect() noexcept {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2")) {
    return InstructionSet::kAvx512;
  }
  if (__builtin_cpu_supports("avx2")) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBaseline;
}

std::atomic<InstructionSet> best{detect()};

}  // namespace

InstructionSet instruction_set() noexcept { return best.load(std::memory_order_relaxed); }

void limit_instruction_set(InstructionSet most) noexcept { best = std::min(detect(), most); }

}  // namespace drydock::base
