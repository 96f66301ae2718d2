#include "device/profile.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

#define TOML_HEADER_ONLY 1
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <toml++/toml.h>

#include "base/generated/error_codes.h"
#include "base/generated/soc_names.h"
#include "device/builtin_profiles.h"
#include "device/settings.h"
#include "device/version.h"

namespace drydock::device {
namespace {

using Json = nlohmann::json;

// Flattened text: dotted key -> value, and the line it stands on (0 where the format does not tell).
struct Entry {
  Json value;
  uint32_t line = 0;
};
using Entries = std::map<std::string, Entry, std::less<>>;

std::string join(std::string_view prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
}

void flatten(const Json& object, std::string_view prefix, Entries& entries) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = join(prefix, key);
    if (value.is_object()) {
      flatten(value, path, entries);
    } else {
      entries[path] = {value, 0};
    }
  }
}

void flatten(const toml::table& table, std::string_view prefix, Entries& entries) {
  for (const auto& [key, node] : table) {
    const std::string path = join(prefix, key.str());
    const uint32_t line = node.source().begin.line;
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, path, entries);
    } else if (const auto* text = node.as_string()) {
      entries[path] = {text->get(), line};
    } else if (const auto* integer = node.as_integer()) {
      entries[path] = {integer->get(), line};
    } else if (const auto* real = node.as_floating_point()) {
      entries[path] = {real->get(), line};
    } else {
      entries[path] = {nullptr, line};  // a boolean, list or date: no key takes one
    }
  }
}

constexpr int32_t kNpuArch = 2201;  // of the devices that profiles are made from

Status parse_text(std::string_view text, std::string_view format, std::string_view origin, Entries& entries) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return Status::error(code::ACL_ERROR_PARSE_FILE,
                         fmt::format("{}: the profile is empty: all keys are missing. Write at least `base = \"{}\"` "
                                     "(in JSON {{\"base\": \"{}\"}}) and the keys that are to differ from there",
                                     origin, kDefaultProfile, kDefaultProfile));
  if (format == "json") {
    try {
      const Json json = Json::parse(text);
      if (!json.is_object()) {
        return Status::error(code::ACL_ERROR_PARSE_FILE, fmt::format("{}: the profile is not a JSON object", origin));
      }
      flatten(json, "", entries);
    } catch (const Json::exception& error) {
      return Status::error(code::ACL_ERROR_PARSE_FILE, fmt::format("{}: not valid JSON: {}", origin, error.what()));
    }
    return Status::ok();
  }
  try {
    flatten(toml::parse(text), "", entries);
  } catch (const toml::parse_error& error) {
    return Status::error(code::ACL_ERROR_PARSE_FILE, fmt::format("{}:{}: not valid TOML: {}", origin,
                                                                 error.source().begin.line, error.description()));
  }
  return Status::ok();
}

// Takes values out of the entries, each once; the first thing wrong stays in `status`.
class Reader {
 public:
  Reader(Entries& entries, std::string_view origin, bool has_base)
      : entries_(entries), origin_(origin), has_base_(has_base) {}

  bool has(std::string_view key) const { return entries_.find(key) != entries_.end(); }

  void text(std::string_view key, std::string& out) {
    take(key, true, [&](const Json& value) -> std::string {
      if (!value.is_string()) return "must be a text in quotes";
      const auto& text = value.get_ref<const std::string&>();
      if (text.empty()) return "must not be empty";
      if (std::any_of(text.begin(), text.end(), [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }))
        return fmt::format("is {}: it must not hold control characters", value.dump());
      out = text;
      return "";
    });
  }

  /// A text that `parse` takes, such as a version.
  template <class Parse>
  void checked_text(std::string_view key, std::string& out, Parse parse) {
    const uint32_t line = line_of(key);
    const bool is_there = has(key);
    text(key, out);
    if (!is_there || !status_.is_ok()) return;
    if (Status parsed = parse(out); !parsed.is_ok())
      fail(code::ACL_ERROR_FILE_ATTR_INVALID, line, fmt::format("'{}': {}", key, parsed.message()));
  }

  uint32_t line_of(std::string_view key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? 0 : found->second.line;
  }

