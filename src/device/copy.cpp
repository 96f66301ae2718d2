#include "device/copy.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/heap.h"
#include "device/host_memory.h"
#include "values/extents.h"
#include "values/policy.h"

namespace drydock::device {
namespace {

enum class Side : uint8_t { kHost, kDevice };

uint64_t as_number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
const void* as_pointer(uint64_t address) { return reinterpret_cast<const void*>(address); }

Status invalid(std::string_view entry, const std::string& why) {
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, fmt::format("{}: {}", entry, why));
}

// Checks one end of a copy. `asked` is what the kind says it is; `side` becomes what it is.
Status check_end(std::string_view entry, std::string_view role, const void* pointer, uint64_t size_bytes,
                 std::optional<Side> asked, Side& side) {
  const bool on_device = device_of(pointer) >= 0;
  side = on_device ? Side::kDevice : Side::kHost;
  if (on_device && asked == Side::kHost) {
    return invalid(entry, fmt::format("the kind says that the {} is host memory, and {:#x} is device memory ({})", role,
                                      as_number(pointer), describe_address(pointer)));
  }
  if (on_device && !is_allocated(pointer, size_bytes)) {
    return invalid(entry, fmt::format("the {} of {} at {:#x} is not all allocated: {}", role, bytes_text(size_bytes),
                                      as_number(pointer), describe_address(pointer)));
  }
  if (!on_device && asked == Side::kDevice && !find_host_range(pointer)) {
    return invalid(entry, fmt::format("the kind says that the {} is device memory, and {:#x} is not: {}", role,
                                      as_number(pointer), describe_address(pointer)));
  }
  return Status::ok();
}

// Whether one end of a copy is no longer what it was when the copy was checked. Of host memory this is known where host
// pages were mapped in a reservation: the address is the device's again.
bool is_gone(const void* pointer, uint64_t size_bytes, bool is_device) {
  return is_device ? !is_allocated(pointer, size_bytes) : device_of(pointer) >= 0;
}

bool sides_of(int32_t direction, std::optional<Side>& from, std::optional<Side>& to) {
  switch (static_cast<CopyDirection>(direction)) {
    case CopyDirection::kHostToHost: from = to = Side::kHost; return true;
    case CopyDirection::kHostToDevice:
    case CopyDirection::kHostToBufferToDevice:
      from = Side::kHost;
      to = Side::kDevice;
      return true;
    case CopyDirection::kDeviceToHost:
      from = Side::kDevice;
      to = Side::kHost;
      return true;
    case CopyDirection::kDeviceToDevice:
    case CopyDirection::kInnerDevice:
    case CopyDirection::kInterDevice: from = to = Side::kDevice; return true;
    case CopyDirection::kDefault: return true;
  }
  return false;
}

trace::CopyKind kind_of(Side from, Side to) {
  if (from == Side::kHost) return to == Side::kHost ? trace::CopyKind::kHostToHost : trace::CopyKind::kHostToDevice;
  return to == Side::kHost ? trace::CopyKind::kDeviceToHost : trace::CopyKind::kDeviceToDevice;
}

bool touches_device_to(trace::CopyKind kind) {
  return kind == trace::CopyKind::kHostToDevice || kind == trace::CopyKind::kDeviceToDevice;
}
bool touches_device_from(trace::CopyKind kind) {
  return kind == trace::CopyKind::kDeviceToHost || kind == trace::CopyKind::kDeviceToDevice;
}

Status went_away(std::string_view entry, std::string_view role, const void* pointer, trace::LineId line) {
  return Status::error(code::ACL_ERROR_RT_INTERNAL_ERROR,
                       fmt::format("{}: the {} at {:#x} of the copy made at {} went away before it ran: {}", entry,
                                   role, as_number(pointer), line_text(line), describe_address(pointer)));
}

struct HostCopy {
  char* host;
  uint64_t from;
};

void copy_part_to_host(void* context, uint64_t address, uint64_t size_bytes) {
  const HostCopy& copy = *static_cast<const HostCopy*>(context);
  std::memcpy(copy.host + (address - copy.from), host_address(as_pointer(address)), size_bytes);
}

struct DeviceCopy {
  uint64_t to;
  uint64_t from;
};

void copy_part_on_device(void* context, uint64_t address, uint64_t size_bytes) {
  const DeviceCopy& copy = *static_cast<const DeviceCopy*>(context);
  std::memcpy(host_address(as_pointer(copy.to + (address - copy.from))), host_address(as_pointer(address)), size_bytes);
}

using Parts = std::vector<std::pair<uint64_t, uint64_t>>;

void collect_part(void* context, uint64_t address, uint64_t size_bytes) {
  static_cast<Parts*>(context)->emplace_back(address, size_bytes);
}

// Knowledge is not kept (the null device of the benchmarks): small copies are real, between device addresses large ones
// are not, as those of ghosts are not either.
void copy_untracked(const Copy& copy) {
  if (copy.kind == trace::CopyKind::kDeviceToDevice && copy.size_bytes > values::policy().budget_bytes) return;
  std::memmove(host_address(copy.to), host_address(copy.from), copy.size_bytes);
}

}  // namespace

