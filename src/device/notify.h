#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/status.h"

namespace drydock::device {

class Stream;

/// A flag between streams: recorded by one, waited for and taken back by another. Unlike an event it has no history:
/// one record feeds one wait, and a second record before the wait changes nothing.
///
/// Every function may be called from any thread.
class DRYDOCK_API Notify {
 public:
  Notify(const Notify&) = delete;
  Notify& operator=(const Notify&) = delete;

  /// Unique in the process, never used again.
  uint32_t id() const noexcept { return id_; }
  int32_t device() const noexcept { return device_; }

  /// Raises the flag in the order of `stream`.
  Status record(Stream& stream);
  /// Holds `stream` until the flag is up, then takes it down.
  Status wait_and_reset(Stream& stream);

 private:
  friend class NotifyTable;
  friend class NotifyWork;
  Notify() = default;

  void raise(Stream& stream);
  bool take_or_wake(Stream& stream);

  std::mutex mutex_;
  uint32_t id_ = 0;
  int32_t device_ = -1;
  bool destroyed_ = true;
  bool is_raised_ = false;
  int pending_uses_ = 0;
  std::vector<Stream*> to_wake_;
};

/// A new notify of `device`. 207009 when ids run out.
DRYDOCK_API Status create_notify(std::string_view entry, int32_t device, void*& handle);
/// The handle is stale from then on. Waits that are pending are let go.
DRYDOCK_API Status destroy_notify(std::string_view entry, const void* handle);
/// 107000 with a sentence for null, stale and foreign handles.
DRYDOCK_API Status find_notify(std::string_view entry, const void* handle, Notify*& notify);

}  // namespace drydock::device
