#include "page/page.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ledger/sizes.h"
#include "page/assets.h"
#include "page/device_page.h"

namespace drydock::page {
namespace {

using ledger::human_count;
using ledger::human_size;

constexpr size_t kMostLines = 500;
constexpr size_t kMostSegmentRows = 20;
// For a page of at most 5 MiB whatever the number of devices.
constexpr size_t kSpansOfAllDevices = 11'200;
constexpr size_t kMomentsOfAllDevices = 800;

// "12.55 GiB", with the exact bytes for who points at it, and for sorting.
std::string size_cell(uint64_t bytes) {
  return fmt::format("<td class=\"number\" data-value=\"{}\" title=\"{} bytes\">{}</td>", bytes, human_count(bytes),
                     human_size(bytes));
}

std::string count_cell(uint64_t count) {
  return fmt::format("<td class=\"number\" data-value=\"{}\">{}</td>", count, human_count(count));
}

std::string text_cell(std::string_view text, std::string_view title = {}) {
  return title.empty() ? fmt::format("<td>{}</td>", escape_html(text))
                       : fmt::format("<td title=\"{}\">{}</td>", escape_html(title), escape_html(text));
}

template <class Number, class Cell>
std::string cell_or_unknown(const std::optional<Number>& number, Cell&& cell_of) {
  return number ? cell_of(*number) : "<td class=\"number\" data-value=\"-1\">?</td>";
}

std::string table(std::string_view id, std::string_view caption, const std::vector<std::string_view>& headings,
                  const std::string& rows) {
  std::string head;
  for (std::string_view heading : headings) head += fmt::format("<th scope=\"col\">{}</th>", escape_html(heading));
  return fmt::format(
      "<div class=\"scroll\"><table id=\"{}\" class=\"sortable\"><caption>{}</caption><thead><tr>{}</tr></thead>"
      "<tbody>\n{}</tbody></table></div>\n",
      id, escape_html(caption), head, rows);
}

std::string lines_table(const DevicePage& page, size_t number) {
  std::string rows;
  for (size_t index = 0; index < std::min(page.lines.size(), kMostLines); ++index) {
    const LineRow& row = page.lines[index];
    rows += "<tr>" + text_cell(row.holder.place(), row.holder.function) + text_cell(row.holder.kind) +
            size_cell(row.bytes_at_peak) + count_cell(row.blocks_at_peak) + size_cell(row.peak_bytes) +
            fmt::format("<td class=\"number\" data-value=\"{0:.0f}\" title=\"{0:.0f} byte seconds\">{1:.2f}</td>",
                        row.byte_seconds, row.byte_seconds / (1024.0 * 1024.0 * 1024.0)) +
            size_cell(row.allocated_bytes) + count_cell(row.allocations) + size_cell(row.bytes_at_end) + "</tr>\n";
  }
  std::string caption = fmt::format("{} at their bytes when {} were highest", page.lines.size() == 1 ? "Line" : "Lines",
                                    page.has_blocks ? "allocated bytes" : "the driver's bytes");
  if (page.lines.size() > kMostLines)
    caption += fmt::format("; the largest {} of {}", human_count(kMostLines), human_count(page.lines.size()));
  return table(fmt::format("lines{}", number), caption,
               {"Line", "Kind", "At the peak", "Blocks", "Its own most", "GiB x s", "Allocated in all", "Allocations",
                "At the end"},
               rows);
}

// Who keeps a segment from being given back: the lines with blocks in it, the largest first.
std::string pinned_by(const DevicePage& page, const SegmentView& view) {
  std::map<std::string, uint64_t> bytes;
  for (size_t index = view.first_block; index < view.first_block + view.blocks; ++index) {
    const PlacedBlock& block = page.layout.layout.blocks[index];
    bytes[page.holders[block.holder].place()] += block.size_bytes;
  }
  std::vector<std::pair<uint64_t, std::string>> largest;
  largest.reserve(bytes.size());
  for (const auto& [place, size] : bytes) largest.emplace_back(size, place);
  std::sort(largest.rbegin(), largest.rend());
  std::string text;
  for (size_t index = 0; index < std::min<size_t>(largest.size(), 3); ++index)
    text += fmt::format("{}{} ({})", index == 0 ? "" : ", ", largest[index].second, human_size(largest[index].first));
  if (largest.size() > 3) text += fmt::format(" and {} more", largest.size() - 3);
  return text.empty() ? "nobody: it holds no block" : text;
}

std::string segments_table(const DevicePage& page, size_t number) {
  std::vector<const SegmentView*> emptiest;
  uint64_t unused = 0;
  for (const SegmentView& view : page.segments) {
    emptiest.push_back(&view);
    unused += view.segment.size_bytes - std::min(view.used_bytes, view.segment.size_bytes);
  }
  const auto unused_of = [](const SegmentView* view) {
    return view->segment.size_bytes - std::min(view->used_bytes, view->segment.size_bytes);
  };
  std::stable_sort(emptiest.begin(), emptiest.end(),
                   [&](const SegmentView* a, const SegmentView* b) { return unused_of(a) > unused_of(b); });
  std::string rows;
  for (size_t index = 0; index < std::min(emptiest.size(), kMostSegmentRows); ++index) {
    const SegmentView& view = *emptiest[index];
    rows += "<tr>" + text_cell(fmt::format("0x{:x}", view.segment.address & ((uint64_t{1} << 62) - 1))) +
            size_cell(view.segment.size_bytes) + size_cell(unused_of(&view)) + size_cell(view.largest_hole_bytes) +
            count_cell(view.blocks) + text_cell(pinned_by(page, view)) + "</tr>\n";
  }
  return table(fmt::format("segments{}", number),
               fmt::format("Segments with most unused bytes, of {} with {} unused in all",
                           human_count(page.segments.size()), human_size(unused)),
               {"Address", "Bytes", "Unused", "Largest hole", "Blocks", "Pinned by"}, rows);
}

// A search tries a thousand settings, best first: what one looks at is the front, what was confirmed, the default, and
// both ends.
std::vector<const ledger::TuneResult*> tune_rows(const std::vector<ledger::TuneResult>& results) {
  constexpr size_t kMostBest = 40;
  constexpr size_t kMostWorst = 10;
  std::vector<const ledger::TuneResult*> rows;
  for (size_t index = 0; index < results.size(); ++index) {
    const ledger::TuneResult& result = results[index];
    if (index < kMostBest || index + kMostWorst >= results.size() || result.is_pareto || result.is_confirmed ||
        result.setting.empty())
      rows.push_back(&result);
  }
  return rows;
}

std::string tune_table(const std::vector<ledger::TuneResult>& results) {
  if (results.empty()) return "";
  const std::vector<const ledger::TuneResult*> shown = tune_rows(results);
  std::string rows;
  for (const ledger::TuneResult* row : shown) {
    const ledger::TuneResult& result = *row;
    const auto percent = [](double share) {
      return fmt::format("<td class=\"number\" data-value=\"{}\">{:.1f}%</td>", share, share * 100);
    };
    const auto margin = [](int64_t bytes) {
      const uint64_t size = bytes < 0 ? 0 - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
      return fmt::format("<td class=\"number\" data-value=\"{}\" title=\"{}{} bytes\">{}{}</td>", bytes,
                         bytes < 0 ? "-" : "", human_count(size), bytes < 0 ? "-" : "", human_size(size));
    };
    rows +=
        fmt::format("<tr class=\"{}\">", result.is_confirmed ? "confirmed"
                                         : result.is_pareto  ? "pareto"
                                                             : "") +
        fmt::format("<td><code>{}</code></td>", escape_html(result.setting.empty() ? "(default)" : result.setting)) +
        cell_or_unknown(result.peak_reserved_bytes, size_cell) +
        cell_or_unknown(result.peak_allocated_bytes, size_cell) + cell_or_unknown(result.fragmentation, percent) +
        cell_or_unknown(result.retries, count_cell) + cell_or_unknown(result.driver_calls, count_cell) +
        text_cell(!result.fits   ? "?"
                  : *result.fits ? "yes"
                                 : "no") +
        cell_or_unknown(result.margin_bytes, margin) + text_cell(result.is_pareto ? "yes" : "") +
        text_cell(result.is_confirmed ? "yes" : "") + "</tr>\n";
  }
  const std::string caption =
      shown.size() == results.size()
          ? std::string("Found by drydock tune")
          : fmt::format(
                "Found by drydock tune: the best trades, and the best and the worst of {} settings; {} between are "
                "left out (the ledger's table tune_results has all)",
                human_count(results.size()), human_count(results.size() - shown.size()));
  return "<section aria-labelledby=\"settings-heading\"><h2 id=\"settings-heading\">Settings that were tried</h2>\n" +
         table("tune", caption,
               {"Setting", "Peak reserved", "Peak allocated", "Fragmentation", "Retries", "Driver calls", "Fits",
                "Margin", "Best trade", "Confirmed"},
               rows) +
         "</section>\n";
}

// What memory was for: where it ran out, else where most was allocated.
std::string account_section(const ledger::Report& report) {
  const bool died = report.verdict.kind == ledger::VerdictKind::kOutOfMemory;
  for (const ledger::AccountMoment& moment : report.account) {
    if (moment.name != (died ? "out of memory" : "peak")) continue;
    std::string parts;
    std::string holders;
    for (const ledger::AccountPart& part : moment.parts) {
      if (part.bytes == 0 && part.name != "unexplained") continue;
      parts += "<tr>" + text_cell(part.name) + size_cell(part.bytes) +
               (part.is_blocks ? size_cell(part.requested_bytes) + count_cell(part.blocks)
                               : std::string("<td class=\"number\"></td><td class=\"number\"></td>")) +
               "</tr>\n";
    }
    for (const ledger::AccountHolder& row : moment.holders)
      holders += "<tr>" + text_cell(row.kind) + text_cell(row.module) + text_cell(row.line) + text_cell(row.phase) +
                 size_cell(row.bytes) + count_cell(row.blocks) + "</tr>\n";
    const std::string_view when = died ? "when the driver had no room" : "when allocated bytes were highest";
    return fmt::format(
               "<section aria-labelledby=\"account-heading\"><h2 id=\"account-heading\">What memory was for, {}"
               "</h2>\n",
               when) +
           table("account", "Parts of the device", {"Part", "Bytes", "Asked for", "Blocks"}, parts) +
           table("account-holders", "Largest holders", {"Kind", "Module", "Line", "Born in", "Bytes", "Blocks"},
                 holders) +
           "</section>\n";
  }
  return "";
}

std::string sentences(const std::vector<std::string>& list) {
  if (list.empty()) return "";
  std::string items;
  for (const std::string& sentence : list) items += fmt::format("<li>{}</li>\n", escape_html(sentence));
  return "<section class=\"missing\" aria-labelledby=\"missing-heading\"><h2 id=\"missing-heading\">What is missing"
         "</h2><ul>\n" +
         items + "</ul></section>\n";
}

std::string cards(const DevicePage& page) {
  std::string list;
  const auto add = [&list](std::string_view what, uint64_t bytes) {
    list += fmt::format("<div><dt>{}</dt><dd title=\"{} bytes\">{}</dd></div>", what, human_count(bytes),
                        human_size(bytes));
  };
  add("peak allocated", page.peak_allocated_bytes);
  add("peak reserved", page.peak_reserved_bytes);
  add("peak workspace", page.peak_workspace_bytes);
  if (page.capacity_bytes > 0) add("capacity", page.capacity_bytes);
  list +=
      fmt::format("<div><dt>steps</dt><dd>{}</dd></div>", human_count(page.steps.empty() ? 0 : page.steps.back().step));
  return "<dl class=\"cards\">" + list + "</dl>\n";
}

// Everything of one device; the scripts fill what is empty here.
std::string device_section(const DevicePage& page, size_t number, std::string_view title) {
  const std::string layout_when =
      page.layout.is_refusal
          ? fmt::format("when the driver had no room, in step {}", page.layout.step)
          : fmt::format("when {} were highest, in step {}", page.has_blocks ? "allocated bytes" : "the driver's bytes",
                        page.layout.step);
  std::vector<std::string> absent;
  if (page.curve.empty()) absent.emplace_back("No device memory was allocated: there is no curve.");
  if (!page.curve.empty() && !page.has_blocks)
    absent.emplace_back(
        "No block of a caching allocator was recorded: driver memory counts as allocated, and the map shows it whole.");
  if (page.steps.empty()) absent.emplace_back("No step ended: the curve has no steps.");
  if (page.blocks_outside > 0)
    absent.emplace_back(fmt::format("{} blocks lie in no segment that the trace knows; the map leaves them out.",
                                    human_count(page.blocks_outside)));
  if (page.capacity_bytes == 0) absent.emplace_back("The device's capacity is not drawn: the trace does not tell it.");
  std::string notes;
  for (const std::string& sentence : absent) notes += fmt::format("<p class=\"note\">{}</p>\n", escape_html(sentence));
  std::string section = fmt::format(
      "<section class=\"device\" id=\"device{0}\" aria-labelledby=\"device{0}-heading\">\n<h2 id=\"device{0}-heading\">"
      "{1}</h2>\n",
      number, escape_html(title));
  section += cards(page) + notes;
  if (!page.curve.empty()) {
    section += fmt::format(
        "<div class=\"interactive curve\" data-device=\"{}\"></div>\n"
        "<div class=\"interactive flame\"></div>\n"
        "<h3>Where it lay, {}</h3>\n<div class=\"interactive map\"></div>\n",
        number, escape_html(layout_when));
    section += segments_table(page, number);
    section += "<h3>Lines</h3>\n" + lines_table(page, number);
  }
  section += fmt::format("<script type=\"application/json\" class=\"data\">{}</script>\n</section>\n",
                         escape_script_json(device_json(page)));
  return section;
}

// Replaces each {{name}} of the page, in one pass: what is put in is not looked at again.
std::string fill(std::string_view page, const std::map<std::string_view, std::string>& slots) {
  std::string filled;
  for (size_t begin = 0;;) {
    const size_t open = page.find("{{", begin);
    const size_t close = open == std::string_view::npos ? open : page.find("}}", open);
    if (close == std::string_view::npos) {
      filled += page.substr(begin);
      return filled;
    }
    filled += page.substr(begin, open - begin);
    filled += slots.at(page.substr(open + 2, close - open - 2));
    begin = close + 2;
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (char letter : text) {
    switch (letter) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += letter;
    }
  }
  return escaped;
}

std::string escape_script_json(std::string json) {
  for (size_t found = 0; (found = json.find('<', found)) != std::string::npos;) json.replace(found, 1, "\\u003c");
  return json;
}

std::string render_page(const ledger::Report& report, RunHistory& history,
                        const std::vector<ledger::TuneResult>& tune_results, const std::vector<std::string>& missing) {
  size_t devices = 0;
  for (const ProcessHistory& process : history.processes) devices += process.devices.size();
  std::string sections;
  std::string options;
  std::vector<std::string> absent = missing;
  size_t number = 0;
  for (uint32_t index = 0; index < history.processes.size(); ++index) {
    ProcessHistory& process = history.processes[index];
    for (auto& [device, memory] : process.devices) {
      if (devices > 4) memory.shrink_to(kSpansOfAllDevices / devices, kMomentsOfAllDevices / devices);
      const bool is_verdicts = report.verdict.process == static_cast<int>(index) && report.verdict.device == device;
      const bool died_here = is_verdicts && report.verdict.kind == ledger::VerdictKind::kOutOfMemory;
      const DevicePage page = make_device_page(index, process, memory, report.run.working_directory, died_here);
      const std::string title = devices == 1
                                    ? fmt::format("Memory of npu:{}", device)
                                    : fmt::format("Memory of npu:{} in process {}", device, process.process_id);
      options += fmt::format("<option value=\"device{}\"{}>npu:{} in process {}, peak {}</option>", number,
                             is_verdicts ? " selected" : "", device, process.process_id,
                             human_size(page.peak_allocated_bytes));
      sections += device_section(page, number++, title);
    }
  }
  if (devices == 0)
    absent.emplace_back("No trace of this run tells of device memory: there is no curve, no map and no table.");

  const std::string text = ledger::report_text(report);
  const size_t first_end = std::min(text.find('\n'), text.size());
  std::string heading = text.substr(0, first_end);
  if (heading.starts_with("drydock: ")) heading.erase(0, 9);
  std::string command;
  for (const std::string& word : report.run.command) command += (command.empty() ? "" : " ") + word;
  std::string selector;
  if (devices > 1)
    selector = "<p class=\"interactive\"><label>Device <select id=\"device\">" + options + "</select></label></p>";
  return fill(kPageHtml, {{"heading", escape_html(heading)},
                          {"kind", std::string(ledger::name_of(report.verdict.kind))},
                          {"verdict", escape_html(std::string_view(text).substr(std::min(first_end + 1, text.size())))},
                          {"command", escape_html(command)},
                          {"started", escape_html(report.run.started)},
                          {"version", escape_html(report.run.drydock_version)},
                          {"missing", sentences(absent)},
                          {"selector", selector},
                          {"devices", account_section(report) + sections},
                          {"tune", tune_table(tune_results)},
                          {"licence", escape_html(kChartLicence)},
                          {"page-css", std::string(kChartCss) + std::string(kPageCss)},
                          {"chart-script", std::string(kChartScript)},
                          {"page-script", std::string(kPageScript)}});
}

}  // namespace drydock::page