Status prepare_copy(std::string_view entry, void* to, uint64_t to_bytes, const void* from, uint64_t size_bytes,
                    int32_t direction, Copy& copy) {
  if (to == nullptr || from == nullptr) {
    return Status::error(code::ACL_ERROR_INVALID_PARAM,
                         fmt::format("{}: the {} is null", entry, to == nullptr ? "destination" : "source"));
  }
  if (size_bytes > to_bytes) {
    return invalid(entry,
                   fmt::format("{} do not fit into a destination of {}", bytes_text(size_bytes), bytes_text(to_bytes)));
  }
  std::optional<Side> asked_from;
  std::optional<Side> asked_to;
  if (!sides_of(direction, asked_from, asked_to)) {
    return invalid(entry, fmt::format("there is no kind of copy {}: 0 to 7 exist", direction));
  }
  Side from_side{};
  Side to_side{};
  DRYDOCK_RETURN_IF_ERROR(check_end(entry, "source", from, size_bytes, asked_from, from_side));
  DRYDOCK_RETURN_IF_ERROR(check_end(entry, "destination", to, size_bytes, asked_to, to_side));
  copy = {to, from, size_bytes, kind_of(from_side, to_side), -1, trace::current_line()};
  copy.device = to_side == Side::kDevice ? device_of(to) : device_of(from);
  return Status::ok();
}

Status run_copy(std::string_view entry, const Copy& copy, bool async, uint32_t stream_id) {
  const uint64_t size_bytes = copy.size_bytes;
  const uint64_t to = as_number(copy.to);
  const uint64_t from = as_number(copy.from);
  uint64_t assumed_bytes = 0;
  {
    const MemoryInUse in_use;
    if (is_gone(copy.from, size_bytes, touches_device_from(copy.kind))) {
      return went_away(entry, "source", copy.from, copy.line);
    }
    if (is_gone(copy.to, size_bytes, touches_device_to(copy.kind))) {
      return went_away(entry, "destination", copy.to, copy.line);
    }
    if (!values::policy().tracked) {
      copy_untracked(copy);
    } else {
      switch (copy.kind) {
        case trace::CopyKind::kHostToHost: std::memmove(copy.to, copy.from, size_bytes); break;
        case trace::CopyKind::kHostToDevice:
          std::memcpy(host_address(copy.to), copy.from, size_bytes);
          values::set_knowledge(to, size_bytes, values::Knowledge::kKnown);
          break;
        case trace::CopyKind::kDeviceToHost: {
          HostCopy host_copy{static_cast<char*>(copy.to), from};
          values::for_each_real_part(from, size_bytes, &copy_part_to_host, &host_copy);
          assumed_bytes = values::fill_assumed(copy.to, from, size_bytes);
          break;
        }
        case trace::CopyKind::kDeviceToDevice: move_device_bytes(to, from, size_bytes); break;
        case trace::CopyKind::kMemset: break;  // not a copy
      }
    }
  }
  const uint64_t device_address = touches_device_to(copy.kind) ? to : touches_device_from(copy.kind) ? from : 0;
  trace::copied(copy.kind, copy.device, device_address, size_bytes, async, stream_id, copy.line);
  if (assumed_bytes > 0) trace::assumed(trace::Assumption::kHostRead, assumed_bytes, copy.line);
  return Status::ok();
}

