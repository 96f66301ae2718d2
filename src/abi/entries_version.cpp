#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/version.h"

namespace drydock::entries {
namespace {

/// The vendor's aclCANNPackageVersion.
struct PackageVersion {
  char version[128];
  char major[64];
  char minor[64];
  char release[64];
  char patch[64];
  char reserved[128];
};
static_assert(sizeof(PackageVersion) == 512 && offsetof(PackageVersion, major) == 128 &&
              offsetof(PackageVersion, release) == 256 && offsetof(PackageVersion, reserved) == 384);

/// Bytes of aclsysGetVersionStr's buffer (contract B6).
constexpr size_t kVersionStringBytes = 128;

/// What the virtual device can do, as aclGetCannAttribute numbers it: results in inf and nan, bf16, compilation of
/// operators at run time.
enum class Attribute : int32_t { kInfNan = 0, kBf16 = 1, kJitCompile = 2 };
constexpr std::array<int32_t, 2> kAttributes = {static_cast<int32_t>(Attribute::kInfNan),
                                                static_cast<int32_t>(Attribute::kBf16)};

void put(char* to, size_t size, std::string_view text) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, size - length);
}

}  // namespace

Status aclsysGetCANNVersion(int32_t name, void* version) {
  constexpr std::string_view kEntry = "aclsysGetCANNVersion";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "version", version));
  if (name < 0 || name >= device::kPackages) {
    return bad_argument(kEntry, "there is no package " + std::to_string(name) + ". They are 0 (CANN) to 7 (driver).");
  }
  const device::ClaimedVersions& claimed = device::claimed_versions();
  if (!claimed.status.is_ok()) {
    return bad_argument(kEntry, claimed.status.message() + " Set DRYDOCK_CANN and DRYDOCK_DRIVER right.");
  }
  const device::Version& answer =
      name == static_cast<int32_t>(device::Package::kDriver) ? claimed.driver : claimed.cann;
  PackageVersion filled{};
  put(filled.version, sizeof(filled.version), answer.text);
  put(filled.major, sizeof(filled.major), answer.major);
  put(filled.minor, sizeof(filled.minor), answer.minor);
  put(filled.release, sizeof(filled.release), answer.release);
  put(filled.patch, sizeof(filled.patch), answer.patch);
  std::memcpy(version, &filled, sizeof(filled));
  return Status::ok();
}

Status aclsysGetVersionStr(char* pkg_name, char* version_str) {
  constexpr std::string_view kEntry = "aclsysGetVersionStr";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "pkgName", pkg_name));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "versionStr", version_str));
  const std::string_view name(pkg_name, strnlen(pkg_name, kVersionStringBytes));
  const std::string_view version = device::version_of_package(name);
  if (version.empty()) {
    return bad_argument(
        kEntry, "CANN " + device::claimed_versions().cann.text + " has no package \"" + std::string(name) + "\".");
  }
  put(version_str, kVersionStringBytes, version);
  return Status::ok();
}

Status aclGetCannAttribute(int32_t cann_attr, int32_t* value) {
  constexpr std::string_view kEntry = "aclGetCannAttribute";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  switch (static_cast<Attribute>(cann_attr)) {
    case Attribute::kInfNan:
    case Attribute::kBf16: *value = 1; return Status::ok();
    case Attribute::kJitCompile: *value = 0; return Status::ok();
  }
  return bad_argument(kEntry, "there is no attribute " + std::to_string(cann_attr) + ". They are 0 to 2.");
}

Status aclGetCannAttributeList(const int32_t** cann_attr_list, size_t* num) {
  constexpr std::string_view kEntry = "aclGetCannAttributeList";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "cannAttrList", cann_attr_list));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "num", num));
  *cann_attr_list = kAttributes.data();
  *num = kAttributes.size();
  return Status::ok();
}

}  // namespace drydock::entries
