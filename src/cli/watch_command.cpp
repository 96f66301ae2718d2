#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "device/profile.h"
#include "ledger/run_info.h"
#include "ledger/sizes.h"
#include "watch/chart.h"
#include "watch/npu_smi_table.h"
#include "watch/run_follower.h"
#include "watch/terminal.h"

namespace drydock::cli {
namespace {

using ledger::human_size;
using watch::DeviceFigures;
using watch::RunFollower;

constexpr int kPlainRows = 40;  // of a run that is over, where there is no terminal
constexpr int kLeastRows = 4;   // of a chart

std::string seconds_of(uint64_t ns) { return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9); }

watch::Chart chart_for(size_t charts) {
  const watch::ScreenSize size = watch::screen_size();
  // Each chart has a line of figures above and one of times below; one row is left for the line at the end.
  const int rows = (size.rows - 2) / static_cast<int>(std::max<size_t>(charts, 1)) - 2;
  return {.width = std::max(size.columns - 1, 20),
          .height = std::clamp(rows, kLeastRows, 30),
          .use_braille = watch::writes_utf8(),
          .use_color = watch::output_is_terminal() && std::getenv("NO_COLOR") == nullptr,
          .limit_bytes = 0};
}

std::string times_below(const watch::Chart& chart, const std::string& left, const std::string& right) {
  const int room = chart.width - 12 - static_cast<int>(left.size() + right.size());
  return std::string(12, ' ') + left + std::string(static_cast<size_t>(std::max(room, 1)), ' ') + right;
}

class RunWatch {
 public:
  explicit RunWatch(const std::string& run) : follower_(run) {}
  RunFollower& follower() { return follower_; }

  std::string figures(int32_t device, const DeviceFigures& figures) {
    const uint64_t limit = capacity(device);
    return fmt::format("npu:{}  allocated {}  reserved {}  workspace {}{}", device, human_size(figures.allocated),
                       human_size(figures.reserved), human_size(figures.workspace),
                       limit == 0 ? "" : fmt::format("  of {}", human_size(limit)));
  }

  std::vector<std::string> screen() {
    const std::vector<int32_t> devices = follower_.devices();
    std::vector<std::string> lines;
    watch::Chart chart = chart_for(devices.size());
    const uint64_t end = follower_.last_ns() + 1;
    const bool has_ended = follower_.has_ended();
    for (const int32_t device : devices) {
      chart.limit_bytes = capacity(device);
      const auto count = static_cast<uint64_t>(watch::chart_points(chart));
      std::vector<watch::ChartPoint> points;
      DeviceFigures peak;
      for (uint64_t index = 0; index < count; ++index) {
        const DeviceFigures figures = follower_.highest(device, end * index / count, end * (index + 1) / count);
        points.push_back({figures.allocated, figures.reserved + figures.workspace});
        peak.allocated = std::max(peak.allocated, figures.allocated);
        peak.reserved = std::max(peak.reserved, figures.reserved);
        peak.workspace = std::max(peak.workspace, figures.workspace);
      }
      // A process that ended holds nothing: then the peaks are worth more than zeros.
      lines.push_back(has_ended ? figures(device, peak) + "  (peaks)" : figures(device, follower_.now(device, false)));
      for (std::string& row : watch::draw_chart(chart, points)) lines.push_back(std::move(row));
      lines.push_back(times_below(chart, "0 s", fmt::format("{}, {} steps", seconds_of(end), follower_.steps())));
    }
    if (devices.empty()) lines.emplace_back("No process of this run has used the device yet.");
    return lines;
  }

  // As many rows as a page has, each with the highest figures of its stretch of time.
  void print_rows() {
    const uint64_t end = follower_.last_ns() + 1;
    for (const int32_t device : follower_.devices())
      for (uint64_t row = 0; row < kPlainRows; ++row) {
        const uint64_t begin = end * row / kPlainRows, until = end * (row + 1) / kPlainRows;
        if (until <= begin) continue;
        fmt::print("{:>9}  {}\n", seconds_of(until), figures(device, follower_.highest(device, begin, until)));
      }
  }

