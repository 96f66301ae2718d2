#include "cli/support_wheel.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/support_elf.h"
#include "cli/support_table.h"
#include "cli/support_zip.h"

namespace drydock::cli {
namespace {

constexpr std::string_view kPhase1Suffix = "GetWorkspaceSize";

// How names of the vendor's C and C++ interfaces begin. What follows a C prefix is a capital letter, or the prefix
// carries its own lower-case word.
constexpr std::array<std::string_view, 19> kPrefixes = {
    "aclrt", "aclmdl", "aclop", "aclprof", "aclsys", "acltdt", "aclshmem", "aclsk",   "aclnn", "acl",
    "Hccl",  "Hcomm",  "rt",    "Msprof",  "mstx",   "mspti",  "dcmi_",    "dcmiv2_", "Lccl"};

bool looks_like_vendor(std::string_view name) {
  for (const std::string_view prefix : {"_ZN2ge", "_ZNK2ge", "_ZN3atb", "_ZNK3atb"}) {
    if (name.starts_with(prefix)) return true;
  }
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix) || name.size() < prefix.size() + 2) continue;
    const auto next = static_cast<unsigned char>(name[prefix.size()]);
    if (std::isupper(next) || prefix.ends_with('_')) return true;
  }
  return false;
}

struct Image {
  std::string file;
  std::string bytes;
};

std::vector<Image> read_images(const std::filesystem::path& path) {
  std::vector<Image> images;
  const auto is_shared_object = [](std::string_view name) { return name.find(".so") != std::string_view::npos; };
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (!entry.is_regular_file() || !is_shared_object(entry.path().filename().string())) continue;
      images.push_back({std::filesystem::relative(entry.path(), path).string(), read_file(entry.path())});
    }
  } else {
    const ZipArchive archive(path);
    for (const ZipMember& member : archive.members()) {
      if (is_shared_object(std::filesystem::path(member.name).filename().string())) {
        images.push_back({member.name, archive.read(member)});
      }
    }
  }
  std::erase_if(images, [](const Image& image) { return !is_elf(image.bytes); });
  std::sort(images.begin(), images.end(), [](const Image& a, const Image& b) { return a.file < b.file; });
  return images;
}

// True if the wheel defines a function of its own by this name (as part of a mangled name): then the string is a text.
bool is_own_function(const std::unordered_set<std::string_view>& components, std::string_view name) {
  return components.contains(name);
}

// The identifiers inside a mangled name: `_ZN7c10_npu3acl9AclrtInitEv` -> c10_npu, acl, AclrtInit.
void add_components(std::string_view mangled, std::unordered_set<std::string_view>& components) {
  if (!mangled.starts_with("_Z")) return;
  for (size_t at = 2; at < mangled.size();) {
    if (!std::isdigit(static_cast<unsigned char>(mangled[at]))) {
      ++at;
      continue;
    }
    size_t length = 0;
    while (at < mangled.size() && std::isdigit(static_cast<unsigned char>(mangled[at])) && length < mangled.size()) {
      length = length * 10 + static_cast<size_t>(mangled[at++] - '0');
    }
    if (length > mangled.size() - at) return;
    components.insert(mangled.substr(at, length));
    at += length;
  }
}

std::string state_of(const std::string& name) {
  const SupportLine* line = find_support_line(name);
  return line == nullptr ? "no row" : fmt::format("{}: {}", line->support_class, line->reason);
}

// Names grouped by what is said about them, so that a reason is printed once.
std::map<std::string, std::vector<std::string>> by_state(const std::set<std::string>& names) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const std::string& name : names) groups[state_of(name)].push_back(name);
  return groups;
}

void print_groups(const std::set<std::string>& names) {
  for (const auto& [state, group] : by_state(names)) {
    fmt::print("  {}\n", state);
    for (const std::string& name : group) fmt::print("    {}\n", name);
  }
}

template <class Predicate>
std::set<std::string> filtered(const std::set<std::string>& names, Predicate&& keep) {
  std::set<std::string> result;
  std::copy_if(names.begin(), names.end(), std::inserter(result, result.end()), keep);
  return result;
}

bool is_class(const std::string& name, std::string_view support_class) {
  const SupportLine* line = find_support_line(name);
  return line != nullptr && line->support_class == support_class;
}

nlohmann::json states(const std::set<std::string>& names) {
  nlohmann::json result = nlohmann::json::array();
  for (const std::string& name : names) {
    const SupportLine* line = find_support_line(name);
    result.push_back({{"name", name},
                      {"class", line == nullptr ? "no row" : line->support_class},
                      {"reason", line == nullptr ? "" : line->reason}});
  }
  return result;
}

}  // namespace

