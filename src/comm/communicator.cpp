#include "comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "base/handle_pool.h"
#include "comm/exchange.h"
#include "device/memory_account.h"

namespace drydock::comm {
namespace {

constexpr size_t kMaxCommunicators = 65536;
/// What a communicator that is destroyed gives calls that others take part in.
constexpr std::chrono::seconds kGrace{5};

struct Slot {
  std::shared_ptr<Communicator> communicator;
};

struct CommunicatorTable {
  static CommunicatorTable& get() {
    static CommunicatorTable& table = *new CommunicatorTable;
    return table;
  }
  std::mutex mutex;
  HandlePool<Slot> handles{kMaxCommunicators};
};

}  // namespace

/// A call from its submission to its end. Shared by its stream and the communicator.
struct Communicator::Pending {
  Pending(Collective made, device::Stream& on) : call(std::move(made)), stream(on) {}

  Collective call;
  device::Stream& stream;    // streams are recycled, never freed
  bool is_reached = false;   ///< its stream came to it; guarded by the communicator
  bool is_first = false;     ///< nothing was before it, in the communicator and on its stream; written once
  bool has_arrived = false;  ///< the other ranks know of it; of the thread that carries it out
  std::atomic<bool> is_dropped{false};
  std::atomic<bool> is_over{false};
  Status outcome = Status::ok();  ///< written before `is_over`
};

/// Holds its stream until the communicator has carried the call out.
class Communicator::CollectiveWork final : public device::DeferredWork {
 public:
  CollectiveWork(std::shared_ptr<Communicator> communicator, std::shared_ptr<Pending> pending)
      : communicator_(std::move(communicator)), pending_(std::move(pending)) {}
  bool is_ready() override {
    if (communicator_ != nullptr) {
      const std::shared_ptr<Communicator> communicator = std::exchange(communicator_, nullptr);
      if (!pending_->is_first || !communicator->try_at_once(*pending_)) communicator->reached(pending_);
    }
    return pending_->is_over.load(std::memory_order_acquire);
  }
  Status run() override { return std::move(pending_->outcome); }
  void dropped() noexcept override {
    pending_->is_dropped.store(true);
    if (communicator_ != nullptr) std::exchange(communicator_, nullptr)->reached(pending_);
  }

 private:
  std::shared_ptr<Communicator> communicator_;  ///< null once it was told
  std::shared_ptr<Pending> pending_;
};

Communicator::Communicator(std::unique_ptr<Segment> segment, int32_t device, CommunicatorSettings settings,
                           std::shared_ptr<void> buffers)
    : segment_(std::move(segment)),
      device_(device),
      settings_(std::move(settings)),
      meeting_(*segment_, settings_.name, settings_.execution_limit, stop_),
      buffers_(std::move(buffers)) {
  segment_->watch_peers();
}

Communicator::~Communicator() = default;

Status Communicator::submit(Collective call, device::Stream& stream) {
  call.stream_id = stream.id();
  std::shared_ptr<Pending> pending;
  std::lock_guard submit_lock(submit_);
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return Status::error(code::HCCL_E_PARA, fmt::format("{} was destroyed.", settings_.name));
    // A call of sends and receives has no number that all ranks agree on.
    call.sequence = call.kind == Kind::kSendRecv ? ++batches_ : ++collectives_;
    pending = std::make_shared<Pending>(std::move(call), stream);
    pending->is_first = queue_.empty() && stream.is_complete() && pending->call.kind != Kind::kSendRecv &&
                        pending->call.send_bytes <= kInlineBytes;
    queue_.push_back(pending);
    if (!has_worker_) {
      try {
        // Detached: the process may end at any time, and must not wait for other ranks.
        std::thread([self = shared_from_this()] { self->work(); }).detach();
      } catch (const std::system_error& error) {
        queue_.pop_back();
        return Status::error(code::HCCL_E_SYSCALL,
                             fmt::format("no thread could be started for {}: {}", settings_.name, error.what()));
      }
      has_worker_ = true;
    }
  }
  Status status = stream.submit_deferred(std::make_unique<CollectiveWork>(shared_from_this(), pending));
  if (!status.is_ok()) {  // the stream has stopped: the call never was
    std::lock_guard lock(mutex_);
    std::erase(queue_, pending);
    --(pending->call.kind == Kind::kSendRecv ? batches_ : collectives_);
  }
  return status;
}

void Communicator::reached(const std::shared_ptr<Pending>& pending) {
  std::lock_guard lock(mutex_);
  pending->is_reached = true;
  if (!queue_.empty() && queue_.front() == pending) changed_.notify_all();
}

void Communicator::work() {
  pthread_setname_np(pthread_self(), "drydock-hccl");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [&] { return !is_at_once_ && (is_closed_ || (!queue_.empty() && queue_.front()->is_reached)); });
    if (is_closed_) return drop_queue(lock);
    const std::shared_ptr<Pending> pending = queue_.front();
    lock.unlock();
    execute(*pending);
    pending->is_over.store(true, std::memory_order_release);
    pending->stream.resume();
    lock.lock();
    queue_.pop_front();
    changed_.notify_all();
  }
}

/// Streams that come to these calls later find them over.
void Communicator::drop_queue(std::unique_lock<std::mutex>& lock) {
  const std::deque<std::shared_ptr<Pending>> dropped = std::exchange(queue_, {});
  changed_.notify_all();
  lock.unlock();
  for (const std::shared_ptr<Pending>& pending : dropped) {
    pending->outcome = failure_for(pending->call);
    pending->is_over.store(true, std::memory_order_release);
    pending->stream.resume();
  }
}

