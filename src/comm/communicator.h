#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "comm/collective.h"
#include "comm/meeting.h"
#include "comm/peer_windows.h"
#include "comm/segment.h"
#include "comm/settings.h"
#include "device/stream.h"

namespace drydock::comm {

/// One rank's end of a communicator.
///
/// *Order.* Calls run in the order in which they were made (contract K6), each when its stream reaches it, on a thread
/// of the communicator's own: a rank that waits for others in one communicator goes on in the others. A small call that
/// finds nothing before it is carried out by the thread that makes it, if the others come within microseconds: waking
/// another thread takes longer than the call.
///
/// *Failures.* The first one ends the communicator: the stream of the call fails with it, as do all later calls, and
/// the other ranks are told.
///
/// *Threads.* Every function may be called from any thread; `destroy` once.
class DRYDOCK_API Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// `segment` has all its ranks in. `buffers` is what the communicator holds of its device.
  Communicator(std::unique_ptr<Segment> segment, int32_t device, CommunicatorSettings settings,
               std::shared_ptr<void> buffers);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t rank() const noexcept { return segment_->rank(); }
  uint32_t ranks() const noexcept { return segment_->ranks(); }
  int32_t device() const noexcept { return device_; }
  const std::string& name() const noexcept { return settings_.name; }
  const CommunicatorSettings& settings() const noexcept { return settings_; }
  const Segment& segment() const noexcept { return *segment_; }

  /// Puts a call into the order of its stream and of the communicator.
  Status submit(Collective call, device::Stream& stream);

  /// The failure that clients are told by HcclGetCommAsyncError: 21 (HCCL_E_REMOTE) once another rank is gone.
  Status async_error() const;

  /// Lets calls that all ranks have made come to their end, for a short time, and drops the others.
  void destroy();

 private:
  struct Pending;
  class CollectiveWork;

  void reached(const std::shared_ptr<Pending>& pending);
  void work();
  void drop_queue(std::unique_lock<std::mutex>& lock);
  bool try_at_once(Pending& pending);
  bool end_at_once(Pending& pending);
  bool begin(Pending& pending);
  void execute(Pending& pending);
  void keep_failure(const Status& failure);
  Status failure_for(const Collective& call) const;

  const std::unique_ptr<Segment> segment_;
  const int32_t device_;
  const CommunicatorSettings settings_;
  std::atomic<bool> stop_{false};
  Meeting meeting_;
  PeerWindows windows_;  ///< of the thread that carries calls out

  std::mutex submit_;         ///< two calls enter the communicator's order and their stream's alike
  mutable std::mutex mutex_;  ///< guards what follows
  std::shared_ptr<void> buffers_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending>> queue_;
  uint64_t collectives_ = 0;
  uint64_t batches_ = 0;
  int32_t failure_code_ = 0;
  std::string failure_;
  bool has_worker_ = false;
  int vain_waits_ = 0;  ///< calls in a row whose thread waited a moment, and in vain; guarded by its stream's order
  bool is_at_once_ = false;  ///< the thread that made the first call of the queue carries it out
  bool is_closed_ = false;
};

/// The communicator behind a client's handle; 1 (HCCL_E_PARA) with a sentence for a null, stale or foreign one.
DRYDOCK_API Status find_communicator(std::string_view entry, const void* handle, std::shared_ptr<Communicator>& found);
/// Gives the client a handle.
DRYDOCK_API Status publish_communicator(std::string_view entry, std::shared_ptr<Communicator> communicator,
                                        void*& handle);
/// The handle is stale from then on.
DRYDOCK_API Status destroy_communicator(std::string_view entry, const void* handle);

}  // namespace drydock::comm
