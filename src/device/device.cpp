#include "device/device.h"

#include <utility>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/host_memory.h"
#include "device/process.h"
#include "device/settings.h"

namespace drydock::device {
namespace {

constinit std::atomic<Device*> open_devices[kMaxDevices];

std::mutex& opening() noexcept {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

}  // namespace

Status check_device(std::string_view entry, int64_t number) {
  DRYDOCK_RETURN_IF_ERROR(settings_status());
  const int32_t count = device_count();
  if (number >= 0 && number < count) return Status::ok();
  const std::string there_are = count == 0 ? "this process sees no device"
                                : count == 1
                                    ? "this process sees 1 device, number 0"
                                    : fmt::format("this process sees {} devices, numbers 0 to {}", count, count - 1);
  return Status::error(code::ACL_ERROR_RT_INVALID_DEVICEID,
                       fmt::format("{}: there is no device {}: {}. DRYDOCK_DEVICES (drydock run --devices N) says how "
                                   "many there are, ASCEND_RT_VISIBLE_DEVICES which of them are seen",
                                   entry, number, there_are));
}

Device::Device(int32_t number, const DieMemory& die, std::unique_ptr<AddressSpace> space)
    : number_(number),
      die_(die),
      space_(std::move(space)),
      account_(number, die),
      heap_(number, *space_, account_),
      virtual_memory_(number, *space_, account_) {}

Status Device::open(std::string_view entry, int32_t number, Device*& device) {
  DRYDOCK_RETURN_IF_ERROR(check_device(entry, number));
  device = find(number);
  if (device != nullptr) return Status::ok();
  std::lock_guard lock(opening());
  device = find(number);
  if (device != nullptr) return Status::ok();
  watch_forks();
  auto space = std::make_unique<AddressSpace>(number, settings().guard);
  DRYDOCK_RETURN_IF_ERROR(space->open());
  device = new Device(number, profile().die(physical_device(number)), std::move(space));
  open_devices[number].store(device, std::memory_order_release);
  return Status::ok();
}

Device* Device::find(int32_t number) noexcept {
  if (number < 0 || number >= kMaxDevices) return nullptr;
  return open_devices[number].load(std::memory_order_acquire);
}

std::optional<SharedPlace> share_memory(uint64_t address, uint64_t size_bytes) noexcept {
  const auto* bytes = reinterpret_cast<const void*>(address);
  if (std::optional<SharedPlace> place = shared_place_of(bytes, size_bytes)) return place;
  const MemoryChanging changing;
  Device* const device = Device::find(device_of(bytes));
  if (device == nullptr || !is_allocated(bytes, size_bytes) || !device->share(address, size_bytes)) return std::nullopt;
  return shared_place_of(bytes, size_bytes);
}

Status Device::add_context() {
  std::lock_guard lock(contexts_mutex_);
  if (contexts_ == 0) DRYDOCK_RETURN_IF_ERROR(account_.charge_overhead("context", die_.context_bytes));
  ++contexts_;
  return Status::ok();
}

void Device::remove_context() {
  std::lock_guard lock(contexts_mutex_);
  if (--contexts_ != 0) return;
  virtual_memory_.release_all();
  heap_.free_all();
  account_.release_overhead(die_.context_bytes);
}

bool Device::enable_peer(int32_t peer) noexcept {
  const uint32_t bit = uint32_t{1} << peer;
  return (peers_.fetch_or(bit) & bit) == 0;
}

bool Device::disable_peer(int32_t peer) noexcept {
  const uint32_t bit = uint32_t{1} << peer;
  return (peers_.fetch_and(~bit) & bit) != 0;
}

Status charge_overhead(int32_t number, std::string_view what, uint64_t size_bytes) {
  Device* const device = Device::find(number);
  if (device == nullptr) {
    return Status::error(code::ACL_ERROR_RT_CONTEXT_NULL, fmt::format("{} needs {} of device {}, which is not open",
                                                                      what, bytes_text(size_bytes), number));
  }
  return device->account().charge_overhead(what, size_bytes);
}

void release_overhead(int32_t number, uint64_t size_bytes) noexcept {
  if (Device* const device = Device::find(number)) device->account().release_overhead(size_bytes);
}

std::string describe_address(const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  Device* const device = Device::find(device_of(pointer));
  if (device == nullptr) {
    if (address == 0) return "null";
    if (const auto range = find_host_range(pointer)) {
      return fmt::format("{} host memory ({}, made at {})", describe(range->kind), bytes_text(range->size_bytes),
                         line_text(range->line));
    }
    return "not device memory";
  }
  for (const auto& live : {device->heap().find_live(address), device->virtual_memory().find_live(address)}) {
    if (!live) continue;
    const uint64_t offset = address - live->begin;
    return fmt::format("byte {} of the allocation of {} at {:#x}, made at {}", offset, bytes_text(live->size_bytes),
                       live->begin, line_text(live->allocated_line));
  }
  const auto before = device->heap().find_before(address);
  const auto behind = [&] {
    return fmt::format("{} bytes behind the end of the allocation of {} at {:#x}, made at {}",
                       address - before->begin - before->size_bytes, bytes_text(before->size_bytes), before->begin,
                       line_text(before->allocated_line));
  };
  if (before && address / kSlotBytes == (before->begin + before->size_bytes - 1) / kSlotBytes) return behind();
  for (const auto& freed : {device->heap().find_freed(address), device->virtual_memory().find_freed(address)}) {
    if (!freed) continue;
    return fmt::format("memory that was {} at {} (allocated at {}, {})", freed->how, line_text(freed->freed_line),
                       line_text(freed->allocated_line), bytes_text(freed->size_bytes));
  }
  if (device->virtual_memory().is_reserved(address)) return "reserved address space with nothing mapped there";
  if (before) return behind();
  return fmt::format("an address of device {} that was never allocated", device->number());
}

}  // namespace drydock::device
