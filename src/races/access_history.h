#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/export.h"
#include "races/footprint.h"
#include "races/vector_clock.h"

namespace drydock::races {

/// Who touches memory, as a report names it.
struct Site {
  uint32_t stream_id = 0;  ///< 0: the host
  uint32_t line = 0;       ///< trace::LineId
  uint32_t call = 0;       ///< trace::CallId; 0 where no operator does it
  uint32_t what = 0;       ///< trace::StringId of what does it, where no operator does
  uint16_t argument = 0;   ///< of the operator
};

/// One touch of memory, as it is kept.
struct Access {
  Site site;
  uint32_t stream = 0;  ///< index in clocks
  uint64_t tick = 0;
  bool writes = false;
  bool is_over = false;                     ///< the block that it touched was given back since
  uint32_t freed_line = 0;                  ///< where, if `is_over`
  std::shared_ptr<const Footprint> sparse;  ///< null where it covers all of the range
};

/// A touch that is not ordered with the one that was asked about.
struct Conflict {
  Access earlier;
  uint64_t begin = 0;  ///< what both touch, or lies between what both touch
  uint64_t end = 0;
};

/// Which stretches of memory were touched by whom last: all accesses that a later one could still conflict with.
/// Not thread-safe.
class DRYDOCK_API AccessHistory {
 public:
  /// Puts `access` of `footprint` down. Conflicts with what is neither covered by `clock` (what is over for the stream
  /// that accesses) nor of the same stream are added to `conflicts`, one for each earlier place. What `everyone` covers
  /// is over for all that is still to come and is dropped.
  void add(const Access& access, const Footprint& footprint, const VectorClock& clock, const VectorClock& everyone,
           std::vector<Conflict>& conflicts);

  /// The bytes belong to something else from now on: what `over` covers is dropped.
  void forget(uint64_t begin, uint64_t end, const VectorClock& over);
  /// They are nobody's: drops everything.
  void forget(uint64_t begin, uint64_t end);
  /// The block of these bytes was given back at `line`.
  void give_back(uint64_t begin, uint64_t end, uint32_t line);

  size_t size() const noexcept { return stretches_.size(); }

 private:
  struct Stretch {
    uint64_t end = 0;
    std::vector<Access> accesses;
  };
  using Stretches = std::map<uint64_t, Stretch>;  // by first byte; they do not overlap

  void add_to(uint64_t begin, Stretch& stretch, const Access& access, const Footprint& footprint,
              const VectorClock& clock, const VectorClock& everyone, std::vector<Conflict>& conflicts);
  /// The first stretch that ends behind `begin`, cut there if it begins before.
  Stretches::iterator first_from(uint64_t begin);
  void cut(Stretches::iterator place, uint64_t at);

  Stretches stretches_;
};

}  // namespace drydock::races
