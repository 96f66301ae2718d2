#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "device/address_space.h"
#include "device/heap.h"
#include "device/memory_account.h"
#include "device/profile.h"
#include "device/virtual_memory.h"

namespace drydock::device {

/// One virtual device: its memory and what this process has open on it. Opened at the first use, lives as long as the
/// process. Thread-safe.
class DRYDOCK_API Device {
 public:
  /// The client's device `number`, opened if it is not yet. 107001 with a sentence if there is none, the settings'
  /// failure if the environment makes no sense, 507000 if the host has no address space. `entry` names the door.
  static Status open(std::string_view entry, int32_t number, Device*& device);
  /// The device if it was opened, else null. Lock-free.
  static Device* find(int32_t number) noexcept;

  int32_t number() const noexcept { return number_; }
  const DieMemory& die() const noexcept { return die_; }
  MemoryAccount& account() noexcept { return account_; }
  Heap& heap() noexcept { return heap_; }
  VirtualMemory& virtual_memory() noexcept { return virtual_memory_; }

  /// A context was made or destroyed: the first one takes what a process costs on the device, the last one gives it
  /// back, with all memory that is still allocated. 207001 if the device is full.
  Status add_context();
  void remove_context();

  /// As AddressSpace::share. The caller holds MemoryChanging.
  bool share(uint64_t address, uint64_t size_bytes) noexcept { return space_->share(address, size_bytes); }

  /// Peer access from this device to `peer`. Each returns false if it was so already (contract M4).
  bool enable_peer(int32_t peer) noexcept;
  bool disable_peer(int32_t peer) noexcept;

 private:
  Device(int32_t number, const DieMemory& die, std::unique_ptr<AddressSpace> space);

  const int32_t number_;
  const DieMemory& die_;
  std::unique_ptr<AddressSpace> space_;
  MemoryAccount account_;
  Heap heap_;
  VirtualMemory virtual_memory_;
  std::mutex contexts_mutex_;
  int32_t contexts_ = 0;
  std::atomic<uint32_t> peers_{0};  ///< bit per device
};

/// Lets other processes of this machine map the device bytes of [address, address + size), from now on. Nothing if they
/// are not allocated, or the host does not let it. Takes MemoryChanging where they are not shared yet.
DRYDOCK_API std::optional<SharedPlace> share_memory(uint64_t address, uint64_t size_bytes) noexcept;

/// 107001 with a sentence unless `number` is one of the client's devices.
DRYDOCK_API Status check_device(std::string_view entry, int64_t number);

/// Takes bytes of `device` that belong to no allocation of the client ("hccl"), and records them. 207001 if they are
/// not free. The device must be open.
DRYDOCK_API Status charge_overhead(int32_t device, std::string_view what, uint64_t size_bytes);
DRYDOCK_API void release_overhead(int32_t device, uint64_t size_bytes) noexcept;

}  // namespace drydock::device
