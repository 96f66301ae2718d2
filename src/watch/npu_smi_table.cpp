#include "watch/npu_smi_table.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace drydock::watch {
namespace {

constexpr int32_t kNoTable = 100006;  // the vendor's number for a text that can't be parsed

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\r')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// The cells of a row between bars; nothing for another line.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  line = trimmed(line);
  if (line.size() < 2 || line.front() != '|' || line.back() != '|') return cells;
  line = line.substr(1, line.size() - 2);
  for (size_t bar = line.find('|'); bar != std::string_view::npos; bar = line.find('|')) {
    cells.push_back(line.substr(0, bar));
    line.remove_prefix(bar + 1);
  }
  cells.push_back(line);
  return cells;
}

std::vector<std::string_view> words_of(std::string_view cell) {
  std::vector<std::string_view> words;
  while (!(cell = trimmed(cell)).empty()) {
    const size_t end = std::min(cell.find(' '), cell.size());
    words.push_back(cell.substr(0, end));
    cell.remove_prefix(end);
  }
  return words;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "0    / 65536", "31877/ 65536": pairs of used and total, in the order of the columns.
std::vector<std::pair<uint64_t, uint64_t>> pairs_of(std::string_view cell) {
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (size_t slash = cell.find('/'); slash != std::string_view::npos; slash = cell.find('/', slash + 1)) {
    const std::vector<std::string_view> before = words_of(cell.substr(0, slash));
    const std::vector<std::string_view> behind = words_of(cell.substr(slash + 1));
    if (before.empty() || behind.empty()) continue;
    const auto used = number_of<uint64_t>(before.back()), total = number_of<uint64_t>(behind.front());
    if (used && total) pairs.emplace_back(*used, *total);
  }
  return pairs;
}

enum class Part : uint8_t { kBefore, kChips, kProcesses };

}  // namespace

// A chip takes two rows: its card's number and name, then its own number, bus and figures.
Status parse_npu_smi(std::string_view text, NpuSmiTable& table) {
  table = NpuSmiTable();
  Part part = Part::kBefore;
  bool has_physical = false, has_memory = false, has_hbm = false;
  std::optional<NpuSmiChip> open;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::vector<std::string_view> cells = cells_of(line);
    if (cells.empty()) continue;
    if (const size_t version = line.find("Version:"); cells.size() == 1 && version != std::string_view::npos) {
      const std::vector<std::string_view> words = words_of(cells[0].substr(cells[0].find("Version:") + 8));
      if (!words.empty()) table.version = words.front();
      continue;
    }
    if (line.find("Process id") != std::string_view::npos) part = Part::kProcesses;
    if (part == Part::kProcesses || cells.size() < 3) continue;
    const std::string_view first = trimmed(cells[0]);
    if (first.starts_with("NPU")) {
      part = Part::kChips;
      continue;
    }
    if (first.starts_with("Chip") || (first.empty() && line.find("Bus-Id") != std::string_view::npos)) {
      has_physical = first.find("Phy-ID") != std::string_view::npos;
      has_memory = cells[2].find("Memory-Usage") != std::string_view::npos;
      has_hbm = cells[2].find("HBM-Usage") != std::string_view::npos;
      continue;
    }
    if (part != Part::kChips) continue;
    const std::vector<std::string_view> ids = words_of(cells[0]);
    if (!open) {
      const auto npu = ids.empty() ? std::nullopt : number_of<int32_t>(ids[0]);
      if (!npu) continue;
      open.emplace();
      open->npu = *npu;
      if (ids.size() > 1) open->name = ids[1];
      open->health = trimmed(cells[1]);
      continue;
    }
    NpuSmiChip chip = std::move(*open);
    open.reset();
    chip.chip = ids.empty() ? 0 : number_of<int32_t>(ids[0]).value_or(0);
    if (has_physical && ids.size() > 1) chip.physical = number_of<int32_t>(ids[1]).value_or(-1);
    const std::vector<std::string_view> figures = words_of(cells[2]);
    if (!figures.empty()) chip.aicore_percent = number_of<int32_t>(figures[0]).value_or(-1);
    const std::vector<std::pair<uint64_t, uint64_t>> pairs = pairs_of(cells[2]);
    if (has_memory && !pairs.empty()) std::tie(chip.memory_used_mb, chip.memory_total_mb) = pairs.front();
    if (has_hbm && !pairs.empty()) std::tie(chip.hbm_used_mb, chip.hbm_total_mb) = pairs.back();
    table.chips.push_back(std::move(chip));
  }
  if (part == Part::kBefore)
    return Status::error(kNoTable, "This is not what npu-smi info prints: it has no table with a column NPU.");
  if (table.chips.empty()) return Status::error(kNoTable, "The table of npu-smi info names no chip.");
  return Status::ok();
}

}  // namespace drydock::watch
