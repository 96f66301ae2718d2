#pragma once

#include <cstdint>
#include <string_view>

#include "base/export.h"
#include "base/status.h"

namespace drydock::comm {

/// Settings of HcclSetConfig (the vendor's numbers).
enum class HcclConfig : int32_t {
  kDeterministic = 0,  ///< reductions give the same bits every time
  kAccelerator = 1,    ///< which unit of the device runs collectives
};
inline constexpr int32_t kHcclConfigs = 2;

/// Keeps a setting of the whole process; collectives read it. 1 (HCCL_E_PARA) for one that does not exist. Any thread.
DRYDOCK_API Status set_hccl_config(std::string_view entry, int32_t config, int32_t value);
/// 0 until set.
DRYDOCK_API int32_t hccl_config(HcclConfig config) noexcept;

}  // namespace drydock::comm
