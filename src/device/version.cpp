#include "device/version.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/generated/error_codes.h"
#include "device/log.h"
#include "device/profile.h"

namespace drydock::device {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// "RC1" with "RC": a word and at least one digit.
bool is_word_and_number(std::string_view text, std::string_view word) {
  return text.size() > word.size() && text.substr(0, word.size()) == word && is_number(text.substr(word.size()));
}

std::string_view take_until_dot(std::string_view& text) {
  const size_t dot = text.find('.');
  const std::string_view part = text.substr(0, dot);
  text = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
  return part;
}

int number_of(std::string_view text) { return is_number(text) ? std::stoi(std::string(text)) : 0; }

/// alpha, beta or rc, then an optional number, with or without a dot between: "beta", "beta2", "beta.2".
bool is_stage(std::string_view text) {
  for (const std::string_view word : {"alpha", "beta", "rc"}) {
    if (text.substr(0, word.size()) != word) continue;
    std::string_view rest = text.substr(word.size());
    if (rest.empty()) return true;
    if (rest.front() == '.') rest.remove_prefix(1);
    return is_number(rest);
  }
  return false;
}

bool take_apart(std::string_view text, Version& version) {
  if (text.size() >= 128) return false;  // the client's buffer, with its end
  version.text = text;
  std::string_view rest = text;
  version.major = take_until_dot(rest);
  version.minor = take_until_dot(rest);
  const size_t end = rest.find_first_of(".-");
  version.release = rest.substr(0, end);
  version.patch = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  const bool ends_open = end != std::string_view::npos && version.patch.empty();
  return is_number(version.major) && is_number(version.minor) && !version.release.empty() && !ends_open;
}

Status malformed(std::string_view what, std::string_view text, std::string_view forms) {
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                       std::string(what) + " version \"" + std::string(text) +
                           "\" has no form that torch_npu reads, so that it would count as version 0. "
                           "Forms: " +
                           std::string(forms) + ".");
}

struct DriverPair {
  int cann_major;
  int cann_minor;
  std::string_view driver;
};

/// Driver packages by the CANN they were released with, newest first (source: the vendor's release pairs; the first is
/// the pair that clients were traced with).
constexpr std::array kDriverPairs = {
    DriverPair{9, 1, "26.0.0"}, DriverPair{9, 0, "26.0.RC1"}, DriverPair{8, 5, "25.5.0"}, DriverPair{8, 3, "25.3.RC1"},
    DriverPair{8, 2, "25.2.0"}, DriverPair{8, 1, "25.0.RC1"}, DriverPair{8, 0, "24.1.0"}, DriverPair{7, 0, "23.0.0"},
};

}  // namespace

Status parse_cann_version(std::string_view text, Version& version) {
  Version parsed;
  bool is_good = take_apart(text, parsed);
  if (is_good) {
    const int major = number_of(parsed.major);
    const bool is_new = major > 8 || (major == 8 && number_of(parsed.minor) >= 5);
    if (is_new) {
      is_good = is_number(parsed.release) && (parsed.patch.empty() || is_stage(parsed.patch));
    } else {
      const bool has_dash = text.find('-') != std::string_view::npos;
      const bool is_release = is_number(parsed.release) || is_word_and_number(parsed.release, "RC") ||
                              is_word_and_number(parsed.release, "T");
      is_good = is_release && !has_dash && (parsed.patch.empty() || is_word_and_number(parsed.patch, "alpha"));
    }
  }
  if (!is_good) return malformed("CANN", text, "9.1.0, 9.0.0-beta.2, 8.3.RC1, 8.1.RC1.alpha002");
  version = std::move(parsed);
  return Status::ok();
}

Status parse_driver_version(std::string_view text, Version& version) {
  Version parsed;
  bool is_good = take_apart(text, parsed) && text.find('-') == std::string_view::npos;
  if (is_good) {
    is_good = (is_number(parsed.release) || is_word_and_number(parsed.release, "RC")) &&
              (parsed.patch.empty() || is_number(parsed.patch) || is_word_and_number(parsed.patch, "alpha") ||
               is_word_and_number(parsed.patch, "beta") || is_word_and_number(parsed.patch, "b"));
  }
  if (!is_good) return malformed("driver", text, "26.0.0, 25.5.0, 25.0.RC1, 25.0.RC1.1");
  version = std::move(parsed);
  return Status::ok();
}

std::string_view driver_of_cann(const Version& cann) {
  const auto number = std::pair(number_of(cann.major), number_of(cann.minor));
  const auto pair = std::find_if(kDriverPairs.begin(), kDriverPairs.end(), [&](const DriverPair& candidate) {
    return std::pair(candidate.cann_major, candidate.cann_minor) <= number;
  });
  return pair == kDriverPairs.end() ? kDriverPairs.back().driver : pair->driver;
}

ClaimedVersions read_versions(const char* cann, const char* driver) {
  const auto is_set = [](const char* text) { return text != nullptr && *text != '\0'; };
  ClaimedVersions claimed;
  const auto keep_first = [&](Status status) {
    if (claimed.status.is_ok()) claimed.status = std::move(status);
  };
  keep_first(parse_cann_version(profile().cann_version, claimed.cann));
  keep_first(parse_driver_version(profile().driver_version, claimed.driver));
  if (is_set(cann)) {
    Status status = parse_cann_version(cann, claimed.cann);
    if (status.is_ok()) keep_first(parse_driver_version(driver_of_cann(claimed.cann), claimed.driver));
    keep_first(std::move(status));
  }
  if (is_set(driver)) keep_first(parse_driver_version(driver, claimed.driver));
  return claimed;
}

const ClaimedVersions& claimed_versions() {
  static const ClaimedVersions& claimed = [&]() -> const ClaimedVersions& {
    const auto& read = *new ClaimedVersions(read_versions(std::getenv("DRYDOCK_CANN"), std::getenv("DRYDOCK_DRIVER")));
    // torch_npu goes on without a version, which turns features off silently.
    if (!read.status.is_ok()) log(LogLevel::kError, read.status.message());
    return read;
  }();
  return claimed;
}

bool cann_is_at_least(int major, int minor) {
  const Version& cann = claimed_versions().cann;
  return std::pair(number_of(cann.major), number_of(cann.minor)) >= std::pair(major, minor);
}

std::string_view version_of_package(std::string_view name) {
  constexpr std::array<std::string_view, 6> kAlways = {"runtime", "compiler", "hccl", "toolkit", "opp", "opp_kernel"};
  constexpr std::array<std::string_view, 5> kSince85 = {"ops_math", "ops_nn", "ops_transformer", "ops_cv",
                                                        "ops_legacy"};
  const auto holds = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (name == "driver") return claimed_versions().driver.text;
  if (holds(kAlways) || (holds(kSince85) && cann_is_at_least(8, 5))) return claimed_versions().cann.text;
  return {};
}

}  // namespace drydock::device
