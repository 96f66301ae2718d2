#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/handle_pool.h"
#include "device/profiler.h"
#include "device/settings.h"

// The vendor's profiler: its objects, and when it runs.

namespace drydock::entries {
namespace {

using abi::EntryId;

struct ProfilerConfig {
  uint64_t data_types = 0;
  std::vector<uint32_t> devices;
};
struct ProfilerStep {};

template <class Object>
HandlePool<Object>& profiler_objects() {
  static HandlePool<Object>& objects = *new HandlePool<Object>(4096);
  return objects;
}

}  // namespace

void* aclprofCreateConfig(uint32_t* device_id_list, uint32_t device_nums, int32_t, const void*,
                          uint64_t data_type_config) {
  if (device_nums > device::kMaxDevices || (device_nums > 0 && device_id_list == nullptr)) return nullptr;
  return profiler_objects<ProfilerConfig>().create(
      ProfilerConfig{data_type_config, {device_id_list, device_id_list + device_nums}});
}

Status aclprofInit(const char* profiler_result_path, size_t length) {
  constexpr std::string_view kEntry = "aclprofInit";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "profilerResultPath", profiler_result_path));
  const std::string_view path(profiler_result_path, length);
  if (path.empty() || path.find('\0') != std::string_view::npos)
    return bad_argument(kEntry, "the length is not that of the path.");
  record_call(EntryId::aclprofInit, 0);
  return device::open_profiler(path);
}

Status aclprofStart(const void* profiler_config) {
  ProfilerConfig* config = profiler_objects<ProfilerConfig>().find(profiler_config);
  if (config == nullptr) return bad_argument("aclprofStart", "the configuration is none of aclprofCreateConfig's.");
  record_call(EntryId::aclprofStart, 0);
  return device::start_profiler(config->devices);
}

Status aclprofStop(const void* profiler_config) {
  if (profiler_objects<ProfilerConfig>().find(profiler_config) == nullptr)
    return bad_argument("aclprofStop", "the configuration is none of aclprofCreateConfig's.");
  record_call(EntryId::aclprofStop, 0);
  return device::stop_profiler();
}

Status aclprofFinalize() {
  record_call(EntryId::aclprofFinalize, 0);
  return device::close_profiler();
}

Status aclprofDestroyConfig(const void* profiler_config) {
  if (profiler_objects<ProfilerConfig>().destroy(profiler_config)) return Status::ok();
  return bad_argument("aclprofDestroyConfig",
                      "the configuration is null, was destroyed before, or is no configuration.");
}

void* aclprofCreateStepInfo() { return profiler_objects<ProfilerStep>().create(); }

void aclprofDestroyStepInfo(void* stepinfo) { profiler_objects<ProfilerStep>().destroy(stepinfo); }

Status aclprofGetSupportedFeatures(size_t* features_size, void** features_data) {
  constexpr std::string_view kEntry = "aclprofGetSupportedFeatures";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "featuresSize", features_size));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "featuresData", features_data));
  *features_size = 0;
  *features_data = nullptr;
  return Status::ok();
}

Status aclprofGetSupportedFeaturesV2(size_t* features_size, void** features_data) {
  return aclprofGetSupportedFeatures(features_size, features_data);
}

}  // namespace drydock::entries
