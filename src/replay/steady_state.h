#pragma once

#include <cstdint>
#include <vector>

#include "replay/caching_allocator.h"
#include "replay/driver.h"
#include "replay/repeats.h"
#include "replay/workload.h"

namespace drydock::replay {

/// Looks at an allocator between the repetitions of a Repeat. What decides its answers: every block with its address,
/// size, state and pool, who holds it, limits, workspaces, ages where they count, and the driver. Where all that is
/// what it was some repetitions ago, with blocks named by how long ago they were allocated, as many repetitions more do
/// the same again, and so on. So counters grow by as much each time, peaks and comparisons are known already, and the
/// program's blocks afterwards are those that lie where theirs would. Of double buffers, it takes two repetitions.
class SteadyState {
 public:
  /// `touched` has passed no more than what comes before the repetitions, and passes them.
  SteadyState(const Workload& workload, const Repeat& repeat, LastTouch& touched);

  /// Whether there is nothing more to look at.
  bool is_over() const { return boundary_ > repeat_.count; }
  /// The operation before which to look.
  uint32_t next() const { return end_of(boundary_); }
  /// At next(). The operation to go on with: a later one if what lies between comes to what there is.
  uint32_t skip(CachingAllocator& allocator, SimulatedDriver& driver, std::vector<uint32_t>& blocks);

 private:
  struct Look {
    uint32_t boundary = 0;
    std::vector<uint64_t> words;
    AllocatorTally tally;
    uint64_t calls = 0;
  };

  uint32_t end_of(uint32_t boundary) const { return repeat_.begin + boundary * repeat_.length; }
  bool name_blocks(const CachingAllocator& allocator, const std::vector<uint32_t>& blocks,
                   std::vector<uint64_t>& ids) const;
  bool rename(const LastTouch& then, uint32_t ahead, std::vector<uint32_t>& blocks) const;

  const Workload& workload_;
  Repeat repeat_;
  LastTouch now_;
  LastTouch last_;  // passed to the end of the last repetition
  uint32_t boundary_ = 0;
  std::vector<Look> looks_;
  uint32_t pause_;
};

}  // namespace drydock::replay
