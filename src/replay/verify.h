#pragma once

#include <cstdint>
#include <string>

#include "replay/settings.h"
#include "replay/workload.h"

namespace drydock::replay {

/// What the model made of a history of one device, next to what the real allocator did. Counts end with the first
/// difference.
struct Verification {
  uint8_t device = 0;
  uint64_t events = 0;  ///< of the device in the history
  uint64_t blocks = 0;  ///< allocations whose address and size were compared
  uint64_t blocks_equal = 0;
  uint64_t segment_calls = 0;  ///< calls of the driver that were compared, in order
  uint64_t segment_calls_equal = 0;
  uint64_t out_of_memory = 0;  ///< failures of the allocator in the history
  uint64_t out_of_memory_equal = 0;
  uint64_t retries = 0;         ///< of the model
  uint64_t caches_emptied = 0;  ///< calls of empty_cache, marked or seen from what was given back
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  bool has_final_state = false;  ///< and it was compared
  bool is_final_state_equal = false;
  bool is_equal = true;
  std::string difference;  ///< the first one, empty if there is none
  uint32_t ordinal = 0;    ///< of its event
  uint32_t place = 0;      ///< of its event, index into History::places
};

/// Drives the model with a history. The driver's answers are the recorded ones; that the model asks the same, in the
/// same order, and hands out the same addresses, is what is verified.
Verification verify(const History& history, const Workload& workload, const Settings& settings);

}  // namespace drydock::replay
