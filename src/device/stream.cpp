#include "device/stream.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>

#include "base/generated/error_codes.h"
#include "base/handle_pool.h"
#include "device/callback.h"
#include "device/last_error.h"
#include "races/stream_check.h"

namespace drydock::device {
namespace {

/// Handles alive in the process at once: every device of the largest machine at its limit costs address space only.
constexpr size_t kMaxStreamHandles = 16 * kMaxStreamsPerDevice;

std::string name_of(const Stream& stream) {
  return "stream " + std::to_string(stream.id()) + " of device " + std::to_string(stream.device());
}

Status copy_of(const Status& status) {
  return status.is_ok() ? Status::ok() : Status::error(status.code(), status.message());
}

}  // namespace

/// All streams of the process. Objects go from `begin` to `end` and back into `free_`, never to the allocator.
class StreamTable {
 public:
  static StreamTable& get() {
    static StreamTable& table = *new StreamTable;
    return table;
  }

  Stream* find(const void* handle) const noexcept {
    Slot* slot = handles_.find(handle);
    return slot == nullptr ? nullptr : slot->stream;
  }
  bool was_destroyed(const void* handle) const noexcept { return handles_.was_destroyed(handle); }

  Status create(std::string_view entry, Context& context, uint32_t priority, uint32_t flags, Stream*& created) {
    std::lock_guard lock(mutex_);
    DRYDOCK_RETURN_IF_ERROR(check_room(entry, context.device));
    Stream* stream = take();
    Slot* slot = handles_.create(Slot{stream});
    if (slot == nullptr) {
      free_.push_back(stream);
      return Status::error(code::ACL_ERROR_RT_NO_STREAM_RESOURCE,
                           std::string(entry) + ": no stream handle is left in this process.");
    }
    start(*stream, context, slot, priority, flags);
    created = stream;
    return Status::ok();
  }

  Status default_stream(std::string_view entry, Context& context, Stream*& found) {
    if (void* known = context.default_stream.load(std::memory_order_acquire)) [[likely]] {
      found = static_cast<Stream*>(known);
      return Status::ok();
    }
    std::lock_guard lock(mutex_);
    if (void* known = context.default_stream.load(std::memory_order_acquire)) {
      found = static_cast<Stream*>(known);
      return Status::ok();
    }
    DRYDOCK_RETURN_IF_ERROR(check_room(entry, context.device));
    Stream* stream = take();
    start(*stream, context, nullptr, 0, 0);
    context.default_stream.store(stream, std::memory_order_release);
    found = stream;
    return Status::ok();
  }

  /// Makes the handle stale: of two threads that destroy one stream, one gets null.
  Stream* release_handle(const void* handle) {
    std::lock_guard lock(mutex_);
    Slot* slot = handles_.find(handle);
    Stream* stream = slot == nullptr ? nullptr : slot->stream;
    if (stream != nullptr) handles_.destroy(handle);
    return stream;
  }

  void finish(Stream& stream) {
    forget_callbacks(stream);
    stream.end();
    if (races::is_on()) [[unlikely]]
      races::stream_ended(stream.id());
    std::lock_guard lock(mutex_);
    std::erase(live_, &stream);
    free_.push_back(&stream);
  }

  void end_context(Context& context) {
    std::vector<Stream*> streams;
    {
      std::lock_guard lock(mutex_);
      std::copy_if(live_.begin(), live_.end(), std::back_inserter(streams),
                   [&](Stream* stream) { return stream->context_ == &context; });
      for (Stream* stream : streams) {
        if (stream->handle_ != nullptr) handles_.destroy(stream->handle_);
      }
      context.default_stream.store(nullptr, std::memory_order_release);
    }
    for (Stream* stream : streams) finish(*stream);
  }

  std::vector<Stream*> of_device(int32_t device) {
    std::lock_guard lock(mutex_);
    std::vector<Stream*> streams;
    std::copy_if(live_.begin(), live_.end(), std::back_inserter(streams),
                 [&](Stream* stream) { return stream->device_ == device; });
    return streams;
  }

  void set_failure_mode(Stream& stream, FailureMode mode) {
    std::lock_guard lock(mutex_);
    stream.failure_mode_.store(mode, std::memory_order_relaxed);
    if (mode != FailureMode::kStop) return;
    for (Stream* other : live_) {
      if (other->context_ == stream.context_) other->failure_mode_.store(mode, std::memory_order_relaxed);
    }
  }

 private:
  struct Slot {
    Stream* stream;
  };

