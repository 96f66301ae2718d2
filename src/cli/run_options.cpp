#include "cli/run_options.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/thread_pool.h"
#include "device/settings.h"
#include "device/version.h"
#include "ledger/run_info.h"

extern char** environ;

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kBadOption = 100000;

// Variables of the caller's that change what a run does; the ledger shows them.
constexpr std::array<std::string_view, 8> kTellingPrefixes = {"PYTORCH_NPU_ALLOC_CONF",
                                                              "PYTORCH_ALLOC_CONF",
                                                              "TASK_QUEUE_ENABLE",
                                                              "MULTI_STREAM_MEMORY_REUSE",
                                                              "HCCL_",
                                                              "ASCEND_",
                                                              "TORCH_HCCL_",
                                                              "TORCH_NPU_"};

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::string given(const std::string& option, const char* name, const char* otherwise) {
  return option.empty() ? variable(name).value_or(otherwise) : option;
}

Status one_of(std::string_view option, const std::string& value, std::initializer_list<std::string_view> allowed) {
  std::string list;
  for (std::string_view each : allowed) {
    if (value == each) return Status::ok();
    list += fmt::format("{}{}", list.empty() ? "" : ", ", each);
  }
  return Status::error(kBadOption, fmt::format("{} \"{}\" makes no sense: it is one of {}.", option, value, list));
}

// A number of bytes, plain or with KiB, MiB or GiB behind it.
Status parse_budget(const std::string& text, uint64_t& bytes) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "KiB" || unit == "K") shift = 10;
  if (unit == "MiB" || unit == "M") shift = 20;
  if (unit == "GiB" || unit == "G") shift = 30;
  if (error != std::errc() || shift < 0 || bytes > (UINT64_MAX >> 1 >> shift))
    return Status::error(kBadOption, fmt::format("--value-budget \"{}\" makes no sense: it is a number of bytes, such "
                                                 "as 1048576 or 1MiB.",
                                                 text));
  bytes <<= shift;
  return Status::ok();
}

std::string with_in_front(const std::string& first, const char* name) {
  const std::optional<std::string> rest = variable(name);
  if (!rest) return first;
  // Started from within a run: once is enough.
  if (*rest == first || rest->starts_with(first + ":")) return *rest;
  return first + ":" + *rest;
}

}  // namespace

Status find_install_root(fs::path& root) {
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  root = binary.parent_path().parent_path();
  if (root.string().find_first_of(" :") != std::string::npos)
    return Status::error(
        ledger::kUnreadable,
        fmt::format(
            "Drydock is installed in \"{}\". LD_PRELOAD and LD_LIBRARY_PATH can't name a folder with a blank or "
            "a colon in it: install it (or make the virtual environment) in another one.",
            root.string()));
  const fs::path library = root / "cann" / "lib64" / "libascendcl.so";
  if (error || !fs::exists(library, error))
    return Status::error(ledger::kUnreadable,
                         fmt::format("The libraries of the virtual device are missing: {} is not there. "
                                     "Install drydock again (pip install --force-reinstall drydock).",
                                     library.string()));
  return Status::ok();
}