WheelReport inspect_wheel(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw std::runtime_error(fmt::format("there is no file or folder {}", path.string()));
  }
  std::vector<Image> images;
  try {
    images = read_images(path);
  } catch (const std::exception& failure) {
    throw std::runtime_error(fmt::format("can't read {} as a wheel: {}", path.string(), failure.what()));
  }
  if (images.empty()) throw std::runtime_error(fmt::format("{} holds no shared object", path.string()));

  std::vector<ElfNames> names;
  std::unordered_set<std::string_view> defined;
  std::unordered_set<std::string_view> components;
  for (const Image& image : images) {
    try {
      names.push_back(read_elf_names(image.bytes));
    } catch (const std::runtime_error& failure) {
      throw std::runtime_error(fmt::format("can't read {} in {}: {}", image.file, path.string(), failure.what()));
    }
    for (const std::string_view name : names.back().defined) {
      defined.insert(name);
      add_components(name, components);
    }
  }

  WheelReport report;
  std::set<std::string> aclnn_strings;
  for (size_t index = 0; index < images.size(); ++index) {
    WheelObject object;
    object.file = images[index].file;
    for (const std::string_view name : names[index].undefined) {
      const SupportLine* line = find_support_line(name);
      if (defined.contains(name) || (line == nullptr && !looks_like_vendor(name))) continue;
      ++object.linked;
      if (line == nullptr || !line->exported()) object.missing.emplace_back(name);
    }
    std::sort(object.missing.begin(), object.missing.end());
    if (object.linked > 0) report.objects.push_back(std::move(object));
    for (const std::string_view text : names[index].strings) {
      const SupportLine* line = find_support_line(text);
      if (text.starts_with("aclnn") && (line == nullptr || line->is_operator())) {
        aclnn_strings.emplace(text);
      } else if (line != nullptr) {
        report.looked_up.emplace(text);
      } else if (looks_like_vendor(text) && !is_own_function(components, text)) {
        report.unknown.emplace(text);
      }
    }
  }
  for (const std::string& name : aclnn_strings) {
    if (!aclnn_strings.contains(name + std::string(kPhase1Suffix))) continue;
    report.operators.insert(name);
    if (find_support_line(name) == nullptr) report.unknown_operators.insert(name);
  }
  return report;
}

void print_wheel_report(const WheelReport& report, bool json) {
  const auto absent = [](const std::string& name) { return is_class(name, "absent"); };
  const auto refused = [](const std::string& name) { return is_class(name, "refused"); };
  const std::set<std::string> absent_names = filtered(report.looked_up, absent);
  const std::set<std::string> refused_names = filtered(report.looked_up, refused);
  const std::set<std::string> refused_operators = filtered(report.operators, refused);
  if (json) {
    nlohmann::json document;
    document["linked"] = nlohmann::json::array();
    for (const WheelObject& object : report.objects) {
      document["linked"].push_back({{"file", object.file},
                                    {"names", object.linked},
                                    {"missing", states({object.missing.begin(), object.missing.end()})}});
    }
    document["looked_up"] = {{"names", report.looked_up.size()},
                             {"absent", states(absent_names)},
                             {"refused", states(refused_names)},
                             {"unknown", report.unknown}};
    document["operators"] = {{"names", report.operators.size()},
                             {"unknown", report.unknown_operators},
                             {"refused", states(refused_operators)}};
    fmt::print("{}\n", document.dump(2));
    return;
  }
  for (const WheelObject& object : report.objects) {
    fmt::print("{}: links {} names, {} missing\n", object.file, object.linked, object.missing.size());
    print_groups({object.missing.begin(), object.missing.end()});
  }
  fmt::print("\nlooked up by name: {} names, {} absent, {} refused\n", report.looked_up.size(), absent_names.size(),
             refused_names.size());
  print_groups(absent_names);
  print_groups(refused_names);
  if (!report.unknown.empty()) {
    fmt::print("\n{} strings look like names of the vendor's and have no row (some are only texts)\n",
               report.unknown.size());
    for (const std::string& name : report.unknown) fmt::print("    {}\n", name);
  }
  fmt::print("\noperators: {} names, {} unknown, {} refused\n", report.operators.size(),
             report.unknown_operators.size(), refused_operators.size());
  print_groups(report.unknown_operators);
  print_groups(refused_operators);
}

}  // namespace drydock::cli
