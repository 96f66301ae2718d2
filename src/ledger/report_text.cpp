#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ledger/report.h"
#include "ledger/sizes.h"

namespace drydock::ledger {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kLabelColumns = 12;
constexpr size_t kListedRaces = 20;
constexpr size_t kListed = 3;  ///< rows of a list that are printed; the rest is counted

// Text is UTF-8: what counts is characters.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

// The end of a path says more than its beginning.
std::string shortened(const std::string& line, size_t columns = 56) {
  if (columns_of(line) <= columns) return line;
  const size_t keep_from = line.size() - (columns - 3);
  const size_t slash = line.find('/', keep_from);
  return "..." + line.substr(slash == std::string::npos ? keep_from : slash);
}

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", human_count(count), count == 1 ? one : many);
}

class Page {
 public:
  // Words wrap at the page's width, below the first one. A word that is too long has a line of its own.
  void add(std::string_view label, std::string_view text) {
    std::string line = fmt::format("  {:<{}}", label, kLabelColumns - 2);
    const std::string indent(kLabelColumns, ' ');
    size_t used = kLabelColumns;
    bool is_first_word = true;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = text.find(' ', begin);
      if (end == std::string_view::npos) end = text.size();
      const std::string_view word = text.substr(begin, end - begin);
      begin = end + 1;
      const size_t wide = columns_of(word);
      if (!is_first_word && used + 1 + wide > kColumns) {
        text_ += line + "\n";
        line = indent;
        used = kLabelColumns;
        is_first_word = true;
      }
      if (!is_first_word) {
        line += ' ';
        ++used;
      }
      line += word;
      used += wide;
      is_first_word = false;
    }
    text_ += line + "\n";
  }
  void add_heading(std::string_view text) {
    std::string_view rest = text;
    std::string line = "drydock:";
    size_t used = line.size();
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view word = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (used + 1 + columns_of(word) > kColumns) {
        text_ += line + "\n";
        line = "        ";
        used = line.size();
      }
      line += fmt::format(" {}", word);
      used += 1 + columns_of(word);
    }
    text_ += line + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string ended(const Report& report) {
  const RunInfo& run = report.run;
  return run.exit_code ? fmt::format("exit code {}, {}", *run.exit_code, duration(run.wall_s)) : "exit code unknown";
}

std::string steps_text(const Report& report) {
  return report.steps > 0 ? counted(report.steps, "step", "steps") : std::string("no optimizer steps");
}

std::string heading(const Report& report) {
  const Verdict& verdict = report.verdict;
  switch (verdict.kind) {
    case VerdictKind::kOutOfMemory: {
      // Without an optimizer there are no steps to count; the first one can't be told from none.
      const std::string step = verdict.step > 1 || report.steps > 0 ? fmt::format("in step {} ", verdict.step)
                                                                    : std::string("before a first step ended ");
      return fmt::format("OUT OF MEMORY ({}) {}on npu:{}, at {}", name_of(verdict.memory_class), step,
                         std::max(verdict.device, 0), shortened(verdict.line));
    }
    case VerdictKind::kFailed: {
      std::string text = "FAILED";
      if (!verdict.exception_type.empty()) text += fmt::format(" with {}", verdict.exception_type);
      if (!verdict.line.empty()) text += fmt::format(" at {}", shortened(verdict.line));
      return fmt::format("{} ({}; {})", text, ended(report), steps_text(report));
    }
    case VerdictKind::kRan:
      if (verdict.is_running) return fmt::format("runs so far ({})", steps_text(report));
      // Programs of a shell (drydock env): nobody waits for them, and none has come.
      if (!report.run.exit_code && report.processes == 0)
        return fmt::format("nothing has run on the device ({})", ended(report));
      return fmt::format("ran to its end ({}; {})", ended(report), steps_text(report));
  }
  return "";
}

void add_holders(const std::vector<HolderLine>& holders, std::string_view label, Page& page) {
  for (size_t index = 0; index < std::min(holders.size(), kListed); ++index) {
    const HolderLine& holder = holders[index];
    page.add(index == 0 ? label : "",
             fmt::format("{:>10} in {}{} from {}", human_size(holder.bytes), counted(holder.blocks, "block", "blocks"),
                         holder.is_workspace ? " of workspace" : "", shortened(holder.line)));
  }
}

void add_evidence(const Verdict& verdict, Page& page) {
  bool is_first = true;
  for (const std::string& sentence : verdict.evidence) {
    if (sentence == verdict.device_unknown) continue;  // has a row of its own
    page.add(is_first ? "why" : "", sentence);
    is_first = false;
  }
}

