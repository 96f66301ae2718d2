#include "device/event.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/generated/error_codes.h"
#include "base/handle_pool.h"
#include "device/stream.h"
#include "races/stream_check.h"

namespace drydock::device {
namespace {

constexpr uint32_t kKnownFlags =
    kEventSync | kEventCaptureProgress | 0x04 | kEventTimeLine | kEventDeviceUseOnly | kEventExternal | kEventIpc;

/// Extended events have no hardware limit; a leak of millions should still be told apart from one of thousands.
constexpr size_t kMaxEvents = size_t{1} << 22;

std::string name_of(const Event& event) { return "event " + std::to_string(event.id()); }

}  // namespace

/// All events of the process. Objects are recycled once they are destroyed and nothing refers to them.
class EventTable {
 public:
  static EventTable& get() {
    static EventTable& table = *new EventTable;
    return table;
  }

  Event* find(const void* handle) const noexcept {
    Slot* slot = handles_.find(handle);
    return slot == nullptr ? nullptr : slot->event;
  }
  bool was_destroyed(const void* handle) const noexcept { return handles_.was_destroyed(handle); }
  size_t live_count() const noexcept { return handles_.live_count(); }

  Status create(std::string_view entry, EventKind kind, uint32_t flags, void*& handle) {
    std::lock_guard lock(mutex_);
    Event* event = nullptr;
    if (free_.empty()) {
      event = new Event;
    } else {
      event = free_.back();
      free_.pop_back();
    }
    Slot* slot = handles_.create(Slot{event});
    if (slot == nullptr) {
      free_.push_back(event);
      return Status::error(code::ACL_ERROR_RT_NO_EVENT_RESOURCE,
                           std::string(entry) + ": this process holds " + std::to_string(handles_.live_count()) +
                               " events, which is all it can. Destroy events after use.");
    }
    event->begin(next_id_++, kind, flags);
    handle = slot;
    return Status::ok();
  }

  bool destroy(const void* handle) {
    std::vector<Stream*> to_wake;
    {
      std::lock_guard lock(mutex_);
      Event* event = find(handle);
      if (event == nullptr || !handles_.destroy(handle)) return false;
      std::lock_guard event_lock(event->mutex_);
      event->destroyed_ = true;
      if (races::is_on()) [[unlikely]]
        races::event_ended(event->id_);
      // Who waits for a record that was not even submitted is let go: it can't come any more.
      to_wake = event->to_wake_;
      if (event->is_idle()) free_.push_back(event);
    }
    for (Stream* stream : to_wake) stream->resume();
    return true;
  }

  /// To be called when the last pending use of a destroyed event went.
  void recycle(Event& event) {
    std::lock_guard lock(mutex_);
    free_.push_back(&event);
  }

 private:
  struct Slot {
    Event* event;
  };

  EventTable() : handles_(kMaxEvents) {}

  std::mutex mutex_;
  HandlePool<Slot> handles_;
  std::vector<Event*> free_;
  uint32_t next_id_ = 1;
};

/// A record behind something pending.
class RecordWork final : public DeferredWork {
 public:
  RecordWork(Event& event, uint64_t record, Stream& stream) : event_(event), record_(record), stream_(stream) {}
  Status run() override {
    event_.reach(record_, device_now_ns(), stream_);
    return Status::ok();
  }
  // Nobody may wait for ever for a record that will not come.
  void dropped() noexcept override { event_.reach(record_, device_now_ns(), stream_); }

 private:
  Event& event_;
  uint64_t record_;
  Stream& stream_;
};

/// Holds its stream until a record was reached.
class WaitWork final : public DeferredWork {
 public:
  WaitWork(Event& event, uint64_t record, Stream& stream) : event_(event), record_(record), stream_(stream) {}
  ~WaitWork() override {
    bool is_last = false;
    {
      std::lock_guard lock(event_.mutex_);
      --event_.pending_waits_;
      std::erase(event_.to_wake_, &stream_);
      is_last = event_.destroyed_ && event_.is_idle();
    }
    if (is_last) EventTable::get().recycle(event_);
  }
  bool is_ready() override { return event_.is_reached_or_wake(record_, stream_); }
  Status run() override { return Status::ok(); }

