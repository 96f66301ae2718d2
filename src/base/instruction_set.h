#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/export.h"

// Inner loops are compiled for several instruction sets, and the best one that the processor has is taken at run time.
// All give the same bits: no loop may reorder floating sums, and the compiler fuses no multiply with an add.

namespace drydock::base {

enum class InstructionSet : uint8_t { kBaseline, kAvx2, kAvx512 };

/// The best one of this processor.
DRYDOCK_API InstructionSet instruction_set() noexcept;
/// Goes no higher than `most` from now on, for tests that compare them. Not while anything computes.
DRYDOCK_API void limit_instruction_set(InstructionSet most) noexcept;

namespace detail {

#ifdef __x86_64__
template <class Loop>
[[gnu::target("avx2,avx512f,avx512bw,avx512dq,avx512vl"), gnu::flatten]] void run_avx512(Loop& loop) {
  loop();
}
template <class Loop>
[[gnu::target("avx2"), gnu::flatten]] void run_avx2(Loop& loop) {
  loop();
}
#endif
template <class Loop>
[[gnu::flatten]] void run_baseline(Loop& loop) {
  loop();
}

}  // namespace detail

/// Runs `loop()`, with all that it calls inline, compiled for the best instruction set. Inside, copy what was captured
/// by reference into locals, and write `#pragma GCC ivdep` before a loop whose output may be its input.
template <class Loop>
void vectorized(Loop&& loop) {
#ifdef __x86_64__
  switch (instruction_set()) {
    case InstructionSet::kAvx512: return detail::run_avx512(loop);
    case InstructionSet::kAvx2: return detail::run_avx2(loop);
    case InstructionSet::kBaseline: break;
  }
#endif
  detail::run_baseline(loop);
}

}  // namespace drydock::base