  StreamTable() : handles_(kMaxStreamHandles) {
    on_context_destroyed([](Context& context) noexcept { StreamTable::get().end_context(context); });
  }

  Status check_room(std::string_view entry, int32_t device) const {
    const auto count = static_cast<size_t>(
        std::count_if(live_.begin(), live_.end(), [&](Stream* stream) { return stream->device_ == device; }));
    if (count < kMaxStreamsPerDevice) return Status::ok();
    return Status::error(code::ACL_ERROR_RT_NO_STREAM_RESOURCE,
                         std::string(entry) + ": device " + std::to_string(device) + " has " + std::to_string(count) +
                             " streams, which is all it can have. Destroy streams, or reuse them.");
  }

  Stream* take() {
    if (free_.empty()) return new Stream;
    Stream* stream = free_.back();
    free_.pop_back();
    return stream;
  }

  void start(Stream& stream, Context& context, void* handle, uint32_t priority, uint32_t flags) {
    const bool stops = std::any_of(live_.begin(), live_.end(), [&](Stream* other) {
      return other->context_ == &context && other->failure_mode() == FailureMode::kStop;
    });
    stream.begin(context, next_id_++, handle, priority, flags);
    stream.failure_mode_.store(stops ? FailureMode::kStop : FailureMode::kContinue, std::memory_order_relaxed);
    live_.push_back(&stream);
  }

  mutable std::mutex mutex_;
  HandlePool<Slot> handles_;
  std::vector<Stream*> live_;
  std::vector<Stream*> free_;
  uint32_t next_id_ = 1;
};

void Stream::begin(Context& context, uint32_t id, void* handle, uint32_t priority, uint32_t flags) {
  std::lock_guard order(order_);
  device_ = context.device;
  context_ = &context;
  handle_ = handle;
  flags_ = flags;
  id_.store(id, std::memory_order_relaxed);
  priority_.store(priority, std::memory_order_relaxed);
  overflow_switch_.store(false, std::memory_order_relaxed);
  caches_operator_info_.store(false, std::memory_order_relaxed);
  user_tag_.store(0, std::memory_order_relaxed);
  for (auto& limit : core_limits_) limit.store(0, std::memory_order_relaxed);
  virtual_ns_.store(0, std::memory_order_relaxed);
  submitted_.store(0, std::memory_order_relaxed);
  completed_.store(0, std::memory_order_relaxed);
  failure_ = Status::ok();
  ended_ = false;
  refuses_work_ = false;
}

void Stream::end() {
  std::unique_lock order(order_);
  drop_pending();
  ended_ = true;
  refuses_work_ = true;
  progressed_.notify_all();
  resume_others(order);
}

Status Stream::refusal() const {
  if (ended_)
    return Status::error(code::ACL_ERROR_RT_STREAM_CONTEXT,
                         name_of(*this) + " was destroyed while another thread used it.");
  return Status::error(failure_.code(), name_of(*this) + " takes no more work: it stops on failure, and it failed: " +
                                            failure_.message());
}

void Stream::keep_failure(Status status) {
  // The first failure is the cause; what follows it is its consequence.
  if (failure_.is_ok()) failure_ = std::move(status);
  if (failure_mode() != FailureMode::kStop) return;
  refuses_work_ = true;
}

void Stream::run_pending() {
  while (!pending_.empty()) {
    if (!pending_.front()->is_ready()) return;
    // Out of the queue only after it ran: `pending_` tells `submit` that something is before it.
    Status status = pending_.front()->run();
    pending_.pop_front();
    complete(std::move(status));
    if (refuses_work_) drop_pending();
  }
}

void Stream::drop_pending() {
  while (!pending_.empty()) {
    pending_.front()->dropped();
    pending_.pop_front();
    complete(Status::ok());
  }
}

void Stream::resume_others(std::unique_lock<std::mutex>& order) {
  const std::vector<Stream*> others = std::exchange(to_resume_, {});
  order.unlock();
  for (Stream* other : others) other->resume();
}

Status Stream::submit_deferred(std::unique_ptr<DeferredWork> work) {
  std::unique_lock order(order_);
  if (refuses_work_) return refusal();
  pending_.push_back(std::move(work));
  count_submitted();
  if (pending_.size() == 1) run_pending();
  resume_others(order);
  return Status::ok();
}

void Stream::resume() {
  std::unique_lock order(order_);
  run_pending();
  resume_others(order);
}

Status Stream::synchronize(int32_t timeout_ms) {
  std::unique_lock order(order_);
  const uint64_t target = submitted();
  const uint64_t aborts = aborts_;
  const uint32_t id = this->id();
  const auto done = [&] { return completed() >= target || ended_ || aborts_ != aborts || this->id() != id; };
  if (!done()) {
    ++waiting_threads_;
    bool in_time = true;
    if (timeout_ms < 0) {
      progressed_.wait(order, done);
    } else {
      in_time = progressed_.wait_for(order, std::chrono::milliseconds(timeout_ms), done);
    }
    --waiting_threads_;
    if (!in_time) {
      return Status::error(code::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                           name_of(*this) + " still has " + std::to_string(submitted() - completed()) +
                               " pieces of work before it after " + std::to_string(timeout_ms) + " ms.");
    }
  }
  if (this->id() != id || ended_) return Status::ok();
  if (races::is_on()) [[unlikely]]
    races::host_waited_for_stream(id);
  if (aborts_ != aborts) {
    return Status::error(code::ACL_ERROR_RT_STREAM_ABORT,
                         name_of(*this) + " was aborted while this thread waited for it.");
  }
  if (failure_.is_ok()) return Status::ok();
  set_last_error(failure_.code());
  // A stream that stops keeps its failure until it is aborted; one that continues has told it.
  if (failure_mode() == FailureMode::kStop) return copy_of(failure_);
  return std::exchange(failure_, Status::ok());
}

void Stream::abort() {
  std::unique_lock order(order_);
  if (ended_) return;
  if (!pending_.empty()) ++aborts_;
  drop_pending();
  failure_ = Status::ok();
  refuses_work_ = false;
  progressed_.notify_all();
  resume_others(order);
}

Status create_stream(std::string_view entry, uint32_t priority, uint32_t flags, Stream*& stream) {
  Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(require_context(entry, context));
  return StreamTable::get().create(entry, *context, priority, flags, stream);
}

Status destroy_stream(std::string_view entry, const void* handle, bool force) {
  if (handle == nullptr) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         std::string(entry) +
                             ": the stream is null. The default stream of a context can't be destroyed: "
                             "it ends with its context.");
  }
  StreamTable& table = StreamTable::get();
  Stream* stream = table.find(handle);
  // Waits before the handle goes stale: host functions of the stream may still use it.
  if (stream != nullptr && !force) static_cast<void>(stream->synchronize());
  stream = table.release_handle(handle);
  if (stream == nullptr) return find_stream(entry, handle, stream);
  table.finish(*stream);
  return Status::ok();
}