  void count(std::string_view key, int32_t& out, int64_t least, int64_t most) {
    int64_t wide = out;
    integer(key, wide, least, most, true);
    out = static_cast<int32_t>(wide);
  }

  void bytes(std::string_view key, uint64_t& out, uint64_t least, bool required = true) {
    auto wide = static_cast<int64_t>(out);
    integer(key, wide, static_cast<int64_t>(least), int64_t{1} << 50, required);
    out = static_cast<uint64_t>(wide);
  }

  void integer(std::string_view key, int64_t& out, int64_t least, int64_t most, bool required = true) {
    take(key, required, [&](const Json& value) -> std::string {
      if (!value.is_number_integer()) return "must be a whole number";
      // A JSON number above int64 arrives unsigned and must not wrap.
      const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most);
      const int64_t number = too_large ? most : value.get<int64_t>();
      if (!too_large && number < 0 && least >= 0) return fmt::format("is {}: it must not be negative", number);
      if (too_large || number < least || number > most) {
        return fmt::format("is {}: it must lie between {} and {}", value.dump(), least, most);
      }
      out = number;
      return "";
    });
  }

  void rate(std::string_view key, double& out) {
    take(key, true, [&](const Json& value) -> std::string {
      if (!value.is_number()) return "must be a number";
      const double number = value.get<double>();
      if (!std::isfinite(number) || number <= 0 || number > 1e9) {
        return fmt::format("is {}: it must be above 0 and finite", number);
      }
      out = number;
      return "";
    });
  }

  /// Every key that nobody asked for is a mistake: most often a misspelling.
  Status finish(const std::vector<std::string>& known_keys) {
    if (status_.is_ok() && !entries_.empty()) {
      const auto& [key, entry] = *entries_.begin();
      std::string list;
      for (const std::string& known : known_keys) list += (list.empty() ? "" : ", ") + known;
      fail(code::ACL_ERROR_FILE_ATTR_INVALID, entry.line,
           fmt::format("there is no key '{}' in a profile. Keys: {}", key, list));
    }
    return std::move(status_);
  }

  void fail(int32_t error_code, uint32_t line, const std::string& what) {
    if (!status_.is_ok()) return;
    status_ = Status::error(
        error_code, line == 0 ? fmt::format("{}: {}", origin_, what) : fmt::format("{}:{}: {}", origin_, line, what));
  }

  const std::vector<std::string>& asked() const { return asked_; }

 private:
  template <class Use>
  void take(std::string_view key, bool required, Use use) {
    asked_.emplace_back(key);
    auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (required && !has_base_) {
        fail(
            code::ACL_ERROR_FILE_MISSING_ATTR, 0,
            fmt::format("the key '{}' is missing. Add it, or add `base = \"{}\"` to take what you leave out from there",
                        key, kDefaultProfile));
      }
      return;
    }
    if (std::string complaint = use(found->second.value); !complaint.empty()) {
      fail(code::ACL_ERROR_FILE_ATTR_INVALID, found->second.line, fmt::format("'{}' {}", key, complaint));
    }
    entries_.erase(found);
  }

  Entries& entries_;
  std::string_view origin_;
  bool has_base_;
  std::vector<std::string> asked_;
  Status status_ = Status::ok();
};

void check_die(Reader& reader, std::string_view prefix, const DieMemory& die, uint64_t hbm_bytes) {
  if (die.usable_bytes > hbm_bytes) {
    reader.fail(
        code::ACL_ERROR_FILE_ATTR_INVALID, 0,
        fmt::format("'{}usable_bytes' ({}) is more than 'memory.hbm_bytes' ({})", prefix, die.usable_bytes, hbm_bytes));
  } else if (die.usable_bytes > kMaxUsableBytes) {
    reader.fail(code::ACL_ERROR_FILE_ATTR_INVALID, 0,
                fmt::format("'{}usable_bytes' is {}: a device of more than {} bytes is not supported", prefix,
                            die.usable_bytes, kMaxUsableBytes));
  } else if (die.idle_bytes + die.context_bytes >= die.usable_bytes) {
    reader.fail(code::ACL_ERROR_FILE_ATTR_INVALID, 0,
                fmt::format("'{}idle_bytes' and '{}context_bytes' ({} together) leave nothing of the {} usable bytes",
                            prefix, prefix, die.idle_bytes + die.context_bytes, die.usable_bytes));
  }
}