/// Tells the other ranks of the call. False if it has failed.
bool Communicator::begin(Pending& pending) {
  const Collective& call = pending.call;
  pending.outcome = failure_for(call);
  if (!pending.outcome.is_ok()) return false;
  meeting_.begin(call);
  if (pending.is_dropped.load()) {
    pending.outcome =
        Status::error(code::ACL_ERROR_RT_STREAM_ABORT, fmt::format("{} was dropped with its stream.", meeting_.what()));
  } else if (call.kind != Kind::kSendRecv) {
    pending.outcome = arrive(meeting_, call);
  }
  if (!pending.outcome.is_ok()) keep_failure(pending.outcome);
  return pending.outcome.is_ok();
}

/// Carries out the first call of the queue on this thread; false if that takes longer than a moment.
bool Communicator::try_at_once(Pending& pending) {
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    is_at_once_ = true;
  }
  const bool is_over = end_at_once(pending);
  std::lock_guard lock(mutex_);
  is_at_once_ = false;
  if (is_over) queue_.pop_front();
  if (is_over) pending.is_over.store(true, std::memory_order_release);
  changed_.notify_all();
  return is_over;
}

bool Communicator::end_at_once(Pending& pending) {
  // Where ranks don't come together, the launch does not wait for them again and again.
  constexpr int kMostVainWaits = 3;
  constexpr int kRetryEach = 8;
  if (!begin(pending)) return true;
  pending.has_arrived = true;
  const bool waits = vain_waits_ < kMostVainWaits || vain_waits_ % kRetryEach == 0;
  if (!can_end_at_once(meeting_, pending.call, waits)) {
    ++vain_waits_;
    return false;
  }
  vain_waits_ = 0;
  execute(pending);
  return true;
}

void Communicator::execute(Pending& pending) {
  if (!pending.has_arrived && !begin(pending)) return;
  const Collective& call = pending.call;
  pending.outcome =
      call.kind == Kind::kSendRecv ? exchange_messages(meeting_, windows_, call) : exchange(meeting_, windows_, call);
  if (!pending.outcome.is_ok()) keep_failure(pending.outcome);
}

void Communicator::keep_failure(const Status& failure) {
  {
    std::lock_guard lock(mutex_);
    failure_code_ = failure.code();
    failure_ = failure.message();
  }
  RankPlace& place = segment_->place(segment_->rank());
  const size_t length = std::min(failure.message().size(), sizeof place.failure - 1);
  failure.message().copy(place.failure, length);
  place.failure[length] = '\0';
  place.has_failed.store(1, std::memory_order_release);
  segment_->announce();
}

Status Communicator::failure_for(const Collective& call) const {
  std::lock_guard lock(mutex_);
  if (failure_code_ == 0) return Status::ok();
  return Status::error(failure_code_,
                       fmt::format("{} #{} ({}) can't run: {} failed before: {}", describe(call), call.sequence,
                                   device::line_text(call.line), settings_.name, failure_));
}

Status Communicator::async_error() const {
  std::lock_guard lock(mutex_);
  if (failure_code_ != code::ACL_ERROR_RT_SUSPECT_REMOTE_ERROR) return Status::ok();
  return Status::error(code::HCCL_E_REMOTE, failure_);
}

void Communicator::destroy() {
  std::unique_lock lock(mutex_);
  // What its stream has not reached may never be: it waits for work that is behind this very call.
  const auto is_idle = [&] { return !is_at_once_ && (queue_.empty() || !queue_.front()->is_reached); };
  changed_.wait_for(lock, kGrace, is_idle);
  stop_.store(true, std::memory_order_release);
  is_closed_ = true;
  if (failure_code_ == 0) {
    failure_code_ = code::ACL_ERROR_RT_STREAM_ABORT;
    failure_ = "it was destroyed";
  }
  changed_.notify_all();
  changed_.wait_for(lock, kGrace, [&] { return queue_.empty(); });
  buffers_ = nullptr;
  lock.unlock();
  segment_->place(segment_->rank()).is_out.store(1, std::memory_order_release);
  segment_->announce();
}

Status find_communicator(std::string_view entry, const void* handle, std::shared_ptr<Communicator>& found) {
  CommunicatorTable& table = CommunicatorTable::get();
  std::lock_guard lock(table.mutex);
  if (const Slot* slot = table.handles.find(handle)) {
    found = slot->communicator;
    return Status::ok();
  }
  const char* why = handle == nullptr                     ? ": the communicator is null."
                    : table.handles.was_destroyed(handle) ? ": the communicator was destroyed before."
                                                          : ": the handle is not that of a communicator.";
  return Status::error(handle == nullptr ? code::HCCL_E_PTR : code::HCCL_E_PARA, std::string(entry) + why);
}

Status publish_communicator(std::string_view entry, std::shared_ptr<Communicator> communicator, void*& handle) {
  CommunicatorTable& table = CommunicatorTable::get();
  std::lock_guard lock(table.mutex);
  handle = table.handles.create(Slot{std::move(communicator)});
  if (handle != nullptr) return Status::ok();
  return Status::error(code::HCCL_E_MEMORY, std::string(entry) + ": no communicator is left in this process.");
}

Status destroy_communicator(std::string_view entry, const void* handle) {
  std::shared_ptr<Communicator> found;
  DRYDOCK_RETURN_IF_ERROR(find_communicator(entry, handle, found));
  {
    CommunicatorTable& table = CommunicatorTable::get();
    std::lock_guard lock(table.mutex);
    table.handles.destroy(handle);
  }
  found->destroy();
  return Status::ok();
}

}  // namespace drydock::comm