Status find_stream(std::string_view entry, const void* handle, Stream*& stream) {
  StreamTable& table = StreamTable::get();
  if (handle == nullptr) {
    Context* context = nullptr;
    DRYDOCK_RETURN_IF_ERROR(require_context(entry, context));
    return table.default_stream(entry, *context, stream);
  }
  stream = table.find(handle);
  if (stream != nullptr) [[likely]]
    return Status::ok();
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                       std::string(entry) + (table.was_destroyed(handle) ? ": the stream was destroyed before."
                                                                         : ": the handle is not that of a stream."));
}

Status find_stream_to_submit(std::string_view entry, const void* handle, Stream*& stream) {
  Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(require_context(entry, context));
  DRYDOCK_RETURN_IF_ERROR(find_stream(entry, handle, stream));
  if (&stream->context() == context) [[likely]]
    return Status::ok();
  return Status::error(code::ACL_ERROR_RT_STREAM_CONTEXT,
                       std::string(entry) + ": " + name_of(*stream) +
                           " belongs to another context than this thread's, which is on device " +
                           std::to_string(context->device) + ". Call aclrtSetDevice or aclrtSetCurrentContext before.");
}

Status synchronize_device(int32_t device, int32_t timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  Status failure = Status::ok();
  for (Stream* stream : StreamTable::get().of_device(device)) {
    int32_t left_ms = -1;
    if (timeout_ms >= 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      left_ms = static_cast<int32_t>(std::max<int64_t>(left.count(), 0));
    }
    Status status = stream->synchronize(left_ms);
    if (!status.is_ok() && failure.is_ok()) failure = std::move(status);
    if (failure.code() == code::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) break;
  }
  return failure;
}

void abort_device(int32_t device) {
  for (Stream* stream : StreamTable::get().of_device(device)) stream->abort();
}

void set_failure_mode(Stream& stream, FailureMode mode) { StreamTable::get().set_failure_mode(stream, mode); }

size_t stream_count(int32_t device) noexcept { return StreamTable::get().of_device(device).size(); }

uint64_t device_now_ns() noexcept {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace drydock::device
