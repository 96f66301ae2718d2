#include "device/context.h"

#include <fstream>
#include <mutex>
#include <pthread.h>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/generated/error_codes.h"
#include "base/handle_pool.h"
#include "device/device.h"
#include "device/process.h"
#include "device/settings.h"

namespace drydock::device {
namespace {

constexpr size_t kMostContexts = 4096;
constexpr int kMostHooks = 8;

enum class Life : uint8_t { kNew, kInitialized, kFinalized };

struct Primary {
  std::mutex mutex;
  std::atomic<Context*> context{nullptr};
  int32_t set_count = 0;  // aclrtSetDevice calls less aclrtResetDevice calls
};

struct Process {
  std::mutex mutex;
  std::atomic<Life> life{Life::kNew};
  std::atomic<int32_t> default_device{-1};
  std::atomic<uint32_t> last_context_id{0};
  HandlePool<Context> contexts{kMostContexts};
  Primary primaries[kMaxDevices];
  std::atomic<ContextHook> hooks[kMostHooks] = {};
};

Process& process() noexcept {
  static Process& instance = *new Process;
  return instance;
}

// What is current on a thread. The id tells a context from a later one in the same place.
struct Current {
  Context* context = nullptr;
  uint32_t id = 0;
};
thread_local Current current;

constinit std::atomic<bool> forked{false};

Context* make_context(int32_t device, bool is_primary) {
  Context* const context = process().contexts.create();
  if (context == nullptr) return nullptr;
  context->device = device;
  context->is_primary = is_primary;
  context->id = ++process().last_context_id;
  return context;
}

Status no_context_left(std::string_view entry) {
  return Status::error(code::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       fmt::format("{}: {} contexts are alive, which is the most", entry, kMostContexts));
}

void make_current(Context* context) { current = {context, context->id}; }

void end_context(Context& context) {
  for (const auto& hook : process().hooks) {
    if (const ContextHook call = hook.load(std::memory_order_acquire)) call(context);
  }
  if (Device* const device = Device::find(context.device)) device->remove_context();
  process().contexts.destroy(&context);
}

Status file_error(int32_t error_code, const std::string& path, std::string_view why) {
  return Status::error(error_code, fmt::format("aclInit: the configuration file {} {}", path, why));
}

// {"defaultDevice": {"default_device": "0"}}: the number is a text (contract C2).
Status read_default_device(const nlohmann::json& json, const std::string& path, int32_t& device) {
  const auto section = json.find("defaultDevice");
  if (section == json.end()) return Status::ok();
  constexpr std::string_view kWrong =
      "has a defaultDevice without a device number: {\"defaultDevice\": {\"default_device\": \"0\"}} is meant";
  if (!section->is_object()) return file_error(code::ACL_ERROR_FILE_ATTR_INVALID, path, kWrong);
  const auto value = section->find("default_device");
  if (value == section->end() || !value->is_string()) {
    return file_error(code::ACL_ERROR_FILE_ATTR_INVALID, path, kWrong);
  }
  const std::string& text = value->get_ref<const std::string&>();
  if (text.empty() || text.size() > 4 || text.find_first_not_of("0123456789") != std::string::npos) {
    return file_error(code::ACL_ERROR_FILE_ATTR_INVALID, path, kWrong);
  }
  const int32_t number = std::stoi(text);
  DRYDOCK_RETURN_IF_ERROR(check_device("aclInit: defaultDevice", number));
  device = number;
  return Status::ok();
}

Status read_configuration(const char* config_path, int32_t& default_device) {
  const std::string path(config_path);
  if (path.empty()) return Status::ok();
  std::ifstream file(path, std::ios::binary);
  if (!file) return file_error(code::ACL_ERROR_INVALID_FILE, path, "can't be opened");
  // An empty file is no configuration, as a null path is.
  if (file.peek() == std::ifstream::traits_type::eof()) return Status::ok();
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return file_error(code::ACL_ERROR_PARSE_FILE, path, "is not a JSON object");
  }
  return read_default_device(json, path, default_device);
}

}  // namespace

void watch_forks() noexcept {
  static const bool watching = [] {
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
    return true;
  }();
  (void)watching;
}

bool is_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

int32_t device_count() noexcept { return static_cast<int32_t>(settings().visible_devices.size()); }

int32_t physical_device(int32_t device) noexcept {
  if (device < 0 || device >= device_count()) return -1;
  return settings().visible_devices[static_cast<size_t>(device)];
}

Status initialize(const char* config_path) {
  DRYDOCK_RETURN_IF_ERROR(settings_status());
  if (is_forked_child()) return require_alive();
  Process& state = process();
  std::lock_guard lock(state.mutex);
  if (state.life.load() == Life::kInitialized) {
    return Status::error(code::ACL_ERROR_REPEAT_INITIALIZE, "aclInit: this process has called it before");
  }
  int32_t default_device = -1;
  if (config_path != nullptr) DRYDOCK_RETURN_IF_ERROR(read_configuration(config_path, default_device));
  watch_forks();
  state.default_device.store(default_device);
  state.life.store(Life::kInitialized);
  return Status::ok();
}

