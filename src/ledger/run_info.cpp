#include "ledger/run_info.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace drydock::ledger {

using Json = nlohmann::ordered_json;

std::string RunInfo::variable(const std::string& name) const {
  auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::string RunInfo::allocator_settings() const {
  std::string settings = variable("PYTORCH_NPU_ALLOC_CONF");
  return settings.empty() ? variable("PYTORCH_ALLOC_CONF") : settings;
}

Status write_run_info(const std::filesystem::path& run_folder, const RunInfo& info) {
  Json json;
  json["drydock"] = info.drydock_version;
  json["command"] = info.command;
  json["working_directory"] = info.working_directory;
  json["started"] = info.started;
  json["exit_code"] = info.exit_code ? Json(*info.exit_code) : Json(nullptr);
  json["launcher_pid"] = info.launcher_pid;
  json["wall_s"] = info.wall_s;
  json["profile"] = info.profile;
  json["devices"] = info.devices;
  json["values"] = info.values;
  json["record"] = info.record;
  json["environment"] = info.environment;
  json["chosen"] = info.chosen;

  const std::filesystem::path path = run_folder / "run.json";
  const std::filesystem::path draft = run_folder / "run.json.new";
  {
    std::ofstream file(draft, std::ios::trunc);
    // Arguments of a command are bytes, not always UTF-8: what is not becomes U+FFFD.
    file << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    file.flush();
    if (!file)
      return Status::error(kUnwritable, fmt::format("{} can't be written: {}", draft.string(), std::strerror(errno)));
  }
  std::error_code error;
  std::filesystem::rename(draft, path, error);
  if (error) return Status::error(kUnwritable, fmt::format("{} can't be written: {}", path.string(), error.message()));
  return Status::ok();
}

Status read_run_info(const std::filesystem::path& run_folder, RunInfo& info) {
  const std::filesystem::path path = run_folder / "run.json";
  std::ifstream file(path);
  if (!file)
    return Status::error(kUnreadable, fmt::format("{} can't be read: {}", path.string(), std::strerror(errno)));
  std::ostringstream text;
  text << file.rdbuf();
  try {
    const Json json = Json::parse(text.str());
    info.drydock_version = json.value("drydock", "");
    info.command = json.value("command", std::vector<std::string>());
    info.working_directory = json.value("working_directory", "");
    info.started = json.value("started", "");
    info.exit_code.reset();
    if (json.contains("exit_code") && json["exit_code"].is_number_integer()) info.exit_code = json["exit_code"];
    info.launcher_pid = json.value("launcher_pid", int64_t{0});
    info.wall_s = json.value("wall_s", 0.0);
    info.profile = json.value("profile", "");
    info.devices = json.value("devices", 1);
    info.values = json.value("values", "auto");
    info.record = json.value("record", "full");
    info.environment = json.value("environment", std::map<std::string, std::string>());
    info.chosen = json.value("chosen", std::vector<std::string>());
  } catch (const Json::exception& exception) {
    return Status::error(kUnreadable, fmt::format("{} is damaged: {}", path.string(), exception.what()));
  }
  return Status::ok();
}

}  // namespace drydock::ledger
