#include "replay/recorded_driver.h"

#include <fmt/format.h>

namespace drydock::replay {

std::string describe_call(const Event& event) {
  switch (event.kind) {
    case EventKind::kSegmentAllocated: return fmt::format("got {} bytes at {:#x}", event.size, event.address);
    case EventKind::kSegmentFreed: return fmt::format("gave back {} bytes at {:#x}", event.size, event.address);
    case EventKind::kSegmentMapped: return fmt::format("mapped {} bytes at {:#x}", event.size, event.address);
    case EventKind::kSegmentUnmapped: return fmt::format("unmapped {} bytes at {:#x}", event.size, event.address);
    case EventKind::kReserved: return fmt::format("reserved {} bytes of addresses at {:#x}", event.size, event.address);
    case EventKind::kUnreserved: return fmt::format("gave up the addresses at {:#x}", event.address);
    case EventKind::kDriverRefused: return fmt::format("was refused {} bytes", event.size);
    default: return "did something else";
  }
}

// Drydock's device gives whole pages and records them; a snapshot has what the allocator asked for.
bool RecordedDriver::is_size(uint64_t recorded, uint64_t wanted) const {
  constexpr uint64_t kPage = uint64_t{2} << 20;
  return recorded == (source_ == Source::kSnapshot ? wanted : (wanted + kPage - 1) / kPage * kPage);
}

std::string RecordedDriver::recorded() const {
  const Event* next = peek();
  return next == nullptr ? "called the driver no more" : describe_call(*next);
}

void RecordedDriver::differ(std::string what) {
  if (!difference_.empty()) return;
  difference_ = fmt::format("the model {}, the real allocator {}", what, recorded());
  difference_event_ = peek();
}

// A recorded refusal answers any demand; a snapshot has none, but neither has it a success.
bool RecordedDriver::refuses() {
  const Event* next = peek();
  if (next != nullptr && next->kind == EventKind::kDriverRefused) {
    ++next_;
    ++equal_calls_;
    return true;
  }
  return source_ == Source::kSnapshot &&
         (next == nullptr || next->kind == EventKind::kSegmentFreed || next->kind == EventKind::kSegmentUnmapped);
}

bool RecordedDriver::allocate(uint64_t bytes, uint64_t& address) {
  if (differs() || refuses()) return false;
  const Event* next = peek();
  if (next == nullptr || next->kind != EventKind::kSegmentAllocated || !is_size(next->size, bytes)) {
    differ(fmt::format("wants a segment of {} bytes", bytes));
    return false;
  }
  address = next->address;
  ++next_;
  ++equal_calls_;
  return true;
}

void RecordedDriver::free(uint64_t address, uint64_t bytes) {
  if (differs()) return;
  const Event* next = peek();
  if (next == nullptr || next->kind != EventKind::kSegmentFreed || next->address != address ||
      !is_size(next->size, bytes)) {
    differ(fmt::format("gives back {} bytes at {:#x}", bytes, address));
    return;
  }
  ++next_;
  ++equal_calls_;
}

uint64_t RecordedDriver::given_back_next() const {
  const Event* next = peek();
  if (differs() || next == nullptr) return 0;
  return next->kind == EventKind::kSegmentFreed || next->kind == EventKind::kSegmentUnmapped ? next->address : 0;
}

bool RecordedDriver::reserve(uint64_t bytes, uint64_t& address) {
  if (differs()) return false;
  const Event* next = peek();
  if (next != nullptr && next->kind == EventKind::kReserved && next->size >= bytes) {
    address = next->address;
    ++next_;
    ++equal_calls_;
    return true;
  }
  // A snapshot does not say what was reserved: a segment begins with its first mapping.
  if (source_ == Source::kSnapshot && next != nullptr && next->kind == EventKind::kSegmentMapped) {
    address = next->address;
    return true;
  }
  if (refuses()) return false;
  differ(fmt::format("wants {} bytes of addresses for a new expandable segment", bytes));
  return false;
}

void RecordedDriver::unreserve(uint64_t address, uint64_t bytes) {
  if (differs() || source_ == Source::kSnapshot) return;
  const Event* next = peek();
  if (next == nullptr || next->kind != EventKind::kUnreserved || next->address != address) {
    differ(fmt::format("gives up {} bytes of addresses at {:#x}", bytes, address));
    return;
  }
  ++next_;
  ++equal_calls_;
}

// One call of the model may be several recorded ones, a piece each.
bool RecordedDriver::take_range(EventKind kind, uint64_t address, uint64_t bytes) {
  const uint64_t end = address + bytes;
  while (address < end) {
    const Event* next = peek();
    if (next == nullptr || next->kind != kind || next->address != address || next->size == 0 ||
        next->size > end - address)
      return false;
    address += next->size;
    ++next_;
    ++equal_calls_;
  }
  return true;
}

bool RecordedDriver::map(uint64_t address, uint64_t bytes, uint64_t) {
  if (differs() || refuses()) return false;
  if (take_range(EventKind::kSegmentMapped, address, bytes)) return true;
  differ(fmt::format("maps {} bytes at {:#x}", bytes, address));
  return false;
}

void RecordedDriver::unmap(uint64_t address, uint64_t bytes, uint64_t) {
  if (differs() || take_range(EventKind::kSegmentUnmapped, address, bytes)) return;
  differ(fmt::format("unmaps {} bytes at {:#x}", bytes, address));
}

}  // namespace drydock::replay
