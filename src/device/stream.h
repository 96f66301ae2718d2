#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/export.h"
#include "base/status.h"
#include "device/context.h"

namespace drydock::device {

class Stream;

/// Work that could not run when it was submitted, because something before it on its stream is still pending.
class DeferredWork {
 public:
  virtual ~DeferredWork() = default;
  /// True if nothing but the stream's own order holds the work back. Called with the stream's order held.
  virtual bool is_ready() { return true; }
  /// Runs on whichever thread completed the work before it, with the stream's order held.
  virtual Status run() = 0;
  /// The stream dropped the work (stop on failure, abort, forced destruction). Called instead of `run`.
  virtual void dropped() noexcept {}
};

/// What happens to later work of a stream after one piece failed (contract F2; the vendor's numbers).
enum class FailureMode : uint64_t { kContinue = 0, kStop = 1 };

/// Cores a stream, a thread or a device may use (contract F10). The vendor's numbers.
enum class CoreKind : int32_t { kCube = 0, kVector = 1 };
inline constexpr int kCoreKinds = 2;

/// A stream: work that runs in the order it was submitted.
///
/// *Order.* `submit` runs the work at once, on the calling thread, when nothing of the stream is pending: that is the
/// single-stream fast path, without allocation. What can be pending today: a host function on its runtime thread, a
/// callback that waits for its subscriber, an event of another stream that has not been reached, and what was
/// submitted behind one of these. Such work is kept and run, in order, by the thread that removes the obstacle, so that
/// a launch never waits for the device (contract F4). Queues, capture and join come in behind the same call.
///
/// *Failures.* The work's status is the device's, not the launch's: `submit` returns the status of the launch (ok, or
/// the stream's failure once it has stopped) and `synchronize` returns what went wrong on the way.
///
/// *Time.* `virtual_ns` is where the stream's timeline stands. Until the cost model exists nothing advances it but the
/// host's monotonic clock: events take `device_now_ns`.
///
/// *Threads.* Every function may be called from any thread. Objects are recycled, never freed, so that a client that
/// destroys a stream while another thread uses it gets an error, not a crash.
class DRYDOCK_API Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Unique in the process, stable, never used again (contract F9). The first stream is 1.
  uint32_t id() const noexcept { return id_.load(std::memory_order_relaxed); }
  int32_t device() const noexcept { return device_; }
  Context& context() const noexcept { return *context_; }
  uint32_t priority() const noexcept { return priority_.load(std::memory_order_relaxed); }
  uint32_t flags() const noexcept { return flags_; }
  /// What the client holds; null for a default stream.
  void* handle() const noexcept { return handle_; }
  bool is_default() const noexcept { return handle_ == nullptr; }

  /// Runs `work` (a callable that returns Status) in the stream's order. The callable may run after `submit` returned:
  /// it captures what it needs by value, and copies no device bytes before it runs (contract E9). On the fast path it
  /// is called in place, neither copied nor moved. Must not be called from inside another work of the same stream.
  template <class Work>
  Status submit(Work&& work) {
    return submit_or_defer(work, [&]() -> std::unique_ptr<DeferredWork> {
      return std::make_unique<CallableWork<std::decay_t<Work>>>(std::forward<Work>(work));
    });
  }

  /// As `submit`, for callers whose arguments die with the call: `run_now` may refer to them; `defer` makes work that
  /// owns copies, and is only called when the fast path is closed.
  template <class RunNow, class Defer>
  Status submit_or_defer(RunNow&& run_now, Defer&& defer) {
    std::unique_lock order(order_);
    if (refuses_work_) [[unlikely]]
      return refusal();
    if (!pending_.empty()) [[unlikely]] {
      pending_.push_back(defer());
      count_submitted();
      return Status::ok();
    }
    count_submitted();
    complete(run_now());
    if (!to_resume_.empty()) [[unlikely]]
      resume_others(order);
    return Status::ok();
  }

  /// Submits work that may not be ready yet (a wait, a host function). It runs at once if it can.
  Status submit_deferred(std::unique_ptr<DeferredWork> work);

  /// Runs what has become runnable. Called by whoever removed an obstacle, with no stream's order held.
  void resume();
  /// To be called from inside the stream's work: `other` waited for what this work did, and is resumed after it.
  void resume_after_work(Stream& other) { to_resume_.push_back(&other); }

