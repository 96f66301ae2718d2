#include "comm/hccl_config.h"

#include <array>
#include <atomic>
#include <string>

#include "base/generated/error_codes.h"

namespace drydock::comm {
namespace {

std::array<std::atomic<int32_t>, kHcclConfigs> values{};

}  // namespace

Status set_hccl_config(std::string_view entry, int32_t config, int32_t value) {
  if (config < 0 || config >= kHcclConfigs) {
    return Status::error(code::HCCL_E_PARA, std::string(entry) + ": there is no setting " + std::to_string(config) +
                                                ". They are 0 (deterministic) and 1 (accelerator).");
  }
  values[static_cast<size_t>(config)].store(value, std::memory_order_relaxed);
  return Status::ok();
}

int32_t hccl_config(HcclConfig config) noexcept {
  return values[static_cast<size_t>(config)].load(std::memory_order_relaxed);
}

}  // namespace drydock::comm
