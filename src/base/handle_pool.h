#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace drydock {

/// Home of one kind of handle (stream, event, tensor, executor...). A handle is the address of a slot in a
/// reserved range of address space, so that any pointer a client passes can be told apart without touching it:
/// in the range, on a slot boundary, and live. A handle of another kind or a stale one is never dereferenced.
///
/// Thread-safe. `T` is constructed in `create` and destroyed in `destroy`; `find` gives no protection against a
/// concurrent `destroy` of the same handle (the vendor gives none either).
/// A pool lives as long as the process: make it a leaked singleton.
template <class T>
class HandlePool {
 public:
  /// `capacity`: most handles alive at once. Costs address space only.
  explicit HandlePool(size_t capacity) : capacity_(capacity) {
    void* range = mmap(nullptr, capacity * sizeof(Slot), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    slots_ = range == MAP_FAILED ? nullptr : static_cast<Slot*>(range);
  }
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  /// Null when all slots are live or no address space could be had.
  template <class... Args>
  T* create(Args&&... args) {
    Slot* slot = take();
    if (slot == nullptr) return nullptr;
    T* object = new (slot->storage) T(std::forward<Args>(args)...);
    slot->generation.fetch_add(1, std::memory_order_relaxed);
    slot->live.store(true, std::memory_order_release);
    return object;
  }

  /// The object behind `handle`, or null if it is not a live handle of this pool.
  T* find(const void* handle) const noexcept {
    Slot* slot = slot_of(handle);
    if (slot == nullptr || !slot->live.load(std::memory_order_acquire)) return nullptr;
    return std::launder(reinterpret_cast<T*>(slot->storage));
  }

  /// False if `handle` is not live. Of two threads that destroy the same handle one gets false.
  bool destroy(const void* handle) noexcept {
    Slot* slot = slot_of(handle);
    if (slot == nullptr || !slot->live.exchange(false, std::memory_order_acq_rel)) return false;
    std::launder(reinterpret_cast<T*>(slot->storage))->~T();
    std::lock_guard lock(mutex_);
    slot->next_free = free_;
    free_ = slot;
    --live_count_;
    return true;
  }

  /// Number of objects that have lived in the slot of the live `handle`, 0 if it is not live: tells a handle that was
  /// destroyed and given out again from the one that was seen before.
  uint64_t generation(const void* handle) const noexcept {
    Slot* slot = slot_of(handle);
    if (slot == nullptr || !slot->live.load(std::memory_order_acquire)) return 0;
    return slot->generation.load(std::memory_order_relaxed);
  }

  /// True if `handle` was once live and is no longer (its slot may not have been used again).
  bool was_destroyed(const void* handle) const noexcept {
    Slot* slot = slot_of(handle);
    return slot != nullptr && !slot->live.load(std::memory_order_acquire);
  }

  size_t live_count() const noexcept {
    std::lock_guard lock(mutex_);
    return live_count_;
  }

 private:
  struct alignas(64) Slot {
    alignas(T) unsigned char storage[sizeof(T)];
    Slot* next_free;
    std::atomic<uint64_t> generation;
    std::atomic<bool> live;
  };

  Slot* slot_of(const void* handle) const noexcept {
    const auto address = reinterpret_cast<uintptr_t>(handle);
    const auto begin = reinterpret_cast<uintptr_t>(slots_);
    if (slots_ == nullptr || address < begin) return nullptr;
    const uintptr_t offset = address - begin;
    if (offset % sizeof(Slot) != 0 || offset / sizeof(Slot) >= used_.load(std::memory_order_acquire)) return nullptr;
    return slots_ + offset / sizeof(Slot);
  }

  Slot* take() {
    std::lock_guard lock(mutex_);
    if (slots_ == nullptr) return nullptr;
    if (free_ != nullptr) {
      Slot* slot = free_;
      free_ = slot->next_free;
      ++live_count_;
      return slot;
    }
    const size_t used = used_.load(std::memory_order_relaxed);
    if (used == capacity_) return nullptr;
    used_.store(used + 1, std::memory_order_release);
    ++live_count_;
    return slots_ + used;
  }

  const size_t capacity_;
  Slot* slots_ = nullptr;
  std::atomic<size_t> used_{0};
  Slot* free_ = nullptr;
  size_t live_count_ = 0;
  mutable std::mutex mutex_;
};

}  // namespace drydock
