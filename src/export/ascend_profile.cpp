#include "export/ascend_profile.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "export/kernel_table.h"
#include "export/output_file.h"
#include "export/run_traces.h"

namespace drydock::exports {
namespace {

namespace fs = std::filesystem;
using timeline::Span;

constexpr int32_t kMissing = 100003;
constexpr int32_t kUnwritable = 100004;
constexpr int32_t kDamaged = 100006;

struct Part {
  int64_t start_ns = 0;
  int64_t stop_ns = 0;
};

struct Session {
  std::string run;
  int32_t pid = 0;
  int64_t wall_ns = 0;       // since 1970, and
  int64_t monotonic_ns = 0;  // at the same moment
  std::vector<Part> parts;   // monotonic clock
};

Status read_session(const fs::path& prof, Session& session) {
  const fs::path path = prof / "host" / "drydock.json";
  std::ifstream file(path);
  if (!file)
    return Status::error(
        kMissing, fmt::format("{} is no folder of Drydock's profiler: there is no {}.", prof.string(), path.string()));
  std::ostringstream text;
  text << file.rdbuf();
  try {
    const nlohmann::json json = nlohmann::json::parse(text.str());
    session.run = json.at("run");
    session.pid = json.at("pid");
    session.wall_ns = json.at("wall_ns");
    session.monotonic_ns = json.at("monotonic_ns");
    for (const nlohmann::json& part : json.at("parts")) {
      const int64_t stop = part.at("stop_monotonic_ns");
      session.parts.push_back({part.at("start_monotonic_ns"), stop == 0 ? std::numeric_limits<int64_t>::max() : stop});
    }
  } catch (const nlohmann::json::exception& exception) {
    return Status::error(kDamaged, fmt::format("{} is damaged: {}", path.string(), exception.what()));
  }
  if (session.run.empty())
    return Status::error(kMissing, fmt::format("{}: the program ran without a run folder, so nothing was recorded. "
                                               "Start it with drydock run.",
                                               prof.string()));
  return Status::ok();
}

// One session of one process, as its files show it.
class Profile {
 public:
  Profile(const trace::Reader& reader, const Session& session, const CallFacts& facts)
      : reader_(reader), session_(session), table_(reader, facts.core_of) {}

  void read(timeline::Timeline& line, trace::Reader& reader) {
    trace::Record record;
    Span span;
    while (reader.next(record))
      if (line.take(record, span) && is_wanted(span)) spans_.push_back(span);
  }

  // All files appear at once: whoever waits for the first table goes on to read the others.
  Status write(const fs::path& folder) const {
    const fs::path draft = folder.string() + fmt::format(".{}", getpid());
    std::error_code error;
    fs::remove_all(draft, error);
    fs::create_directories(draft, error);
    if (error) return unwritable(draft, error);
    Status status = write_files(draft);
    if (status.is_ok()) {
      fs::remove_all(folder, error);
      fs::rename(draft, folder, error);
      if (error) status = unwritable(folder, error);
    }
    if (!status.is_ok()) fs::remove_all(draft, error);
    return status;
  }

  const std::vector<Span>& spans() const { return spans_; }

 private:
  static Status unwritable(const fs::path& folder, const std::error_code& error) {
    return Status::error(kUnwritable, fmt::format("{} can't be made: {}.", folder.string(), error.message()));
  }

  Status write_files(const fs::path& folder) const {
    const std::string stamp = stamp_of_now();
    const int64_t wall_ns = session_.wall_ns - session_.monotonic_ns + reader_.info().start_monotonic_ns;
    DRYDOCK_RETURN_IF_ERROR(table_.write_summary(spans_, wall_ns, folder / ("op_summary_" + stamp + ".csv")));
    DRYDOCK_RETURN_IF_ERROR(table_.write_statistic(spans_, folder / ("op_statistic_" + stamp + ".csv")));
    DRYDOCK_RETURN_IF_ERROR(table_.write_task_times(spans_, wall_ns, folder / ("task_time_" + stamp + ".csv")));
    return table_.write_timeline(spans_, wall_ns, folder / ("msprof_" + stamp + ".json"));
  }

  static std::string stamp_of_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    char text[16];
    std::strftime(text, sizeof(text), "%Y%m%d%H%M%S", &parts);
    return text;
  }

  bool is_wanted(const Span& span) const {
    const int64_t time = reader_.info().start_monotonic_ns + static_cast<int64_t>(span.recorded_ns);
    return std::any_of(session_.parts.begin(), session_.parts.end(),
                       [time](const Part& part) { return time >= part.start_ns && time <= part.stop_ns; });
  }

  const trace::Reader& reader_;
  const Session& session_;
  KernelTable table_;
  std::vector<Span> spans_;
};

Status export_one(const fs::path& prof, const FactsOf& facts_of, const timeline::Timeline::EntryName& entry_name,
                  std::vector<std::string>& sentences) {
  Session session;
  DRYDOCK_RETURN_IF_ERROR(read_session(prof, session));
  RunTrace trace;
  DRYDOCK_RETURN_IF_ERROR(choose_trace(session.run, session.pid, trace, sentences));
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(trace.path.string(), reader));
  CallFacts facts = facts_of(*reader);
  facts.clocks.follows_recorded_host = true;
  timeline::Timeline line(facts.clocks, entry_name);
  Profile profile(*reader, session, facts);
  profile.read(line, *reader);
  const auto unknown =
      std::count_if(profile.spans().begin(), profile.spans().end(), [](const Span& span) { return !span.is_known; });
  if (unknown > 0)
    sentences.push_back(fmt::format("{} of {} calls and copies have no known device time: they are shown with none.",
                                    unknown, profile.spans().size()));
  return profile.write(prof / "mindstudio_profiler_output");
}

}  // namespace

Status export_ascend_profile(const fs::path& prof, const FactsOf& facts_of,
                             const timeline::Timeline::EntryName& entry_name, std::vector<std::string>& sentences) {
  std::error_code error;
  if (fs::exists(prof / "host", error)) return export_one(prof, facts_of, entry_name, sentences);
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(prof, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().filename().string().starts_with("PROF_")) found.push_back(entry->path());
  if (found.empty())
    return Status::error(kMissing, fmt::format("{} is no folder of a profiler, and holds none.", prof.string()));
  std::sort(found.begin(), found.end());
  for (const fs::path& each : found) DRYDOCK_RETURN_IF_ERROR(export_one(each, facts_of, entry_name, sentences));
  return Status::ok();
}

}  // namespace drydock::exports
