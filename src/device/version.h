#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"

// The versions of CANN and of the driver that the virtual device claims. They decide more in torch_npu than any symbol
// (contracts B1 to B6), so they are settings: DRYDOCK_CANN and DRYDOCK_DRIVER, else what the profile says.

namespace drydock::device {

/// Packages of aclsysGetCANNVersion (the vendor's numbers).
enum class Package : int32_t {
  kCann = 0,
  kRuntime = 1,
  kCompiler = 2,
  kHccl = 3,
  kToolkit = 4,
  kOpp = 5,
  kOppKernel = 6,
  kDriver = 7,
};
inline constexpr int32_t kPackages = 8;

/// A version as text and in its parts. Parts that the text lacks are empty.
struct Version {
  std::string text;     ///< "8.3.RC1.alpha002", "9.1.0"
  std::string major;    ///< "8"
  std::string minor;    ///< "3"
  std::string release;  ///< "RC1", "0", "T4"
  std::string patch;    ///< "alpha002", "beta.2"; what stands behind the release
};

/// Takes a CANN version apart. 107000 with a sentence for a form that torch_npu reads as version 0 (contract B3):
/// `a.b.c`, `a.b.RCn`, `a.b.Tn`, with `.alphaN` behind them below 8.5; from 8.5 on `a.b.c`, with `-` or `.` and alpha,
/// beta or rc and a number behind it.
DRYDOCK_API Status parse_cann_version(std::string_view text, Version& version);
/// The same for a driver's version (contract B4): `a.b.c` or `a.b.RCn`, then `.N`, `.alphaN`, `.betaN` or `.bN`.
DRYDOCK_API Status parse_driver_version(std::string_view text, Version& version);

/// The driver that was released with a CANN version; the oldest known one for older CANNs.
DRYDOCK_API std::string_view driver_of_cann(const Version& cann);

/// The claimed versions, read from the environment at the first call; works before aclInit, starts nothing (contract
/// C1 applies: a fork may follow). With DRYDOCK_CANN and no DRYDOCK_DRIVER, the driver is the one released with it.
struct ClaimedVersions {
  Version cann;
  Version driver;
  Status status = Status::ok();  ///< what was wrong with the settings; the profile's versions then stand in
};
DRYDOCK_API const ClaimedVersions& claimed_versions();
/// As `claimed_versions`, from the given settings (null = not set). For tests and for the launcher.
DRYDOCK_API ClaimedVersions read_versions(const char* cann, const char* driver);

/// True if the claimed CANN is at least `major`.`minor`.
DRYDOCK_API bool cann_is_at_least(int major, int minor);

/// Version of a package that aclsysGetVersionStr knows by name ("ops_nn", "runtime", "driver"), or empty. The operator
/// packages are their own from CANN 8.5 on.
DRYDOCK_API std::string_view version_of_package(std::string_view name);

}  // namespace drydock::device
