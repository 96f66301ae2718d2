#include "device/notify.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/generated/error_codes.h"
#include "base/handle_pool.h"
#include "device/stream.h"
#include "races/stream_check.h"

namespace drydock::device {
namespace {

/// Notifies alive in the process at once (source: the vendor's manual gives 8,192 a device; 16 devices).
constexpr size_t kMaxNotifies = size_t{16} * 8192;

}  // namespace

/// All notifies of the process. Objects are recycled once they are destroyed and nothing pending refers to them.
class NotifyTable {
 public:
  static NotifyTable& get() {
    static NotifyTable& table = *new NotifyTable;
    return table;
  }

  Notify* find(const void* handle) const noexcept {
    Slot* slot = handles_.find(handle);
    return slot == nullptr ? nullptr : slot->notify;
  }
  bool was_destroyed(const void* handle) const noexcept { return handles_.was_destroyed(handle); }

  Status create(std::string_view entry, int32_t device, void*& handle) {
    std::lock_guard lock(mutex_);
    Notify* notify = nullptr;
    if (free_.empty()) {
      notify = new Notify;
    } else {
      notify = free_.back();
      free_.pop_back();
    }
    Slot* slot = handles_.create(Slot{notify});
    if (slot == nullptr) {
      free_.push_back(notify);
      return Status::error(code::ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
                           std::string(entry) + ": this process holds " + std::to_string(kMaxNotifies) +
                               " notifies, which is all it can. Destroy notifies after use.");
    }
    std::lock_guard notify_lock(notify->mutex_);
    notify->id_ = next_id_++;
    notify->device_ = device;
    notify->destroyed_ = false;
    notify->is_raised_ = false;
    handle = slot;
    return Status::ok();
  }

  bool destroy(const void* handle) {
    std::vector<Stream*> to_wake;
    {
      std::lock_guard lock(mutex_);
      Notify* notify = find(handle);
      if (notify == nullptr || !handles_.destroy(handle)) return false;
      std::lock_guard notify_lock(notify->mutex_);
      notify->destroyed_ = true;
      to_wake = std::exchange(notify->to_wake_, {});
      if (notify->pending_uses_ == 0) free_.push_back(notify);
    }
    for (Stream* stream : to_wake) stream->resume();
    return true;
  }

  void release(Notify& notify) {
    std::lock_guard lock(mutex_);
    std::lock_guard notify_lock(notify.mutex_);
    if (--notify.pending_uses_ == 0 && notify.destroyed_) free_.push_back(&notify);
  }

 private:
  struct Slot {
    Notify* notify;
  };

  NotifyTable() : handles_(kMaxNotifies) {}

  std::mutex mutex_;
  HandlePool<Slot> handles_;
  std::vector<Notify*> free_;
  uint32_t next_id_ = 1;
};

/// A record or a wait in a stream's order.
class NotifyWork final : public DeferredWork {
 public:
  NotifyWork(Notify& notify, Stream& stream, bool is_wait) : notify_(notify), stream_(stream), is_wait_(is_wait) {
    std::lock_guard lock(notify.mutex_);
    ++notify.pending_uses_;
  }
  ~NotifyWork() override {
    {
      std::lock_guard lock(notify_.mutex_);
      std::erase(notify_.to_wake_, &stream_);
    }
    NotifyTable::get().release(notify_);
  }
  bool is_ready() override { return !is_wait_ || notify_.take_or_wake(stream_); }
  Status run() override {
    if (!is_wait_) notify_.raise(stream_);
    return Status::ok();
  }

 private:
  Notify& notify_;
  Stream& stream_;
  const bool is_wait_;
};

void Notify::raise(Stream& stream) {
  std::lock_guard lock(mutex_);
  is_raised_ = true;
  for (Stream* waiting : to_wake_) stream.resume_after_work(*waiting);
  to_wake_.clear();
}

bool Notify::take_or_wake(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (is_raised_ || destroyed_) {
    is_raised_ = false;
    return true;
  }
  if (std::find(to_wake_.begin(), to_wake_.end(), &stream) == to_wake_.end()) to_wake_.push_back(&stream);
  return false;
}

Status Notify::record(Stream& stream) {
  if (races::is_on()) [[unlikely]]
    races::notify_recorded(id_, stream.id());
  return stream.submit_deferred(std::make_unique<NotifyWork>(*this, stream, false));
}

Status Notify::wait_and_reset(Stream& stream) {
  if (races::is_on()) [[unlikely]]
    races::notify_waited_for(id_, stream.id());
  return stream.submit_deferred(std::make_unique<NotifyWork>(*this, stream, true));
}

Status create_notify(std::string_view entry, int32_t device, void*& handle) {
  return NotifyTable::get().create(entry, device, handle);
}

Status destroy_notify(std::string_view entry, const void* handle) {
  if (NotifyTable::get().destroy(handle)) return Status::ok();
  Notify* notify = nullptr;
  return find_notify(entry, handle, notify);
}

Status find_notify(std::string_view entry, const void* handle, Notify*& notify) {
  NotifyTable& table = NotifyTable::get();
  notify = table.find(handle);
  if (notify != nullptr) return Status::ok();
  const char* why = handle == nullptr             ? ": the notify is null."
                    : table.was_destroyed(handle) ? ": the notify was destroyed before."
                                                  : ": the handle is not that of a notify.";
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + why);
}

}  // namespace drydock::device