Status resolve_run(const RunOptions& options, const fs::path& root, const fs::path& run_folder, RunSettings& settings) {
  std::map<std::string, std::string>& set = settings.environment;
  ledger::RunInfo& info = settings.info;

  info.values = given(options.values, "DRYDOCK_VALUES", "auto");
  DRYDOCK_RETURN_IF_ERROR(one_of("--values", info.values, {"auto", "full", "ghost"}));
  info.record = given(options.record, "DRYDOCK_RECORD", "full");
  DRYDOCK_RETURN_IF_ERROR(one_of("--record", info.record, {"full", "null"}));
  const std::string holders = given(options.holders, "DRYDOCK_HOLDERS", "on");
  DRYDOCK_RETURN_IF_ERROR(one_of("--holders", holders, {"on", "off"}));
  uint64_t budget_bytes = 0;
  DRYDOCK_RETURN_IF_ERROR(parse_budget(given(options.value_budget, "DRYDOCK_VALUE_BUDGET", "1MiB"), budget_bytes));

  info.profile = given(options.profile, "DRYDOCK_PROFILE", device::kDefaultProfile);
  // The program may change its folder before it opens the device.
  if (info.profile.find('/') != std::string::npos || info.profile.ends_with(".toml") || info.profile.ends_with(".json"))
    info.profile = fs::absolute(info.profile).lexically_normal().string();
  device::Profile profile;
  if (Status status = device::load_profile(info.profile, profile); !status.is_ok())
    return Status::error(status.code(), fmt::format("--profile: {}", status.message()));

  const std::string devices = given(options.devices, "DRYDOCK_DEVICES", "1");
  const auto [end, error] = std::from_chars(devices.data(), devices.data() + devices.size(), info.devices);
  if (error != std::errc() || *end != '\0' || info.devices < 1 || info.devices > device::kMaxDevices)
    return Status::error(kBadOption,
                         fmt::format("--devices \"{}\" makes no sense: it is the number of virtual devices, 1 to {}.",
                                     devices, device::kMaxDevices));

  const std::string threads = given(options.threads, "DRYDOCK_THREADS", "");
  if (!threads.empty() && base::parse_thread_count(threads) == 0)
    return Status::error(kBadOption, fmt::format("--threads \"{}\" makes no sense: it is the number of threads that "
                                                 "compute operators, 1 to {}.",
                                                 threads, base::kMaxThreads));

  const std::string workspace = given(options.workspace, "DRYDOCK_WORKSPACE", "rules");
  DRYDOCK_RETURN_IF_ERROR(one_of("--workspace", workspace, {"rules", "none", "upper"}));

  const std::string check = given(options.check, "DRYDOCK_CHECK", "none");
  DRYDOCK_RETURN_IF_ERROR(one_of("--check", check, {"none", "streams"}));
  if (check != "none" && info.record == "null")
    return Status::error(kBadOption, "--check needs the trace, and --record null keeps none.");
  if (check == "none" && options.check_exit_code != 0)
    return Status::error(kBadOption, "--check-exit-code needs --check streams.");

  const std::string cann = given(options.cann, "DRYDOCK_CANN", "");
  const std::string driver = given(options.driver, "DRYDOCK_DRIVER", "");
  device::ClaimedVersions versions =
      device::read_versions(cann.empty() ? nullptr : cann.c_str(), driver.empty() ? nullptr : driver.c_str());
  if (!versions.status.is_ok()) return std::move(versions.status);

  set["DRYDOCK_RUN_DIR"] = run_folder.string();
  set["DRYDOCK_PROFILE"] = info.profile;
  set["DRYDOCK_DEVICES"] = std::to_string(info.devices);
  set["DRYDOCK_VALUES"] = info.values;
  set["DRYDOCK_VALUE_BUDGET"] = std::to_string(budget_bytes);
  set["DRYDOCK_RECORD"] = info.record;
  set["DRYDOCK_HOLDERS"] = holders;
  set["DRYDOCK_WORKSPACE"] = workspace;
  set["DRYDOCK_CHECK"] = check;
  if (!threads.empty()) set["DRYDOCK_THREADS"] = threads;
  if (!cann.empty()) set["DRYDOCK_CANN"] = cann;
  if (!driver.empty()) set["DRYDOCK_DRIVER"] = driver;
  if (options.guard || variable("DRYDOCK_GUARD").value_or("0") != "0") set["DRYDOCK_GUARD"] = "1";

  const fs::path cann_folder = root / "cann";
  const std::string libraries = (cann_folder / "lib64").string();
  set["ASCEND_HOME_PATH"] = cann_folder.string();
  set["ASCEND_OPP_PATH"] = (cann_folder / "opp").string();
  // Programs and their scripts find the virtual npu-smi, torch_npu's profiler its msprof.
  set["PATH"] =
      with_in_front((root / "bin").string() + ":" + (cann_folder / "tools" / "profiler" / "bin").string(), "PATH");
  // As CANN's set_env.sh does: pyACL.
  set["PYTHONPATH"] = with_in_front((cann_folder / "python" / "site-packages").string(), "PYTHONPATH");
  set["LD_LIBRARY_PATH"] = with_in_front(libraries, "LD_LIBRARY_PATH");
  // torch_npu tells its memory hooks about blocks only where a library of this name is preloaded.
  set["LD_PRELOAD"] = with_in_front(libraries + "/libascend_kernel_hook.so", "LD_PRELOAD");
  // With the queue, torch_npu launches from a second thread: the same allocations, twice the time on few cores.
  if (std::getenv("TASK_QUEUE_ENABLE") == nullptr) {
    set["TASK_QUEUE_ENABLE"] = "0";
    info.chosen.emplace_back("TASK_QUEUE_ENABLE");
  }

  info.drydock_version = DRYDOCK_VERSION;
  std::error_code ignored;
  info.working_directory = fs::current_path(ignored).string();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    for (std::string_view prefix : kTellingPrefixes)
      if (text.starts_with(prefix)) info.environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : set) info.environment[name] = value;
  return Status::ok();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Status make_run_folder(const std::string& out, fs::path& folder) {
  std::error_code error;
  if (!out.empty()) {
    folder = fs::absolute(out, error).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    if (fs::exists(folder, error)) {
      if (!fs::is_directory(folder, error))
        return Status::error(kBadOption,
                             fmt::format("--out: {} is a file, not a folder. Name a new folder.", folder.string()));
      if (!fs::is_empty(folder, error) || error)
        return Status::error(kBadOption,
                             fmt::format("--out: {} holds something already; a run is never written over another. "
                                         "Name a new folder, or remove this one.",
                                         folder.string()));
    }
    fs::create_directories(folder / "traces", error);
    if (error)
      return Status::error(ledger::kUnwritable,
                           fmt::format("--out: {} can't be made: {}.", folder.string(), error.message()));
    return Status::ok();
  }

  std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &parts);
  std::string failures;
  for (const fs::path& base : {fs::current_path(error), fs::temp_directory_path(error)}) {
    const fs::path runs = base / "drydock-runs";
    fs::create_directories(runs, error);
    for (int number = 1; number < 1000; ++number) {
      folder = runs / (number == 1 ? std::string(stamp) : fmt::format("{}-{}", stamp, number));
      // create_directory says false, without an error, where another run of this second was first.
      if (fs::create_directory(folder, error)) {
        fs::create_directory(folder / "traces", error);
        return Status::ok();
      }
      if (error) break;
    }
    failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", runs.string(), error.message());
  }
  return Status::error(ledger::kUnwritable,
                       fmt::format("No run folder can be made ({}). Name one with --out.", failures));
}

}  // namespace drydock::cli