  void print_now() {
    for (const int32_t device : follower_.devices())
      fmt::print("{:>9}  step {}  {}\n", seconds_of(follower_.last_ns()), follower_.steps(),
                 figures(device, follower_.now(device, false)));
    std::fflush(stdout);
  }

 private:
  uint64_t capacity(int32_t device) {
    if (!profile_) {
      profile_.emplace();
      const std::string name = follower_.profile();
      if (name.empty() || !device::load_profile(name, *profile_).is_ok()) *profile_ = device::Profile();
    }
    return profile_->die(device).usable_bytes;
  }

  RunFollower follower_;
  std::optional<device::Profile> profile_;
};

int watch_run(const WatchOptions& options) {
  RunWatch run(options.run);
  const auto poll = [&] { return run.follower().poll(); };
  Status status = poll();
  if (status.is_ok() && !run.follower().has_ended() && !options.once) {
    watch::catch_signals();
    std::optional<watch::Screen> screen;
    if (watch::output_is_terminal()) screen.emplace();
    uint64_t shown = ~uint64_t{0};
    while (status.is_ok() && !watch::interrupted()) {
      if (screen) {
        screen->show(run.screen());
      } else if (run.follower().last_ns() != shown) {
        shown = run.follower().last_ns();
        run.print_now();
      }
      if (run.follower().has_ended()) break;
      watch::pause_for(options.interval_s);
      status = poll();
    }
    if (screen) {
      screen.reset();
      for (const std::string& line : run.screen()) fmt::print("{}\n", line);
    }
  } else if (status.is_ok()) {
    if (run.follower().devices().empty()) {
      complain(fmt::format("no process of {} used the device.", options.run));
    } else if (watch::output_is_terminal()) {
      for (const std::string& line : run.screen()) fmt::print("{}\n", line);
    } else {
      run.print_rows();
    }
  }
  for (const std::string& problem : run.follower().problems()) complain(problem);
  if (status.is_ok()) return 0;
  return refuse(status.message());
}

// Recorded outputs of npu-smi, one after the other: each begins with the line that names the version.
std::vector<std::string> tables_of(const std::string& text) {
  std::vector<std::string> tables;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool begins = line.find("npu-smi") != std::string::npos && line.find("Version:") != std::string::npos;
    if (begins || tables.empty()) tables.emplace_back();
    tables.back() += line + '\n';
  }
  if (tables.size() > 1 && tables[0].find('|') == std::string::npos)
    tables.erase(tables.begin());  // a rule, or a prompt
  return tables;
}

Status run_npu_smi(std::string& text) {
  FILE* pipe = popen("npu-smi info 2>&1", "r");
  if (pipe == nullptr) return Status::error(ledger::kUnreadable, "npu-smi can't be started.");
  text.clear();
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, got);
  const int end = pclose(pipe);
  if (end == 0) return Status::ok();
  if (WIFEXITED(end) && WEXITSTATUS(end) == 127)
    return Status::error(ledger::kUnreadable,
                         "There is no command npu-smi here. Run this where the driver is installed and /usr/local/sbin "
                         "is in PATH, or read recorded outputs with --file.");
  return Status::error(ledger::kUnreadable,
                       fmt::format("npu-smi info failed: {}", text.substr(0, std::min(text.find('\n'), size_t{200}))));
}

class NpuSmiWatch {
 public:
  void add(watch::NpuSmiTable table) {
    for (const watch::NpuSmiChip& chip : table.chips) {
      History& history = histories_[{chip.npu, chip.chip}];
      history.chip = chip;
      history.used.resize(samples_, 0);
      history.used.push_back(chip.hbm_total_mb > 0 ? chip.hbm_used_mb : chip.memory_used_mb);
    }
    ++samples_;
    version_ = std::move(table.version);
  }

  std::vector<std::string> rows() const {
    std::vector<std::string> rows;
    for (const auto& [place, history] : histories_) rows.push_back(figures(history));
    return rows;
  }

