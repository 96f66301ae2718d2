#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/status.h"

namespace drydock::device {

class Stream;

/// Bits of an event's flags (the vendor's numbers).
inline constexpr uint32_t kEventSync = 0x01;
inline constexpr uint32_t kEventCaptureProgress = 0x02;
inline constexpr uint32_t kEventTimeLine = 0x08;
inline constexpr uint32_t kEventDeviceUseOnly = 0x10;
inline constexpr uint32_t kEventExternal = 0x20;
inline constexpr uint32_t kEventIpc = 0x40;
/// What clients of the old creation function pass by default: everything but the sync bit, and it can be waited for.
inline constexpr uint32_t kEventDefault = 0x0E;

/// How an event was made, which decides what may be done with it.
enum class EventKind : uint8_t {
  kPlain,     ///< aclrtCreateEvent: no reset
  kWithFlag,  ///< aclrtCreateEventWithFlag: reset and wait status; a wait before any record waits for the next one
  kExtended,  ///< aclrtCreateEventExWithFlag: recorded again and again, no reset, no wait status (contracts G2, G10)
};

/// A point in a stream's order.
///
/// Each record is a point of its own: a wait belongs to the record that was submitted before it, whatever comes later
/// (contract G2). An event may be destroyed while records and waits of it are pending; they stay valid (contract G4).
///
/// Times are the device's clock at the moment the stream reached the record. Until the cost model exists that is the
/// host's monotonic clock, so elapsed times are this machine's, not a 910C's.
///
/// Every function may be called from any thread.
class DRYDOCK_API Event {
 public:
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  EventKind kind() const noexcept { return kind_; }
  uint32_t flags() const noexcept { return flags_; }
  /// Unique in the process, never used again.
  uint32_t id() const noexcept { return id_; }

  /// Puts a record on `stream`.
  Status record(Stream& stream);
  /// What is submitted to `stream` from now on waits for the last record. 107000 if the flags do not allow it.
  Status wait(std::string_view entry, Stream& stream);
  /// Back to never recorded, in the order of `stream`. 107000 unless made by aclrtCreateEventWithFlag with the sync
  /// bit.
  Status reset(std::string_view entry, Stream& stream);

  /// True if the last record was reached. Never recorded counts as reached for kExtended, as not reached for the rest.
  bool is_recorded() const;
  /// True if no stream waits for it.
  bool is_waited_out() const;
  /// Waits for the last record. `timeout_ms` -1 waits for ever, else 507047 when it runs out.
  Status synchronize(int32_t timeout_ms = -1);
  /// When the last reached record was reached. 107006 if there is none, or the event keeps no time.
  Status time_ns(std::string_view entry, uint64_t& time_ns) const;

 private:
  friend class EventTable;
  friend class RecordWork;
  friend class WaitWork;
  Event() = default;

  void begin(uint32_t id, EventKind kind, uint32_t flags);
  uint64_t begin_record();
  void reach(uint64_t record, uint64_t now_ns, Stream& stream);
  void cancel_record(uint64_t record);
  bool is_reached(uint64_t record) const;
  bool is_reached_or_wake(uint64_t record, Stream& stream);
  bool is_idle() const { return outstanding_.empty() && pending_waits_ == 0; }

  mutable std::mutex mutex_;
  std::condition_variable reached_;
  EventKind kind_ = EventKind::kPlain;
  uint32_t flags_ = 0;
  uint32_t id_ = 0;
  bool destroyed_ = true;
  uint64_t records_ = 0;               ///< submitted
  uint64_t submitted_reset_ = 0;       ///< the last record that a submitted reset undid
  uint64_t reached_reset_ = 0;         ///< the last record that an executed reset undid
  std::vector<uint64_t> outstanding_;  ///< records that were not reached yet; empty unless a stream is held up
  uint64_t timed_record_ = 0;          ///< the record that `time_ns_` belongs to; 0 = none
  uint64_t time_ns_ = 0;
  int pending_waits_ = 0;
  std::vector<Stream*> to_wake_;
};

/// A new event. 207007 when ids run out, 200001 for kinds that are not modelled (sharing between processes), 107000
/// for flags that do not exist.
DRYDOCK_API Status create_event(std::string_view entry, EventKind kind, uint32_t flags, void*& handle);
/// The handle is stale from then on. Never waits (contract G4).
DRYDOCK_API Status destroy_event(std::string_view entry, const void* handle);
/// 107000 with a sentence for null, stale and foreign handles.
DRYDOCK_API Status find_event(std::string_view entry, const void* handle, Event*& event);
/// Milliseconds from one event to another. 107006 without two times, 107007 if the end was reached before the start.
DRYDOCK_API Status elapsed_ms(std::string_view entry, const Event& start, const Event& end, float& elapsed_ms);
/// Events that the client holds.
DRYDOCK_API size_t event_count() noexcept;

}  // namespace drydock::device