  /// Waits until everything submitted before the call has completed; returns the stream's failure, if it has one.
  /// `timeout_ms` -1 waits for ever, else 507046 when it runs out (contract F7).
  Status synchronize(int32_t timeout_ms = -1);
  /// True if nothing is pending. Never blocks (contract F6).
  bool is_complete() const noexcept {
    return completed_.load(std::memory_order_acquire) == submitted_.load(std::memory_order_acquire);
  }
  /// Sequence number of the last work submitted and of the last completed (or dropped). They start at 0.
  uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }
  uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }

  /// Drops what is pending; threads that wait for it in `synchronize` get 107023. The stream stays usable, and its
  /// failure, if any, is forgotten.
  void abort();

  FailureMode failure_mode() const noexcept { return failure_mode_.load(std::memory_order_relaxed); }
  bool overflow_switch() const noexcept { return overflow_switch_.load(std::memory_order_relaxed); }
  void set_overflow_switch(bool on) noexcept { overflow_switch_.store(on, std::memory_order_relaxed); }
  bool caches_operator_info() const noexcept { return caches_operator_info_.load(std::memory_order_relaxed); }
  void set_caches_operator_info(bool on) noexcept { caches_operator_info_.store(on, std::memory_order_relaxed); }
  uint32_t user_tag() const noexcept { return user_tag_.load(std::memory_order_relaxed); }
  void set_user_tag(uint32_t tag) noexcept { user_tag_.store(tag, std::memory_order_relaxed); }
  void set_priority(uint32_t priority) noexcept { priority_.store(priority, std::memory_order_relaxed); }

  /// Cores this stream may use; 0 = as many as the device has.
  uint32_t core_limit(CoreKind kind) const noexcept { return core_limits_[static_cast<int>(kind)].load(); }
  void set_core_limit(CoreKind kind, uint32_t cores) noexcept { core_limits_[static_cast<int>(kind)].store(cores); }

  /// Where the stream's timeline stands, in virtual nanoseconds. The cost model advances it; 0 until there is one.
  uint64_t virtual_ns() const noexcept { return virtual_ns_.load(std::memory_order_relaxed); }
  /// To be called from inside the stream's work: `duration_ns` of device time went by.
  void advance(uint64_t duration_ns) noexcept { virtual_ns_.fetch_add(duration_ns, std::memory_order_relaxed); }

 private:
  friend class StreamTable;
  template <class Work>
  class CallableWork final : public DeferredWork {
   public:
    template <class From>
    explicit CallableWork(From&& work) : work_(std::forward<From>(work)) {}
    Status run() override { return work_(); }

   private:
    Work work_;
  };

  Stream() = default;
  void begin(Context& context, uint32_t id, void* handle, uint32_t priority, uint32_t flags);
  void end();
  void count_submitted() noexcept {
    submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  void complete(Status status) {
    if (!status.is_ok()) [[unlikely]]
      keep_failure(std::move(status));
    completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (waiting_threads_ != 0) progressed_.notify_all();
  }
  Status refusal() const;
  void keep_failure(Status status);
  void run_pending();
  void drop_pending();
  void resume_others(std::unique_lock<std::mutex>& order);

  std::mutex order_;  ///< held while a piece of work runs; guards the members down to `ended_`
  std::condition_variable progressed_;
  int waiting_threads_ = 0;
  std::deque<std::unique_ptr<DeferredWork>> pending_;
  std::vector<Stream*> to_resume_;
  Status failure_ = Status::ok();
  uint64_t aborts_ = 0;
  bool refuses_work_ = true;  ///< ended, or stopped by a failure
  bool ended_ = true;

  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> completed_{0};

  std::atomic<uint32_t> id_{0};
  int32_t device_ = -1;
  Context* context_ = nullptr;
  void* handle_ = nullptr;
  uint32_t flags_ = 0;
  std::atomic<uint32_t> priority_{0};
  std::atomic<FailureMode> failure_mode_{FailureMode::kContinue};
  std::atomic<bool> overflow_switch_{false};
  std::atomic<bool> caches_operator_info_{false};
  std::atomic<uint32_t> user_tag_{0};
  std::atomic<uint32_t> core_limits_[kCoreKinds] = {};
  std::atomic<uint64_t> virtual_ns_{0};
};

/// A new stream of this thread's context. `entry` is the door that asks, for sentences. 207008 when ids run out.
DRYDOCK_API Status create_stream(std::string_view entry, uint32_t priority, uint32_t flags, Stream*& stream);
/// Waits for the stream's work (or drops it, with `force`), then ends it. Its handle is stale from then on.
DRYDOCK_API Status destroy_stream(std::string_view entry, const void* handle, bool force);

/// The stream behind `handle`; null stands for the default stream of this thread's context, which is made at its
/// first use. 107000 with a sentence for a stale or foreign handle, 107002 without a context.
DRYDOCK_API Status find_stream(std::string_view entry, const void* handle, Stream*& stream);
/// As `find_stream`, for doors that put work on the stream: the stream must belong to this thread's context
/// (107003 otherwise).
DRYDOCK_API Status find_stream_to_submit(std::string_view entry, const void* handle, Stream*& stream);

/// Sets what a failure does. Where one stream of a context stops, all of the context do, later ones included (source:
/// the vendor's manual of aclrtSetStreamFailureMode, for the 910C).
DRYDOCK_API void set_failure_mode(Stream& stream, FailureMode mode);

/// Most streams of one device, default streams included (source: the vendor's manual of aclrtCreateStream).
inline constexpr size_t kMaxStreamsPerDevice = 1984;

/// Waits for every stream of `device`, also for work that other threads submitted (contract C13). `timeout_ms` covers
/// all.
DRYDOCK_API Status synchronize_device(int32_t device, int32_t timeout_ms = -1);
/// Drops what is pending on every stream of `device` (contract D11).
DRYDOCK_API void abort_device(int32_t device);
/// Live streams of `device`, default streams included.
DRYDOCK_API size_t stream_count(int32_t device) noexcept;

/// The device's clock, in nanoseconds: the host's monotonic clock until the cost model exists.
DRYDOCK_API uint64_t device_now_ns() noexcept;

}  // namespace drydock::device