Status prepare_fill(std::string_view entry, void* to, uint64_t to_bytes, int32_t value, uint64_t size_bytes,
                    Fill& fill) {
  if (to == nullptr) {
    return Status::error(code::ACL_ERROR_INVALID_PARAM, fmt::format("{}: the destination is null", entry));
  }
  if (size_bytes > to_bytes) {
    return invalid(entry,
                   fmt::format("{} do not fit into a destination of {}", bytes_text(size_bytes), bytes_text(to_bytes)));
  }
  Side side{};
  // The vendor sets pinned host memory with the same door.
  DRYDOCK_RETURN_IF_ERROR(check_end(entry, "destination", to, size_bytes, Side::kDevice, side));
  fill = {to, size_bytes, static_cast<uint8_t>(value), device_of(to), trace::current_line()};
  return Status::ok();
}

Status run_fill(std::string_view entry, const Fill& fill, bool async, uint32_t stream_id) {
  const uint64_t to = as_number(fill.to);
  const values::Policy& policy = values::policy();
  {
    const MemoryInUse in_use;
    if (is_gone(fill.to, fill.size_bytes, fill.device >= 0)) {
      return went_away(entry, "destination", fill.to, fill.line);
    }
    if (fill.device < 0) {
      std::memset(fill.to, fill.value, fill.size_bytes);
    } else if (fill.size_bytes <= policy.budget_bytes || policy.mode == values::Mode::kFull) {
      std::memset(host_address(fill.to), fill.value, fill.size_bytes);
      values::set_knowledge(to, fill.size_bytes, values::Knowledge::kKnown);
    } else if (fill.value == 0) {
      zero_device_bytes(to, fill.size_bytes);
      values::set_knowledge(to, fill.size_bytes, values::Knowledge::kKnown);
    } else {
      values::set_knowledge(to, fill.size_bytes, values::Knowledge::kGhost);
    }
  }
  trace::copied(trace::CopyKind::kMemset, fill.device, fill.device < 0 ? 0 : to, fill.size_bytes, async, stream_id,
                fill.line);
  return Status::ok();
}

void zero_device_bytes(uint64_t address, uint64_t size_bytes) {
  constexpr uint64_t kPage = 4096;
  char* const begin = host_address(as_pointer(address));
  const uint64_t head = std::min(size_bytes, (kPage - address % kPage) % kPage);
  const uint64_t pages = (size_bytes - head) / kPage * kPage;
  std::memset(begin, 0, head);
  if (pages != 0 && !give_back_pages(address + head, pages)) std::memset(begin + head, 0, pages);
  std::memset(begin + head + pages, 0, size_bytes - head - pages);
}

void move_device_bytes(uint64_t to, uint64_t from, uint64_t size_bytes) {
  if (to == from) return;
  const bool overlap = to - from < size_bytes || from - to < size_bytes;
  if (!overlap) {
    DeviceCopy copy{to, from};
    values::for_each_real_part(from, size_bytes, &copy_part_on_device, &copy);
  } else {
    // The order must be such that no part is written over before it was read.
    Parts parts;
    values::for_each_real_part(from, size_bytes, &collect_part, &parts);
    const auto move = [&](const std::pair<uint64_t, uint64_t>& part) {
      std::memmove(host_address(as_pointer(to + (part.first - from))), host_address(as_pointer(part.first)),
                   part.second);
    };
    if (to < from) {
      for (const auto& part : parts) move(part);
    } else {
      std::for_each(parts.rbegin(), parts.rend(), move);
    }
  }
  values::copy_knowledge(to, from, size_bytes);
}

}  // namespace drydock::device
