#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/process_account.h"

// What memory does from step to step: whether it grows, why, and when it will be too much; whether it goes up and down.

namespace drydock::ledger {

enum class Growth {
  kNone,
  kLeak,          ///< steps end with ever more allocated: something outlives them
  kLongerInputs,  ///< nothing outlives the steps, but each needs more, as its inputs are larger
  kLargerSteps,   ///< the same, and the inputs that the host copied do not explain it
};
/// "", "leak", "longer inputs", "larger steps".
std::string_view name_of(Growth growth);

enum class ToothCause {
  kNone,
  kGarbageCollection,  ///< Python's collector frees reference cycles that hold tensors
  kCacheEmptied,       ///< the program gives segments back (torch.npu.empty_cache())
  kInputLengths,       ///< inputs are longer and shorter in turn
  kOtherWork,          ///< every so often a step does more than the others: `line` allocates it
  kReleased,           ///< memory is kept over some steps and then let go: `line` held most of it
};
/// "", "garbage collection", "cache emptied", "input lengths", "other work", "released".
std::string_view name_of(ToothCause cause);

struct Trend {
  Growth growth = Growth::kNone;
  uint64_t grown_bytes = 0;  ///< over `grown_steps`
  uint32_t grown_steps = 0;
  uint64_t bytes_per_step = 0;  ///< median slope over all pairs of steps
  uint32_t full_at_step = 0;    ///< first step that will not fit at this rate; 0 if unknown or too far to tell
  trace::LineId growing = 0;    ///< the line whose holdings rose most, summed over the steps

  ToothCause tooth = ToothCause::kNone;
  uint32_t period_steps = 0;
  uint64_t tooth_bytes = 0;  ///< median height
  trace::LineId line = 0;    ///< of the tooth: what it is depends on the cause
};

/// `room_bytes`: the most that blocks can have allocated on the device, 0 if unknown. Pure.
Trend find_trend(const std::vector<StepEnd>& steps, uint64_t room_bytes);

/// Bytes that steps keep more and more of: 0 unless most steps end higher than the one before, all along the run.
uint64_t steady_growth(const std::vector<StepEnd>& steps);

}  // namespace drydock::ledger