void add_out_of_memory(const Report& report, Page& page) {
  const Verdict& verdict = report.verdict;
  page.add("asked", fmt::format("{}; allocated {}, reserved {}, free {} of {}", human_size(verdict.requested_bytes),
                                human_size(verdict.allocated_bytes), human_size(verdict.reserved_bytes),
                                human_size(verdict.free_bytes), human_size(verdict.capacity_bytes)));
  add_evidence(verdict, page);
  add_holders(verdict.holders, "holders", page);
  for (size_t index = 0; index < verdict.advice.size(); ++index)
    page.add(index == 0 ? "try" : "or",
             index == 0 ? fmt::format("{}: {}", verdict.advice[index].action, verdict.advice[index].reason)
                        : verdict.advice[index].action);
}

void add_failure(const Report& report, Page& page) {
  const Verdict& verdict = report.verdict;
  if (!verdict.exception_text.empty()) page.add("said", verdict.exception_text);
  add_evidence(verdict, page);
  if (report.errors.size() > 1)
    page.add("errors",
             fmt::format("{} different ones; the most frequent: {} answered {}, {}, at {}", report.errors.size(),
                         report.errors.front().entry, report.errors.front().code,
                         counted(report.errors.front().count, "time", "times"), shortened(report.errors.front().line)));
}

std::string percent(uint64_t part, uint64_t whole) {
  if (part == 0 || whole == 0) return "0%";
  const double share = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return share < 1 ? "<1%" : fmt::format("{:.0f}%", share);
}

// The moment that matters: where memory ran out, else where most was allocated.
void add_account(const Report& report, Page& page) {
  const std::string_view wanted = report.verdict.kind == VerdictKind::kOutOfMemory ? "out of memory" : "peak";
  for (const AccountMoment& moment : report.account) {
    if (moment.name != wanted) continue;
    std::string blocks, rest;
    uint64_t allocated = 0, unexplained = 0;
    for (const AccountPart& part : moment.parts) {
      if (part.is_blocks) allocated += part.bytes;
      if (part.name == "unexplained") unexplained = part.bytes;
      if (part.bytes == 0 || part.name == "unexplained") continue;
      std::string& list = part.is_blocks ? blocks : rest;
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", part.name, human_size(part.bytes));
    }
    if (allocated > 0 && unexplained < allocated)
      page.add("account", fmt::format("{}{}unexplained {} ({})", blocks, blocks.empty() ? "" : ", ",
                                      human_size(unexplained), percent(unexplained, allocated)));
    // The line "asked" has the rest already.
    if (report.verdict.kind != VerdictKind::kOutOfMemory && allocated > 0 && unexplained < allocated)
      page.add("", rest);
  }
}

// Sentences of doors begin with the name, which the page has already.
std::string_view without_name(const RefusalRow& row) {
  const std::string_view reason = row.reason;
  return reason.starts_with(row.name + ": ") ? reason.substr(row.name.size() + 2) : reason;
}

/// The first rows, one sentence each, and how many more there are.
template <class Row, class Sentence>
void add_listed(Page& page, std::string_view label, const std::vector<Row>& rows, Sentence&& sentence_of) {
  for (size_t index = 0; index < std::min(rows.size(), kListed); ++index) {
    page.add(index == 0 ? label : "", sentence_of(rows[index]));
  }
  if (rows.size() > kListed) page.add("", fmt::format("and {} more", rows.size() - kListed));
}

void add_operators(const Report& report, Page& page) {
  page.add(
      "operators",
      report.operator_calls == 0
          ? std::string("none were called")
          : fmt::format(
                "{} of {} ({}): {} computed, {} ghost{}", counted(report.operator_calls, "call", "calls"),
                counted(report.distinct_operators, "operator", "operators"),
                counted(report.distinct_calls, "shape", "shapes"), percent(report.computed, report.operator_calls),
                percent(report.ghost, report.operator_calls),
                report.assumed > 0 ? fmt::format(", {} assumed", percent(report.assumed, report.operator_calls)) : ""));
  add_listed(page, "on host", report.host_fallbacks, [](const FallbackRow& row) {
    return fmt::format("{} has no NPU kernel: {} on the CPU, at {}", row.name, counted(row.calls, "call", "calls"),
                       shortened(row.line));
  });
  add_listed(page, "on AICPU", report.on_aicpu, [](const FallbackRow& row) {
    return fmt::format("{}: {} on the device's own CPU, not its cores, at {}", row.name,
                       counted(row.calls, "call", "calls"), shortened(row.line));
  });
  add_listed(page, "refused", report.refusals, [](const RefusalRow& row) {
    return fmt::format("{} ({}, at {}): {}", row.name, counted(row.calls, "call", "calls"), shortened(row.line),
                       without_name(row));
  });
}

