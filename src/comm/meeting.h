#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/export.h"
#include "base/status.h"
#include "comm/collective.h"
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

  /// The waits that follow are for this call, which lives until the next begin.
  void begin(const Collective& call) {
    call_ = &call;
    waited_ns_ = 0;
  }
  /// "all_reduce of 4 fp32, sum #12 of group_name_0 (train.py:8)".
  std::string what() const;

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
  /// Waits for a moment only, which is what ranks that come together need. False if somebody is still missing.
  template <class Missing>
  bool wait_briefly(Missing&& missing) {
    const Clock::time_point begin = Clock::now();
    bool is_complete = false;
    for (int yields = 0; !is_complete && yields < kBriefYields; ++yields) {
      if (yields != 0) let_others_run();
      is_complete = true;
      for (uint32_t rank = 0; rank < segment_.ranks() && is_complete; ++rank) is_complete = !missing(rank);
      if (!is_complete && Clock::now() - begin > kBriefly) break;
    }
    waited_ns_ += static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
    return is_complete;
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
  static constexpr int kBriefYields = 1000;
  static constexpr std::chrono::microseconds kBriefly{1000};

  static void let_others_run() noexcept;
  Status wait_asleep(const std::function<uint32_t()>& first_missing);
  std::string who_is_late() const;

  const Segment& segment_;
  const std::string communicator_;
  const std::chrono::milliseconds limit_;
  const std::atomic<bool>& stop_;
  const Collective* call_ = nullptr;
  uint64_t waited_ns_ = 0;
};

}  // namespace drydock::comm
