#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "replay/caching_allocator.h"
#include "replay/settings.h"
#include "replay/workload.h"

namespace drydock::replay {

/// What a run would have come to under other settings.
struct Outcome {
  bool fits = true;
  uint32_t failed_operation = 0;  ///< index into Workload::operations, where it does not fit
  uint64_t failed_bytes = 0;      ///< what was asked for there
  uint64_t operations = 0;        ///< that were replayed, or known to come to the same as others
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t allocated_at_peak_bytes = 0;  ///< when the most was reserved
  uint64_t end_reserved_bytes = 0;
  uint64_t free_bytes = 0;  ///< of the device at the end
  uint64_t driver_calls = 0;
  uint64_t segments = 0;
  uint64_t retries = 0;
  uint64_t collections = 0;
  uint64_t rejections = 0;

  /// Part of the reserved bytes that nobody held when the most was reserved.
  double fragmentation() const {
    return peak_reserved_bytes == 0
               ? 0
               : 1 - static_cast<double>(allocated_at_peak_bytes) / static_cast<double>(peak_reserved_bytes);
  }
  bool operator==(const Outcome&) const = default;
};

/// Runs the model on a workload with a simulated driver. A request that is refused ends the replay, as nobody knows
/// what the program would do next; one that was refused in the history, too, only makes that it does not fit.
/// Of what Workload::repeats says repeats, the repetitions that provably come to the same are not replayed: `skipped`
/// gets the number of their operations. Thread-safe: the workload is only read.
Outcome simulate(const Workload& workload, const Settings& settings, uint64_t* skipped = nullptr);

/// Outcomes of many settings on one workload. What provably comes to the same is replayed once: settings that differ in
/// keys without effect under the others (segment_size_mb without expandable segments), and values of max_split_size_mb,
/// garbage_collection_threshold and per_process_memory_fraction between which a replay made no difference, because
/// everything that it compared with them lies on the same side. Thread-safe.
class Outcomes {
 public:
  /// The workload is read for as long as this lives.
  explicit Outcomes(const Workload& workload);
  /// `was_replayed` says whether it took a replay of its own.
  Outcome of(const Settings& settings, bool& was_replayed);
  /// How many replays there were.
  size_t replays() const;

 private:
  struct Known {
    Settings settings;
    Indifference indifference;
    Outcome outcome;
  };
  bool has_same_rules(const Settings& other, const Settings& settings) const;

  const Workload& workload_;
  bool has_limits_ = false;  // the program sets some: then a fraction is not all there is
  bool has_waiting_ = false;
  mutable std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace drydock::replay
