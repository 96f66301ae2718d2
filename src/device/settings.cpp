#include "device/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "base/thread_pool.h"

namespace drydock::device {
namespace {

const char* environment(const char* name) { return std::getenv(name); }

std::string devices_text(int32_t count) { return count == 1 ? "1 device" : fmt::format("{} devices", count); }

// The vendor's rule: a comma list of physical numbers, in which reading stops at the first character that is neither
// a digit nor a comma; an empty text hides every device.
Status read_visible_devices(std::string_view text, int32_t installed, std::vector<int32_t>& visible) {
  visible.clear();
  size_t position = 0;
  while (position < text.size()) {
    int32_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + position, text.data() + text.size(), number);
    if (error == std::errc::invalid_argument || number < 0) break;
    if (error != std::errc() || number >= installed) {
      visible.clear();
      return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                           fmt::format("ASCEND_RT_VISIBLE_DEVICES=\"{}\" names a device that does not exist: there "
                                       "{} {}, numbered from 0. Set DRYDOCK_DEVICES (drydock run --devices N) to have "
                                       "more",
                                       text, installed == 1 ? "is" : "are", devices_text(installed)));
    }
    visible.push_back(number);
    position = static_cast<size_t>(end - text.data());
    if (position < text.size() && text[position] != ',') break;
    ++position;
  }
  return Status::ok();
}

Status senseless(const char* name, std::string_view text, std::string_view rule) {
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, fmt::format("{}=\"{}\" makes no sense: {}", name, text, rule));
}

Status check_choice(const char* name, std::initializer_list<std::string_view> choices) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0' ||
      std::find(choices.begin(), choices.end(), std::string_view(text)) != choices.end())
    return Status::ok();
  return senseless(name, text, fmt::format("it is one of {}", fmt::join(choices, ", ")));
}

// Those that src/values, src/trace, src/ops and src/base read for themselves: they go by a default where a text makes
// no sense, which must not pass for what was asked.
Status check_others() {
  DRYDOCK_RETURN_IF_ERROR(check_choice("DRYDOCK_VALUES", {"auto", "full", "ghost"}));
  if (const char* text = environment("DRYDOCK_VALUE_BUDGET"); text != nullptr && *text != '\0') {
    const std::string_view view(text);
    uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), bytes);
    if (error != std::errc() || end != view.data() + view.size())
      return senseless("DRYDOCK_VALUE_BUDGET", view,
                       "it is a number of bytes, such as 1048576 (drydock run --value-budget takes 1MiB too)");
  }
  if (const char* text = environment("DRYDOCK_THREADS"); text != nullptr && *text != '\0') {
    if (base::parse_thread_count(text) == 0)
      return senseless("DRYDOCK_THREADS", text,
                       fmt::format("it is the number of threads that compute operators, 1 to {}", base::kMaxThreads));
  }
  DRYDOCK_RETURN_IF_ERROR(check_choice("DRYDOCK_RECORD", {"full", "null"}));
  DRYDOCK_RETURN_IF_ERROR(check_choice("DRYDOCK_CHECK", {"none", "streams"}));
  return check_choice("DRYDOCK_WORKSPACE", {"rules", "none", "upper"});
}

}  // namespace

Settings read_settings() {
  Settings settings;
  const auto fail = [&](Status status) {
    if (settings.status.is_ok()) settings.status = std::move(status);
  };

  const char* profile_name = environment("DRYDOCK_PROFILE");
  if (profile_name == nullptr || *profile_name == '\0') profile_name = kDefaultProfile;
  if (Status status = load_profile(profile_name, settings.profile); !status.is_ok()) {
    fail(Status::error(status.code(), fmt::format("DRYDOCK_PROFILE: {}", status.message())));
    (void)load_profile(kDefaultProfile, settings.profile);
  }

  if (const char* text = environment("DRYDOCK_DEVICES"); text != nullptr && *text != '\0') {
    const std::string_view view(text);
    int32_t count = 0;
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), count);
    if (error != std::errc() || end != view.data() + view.size() || count < 1 || count > kMaxDevices) {
      fail(Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("DRYDOCK_DEVICES=\"{}\" makes no sense: it is the number of virtual "
                                     "devices, 1 to {}",
                                     text, kMaxDevices)));
    } else {
      settings.installed_devices = count;
    }
  }

  for (int32_t device = 0; device < settings.installed_devices; ++device) settings.visible_devices.push_back(device);
  if (const char* text = environment("ASCEND_RT_VISIBLE_DEVICES"); text != nullptr) {
    fail(read_visible_devices(text, settings.installed_devices, settings.visible_devices));
  }

  if (const char* text = environment("DRYDOCK_GUARD"); text != nullptr && *text != '\0') {
    const std::string_view view(text);
    if (view != "0" && view != "1") {
      fail(Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("DRYDOCK_GUARD=\"{}\" makes no sense: 1 makes host code that "
                                     "touches a device address fault, 0 does not",
                                     text)));
    }
    settings.guard = view == "1";
  }

  fail(check_others());
  if (!settings.status.is_ok()) settings.visible_devices.clear();
  return settings;
}

const Settings& settings() noexcept {
  static const Settings& instance = *new Settings(read_settings());
  return instance;
}

Status settings_status() {
  const Status& status = settings().status;
  return status.is_ok() ? Status::ok() : Status::error(status.code(), status.message());
}

}  // namespace drydock::device
