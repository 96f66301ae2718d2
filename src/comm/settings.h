#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"

namespace drydock::comm {

/// What the environment says about collectives (the vendor's variables).
struct EnvironmentSettings {
  uint64_t buffer_bytes = 0;                   ///< HCCL_BUFFSIZE, in MB; 0 = as the profile says
  std::chrono::seconds connect_limit{120};     ///< HCCL_CONNECT_TIMEOUT, 120 to 7200
  std::chrono::seconds execution_limit{1836};  ///< HCCL_EXEC_TIMEOUT; 0 = for ever
};

/// Reads the environment as it is now. 1 (HCCL_E_PARA) with a sentence for values that make no sense.
DRYDOCK_API Status read_environment(std::string_view entry, EnvironmentSettings& settings);

/// What a client asks for one communicator: HcclCommConfig, as much of it as has an effect here.
struct CommunicatorSettings {
  uint64_t buffer_bytes = 0;
  std::chrono::seconds connect_limit{120};
  std::chrono::seconds execution_limit{1836};
  std::string name;         ///< empty: one is made up
  std::string buffer_name;  ///< communicators of one buffer name share their buffers
};

/// The settings that a client's HcclCommConfig (null: none) and the environment come to. The struct says its own size,
/// which differs between versions, and is not read beyond it. 1 (HCCL_E_PARA) for what is no such struct.
DRYDOCK_API Status read_settings(std::string_view entry, const void* config, CommunicatorSettings& settings);

/// Features of HcclCommConfig that this library knows, as HcclGetCommConfigCapability counts them: all of
/// torch_npu 2.13.
inline constexpr uint32_t kConfigCapability = 12;

}  // namespace drydock::comm
