#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/simulate.h"
#include "replay/workload.h"
#include "tune/grid.h"

// Tries settings on what a run asked of the allocator, and says which is the best, or why there is none.

namespace drydock::tune {

/// What a candidate would have come to, over all processes and devices of the run.
struct Trial {
  size_t candidate = 0;               ///< index into Grid::candidates
  bool fits = true;                   ///< on every device
  uint64_t operations = 0;            ///< that were replayed before it died, or all
  uint64_t peak_reserved_bytes = 0;   ///< the highest of any device
  uint64_t peak_allocated_bytes = 0;  ///< the same
  double fragmentation = 0;           ///< unused part of the reserved bytes at that peak, 0 to 1
  uint64_t retries = 0;               ///< sum
  uint64_t driver_calls = 0;          ///< sum
  int64_t margin_bytes = 0;           ///< the least of any device: what it has for the allocator, less the peak
  bool was_replayed = false;          ///< false: provably the same as others that were
  bool is_on_front = false;           ///< no other that fits has both a lower peak and fewer driver calls
};

/// Why no allocator can do it: live bytes alone need more than there is.
struct Bound {
  bool is_impossible = false;
  uint64_t needed_bytes = 0;  ///< most bytes that were live at a time, in pages of 2 MiB, the last demand included
  uint64_t room_bytes = 0;    ///< what the device has, less what others use; 0 if unknown
  uint8_t device = 0;
};

/// Makes the request that a run died of one that has to be met, and the last one: what came after it, a dying program
/// did. Nothing happens if none was refused.
void demand_last_request(replay::Workload& workload);

/// The tightest device's.
Bound lower_bound_of(const std::vector<replay::Workload>& workloads);

/// Tries every candidate, on `threads` threads; those that provably come to the same are replayed once (see
/// replay::Outcomes). `progress(done, all)` is called now and then from the calling thread; once `stop` is true,
/// candidates that have not begun are left out of the result. Thread-safe in the workloads. What a
/// candidate throws ends the search and is thrown on.
std::vector<Trial> try_all(const std::vector<replay::Workload>& workloads, const Grid& grid, unsigned threads,
                           const std::atomic<bool>& stop, const std::function<void(size_t done, size_t all)>& progress);

/// Marks the Pareto front of peak reserved bytes against driver calls among those that fit.
void mark_front(std::vector<Trial>& trials);

/// Trials, best first: those that fit before those that do not; of those that fit, the ones whose peak is within 1% of
/// the lowest, fewest keys first, then fewest driver calls; then the others by their peak. Those that do not fit by
/// how far they came.
void rank(std::vector<Trial>& trials, const Grid& grid);

}  // namespace drydock::tune