  std::vector<std::string> screen(const std::string& left, const std::string& right) const {
    std::vector<std::string> lines;
    if (!version_.empty()) lines.push_back("npu-smi " + version_);
    watch::Chart chart = chart_for(histories_.size());
    for (const auto& [place, history] : histories_) {
      lines.push_back(figures(history));
      chart.limit_bytes = total_mb(history.chip) << 20;
      const size_t count = static_cast<size_t>(watch::chart_points(chart));
      std::vector<watch::ChartPoint> points;
      for (size_t index = 0; index < count; ++index) {
        // Fewer samples than points: each is as wide as its share.
        const size_t begin = history.used.size() * index / count;
        const size_t end = std::max(history.used.size() * (index + 1) / count, begin + 1);
        uint64_t used = 0;
        for (size_t each = begin; each < std::min(end, history.used.size()); ++each)
          used = std::max(used, history.used[each]);
        points.push_back({used << 20, 0});
      }
      for (std::string& row : watch::draw_chart(chart, points)) lines.push_back(std::move(row));
      lines.push_back(times_below(chart, left, right));
    }
    return lines;
  }

 private:
  struct History {
    watch::NpuSmiChip chip;
    std::vector<uint64_t> used;  // MB
  };
  static uint64_t total_mb(const watch::NpuSmiChip& chip) {
    return chip.hbm_total_mb > 0 ? chip.hbm_total_mb : chip.memory_total_mb;
  }
  static std::string figures(const History& history) {
    const watch::NpuSmiChip& chip = history.chip;
    return fmt::format("NPU {} chip {}{} {} {}  {} {} of {} MB{}", chip.npu, chip.chip,
                       chip.physical < 0 ? "" : fmt::format(" (npu:{})", chip.physical), chip.name, chip.health,
                       chip.hbm_total_mb > 0 ? "HBM" : "memory", history.used.back(), total_mb(chip),
                       chip.aicore_percent < 0 ? "" : fmt::format("  AICore {}%", chip.aicore_percent));
  }

  std::map<std::pair<int32_t, int32_t>, History> histories_;
  size_t samples_ = 0;
  std::string version_;
};

int watch_npu_smi(const WatchOptions& options) {
  std::vector<std::string> recorded;
  for (const std::string& path : options.files) {
    std::ifstream file(path);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    if (!file || text.str().empty()) {
      return refuse(fmt::format("{} can't be read, or is empty.", path));
    }
    for (std::string& table : tables_of(text.str())) recorded.push_back(std::move(table));
  }
  watch::catch_signals();
  NpuSmiWatch chips;
  std::optional<watch::Screen> screen;
  const bool is_terminal = watch::output_is_terminal();
  size_t taken = 0;
  Status status = Status::ok();
  std::string text;
  while (!watch::interrupted()) {
    if (options.files.empty()) {
      status = run_npu_smi(text);
    } else {
      text = recorded[taken];
    }
    watch::NpuSmiTable table;
    if (status.is_ok()) status = watch::parse_npu_smi(text, table);
    if (!status.is_ok()) break;
    chips.add(std::move(table));
    ++taken;
    const bool is_last = options.once || (!options.files.empty() && taken == recorded.size());
    if (!is_terminal) {
      for (const std::string& row : chips.rows()) fmt::print("{:>6}  {}\n", taken, row);
      std::fflush(stdout);
    } else if (!is_last) {
      if (!screen) screen.emplace();
      screen->show(chips.screen("0 s", fmt::format("{:.1f} s", static_cast<double>(taken - 1) * options.interval_s)));
    }
    if (is_last) break;
    watch::pause_for(options.interval_s);
  }
  screen.reset();
  if (is_terminal && taken > 0)
    for (const std::string& line : chips.screen("first", fmt::format("{} readings", taken))) fmt::print("{}\n", line);
  if (status.is_ok()) return 0;
  return refuse(status.message());
}

}  // namespace

int watch_command(const WatchOptions& options) {
  if (options.npu_smi == !options.run.empty()) {
    return refuse("watch needs a RUN, or --npu-smi for the machine's real devices, and not both.");
  }
  if (!options.files.empty() && !options.npu_smi) {
    return refuse("--file holds recorded outputs of npu-smi: give --npu-smi, too.");
  }
  return options.npu_smi ? watch_npu_smi(options) : watch_run(options);
}

}  // namespace drydock::cli