void add_races(const Report& report, Page& page) {
  if (!report.streams_were_checked()) return;
  if (report.races.empty()) page.add("streams", "checked: no two touched the same memory without a wait between them");
  for (size_t index = 0; index < std::min(report.races.size(), kListedRaces); ++index) {
    page.add(index == 0 ? "RACES" : "", fmt::format("{}. {}", index + 1, sentence_of(report.races[index])));
    page.add("", fmt::format("Missing {}.", cure_of(report.races[index])));
  }
  if (report.races.size() > kListedRaces)
    page.add("", fmt::format("and {} more (drydock ledger RUN --json)", report.races.size() - kListedRaces));
}

std::string words_of(const AssumptionRow& row) {
  if (row.kind == "host-read") {
    return counted(row.count, "read of a value that nobody computed", "reads of values that nobody computed");
  }
  if (row.kind == "operator-result") {
    return counted(row.count, "result made up from such values", "results made up from such values");
  }
  return counted(row.count, "shape made up from such values", "shapes made up from such values");
}

void add_assumptions(const Report& report, Page& page) {
  uint64_t total = 0;
  for (const AssumptionRow& row : report.assumptions) total += row.count;
  if (total == 0) {
    page.add("assumed", "nothing: every value the program read was computed or copied");
    return;
  }
  const AssumptionRow& most = report.assumptions.front();
  page.add("assumed",
           fmt::format("{}; most at {}: {}. What depends on them (losses, norms) means nothing.",
                       counted(total, "value or shape", "values or shapes"), shortened(most.line), words_of(most)));
}

}  // namespace

std::string report_text(const Report& report) {
  Page page;
  page.add_heading(heading(report));
  const Verdict& verdict = report.verdict;
  if (verdict.kind == VerdictKind::kOutOfMemory) add_out_of_memory(report, page);
  if (verdict.kind == VerdictKind::kFailed) add_failure(report, page);
  if (report.records == 0) {
    page.add("device", !verdict.device_unknown.empty() ? verdict.device_unknown
                       : report.run.record == "null"   ? "nothing was recorded: DRYDOCK_RECORD is null"
                                                       : "not used: no process of this run called it");
  } else {
    page.add("peaks",
             fmt::format("allocated {}, reserved {}, workspace {}; {} in {}", human_size(report.peak_allocated_bytes),
                         human_size(report.peak_reserved_bytes), human_size(report.peak_workspace_bytes),
                         counted(report.blocks, "block", "blocks"), counted(report.segments, "segment", "segments")));
    add_account(report, page);
    bool is_first_of_workspaces = true;
    for (const std::string& sentence : sentences_of(report.workspaces)) {
      page.add(is_first_of_workspaces ? "workspace" : "", sentence);
      is_first_of_workspaces = false;
    }
    if (verdict.kind != VerdictKind::kOutOfMemory) {
      add_holders(report.peak_holders, "held by", page);
      if (report.survived_out_of_memories > 0)
        page.add("tight", fmt::format("the device was full {}; the program coped",
                                      counted(report.survived_out_of_memories, "time", "times")));
    }
    const bool died = verdict.kind == VerdictKind::kOutOfMemory;
    bool is_first = true;
    for (const std::string& sentence : sentences_of(verdict.trend, static_cast<uint32_t>(report.steps), died)) {
      page.add(is_first ? "trend" : "", sentence);
      is_first = false;
    }
    add_races(report, page);
    add_operators(report, page);
    add_assumptions(report, page);
  }
  if (report.records > 0 &&
      std::find(report.run.chosen.begin(), report.run.chosen.end(), "TASK_QUEUE_ENABLE") != report.run.chosen.end())
    page.add("set", "TASK_QUEUE_ENABLE=0, as you had not set it: the same allocations, half the wall time");
  if (report.lost > 0)
    page.add("missing", fmt::format("{} could not be written; all numbers are lower bounds",
                                    counted(report.lost, "record", "records")));
  if (report.records > 0 && verdict.unreadable_traces > 0)
    page.add("missing", fmt::format("{} could not be read; all numbers are lower bounds",
                                    counted(verdict.unreadable_traces, "trace", "traces")));
  for (const std::string& sentence : report.problems)
    if (report.records > 0 || !verdict.device_unknown.ends_with(sentence)) page.add("problem", sentence);
  if (!report.ledger.empty()) page.add("ledger", report.ledger.string());
  return page.take();
}

}  // namespace drydock::ledger
