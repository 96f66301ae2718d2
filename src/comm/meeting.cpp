#include "comm/meeting.h"

#include <sched.h>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "comm/collective.h"
#include "device/memory_account.h"

namespace drydock::comm {
namespace {

/// How often a waiting rank lets others run before it sleeps: ranks mostly come within microseconds of one another, and
/// waking a sleeper takes longer than that.
constexpr int kYields = 50;
/// A dead process wakes nobody, so sleepers look for themselves this often.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

void Meeting::let_others_run() noexcept { sched_yield(); }

std::string Meeting::what() const {
  return fmt::format("{} #{} of {} ({})", describe(*call_), call_->sequence, communicator_,
                     device::line_text(call_->line));
}

std::string Meeting::name_of(uint32_t rank) const {
  return fmt::format("rank {} (process {})", rank, segment_.place(rank).pid.load());
}

std::string Meeting::who_is_late() const {
  // Its last call tells what a rank does instead of coming.
  const uint64_t own = segment_.place(segment_.rank()).arrived.load(std::memory_order_acquire);
  std::string text;
  for (uint32_t rank = 0; rank < segment_.ranks(); ++rank) {
    const uint64_t arrived = segment_.place(rank).arrived.load(std::memory_order_acquire);
    if (arrived >= own) continue;
    if (!text.empty()) text += "; ";
    text += name_of(rank);
    if (arrived == 0) {
      text += " has made no call of this communicator";
    } else {
      const Offer& last = segment_.offer(rank, arrived).offer;
      text +=
          fmt::format("'s last call was {} #{} ({})", comm::name_of(static_cast<Kind>(last.kind)), arrived, last.line);
    }
  }
  return text;
}

Status Meeting::wait_until(const std::function<uint32_t()>& first_missing) {
  if (first_missing() == segment_.ranks()) return Status::ok();
  const Clock::time_point begin = Clock::now();
  Status status = Status::ok();
  bool is_complete = false;
  for (int yields = 0; yields < kYields && !is_complete; ++yields) {
    sched_yield();
    is_complete = first_missing() == segment_.ranks();
  }
  if (!is_complete) status = wait_asleep(first_missing);
  waited_ns_ += static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
  return status;
}

Status Meeting::wait_asleep(const std::function<uint32_t()>& first_missing) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    const uint32_t announcements = segment_.announcements();
    // Whether the rank is gone is asked before whether it came: it may come, and go in order.
    const uint32_t suspect = first_missing();
    if (suspect == segment_.ranks()) return Status::ok();
    const RankPlace& place = segment_.place(suspect);
    const bool is_dead = segment_.is_dead(suspect);
    const bool is_out = place.is_out.load(std::memory_order_acquire) != 0;
    const bool has_failed = place.has_failed.load(std::memory_order_acquire) != 0;
    if (is_dead || is_out || has_failed) {
      const uint32_t missing = first_missing();
      if (missing == segment_.ranks()) return Status::ok();
      if (missing == suspect) {
        if (has_failed) {
          return Status::error(code::ACL_ERROR_RT_AICPU_EXCEPTION,
                               fmt::format("{}: {} gave up: {}", what(), name_of(suspect), place.failure));
        }
        return Status::error(
            code::ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
            fmt::format("{}: rank {} of {} waits for {}, {}.", what(), segment_.rank(), communicator_, name_of(suspect),
                        is_out ? "which has destroyed its communicator" : "which has ended"));
      }
    }
    if (stop_.load(std::memory_order_acquire)) {
      return Status::error(code::ACL_ERROR_RT_STREAM_ABORT,
                           fmt::format("{}: rank {} destroyed {} before {} came.", what(), segment_.rank(),
                                       communicator_, name_of(suspect)));
    }
    if (limit_.count() != 0 && Clock::now() - begin >= limit_) {
      const std::string late = who_is_late();
      return Status::error(
          code::ACL_ERROR_RT_TASK_TIMEOUT,
          fmt::format("{}: rank {} of {} waited {:g} s (HCCL_EXEC_TIMEOUT) for {}. {}", what(), segment_.rank(),
                      communicator_, static_cast<double>(limit_.count()) * 1e-3, name_of(suspect),
                      late.empty() ? "It takes part, but is not done." : late + "."));
    }
    segment_.sleep(announcements, kLook);
  }
}

}  // namespace drydock::comm
