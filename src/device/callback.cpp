#include "device/callback.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/stream.h"
#include "races/stream_check.h"

namespace drydock::device {
namespace {

/// One call of a client's function. Shared by the stream that waits for it and the thread that runs it: either may be
/// gone before the other.
struct HostCall {
  enum class State { kWaiting, kRunning, kOver };

  HostCall(HostFunction function, void* argument, Stream& stream)
      : function(function), argument(argument), stream(stream) {}

  void run() {
    State waiting = State::kWaiting;
    if (!state.compare_exchange_strong(waiting, State::kRunning)) return;
    if (races::is_on()) [[unlikely]]
      races::host_waited_for_stream(stream.id());
    function(argument);
    state.store(State::kOver);
    stream.resume();
  }
  /// Never runs after this, unless it runs already.
  void drop() noexcept {
    State waiting = State::kWaiting;
    state.compare_exchange_strong(waiting, State::kOver);
  }
  bool is_over() const noexcept { return state.load() == State::kOver; }

  const HostFunction function;
  void* const argument;
  Stream& stream;  // streams are recycled, never freed
  std::atomic<State> state{State::kWaiting};
};

/// Calls that wait for one thread: a client's that subscribed, or one of the runtime.
class CallQueue {
 public:
  void post(std::shared_ptr<HostCall> call) {
    {
      std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    posted_.notify_one();
  }

  /// Null when the time ran out or the queue was closed.
  std::shared_ptr<HostCall> take(int32_t timeout_ms) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !calls_.empty() || closed_; };
    if (timeout_ms < 0) {
      posted_.wait(lock, ready);
    } else {
      posted_.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready);
    }
    if (calls_.empty()) return nullptr;
    std::shared_ptr<HostCall> call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }

  std::vector<std::shared_ptr<HostCall>> drop_calls_of(Stream& stream) {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<HostCall>> dropped;
    std::deque<std::shared_ptr<HostCall>> kept;
    for (auto& call : calls_) {
      if (&call->stream == &stream) {
        call->drop();
        dropped.push_back(std::move(call));
      } else {
        kept.push_back(std::move(call));
      }
    }
    calls_ = std::move(kept);
    return dropped;
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    posted_.notify_all();
  }

  int streams = 0;  ///< subscribed; guarded by the table

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::shared_ptr<HostCall>> calls_;
  bool closed_ = false;
};

/// Holds its stream until the call is over.
class BlockingCall final : public DeferredWork {
 public:
  BlockingCall(std::shared_ptr<HostCall> call, std::shared_ptr<CallQueue> queue)
      : call_(std::move(call)), queue_(std::move(queue)) {}
  bool is_ready() override {
    if (queue_ != nullptr) std::exchange(queue_, nullptr)->post(call_);
    return call_->is_over();
  }
  Status run() override { return Status::ok(); }
  void dropped() noexcept override { call_->drop(); }

 private:
  std::shared_ptr<HostCall> call_;
  std::shared_ptr<CallQueue> queue_;  ///< null once the call was posted
};

struct CallbackTable {
  static CallbackTable& get() {
    static CallbackTable& table = *new CallbackTable;
    return table;
  }

  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<CallQueue>> queue_of_thread;
  std::unordered_map<const Stream*, uint64_t> thread_of_stream;
  std::unordered_map<const Stream*, std::shared_ptr<CallQueue>> runtime_queue_of_stream;
};

std::string name_of(const Stream& stream) { return "stream " + std::to_string(stream.id()); }

void run_runtime_thread(const std::shared_ptr<CallQueue>& queue, Context* context, uint32_t stream_id) {
  pthread_setname_np(pthread_self(), ("drydock-host-" + std::to_string(stream_id)).substr(0, 15).c_str());
  // Host functions find the context of their stream, as on a thread of the vendor's runtime.
  static_cast<void>(set_current_context(context));
  while (const std::shared_ptr<HostCall> call = queue->take(-1)) call->run();
}

Status runtime_queue(std::string_view entry, Stream& stream, std::shared_ptr<CallQueue>& queue) {
  CallbackTable& table = CallbackTable::get();
  std::lock_guard lock(table.mutex);
  std::shared_ptr<CallQueue>& known = table.runtime_queue_of_stream[&stream];
  if (known == nullptr) {
    auto fresh = std::make_shared<CallQueue>();
    try {
      // Detached: the process may end at any time, and must not wait for a client's function.
      std::thread(run_runtime_thread, fresh, &stream.context(), stream.id()).detach();
    } catch (const std::system_error& error) {
      table.runtime_queue_of_stream.erase(&stream);
      return Status::error(code::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                           std::string(entry) + ": no thread could be started for the host functions of " +
                               name_of(stream) + ": " + error.what());
    }
    known = std::move(fresh);
  }
  queue = known;
  return Status::ok();
}

}  // namespace