Status finalize() {
  if (is_forked_child()) return require_alive();
  Process& state = process();
  std::lock_guard lock(state.mutex);
  switch (state.life.load()) {
    case Life::kNew: return Status::error(code::ACL_ERROR_UNINITIALIZE, "aclFinalize: aclInit was not called");
    case Life::kFinalized: return Status::error(code::ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: it was called before");
    case Life::kInitialized: break;
  }
  state.life.store(Life::kFinalized);
  return Status::ok();
}

Status require_alive() {
  if (is_forked_child()) {
    return Status::error(code::ACL_ERROR_RT_INTERNAL_ERROR,
                         "this process was made by fork from one that had used the device, and the driver's state does "
                         "not survive a fork: start workers with the `spawn` method, or fork before the first device "
                         "call");
  }
  if (process().life.load(std::memory_order_acquire) == Life::kFinalized) {
    return Status::error(code::ACL_ERROR_UNINITIALIZE, "aclFinalize was called: the device can't be used any more");
  }
  return Status::ok();
}

Status set_device(int32_t number) {
  DRYDOCK_RETURN_IF_ERROR(require_alive());
  Device* device = nullptr;
  DRYDOCK_RETURN_IF_ERROR(Device::open("aclrtSetDevice", number, device));
  Primary& primary = process().primaries[number];
  std::lock_guard lock(primary.mutex);
  Context* context = primary.context.load();
  if (context == nullptr) {
    DRYDOCK_RETURN_IF_ERROR(device->add_context());
    context = make_context(number, true);
    if (context == nullptr) {
      device->remove_context();
      return no_context_left("aclrtSetDevice");
    }
    primary.context.store(context, std::memory_order_release);
  }
  ++primary.set_count;
  make_current(context);
  return Status::ok();
}

Status reset_device(int32_t number, bool force) {
  DRYDOCK_RETURN_IF_ERROR(require_alive());
  DRYDOCK_RETURN_IF_ERROR(check_device(force ? "aclrtResetDeviceForce" : "aclrtResetDevice", number));
  Primary& primary = process().primaries[number];
  Context* context = nullptr;
  {
    std::lock_guard lock(primary.mutex);
    context = primary.context.load();
    if (context == nullptr) return Status::ok();  // nothing of this process is open there
    if (!force && --primary.set_count > 0) return Status::ok();
    primary.set_count = 0;
    primary.context.store(nullptr);
  }
  end_context(*context);
  return Status::ok();
}

Context* current_context() noexcept {
  Context* const context = process().contexts.find(current.context);
  return context != nullptr && context->id == current.id ? context : nullptr;
}

int32_t current_device() noexcept {
  const Context* const context = current_context();
  return context == nullptr ? -1 : context->device;
}

int32_t default_device() noexcept { return process().default_device.load(std::memory_order_relaxed); }

Status require_context(std::string_view what, Context*& context) {
  DRYDOCK_RETURN_IF_ERROR(require_alive());
  context = current_context();
  if (context != nullptr) return Status::ok();
  if (const int32_t number = default_device(); number >= 0) {
    DRYDOCK_RETURN_IF_ERROR(set_device(number));
    context = current_context();
    if (context != nullptr) return Status::ok();
  }
  return Status::error(code::ACL_ERROR_RT_CONTEXT_NULL,
                       fmt::format("{}: this thread has no device: aclrtSetDevice (torch.npu.set_device) comes first, "
                                   "on every thread",
                                   what));
}

Context* find_context(const void* handle) noexcept { return process().contexts.find(handle); }

Context* primary_context(int32_t device) noexcept {
  if (device < 0 || device >= kMaxDevices) return nullptr;
  return process().primaries[device].context.load(std::memory_order_acquire);
}

Status create_context(int32_t number, Context*& context) {
  DRYDOCK_RETURN_IF_ERROR(require_alive());
  Device* device = nullptr;
  DRYDOCK_RETURN_IF_ERROR(Device::open("aclrtCreateContext", number, device));
  DRYDOCK_RETURN_IF_ERROR(device->add_context());
  context = make_context(number, false);
  if (context == nullptr) {
    device->remove_context();
    return no_context_left("aclrtCreateContext");
  }
  make_current(context);
  return Status::ok();
}

Status destroy_context(const void* handle) {
  DRYDOCK_RETURN_IF_ERROR(require_alive());
  Context* const context = find_context(handle);
  if (context == nullptr) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         handle == nullptr ? "aclrtDestroyContext: the context is null"
                         : process().contexts.was_destroyed(handle)
                             ? "aclrtDestroyContext: the context was destroyed before"
                             : fmt::format("aclrtDestroyContext: {} is no context", fmt::ptr(handle)));
  }
  if (context->is_primary) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("aclrtDestroyContext: this is the context that aclrtSetDevice gave device {}: it "
                                     "goes with aclrtResetDevice",
                                     context->device));
  }
  if (context->is_ending.exchange(true)) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtDestroyContext: another thread is destroying the context");
  }
  end_context(*context);
  return Status::ok();
}

Status set_current_context(const void* handle) {
  DRYDOCK_RETURN_IF_ERROR(require_alive());
  Context* const context = find_context(handle);
  if (context == nullptr) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         handle == nullptr ? "aclrtSetCurrentContext: the context is null"
                         : process().contexts.was_destroyed(handle)
                             ? "aclrtSetCurrentContext: the context was destroyed (aclrtDestroyContext or "
                               "aclrtResetDevice)"
                             : fmt::format("aclrtSetCurrentContext: {} is no context", fmt::ptr(handle)));
  }
  make_current(context);
  return Status::ok();
}

void on_context_destroyed(ContextHook hook) noexcept {
  for (auto& slot : process().hooks) {
    ContextHook expected = nullptr;
    if (slot.compare_exchange_strong(expected, hook) || expected == hook) return;
  }
}

std::string describe_device(int32_t device) { return fmt::format("device {} (of {})", device, device_count()); }

}  // namespace drydock::device
