#include "comm/buffers.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/device.h"
#include "device/settings.h"

namespace drydock::comm {
namespace {

struct SharedBuffers {
  static SharedBuffers& get() {
    static SharedBuffers& buffers = *new SharedBuffers;
    return buffers;
  }
  std::mutex mutex;
  std::map<std::pair<int32_t, std::string>, std::weak_ptr<void>> by_name;
};

}  // namespace

Status take_buffers(std::string_view entry, int32_t device, uint32_t ranks, const CommunicatorSettings& settings,
                    std::shared_ptr<void>& lease) {
  const uint64_t size_bytes = device::profile().communicator_bytes(static_cast<int32_t>(ranks), settings.buffer_bytes);
  if (size_bytes == 0) return Status::ok();
  SharedBuffers& shared = SharedBuffers::get();
  std::lock_guard lock(shared.mutex);
  std::weak_ptr<void>* known = nullptr;
  if (!settings.buffer_name.empty()) {
    known = &shared.by_name[{device, settings.buffer_name}];
    lease = known->lock();
    if (lease != nullptr) return Status::ok();
  }
  Status status = device::charge_overhead(device, "hccl", size_bytes);
  if (!status.is_ok()) {
    return Status::error(code::HCCL_E_OOM, fmt::format("{}: there is no room for the buffers of a communicator of {} "
                                                       "ranks (HCCL_BUFFSIZE makes them smaller): {}",
                                                       entry, ranks, status.message()));
  }
  lease = std::shared_ptr<void>(nullptr, [device, size_bytes](void*) { device::release_overhead(device, size_bytes); });
  if (known != nullptr) *known = lease;
  return Status::ok();
}

}  // namespace drydock::comm
