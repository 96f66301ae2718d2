#pragma once

#include <cstdint>
#include <vector>

#include "base/export.h"
#include "base/status.h"
#include "device/profile.h"

namespace drydock::device {

inline constexpr int32_t kMaxDevices = 16;  ///< dies in one Atlas A3 server
inline constexpr const char* kDefaultProfile = "ascend910c";

/// What the environment asks of the device. Read at the first use, then fixed for the process and its children by fork.
struct Settings {
  Profile profile;                       ///< DRYDOCK_PROFILE: a name or a path
  int32_t installed_devices = 1;         ///< DRYDOCK_DEVICES
  std::vector<int32_t> visible_devices;  ///< physical number of each device the client sees (ASCEND_RT_VISIBLE_DEVICES)
  bool guard = false;                    ///< DRYDOCK_GUARD=1: host code that touches a device address faults
  /// The first thing wrong with the above, or with DRYDOCK_VALUES, DRYDOCK_VALUE_BUDGET, DRYDOCK_THREADS,
  /// DRYDOCK_RECORD, DRYDOCK_CHECK and DRYDOCK_WORKSPACE, which others read; the device then does not open.
  Status status = Status::ok();
};

/// Thread-safe; never fails (see `Settings::status`).
DRYDOCK_API const Settings& settings() noexcept;

/// Ok, or the sentence about the environment variable that makes no sense. A copy: Status can't be copied.
DRYDOCK_API Status settings_status();

/// Reads settings from the environment as it is now. For tests and for `drydock run`, which checks before it starts.
DRYDOCK_API Settings read_settings();

}  // namespace drydock::device
