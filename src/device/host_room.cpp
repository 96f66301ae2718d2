#include "device/host_room.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/memory_account.h"
#include "values/policy.h"

namespace drydock::device {
namespace {

constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();
constexpr std::string_view kCure =
    "Use --values auto, which computes what decides shapes and control flow and keeps the rest as ghosts that take no "
    "memory, or a host with more.";

// The number behind "<name>" in a file of lines "<name>[:] <number> ..."; `otherwise` where there is none.
uint64_t field_of(const std::string& path, std::string_view name, uint64_t otherwise) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    if (uint64_t number = 0; rest >> number) return number;
  }
  return otherwise;
}

// The number that is the whole file; `otherwise` where it is missing or a word ("max").
uint64_t number_in(const std::string& path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : otherwise;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  ///< in memory.stat
};
constexpr GroupFiles kSecondVersion = {"/memory.max", "/memory.current", "inactive_file "};
constexpr GroupFiles kFirstVersion = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "};

uint64_t left_in_group(const std::string& folder, const GroupFiles& files) {
  const uint64_t limit = number_in(folder + files.limit, kEndless);
  if (limit == kEndless) return kEndless;
  const uint64_t usage = number_in(folder + files.usage, 0);
  // Cached files are given back before anything is killed.
  const uint64_t reclaimable = std::min(usage, field_of(folder + "/memory.stat", files.reclaimable, 0));
  const uint64_t used = usage - reclaimable;
  return limit > used ? limit - used : 0;
}

// The least that is left in the group at `path` and all groups around it.
uint64_t left_in_groups(const std::string& mount, std::string path, const GroupFiles& files) {
  uint64_t left = left_in_group(mount, files);
  while (path.size() > 1) {
    left = std::min(left, left_in_group(mount + path, files));
    path.resize(path.find_last_of('/'));
  }
  return left;
}

uint64_t left_in_groups(const std::string& root) {
  uint64_t left = kEndless;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") left = std::min(left, left_in_groups(root + "/sys/fs/cgroup", path, kSecondVersion));
    if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, left_in_groups(root + "/sys/fs/cgroup/memory", path, kFirstVersion));
    }
  }
  return left;
}

// Bytes of this process that are in memory and not of a file.
uint64_t anonymous_bytes() {
  uint64_t total = 0, resident = 0, shared = 0;
  std::ifstream file("/proc/self/statm");
  if (!(file >> total >> resident >> shared)) return 0;
  return (resident - std::min(resident, shared)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

HostRoom host_room(const std::string& root) {
  constexpr uint64_t kKibi = 1024;
  const std::string meminfo = root + "/proc/meminfo";
  HostRoom room{kEndless, "as far as is known"};
  if (const uint64_t available = field_of(meminfo, "MemAvailable:", kEndless); available != kEndless) {
    room = {(available + field_of(meminfo, "SwapFree:", 0)) * kKibi,
            "as MemAvailable and SwapFree in /proc/meminfo say"};
  }
  if (const uint64_t left = left_in_groups(root); left < room.available_bytes) {
    room = {left, "which is what the memory limit of its control group leaves"};
  }
  return room;
}

Status require_host_room(std::string_view entry, uint64_t asked_bytes, uint64_t held_bytes, trace::LineId line) {
  if (values::policy().mode != values::Mode::kFull) return Status::ok();
  // What the process had before its first device memory; what came since is taken for device memory that was written,
  // which errs to the side of letting a program run.
  static const uint64_t before = anonymous_bytes();
  const uint64_t now = anonymous_bytes();
  const uint64_t written = std::min(held_bytes, now - std::min(now, before));
  const uint64_t need = held_bytes - written + asked_bytes;
  const HostRoom room = host_room();
  if (need <= room.available_bytes) return Status::ok();
  const std::string beside = held_bytes > written ? fmt::format(" beside {} that are allocated and not written yet",
                                                                bytes_text(held_bytes - written))
                                                  : "";
  return Status::error(
      code::ACL_ERROR_RT_MEMORY_ALLOCATION,
      fmt::format("{}: the host has too little memory for --values full: {} of device memory asked at {}{} need {} of "
                  "the host, and it has {}, {}. {}",
                  entry, bytes_text(asked_bytes), line_text(line), beside, bytes_text(need),
                  bytes_text(room.available_bytes), room.source, kCure));
}

Status host_refused(uint64_t asked_bytes, std::string_view reason) {
  const HostRoom room = host_room();
  return Status::error(
      code::ACL_ERROR_RT_MEMORY_ALLOCATION,
      fmt::format("the host refused the {} that device memory needs with --values full ({}; it has {}, {}; look at "
                  "`ulimit -d` and vm.overcommit_memory). {}",
                  bytes_text(asked_bytes), reason, bytes_text(room.available_bytes), room.source, kCure));
}

}  // namespace drydock::device
