#pragma once

#include <cstdint>
#include <vector>

#include "ledger/flat_table.h"
#include "trace/recorder.h"

namespace drydock::ledger {

/// Live bytes of one source line.
struct Holder {
  trace::LineId line = 0;
  bool is_workspace = false;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

/// All that one source line did with blocks (or driver memory).
struct LineTally {
  trace::LineId line = 0;
  bool is_workspace = false;
  uint64_t allocations = 0;
  uint64_t allocated_bytes = 0;  ///< of all allocations together
  uint64_t live_bytes = 0;
  uint64_t live_blocks = 0;
  uint64_t peak_bytes = 0;     ///< most that the line held at one time
  uint64_t bytes_at_peak = 0;  ///< held when the sum over all lines was highest
  uint64_t blocks_at_peak = 0;
  uint64_t bytes_at_mark = 0;  ///< held at `mark`
};

/// Who holds how much, by source line, with the composition at the highest moment, in constant time per event.
///
/// The composition at the peak needs no copy when a new peak is reached: a line's holding at the peak is saved when
/// the line first changes after it (each peak has a number, each line the number of the peak it has saved).
class HolderTally {
 public:
  /// Index of the line's entry in `lines()`, for `remove`.
  uint32_t add(trace::LineId line, bool is_workspace, uint64_t bytes);
  void remove(uint32_t index, uint64_t bytes);
  /// The present moment is the new highest one.
  void new_peak() { ++epoch_; }
  /// Remembers what each line holds now.
  void mark();
  /// Completes the values at the peak; call once after the last event.
  void finish();

  const std::vector<LineTally>& lines() const { return lines_; }
  /// Largest first, without lines that hold nothing.
  std::vector<Holder> now() const;
  std::vector<Holder> at_peak() const;
  /// What lines hold more now than at `mark`.
  std::vector<Holder> growth_since_mark() const;

 private:
  void changing(uint32_t index);

  FlatTable<uint32_t> index_;
  std::vector<LineTally> lines_;
  std::vector<uint32_t> saved_epoch_;
  uint32_t epoch_ = 0;
};

}  // namespace drydock::ledger