Status subscribe_callbacks(std::string_view entry, uint64_t thread_id, Stream& stream) {
  CallbackTable& table = CallbackTable::get();
  std::lock_guard lock(table.mutex);
  const auto [position, is_new] = table.thread_of_stream.emplace(&stream, thread_id);
  if (!is_new) {
    return Status::error(code::ACL_ERROR_RT_STREAM_SUBSCRIBE,
                         std::string(entry) + ": the callbacks of " + name_of(stream) + " run on thread " +
                             std::to_string(position->second) + " already. Call aclrtUnSubscribeReport before.");
  }
  std::shared_ptr<CallQueue>& queue = table.queue_of_thread[thread_id];
  if (queue == nullptr) queue = std::make_shared<CallQueue>();
  ++queue->streams;
  return Status::ok();
}

Status unsubscribe_callbacks(std::string_view entry, uint64_t thread_id, Stream& stream) {
  CallbackTable& table = CallbackTable::get();
  std::vector<std::shared_ptr<HostCall>> dropped;
  {
    std::lock_guard lock(table.mutex);
    const auto position = table.thread_of_stream.find(&stream);
    if (position == table.thread_of_stream.end() || position->second != thread_id) {
      return Status::error(code::ACL_ERROR_RT_STREAM_SUBSCRIBE, std::string(entry) + ": the callbacks of " +
                                                                    name_of(stream) + " do not run on thread " +
                                                                    std::to_string(thread_id) + ".");
    }
    table.thread_of_stream.erase(position);
    const auto queue = table.queue_of_thread.find(thread_id);
    dropped = queue->second->drop_calls_of(stream);
    if (--queue->second->streams == 0) {
      queue->second->close();
      table.queue_of_thread.erase(queue);
    }
  }
  if (!dropped.empty()) stream.resume();
  return Status::ok();
}

Status process_callbacks(std::string_view entry, int32_t timeout_ms) {
  if (timeout_ms == 0 || timeout_ms < -1) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": the timeout is " +
                                                               std::to_string(timeout_ms) +
                                                               " ms. It is -1 (wait for ever) or above 0.");
  }
  std::shared_ptr<CallQueue> queue;
  {
    CallbackTable& table = CallbackTable::get();
    std::lock_guard lock(table.mutex);
    for (const uint64_t id : {static_cast<uint64_t>(pthread_self()), static_cast<uint64_t>(gettid())}) {
      if (const auto known = table.queue_of_thread.find(id); known != table.queue_of_thread.end()) {
        queue = known->second;
        break;
      }
    }
  }
  if (queue == nullptr) {
    return Status::error(code::ACL_ERROR_RT_THREAD_SUBSCRIBE,
                         std::string(entry) +
                             ": no stream gives its callbacks to this thread. Call "
                             "aclrtSubscribeReport with this thread's id before.");
  }
  const std::shared_ptr<HostCall> call = queue->take(timeout_ms);
  if (call == nullptr) {
    return Status::error(code::ACL_ERROR_RT_REPORT_TIMEOUT, std::string(entry) + ": no callback came in " +
                                                                std::to_string(timeout_ms) +
                                                                " ms. Callers that poll ignore this.");
  }
  call->run();
  return Status::ok();
}

Status launch_callback(std::string_view entry, Stream& stream, HostFunction function, void* argument, bool blocks) {
  std::shared_ptr<CallQueue> queue;
  {
    CallbackTable& table = CallbackTable::get();
    std::lock_guard lock(table.mutex);
    const auto thread = table.thread_of_stream.find(&stream);
    if (thread != table.thread_of_stream.end()) queue = table.queue_of_thread[thread->second];
  }
  if (queue == nullptr) {
    return Status::error(code::ACL_ERROR_RT_STREAM_NO_CB_REG,
                         std::string(entry) + ": no thread runs the callbacks of " + name_of(stream) +
                             ". Call aclrtSubscribeReport before.");
  }
  auto call = std::make_shared<HostCall>(function, argument, stream);
  if (blocks) return stream.submit_deferred(std::make_unique<BlockingCall>(std::move(call), std::move(queue)));
  return stream.submit([call, queue] {
    queue->post(call);
    return Status::ok();
  });
}

Status launch_host_function(std::string_view entry, Stream& stream, HostFunction function, void* argument) {
  std::shared_ptr<CallQueue> queue;
  DRYDOCK_RETURN_IF_ERROR(runtime_queue(entry, stream, queue));
  return stream.submit_deferred(
      std::make_unique<BlockingCall>(std::make_shared<HostCall>(function, argument, stream), std::move(queue)));
}

void forget_callbacks(Stream& stream) noexcept {
  CallbackTable& table = CallbackTable::get();
  std::lock_guard lock(table.mutex);
  if (const auto runtime = table.runtime_queue_of_stream.find(&stream);
      runtime != table.runtime_queue_of_stream.end()) {
    runtime->second->drop_calls_of(stream);
    runtime->second->close();
    table.runtime_queue_of_stream.erase(runtime);
  }
  const auto thread = table.thread_of_stream.find(&stream);
  if (thread == table.thread_of_stream.end()) return;
  if (const auto queue = table.queue_of_thread.find(thread->second); queue != table.queue_of_thread.end()) {
    queue->second->drop_calls_of(stream);
    if (--queue->second->streams == 0) {
      queue->second->close();
      table.queue_of_thread.erase(queue);
    }
  }
  table.thread_of_stream.erase(thread);
}

}  // namespace drydock::device
