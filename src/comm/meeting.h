#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/export.h"
#include "base/status.h"
#include "comm/segment.h"

namespace drydock::comm {

/// How ranks wait for one another: every wait ends, by success, by the time limit, or at once when one that is waited
/// for is gone, gave up, or when this rank stops.
class DRYDOCK_API Meeting {
 public:
  using Clock = std::chrono::steady_clock;

  /// `limit` 0 waits for ever. `stop` ends waits of this rank.
  Meeting(const Segment& segment, std::string communicator, std::chrono::milliseconds limit,
          const std::atomic<bool>& stop)
      : segment_(segment), communicator_(std::move(communicator)), limit_(limit), stop_(stop) {}

  /// The waits that follow are for this: "all_reduce #12 of 4 fp32, sum (train.py:8)".
  void begin(std::string what) {
    what_ = std::move(what);
    waited_ns_ = 0;
  }
  const std::string& what() const noexcept { return what_; }

  /// Waits until `missing(rank)` is false for all `ranks`. 107020 (a device task ran out of time) when the limit
  /// passed, 507057 (suspect remote) when one of them is dead, 507018 when one gave up: each with a sentence that says
  /// who.
  template <class Missing>
  Status wait(Missing&& missing) {
    return wait_until([&] {
      for (uint32_t rank = 0; rank < segment_.ranks(); ++rank) {
        if (missing(rank)) return rank;
      }
      return segment_.ranks();
    });
  }
  /// Waits until `first_missing()` gives no rank (the number of ranks).
  Status wait_until(const std::function<uint32_t()>& first_missing);

  /// Time that waits took since `begin`.
  uint64_t waited_ns() const noexcept { return waited_ns_; }
  /// "rank 2" with what its process is.
  std::string name_of(uint32_t rank) const;
  const Segment& segment() const noexcept { return segment_; }
  const std::string& communicator() const noexcept { return communicator_; }

 private:
  Status wait_asleep(const std::function<uint32_t()>& first_missing);
  std::string who_is_late() const;

  const Segment& segment_;
  const std::string communicator_;
  const std::chrono::milliseconds limit_;
  const std::atomic<bool>& stop_;
  std::string what_;
  uint64_t waited_ns_ = 0;
};

}  // namespace drydock::comm
