#include "device/profiler.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/generated/error_codes.h"

namespace drydock::device {
namespace {

namespace fs = std::filesystem;

struct Part {
  int64_t start_ns = 0;  // monotonic clock, as traces tell theirs
  int64_t stop_ns = 0;   // 0 while it runs
};

struct Session {
  std::mutex mutex;
  fs::path folder;           // empty: there is none
  int64_t wall_ns = 0;       // since 1970, and
  int64_t monotonic_ns = 0;  // at the same moment
  std::vector<Part> parts;
  std::vector<uint32_t> devices;
  uint32_t number = 0;  // of sessions so far
  pid_t pid = 0;        // whose it is: a forked child has none
};

Session& session() {
  static Session& the_session = *new Session;
  return the_session;
}

bool is_open(const Session& session) { return !session.folder.empty() && session.pid == getpid(); }

int64_t now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Status failed(const fs::path& path, std::string_view why) {
  return Status::error(code::ACL_ERROR_PROFILING_FAILURE,
                       fmt::format("The profiler's results can't be kept: {}: {}.", path.string(), why));
}

Status write_json(const fs::path& path, const nlohmann::ordered_json& json) {
  std::ofstream file(path, std::ios::trunc);
  file << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  file.flush();
  return file ? Status::ok() : failed(path, "it can't be written");
}

// "20261201093000123": local time to the millisecond, as in the vendor's folders.
std::string time_stamp() {
  constexpr int64_t kNsOfMs = 1'000'000;
  const int64_t wall_ns = now_ns(CLOCK_REALTIME);
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[16];
  std::strftime(text, sizeof(text), "%Y%m%d%H%M%S", &parts);
  return fmt::format("{}{:03}", text, wall_ns / kNsOfMs % 1000);
}

Status write_session(const Session& open, const fs::path& folder) {
  const char* run = std::getenv("DRYDOCK_RUN_DIR");
  nlohmann::ordered_json json = {{"run", run == nullptr ? "" : run},
                                 {"pid", open.pid},
                                 {"wall_ns", open.wall_ns},
                                 {"monotonic_ns", open.monotonic_ns},
                                 {"devices", open.devices}};
  json["parts"] = nlohmann::ordered_json::array();
  for (const Part& part : open.parts)
    json["parts"].push_back({{"start_monotonic_ns", part.start_ns}, {"stop_monotonic_ns", part.stop_ns}});
  return write_json(folder / "host" / "drydock.json", json);
}

Status without_session(std::string_view what) {
  return Status::error(code::ACL_ERROR_PROF_NOT_RUN, fmt::format("{}: the profiler is not open (aclprofInit).", what));
}

bool is_running(const Session& open) { return !open.parts.empty() && open.parts.back().stop_ns == 0; }

}  // namespace

Status open_profiler(std::string_view folder) {
  Session& open = session();
  const std::lock_guard lock(open.mutex);
  if (is_open(open))
    return Status::error(code::ACL_ERROR_PROF_ALREADY_RUN,
                         fmt::format("aclprofInit: the profiler is open already, with results in {}. Call "
                                     "aclprofFinalize first.",
                                     open.folder.string()));
  const uint32_t number = open.number + 1;
  const fs::path made = fs::path(folder) / fmt::format("PROF_{:06}_{}_{:08X}{:08X}", number, time_stamp(),
                                                       static_cast<uint32_t>(getpid()), number);
  std::error_code error;
  fs::create_directories(made / "host", error);
  if (error) return failed(made, error.message());
  const int64_t raw_ns = now_ns(CLOCK_MONOTONIC_RAW);
  open.wall_ns = now_ns(CLOCK_REALTIME);
  open.monotonic_ns = now_ns(CLOCK_MONOTONIC);
  open.pid = getpid();
  open.parts.clear();
  open.devices.clear();
  DRYDOCK_RETURN_IF_ERROR(write_json(
      made / "host" / "start_info",
      {{"collectionTimeBegin", std::to_string(open.wall_ns / 1000)}, {"clockMonotonicRaw", std::to_string(raw_ns)}}));
  DRYDOCK_RETURN_IF_ERROR(write_session(open, made));
  open.number = number;
  open.folder = made;
  return Status::ok();
}

Status start_profiler(const std::vector<uint32_t>& devices) {
  Session& open = session();
  const std::lock_guard lock(open.mutex);
  if (!is_open(open)) return without_session("aclprofStart");
  if (is_running(open))
    return Status::error(code::ACL_ERROR_PROF_ALREADY_RUN, "aclprofStart: it was started and not stopped since.");
  for (const uint32_t device : devices) {
    std::error_code error;
    const fs::path folder = open.folder / fmt::format("device_{}", device);
    fs::create_directory(folder, error);
    if (error) return failed(folder, error.message());
    if (std::find(open.devices.begin(), open.devices.end(), device) == open.devices.end())
      open.devices.push_back(device);
  }
  open.parts.push_back({now_ns(CLOCK_MONOTONIC), 0});
  Status status = write_session(open, open.folder);
  if (!status.is_ok()) open.parts.pop_back();
  return status;
}

Status stop_profiler() {
  Session& open = session();
  const std::lock_guard lock(open.mutex);
  if (!is_open(open)) return without_session("aclprofStop");
  if (!is_running(open)) return Status::error(code::ACL_ERROR_PROF_NOT_RUN, "aclprofStop: nothing was started.");
  open.parts.back().stop_ns = now_ns(CLOCK_MONOTONIC);
  return write_session(open, open.folder);
}

Status close_profiler() {
  Session& open = session();
  const std::lock_guard lock(open.mutex);
  if (!is_open(open)) return without_session("aclprofFinalize");
  if (is_running(open)) open.parts.back().stop_ns = now_ns(CLOCK_MONOTONIC);
  Status status = write_session(open, open.folder);
  open.folder.clear();
  return status;
}

}  // namespace drydock::device
