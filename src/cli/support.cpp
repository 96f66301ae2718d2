#include "cli/support.h"

#include <cstdio>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/support_table.h"
#include "cli/support_wheel.h"

namespace drydock::cli {
namespace {

constexpr int kAskedWrongly = 2;

struct Counts {
  std::map<std::string, int, std::less<>> entries;
  std::map<std::string, int, std::less<>> operators;

  explicit Counts(const std::vector<SupportLine>& lines) {
    for (const SupportLine& line : lines) {
      ++(line.is_operator() ? operators : entries)[std::string(line.support_class)];
    }
  }
};

std::vector<SupportLine> selected(const std::string& name) {
  if (name.empty()) return support_lines();
  if (const SupportLine* line = find_support_line(name)) return {*line};
  std::vector<SupportLine> lines;
  for (const SupportLine& line : support_lines()) {
    if (line.name.starts_with(name)) lines.push_back(line);
  }
  return lines;
}

std::string counts_text(const std::map<std::string, int, std::less<>>& counts) {
  std::string text;
  for (const auto& [support_class, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, support_class);
  }
  return text.empty() ? "none" : text;
}

void print_json(const std::vector<SupportLine>& lines) {
  const Counts counts(lines);
  nlohmann::json document;
  document["rows"] = nlohmann::json::array();
  for (const SupportLine& line : lines) {
    document["rows"].push_back({{"name", line.name},
                                {"kind", line.is_operator() ? "operator" : "entry"},
                                {"library", line.library},
                                {"class", line.support_class},
                                {"reason", line.reason}});
  }
  document["counts"] = {{"entries", counts.entries}, {"operators", counts.operators}};
  fmt::print("{}\n", document.dump(2));
}

void print_table(const std::vector<SupportLine>& lines) {
  size_t name_width = 0;
  for (const SupportLine& line : lines) name_width = std::max(name_width, std::min<size_t>(line.name.size(), 48));
  for (const SupportLine& line : lines) {
    // A modelled row has no reason, and no line ends in blanks.
    const std::string_view gap = line.reason.empty() ? "" : "  ";
    const size_t class_width = line.reason.empty() ? 0 : 8;
    fmt::print("{:<{}}  {:<19}{:<{}}{}{}\n", line.name, name_width, line.library, line.support_class, class_width, gap,
               line.reason);
  }
  const Counts counts(lines);
  fmt::print("\nentries: {}\noperators: {}\n", counts_text(counts.entries), counts_text(counts.operators));
}

}  // namespace

int run_support(const SupportOptions& options) {
  try {
    if (!options.wheel.empty()) {
      if (!options.name.empty()) {
        fmt::print(stderr, "drydock support: give a name or --wheel, not both.\n");
        return kAskedWrongly;
      }
      print_wheel_report(inspect_wheel(options.wheel), options.json);
      return 0;
    }
    const std::vector<SupportLine> lines = selected(options.name);
    if (lines.empty()) {
      fmt::print(stderr,
                 "drydock support: no row is named {0}, and no name begins with it. If a torch_npu wheel wants it, "
                 "'drydock support --wheel PATH' says so.\n",
                 options.name);
      return kAskedWrongly;
    }
    if (options.json) {
      print_json(lines);
    } else if (lines.size() == 1) {
      fmt::print("{}", describe(lines.front()));
    } else {
      print_table(lines);
    }
    return 0;
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "drydock support: {}\n", error.what());
    return kAskedWrongly;
  }
}

}  // namespace drydock::cli