 private:
  Event& event_;
  uint64_t record_;
  Stream& stream_;
};

void Event::begin(uint32_t id, EventKind kind, uint32_t flags) {
  std::lock_guard lock(mutex_);
  kind_ = kind;
  flags_ = flags;
  id_ = id;
  destroyed_ = false;
  records_ = 0;
  submitted_reset_ = 0;
  reached_reset_ = 0;
  timed_record_ = 0;
  time_ns_ = 0;
}

uint64_t Event::begin_record() {
  std::lock_guard lock(mutex_);
  outstanding_.push_back(++records_);
  return records_;
}

/// The stream did not take the record: it never was.
void Event::cancel_record(uint64_t record) {
  std::lock_guard lock(mutex_);
  std::erase(outstanding_, record);
  if (record == records_) --records_;
}

void Event::reach(uint64_t record, uint64_t now_ns, Stream& stream) {
  bool is_last = false;
  {
    std::lock_guard lock(mutex_);
    std::erase(outstanding_, record);
    if (record >= timed_record_) {
      timed_record_ = record;
      time_ns_ = now_ns;
    }
    for (Stream* waiting : to_wake_) stream.resume_after_work(*waiting);
    to_wake_.clear();
    is_last = destroyed_ && is_idle();
  }
  reached_.notify_all();
  if (is_last) EventTable::get().recycle(*this);
}

bool Event::is_reached(uint64_t record) const {
  return record <= records_ && std::find(outstanding_.begin(), outstanding_.end(), record) == outstanding_.end();
}

bool Event::is_reached_or_wake(uint64_t record, Stream& stream) {
  std::lock_guard lock(mutex_);
  // An event that was destroyed before it was recorded will never be: nobody waits for it.
  if (is_reached(record) || (destroyed_ && record > records_)) return true;
  if (std::find(to_wake_.begin(), to_wake_.end(), &stream) == to_wake_.end()) to_wake_.push_back(&stream);
  return false;
}

Status Event::record(Stream& stream) {
  const uint64_t number = begin_record();
  Status status = stream.submit_or_defer(
      [&] {
        reach(number, device_now_ns(), stream);
        return Status::ok();
      },
      [&] { return std::make_unique<RecordWork>(*this, number, stream); });
  if (!status.is_ok()) cancel_record(number);
  if (races::is_on() && status.is_ok()) [[unlikely]]
    races::event_recorded(id_, stream.id());
  return status;
}

Status Event::wait(std::string_view entry, Stream& stream) {
  if ((flags_ & kEventSync) == 0 && flags_ != kEventDefault && kind_ != EventKind::kPlain) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": " + name_of(*this) +
                                                               " was created with flags " + std::to_string(flags_) +
                                                               ", without ACL_EVENT_SYNC: no stream can wait for it.");
  }
  uint64_t number = 0;
  bool is_reached_now = false;
  bool is_recorded = false;
  {
    std::lock_guard lock(mutex_);
    is_recorded = records_ > submitted_reset_;
    if (!is_recorded && kind_ != EventKind::kWithFlag) return Status::ok();
    number = is_recorded ? records_ : records_ + 1;
    is_reached_now = is_reached(number);
    if (!is_reached_now) ++pending_waits_;
  }
  if (races::is_on()) [[unlikely]] {
    is_recorded ? races::event_waited_for(id_, stream.id()) : races::event_awaited(id_, stream.id());
  }
  // The common case: the record was reached, so the wait is only a place in the stream's order.
  if (is_reached_now) return stream.submit([] { return Status::ok(); });
  return stream.submit_deferred(std::make_unique<WaitWork>(*this, number, stream));
}

