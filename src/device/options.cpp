#include "device/options.h"

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/settings.h"

namespace drydock::device {
namespace {

constexpr int32_t kJitCompileOption = 10;

struct Options {
  static Options& get() {
    static Options& options = *new Options;
    return options;
  }

  std::mutex mutex;
  std::map<std::pair<uint32_t, int32_t>, int64_t> of_context;  ///< by context id and parameter
  std::array<std::string, kCompileOptions> compile;

  std::array<std::atomic<int64_t>, kSystemParameters> of_process{};
  std::atomic<bool> any_context{false};
  std::atomic<uint64_t> operator_timeout_us{kMaxTimeoutUs};
  std::atomic<uint32_t> wait_timeout_s{0};
  std::array<std::atomic<int32_t>, kMaxDevices> saturation;

 private:
  Options() {
    compile[kJitCompileOption] = "disable";
    for (auto& mode : saturation) mode.store(static_cast<int32_t>(SaturationMode::kInfNan));
    on_context_destroyed([](Context& context) noexcept {
      Options& options = get();
      std::lock_guard lock(options.mutex);
      const auto begin = options.of_context.lower_bound({context.id, 0});
      options.of_context.erase(begin, options.of_context.lower_bound({context.id + 1, 0}));
    });
  }
};

}  // namespace

Status check_system_parameter(std::string_view entry, int32_t parameter) {
  if (parameter >= 0 && parameter < kSystemParameters) return Status::ok();
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": there is no runtime parameter " +
                                                             std::to_string(parameter) + ". They are 0 to " +
                                                             std::to_string(kSystemParameters - 1) + ".");
}

void set_system_parameter(SystemParameter parameter, int64_t value) noexcept {
  Options::get().of_process[static_cast<size_t>(parameter)].store(value, std::memory_order_relaxed);
}

void set_system_parameter(const Context& context, SystemParameter parameter, int64_t value) {
  Options& options = Options::get();
  std::lock_guard lock(options.mutex);
  options.of_context[{context.id, static_cast<int32_t>(parameter)}] = value;
  options.any_context.store(true, std::memory_order_release);
}

std::optional<int64_t> system_parameter(const Context& context, SystemParameter parameter) {
  Options& options = Options::get();
  if (!options.any_context.load(std::memory_order_acquire)) return std::nullopt;
  std::lock_guard lock(options.mutex);
  const auto position = options.of_context.find({context.id, static_cast<int32_t>(parameter)});
  return position == options.of_context.end() ? std::nullopt : std::optional(position->second);
}

int64_t system_parameter(SystemParameter parameter) {
  if (const Context* context = current_context()) {
    if (const std::optional<int64_t> value = system_parameter(*context, parameter)) return *value;
  }
  return Options::get().of_process[static_cast<size_t>(parameter)].load(std::memory_order_relaxed);
}

Status check_compile_option(std::string_view entry, int32_t option) {
  if (option >= 0 && option < kCompileOptions) return Status::ok();
  return Status::error(code::ACL_ERROR_INVALID_PARAM, std::string(entry) + ": there is no compile option " +
                                                          std::to_string(option) + ". They are 0 to " +
                                                          std::to_string(kCompileOptions - 1) + ".");
}

void set_compile_option(int32_t option, std::string_view value) {
  Options& options = Options::get();
  std::lock_guard lock(options.mutex);
  options.compile[static_cast<size_t>(option)] = value;
}

std::string compile_option(int32_t option) {
  Options& options = Options::get();
  std::lock_guard lock(options.mutex);
  return options.compile[static_cast<size_t>(option)];
}

uint64_t set_operator_timeout_us(uint64_t timeout_us) noexcept {
  uint64_t in_force = kMaxTimeoutUs;
  if (timeout_us != 0 && timeout_us < kMaxTimeoutUs) {
    in_force = (timeout_us + kTimeoutStepUs - 1) / kTimeoutStepUs * kTimeoutStepUs;
  }
  Options::get().operator_timeout_us.store(in_force, std::memory_order_relaxed);
  return in_force;
}

uint64_t operator_timeout_us() noexcept { return Options::get().operator_timeout_us.load(std::memory_order_relaxed); }

void set_wait_timeout_s(uint32_t timeout_s) noexcept { Options::get().wait_timeout_s.store(timeout_s); }

uint32_t wait_timeout_s() noexcept { return Options::get().wait_timeout_s.load(); }

Status set_saturation_mode(std::string_view entry, int32_t device, int32_t mode) {
  if (mode != static_cast<int32_t>(SaturationMode::kSaturation) &&
      mode != static_cast<int32_t>(SaturationMode::kInfNan)) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": there is no overflow mode " +
                                                               std::to_string(mode) +
                                                               ". They are 0 (saturation) and 1 (inf/nan).");
  }
  Options::get().saturation[static_cast<size_t>(device)].store(mode);
  return Status::ok();
}

SaturationMode saturation_mode(int32_t device) noexcept {
  if (device < 0 || device >= kMaxDevices) return SaturationMode::kInfNan;
  return static_cast<SaturationMode>(Options::get().saturation[static_cast<size_t>(device)].load());
}

}  // namespace drydock::device
