#pragma once

#include <cstdint>
#include <cstring>

#include <acl/acl.h>

/// Architectures of cores, as host code of operators names them.
enum class NpuArch : uint32_t {
  DAV_1001 = 1001,  ///< 910A
  DAV_2002 = 2002,  ///< 310P
  DAV_2201 = 2201,  ///< 910B and 910C
  DAV_3510 = 3510,  ///< 950
  DAV_RESV = 0xFFFF,
};

namespace op {

/// What the device is that the process sees.
class PlatformInfo {
 public:
  NpuArch GetCurNpuArch() const {
    const char* name = aclrtGetSocName();
    if (name == nullptr) return NpuArch::DAV_RESV;
    if (std::strncmp(name, "Ascend910B", 10) == 0 || std::strncmp(name, "Ascend910_93", 12) == 0) {
      return NpuArch::DAV_2201;
    }
    return NpuArch::DAV_RESV;
  }
};

inline const PlatformInfo& GetCurrentPlatformInfo() {
  static const PlatformInfo platform;
  return platform;
}

}  // namespace op