Status Event::reset(std::string_view entry, Stream& stream) {
  if (kind_ != EventKind::kWithFlag || (flags_ & kEventSync) == 0) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         std::string(entry) + ": " + name_of(*this) +
                             " can't be reset. Only events of aclrtCreateEventWithFlag with "
                             "ACL_EVENT_SYNC can; the others are recorded again without a reset.");
  }
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    number = submitted_reset_ = records_;
  }
  return stream.submit([this, number] {
    std::lock_guard lock(mutex_);
    reached_reset_ = std::max(reached_reset_, number);
    return Status::ok();
  });
}

bool Event::is_recorded() const {
  std::lock_guard lock(mutex_);
  if (records_ == reached_reset_) return kind_ == EventKind::kExtended;
  return is_reached(records_);
}

bool Event::is_waited_out() const {
  std::lock_guard lock(mutex_);
  return pending_waits_ == 0;
}

Status Event::synchronize(int32_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const uint64_t number = records_;
  const uint32_t id = id_;
  const auto done = [&] { return id_ != id || number == 0 || is_reached(number); };
  bool in_time = true;
  if (timeout_ms < 0) {
    reached_.wait(lock, done);
  } else {
    in_time = reached_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done);
  }
  if (in_time && races::is_on()) [[unlikely]]
    races::host_waited_for_event(id);
  if (in_time) return Status::ok();
  return Status::error(code::ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                       name_of(*this) + " was not reached after " + std::to_string(timeout_ms) + " ms.");
}

Status Event::time_ns(std::string_view entry, uint64_t& time_ns) const {
  std::lock_guard lock(mutex_);
  const std::string who = std::string(entry) + ": " + name_of(*this);
  if ((flags_ & kEventTimeLine) == 0 && kind_ != EventKind::kPlain) {
    return Status::error(
        code::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
        who + " was created with flags " + std::to_string(flags_) + ", without ACL_EVENT_TIME_LINE: it keeps no time.");
  }
  if (timed_record_ == 0)
    return Status::error(code::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, who + " was never recorded: it has no time.");
  if (!is_reached(records_)) {
    return Status::error(code::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                         who + " was not reached yet. Synchronize with it before its time is read.");
  }
  time_ns = time_ns_;
  return Status::ok();
}

Status create_event(std::string_view entry, EventKind kind, uint32_t flags, void*& handle) {
  if ((flags & ~kKnownFlags) != 0) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": the flags " + std::to_string(flags) +
                                                               " hold bits that no event flag has.");
  }
  if ((flags & (kEventIpc | kEventExternal)) != 0) {
    return Status::error(code::ACL_ERROR_API_NOT_SUPPORT,
                         std::string(entry) + ": the flags " + std::to_string(flags) +
                             " ask for an event that other processes or captured graphs share. Those are not "
                             "modelled; use ACL_EVENT_SYNC within one process.");
  }
  return EventTable::get().create(entry, kind, flags, handle);
}

Status destroy_event(std::string_view entry, const void* handle) {
  if (EventTable::get().destroy(handle)) return Status::ok();
  Event* event = nullptr;
  return find_event(entry, handle, event);
}

Status find_event(std::string_view entry, const void* handle, Event*& event) {
  EventTable& table = EventTable::get();
  event = table.find(handle);
  if (event != nullptr) [[likely]]
    return Status::ok();
  const char* why = handle == nullptr             ? ": the event is null."
                    : table.was_destroyed(handle) ? ": the event was destroyed before."
                                                  : ": the handle is not that of an event.";
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + why);
}

Status elapsed_ms(std::string_view entry, const Event& start, const Event& end, float& elapsed_ms) {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  DRYDOCK_RETURN_IF_ERROR(start.time_ns(entry, start_ns));
  DRYDOCK_RETURN_IF_ERROR(end.time_ns(entry, end_ns));
  if (end_ns < start_ns) {
    return Status::error(code::ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
                         std::string(entry) + ": " + name_of(end) + " was reached " +
                             std::to_string(start_ns - end_ns) + " ns before " + name_of(start) +
                             ". Are the two swapped?");
  }
  elapsed_ms = static_cast<float>(static_cast<double>(end_ns - start_ns) * 1e-6);
  return Status::ok();
}

size_t event_count() noexcept { return EventTable::get().live_count(); }

}  // namespace drydock::device
