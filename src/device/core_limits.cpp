#include "device/core_limits.h"

#include <array>
#include <atomic>
#include <string>

#include "base/generated/error_codes.h"
#include "device/profile.h"
#include "device/settings.h"

namespace drydock::device {
namespace {

std::array<std::array<std::atomic<uint32_t>, kCoreKinds>, kMaxDevices> device_limits{};

struct StreamInUse {
  Stream* stream = nullptr;
  uint32_t id = 0;  ///< tells a stream that was destroyed since
};
thread_local StreamInUse stream_in_use;

std::string_view name_of(CoreKind kind) { return kind == CoreKind::kCube ? "cube" : "vector"; }

}  // namespace

uint32_t core_count(CoreKind kind) noexcept {
  const Profile& device = profile();
  return static_cast<uint32_t>(kind == CoreKind::kCube ? device.cube_cores : device.vector_cores);
}

Status check_core_kind(std::string_view entry, int32_t kind) {
  if (kind >= 0 && kind < kCoreKinds) return Status::ok();
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": there is no resource " +
                                                             std::to_string(kind) +
                                                             ". They are 0 (cube cores) and 1 (vector cores).");
}

Status check_core_limit(std::string_view entry, CoreKind kind, uint32_t cores) {
  const uint32_t most = core_count(kind);
  if (cores >= 1 && cores <= most) return Status::ok();
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": a limit of " + std::to_string(cores) +
                                                             " " + std::string(name_of(kind)) +
                                                             " cores can't be set. The device has " +
                                                             std::to_string(most) + ", and work needs at least one.");
}

void set_device_core_limit(int32_t device, CoreKind kind, uint32_t cores) noexcept {
  device_limits[static_cast<size_t>(device)][static_cast<size_t>(kind)].store(cores);
}

uint32_t device_core_limit(int32_t device, CoreKind kind) noexcept {
  const uint32_t limit = device_limits[static_cast<size_t>(device)][static_cast<size_t>(kind)].load();
  return limit == 0 ? core_count(kind) : limit;
}

uint32_t stream_core_limit(const Stream& stream, CoreKind kind) noexcept {
  const uint32_t limit = stream.core_limit(kind);
  return limit == 0 ? device_core_limit(stream.device(), kind) : limit;
}

void use_stream_limits(Stream& stream) noexcept { stream_in_use = {&stream, stream.id()}; }

void unuse_stream_limits() noexcept { stream_in_use = {}; }

uint32_t thread_core_limit(int32_t device, CoreKind kind) noexcept {
  const auto [stream, id] = stream_in_use;
  if (stream != nullptr && stream->id() == id) return stream_core_limit(*stream, kind);
  return device_core_limit(device, kind);
}

}  // namespace drydock::device