bool is_soc_name(std::string_view name) {
  return name.starts_with("Ascend950") || std::any_of(std::begin(kSocNames), std::end(kSocNames),
                                                      [&](const SocName& known) { return known.name == name; });
}

const BuiltinProfile* find_builtin(std::string_view name) {
  for (const BuiltinProfile& builtin : kBuiltinProfiles) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

bool is_path(std::string_view name) {
  return name.ends_with(".toml") || name.ends_with(".json") || name.find('/') != std::string_view::npos;
}

std::string list_of_profiles() {
  std::string list;
  for (const std::string& name : profile_names()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

// Profiles that name each other as their base would never come to an end.
constexpr int kMostBases = 8;

Status load_nested(std::string_view name_or_path, int bases, Profile& profile);

Status parse_nested(std::string_view text, std::string_view format, std::string_view origin, int bases,
                    Profile& profile) {
  Entries entries;
  DRYDOCK_RETURN_IF_ERROR(parse_text(text, format, origin, entries));

  Profile result;
  const auto base = entries.find("base");
  const bool has_base = base != entries.end();
  if (has_base) {
    std::string name = base->second.value.is_string() ? base->second.value.get<std::string>() : "";
    const bool is_file = is_path(name);
    if (!is_file && find_builtin(name) == nullptr) {
      return Status::error(code::ACL_ERROR_FILE_ATTR_INVALID,
                           fmt::format("{}: 'base' must name one of the built-in profiles ({}), or the file of another",
                                       origin, list_of_profiles()));
    }
    if (bases == kMostBases)
      return Status::error(code::ACL_ERROR_FILE_ATTR_INVALID,
                           fmt::format("{}: 'base' leads through more than {} profiles", origin, kMostBases));
    if (is_file) name = (std::filesystem::path(origin).parent_path() / name).string();
    entries.erase(base);
    DRYDOCK_RETURN_IF_ERROR(load_nested(name, bases + 1, result));
  }

  Reader reader(entries, origin, has_base);
  const bool usable_follows_chip = has_base && reader.has("memory.hbm_bytes") && !reader.has("memory.usable_bytes");
  const bool has_odd_die = reader.has("memory.odd_die.usable_bytes") || reader.has("memory.odd_die.idle_bytes") ||
                           reader.has("memory.odd_die.context_bytes");
  const bool changes_die = reader.has("memory.hbm_bytes") || reader.has("memory.usable_bytes") ||
                           reader.has("memory.idle_bytes") || reader.has("memory.context_bytes");
  const uint64_t hidden_bytes = result.hbm_bytes - result.even_die.usable_bytes;

  reader.text("name", result.name);
  reader.text("soc_name", result.soc_name);
  reader.count("cores.cube", result.cube_cores, 1, 1024);
  reader.count("cores.vector", result.vector_cores, 1, 1024);
  reader.count("cores.ai_cpu", result.ai_cpu_cores, 0, 1024);
  reader.count("cores.cube_mhz", result.cube_mhz, 1, 100'000);
  const uint32_t arch_line = reader.line_of("cores.npu_arch");
  reader.count("cores.npu_arch", result.npu_arch, 1, 1'000'000);
  reader.bytes("memory.hbm_bytes", result.hbm_bytes, 1);
  if (usable_follows_chip) {
    result.even_die.usable_bytes = result.hbm_bytes > hidden_bytes ? result.hbm_bytes - hidden_bytes : 0;
  }
  reader.bytes("memory.usable_bytes", result.even_die.usable_bytes, 1, !usable_follows_chip);
  reader.bytes("memory.idle_bytes", result.even_die.idle_bytes, 0);
  reader.bytes("memory.context_bytes", result.even_die.context_bytes, 0);
  reader.bytes("memory.l2_bytes", result.l2_bytes, 0);
  reader.bytes("memory.ub_bytes", result.ub_bytes, 0);
  reader.rate("memory.hbm_tbs", result.hbm_tbs);
  // What the user changed holds for both dies, unless the profile says otherwise.
  if (!has_base || changes_die) result.odd_die = result.even_die;
  reader.bytes("memory.odd_die.usable_bytes", result.odd_die.usable_bytes, 1, false);
  reader.bytes("memory.odd_die.idle_bytes", result.odd_die.idle_bytes, 0, false);
  reader.bytes("memory.odd_die.context_bytes", result.odd_die.context_bytes, 0, false);
  reader.bytes("hccl.buffer_bytes", result.hccl_buffer_bytes, 1, false);
  int64_t hccl_buffers = result.hccl_buffers;
  reader.integer("hccl.buffers", hccl_buffers, 0, 16, false);
  result.hccl_buffers = static_cast<int32_t>(hccl_buffers);
  reader.bytes("hccl.fixed_bytes", result.hccl_fixed_bytes, 0, false);
  reader.rate("rates.bf16_tflops", result.bf16_tflops);
  reader.rate("rates.fp16_tflops", result.fp16_tflops);
  reader.rate("rates.int8_tops", result.int8_tops);
  reader.rate("rates.fp32_cube_tflops", result.fp32_cube_tflops);
  reader.rate("rates.vector_fp16_tflops", result.vector_fp16_tflops);
  reader.rate("rates.vector_fp32_tflops", result.vector_fp32_tflops);
  Version version;
  reader.checked_text("versions.cann", result.cann_version,
                      [&](std::string_view value) { return parse_cann_version(value, version); });
  reader.checked_text("versions.driver", result.driver_version,
                      [&](std::string_view value) { return parse_driver_version(value, version); });
  reader.integer("host.operator_issue_ns", result.operator_issue_ns, 0, 1'000'000'000);

  if (result.npu_arch != 0 && result.npu_arch != kNpuArch)
    reader.fail(code::ACL_ERROR_FILE_ATTR_INVALID, arch_line,
                fmt::format("'cores.npu_arch' is {}: the only one known is {}, of the 910B and 910C families",
                            result.npu_arch, kNpuArch));
  check_die(reader, "memory.", result.even_die, result.hbm_bytes);
  if (has_odd_die) check_die(reader, "memory.odd_die.", result.odd_die, result.hbm_bytes);
  if (!result.soc_name.empty() && !is_soc_name(result.soc_name)) {
    reader.fail(code::ACL_ERROR_FILE_ATTR_INVALID, 0,
                fmt::format("'soc_name' is \"{}\": torch_npu takes only names that it knows (such as Ascend910_9392, "
                            "Ascend910B1 .. Ascend910B4) and raises for any other",
                            result.soc_name));
  }
  DRYDOCK_RETURN_IF_ERROR(reader.finish(reader.asked()));
  profile = std::move(result);
  return Status::ok();
}

Status load_nested(std::string_view name_or_path, int bases, Profile& profile) {
  if (!is_path(name_or_path)) {
    const BuiltinProfile* builtin = find_builtin(name_or_path);
    if (builtin == nullptr) {
      return Status::error(code::ACL_ERROR_INVALID_FILE,
                           fmt::format("there is no profile '{}'. Built in: {}. A profile of your own is "
                                       "named by its path, ending in .toml or .json",
                                       name_or_path, list_of_profiles()));
    }
    return parse_nested(builtin->text, "toml", builtin->name, bases, profile);
  }
  const std::string path(name_or_path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || !text) {
    return Status::error(code::ACL_ERROR_INVALID_FILE,
                         fmt::format("the profile {} can't be read: {}", path, std::strerror(errno)));
  }
  return parse_nested(text.str(), path.ends_with(".json") ? "json" : "toml", path, bases, profile);
}

}  // namespace

Status parse_profile(std::string_view text, std::string_view format, std::string_view origin, Profile& profile) {
  return parse_nested(text, format, origin, 0, profile);
}

Status load_profile(std::string_view name_or_path, Profile& profile) { return load_nested(name_or_path, 0, profile); }

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const BuiltinProfile& builtin : kBuiltinProfiles) names.emplace_back(builtin.name);
  return names;
}

const Profile& profile() noexcept { return settings().profile; }

}  // namespace drydock::device
