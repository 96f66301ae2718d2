#include "page/device_page.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ledger/verdict.h"

namespace drydock::page {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostStepMarks = 2000;
constexpr size_t kMostBlocksDrawn = 40'000;

std::string_view kind_text(HolderKind kind) {
  switch (kind) {
    case HolderKind::kBlock: return "block";
    case HolderKind::kScratch: return "workspace in the cache";
    case HolderKind::kWorkspace: return "workspace";
    case HolderKind::kDriver: return "driver memory";
  }
  return "";
}

HolderText holder_text(const ProcessHistory& process, const HolderKey& key, std::string_view working_directory) {
  HolderText text;
  text.kind = kind_text(key.kind);
  if (key.kind == HolderKind::kBlock) text.block = ledger::name_of(key.block_kind);
  if (const auto owner = process.owners.find(key.name); owner != process.owners.end() && !owner->second.empty())
    text.module = owner->second;
  else if (const auto module = process.modules.find(key.module); module != process.modules.end())
    text.module = module->second;
  if (key.line == 0 || key.line >= process.lines.size()) return text;
  const ledger::SourceLine& line = process.lines[key.line];
  text.file = ledger::line_text(line, working_directory);
  // The text has the line's number behind the file, which may hold colons itself.
  const std::string number = fmt::format(":{}", line.line);
  if (text.file.ends_with(number)) text.file.resize(text.file.size() - number.size());
  text.line = line.line;
  text.function = line.function;
  return text;
}

// Every n-th, so that there are not too many; the last one always.
std::vector<StepMark> thinned(const std::vector<StepMark>& steps) {
  if (steps.size() <= kMostStepMarks) return steps;
  const size_t stride = (steps.size() + kMostStepMarks - 1) / kMostStepMarks;
  std::vector<StepMark> kept;
  for (size_t index = stride - 1; index < steps.size(); index += stride) kept.push_back(steps[index]);
  if (kept.back().step != steps.back().step) kept.push_back(steps.back());
  return kept;
}

// Microseconds: the clock's digits below are noise, and fifty years fit exactly.
uint64_t micros(uint64_t time_ns) { return time_ns / 1000; }

Json curve_json(const DevicePage& page) {
  Json times = Json::array();
  Json allocated = Json::array();
  Json reserved = Json::array();
  Json workspace = Json::array();
  for (const CurvePoint& point : page.curve) {
    times.push_back(micros(point.time_ns));
    allocated.push_back(point.allocated_bytes);
    reserved.push_back(point.reserved_bytes);
    workspace.push_back(point.workspace_bytes);
  }
  return {{"time", times}, {"allocated", allocated}, {"reserved", reserved}, {"workspace", workspace}};
}

// What the page names a holder's bytes.
const std::string& shown_kind(const HolderText& holder) { return holder.block.empty() ? holder.kind : holder.block; }

// Holders of a two-thousandth of a moment's bytes and less are put together, by kind: thousands of them in each of
// hundreds of moments would make the page as large as a trace, and are narrower than a pixel.
constexpr uint64_t kSmallestShare = 2048;

struct SmallHolders {
  std::vector<std::string> kinds;
  std::vector<uint32_t> of_holders;  // index into kinds
};

SmallHolders small_holders(const DevicePage& page) {
  SmallHolders small;
  for (const HolderText& holder : page.holders) {
    const std::string& kind = shown_kind(holder);
    const auto found = std::find(small.kinds.begin(), small.kinds.end(), kind);
    small.of_holders.push_back(static_cast<uint32_t>(found - small.kinds.begin()));
    if (found == small.kinds.end()) small.kinds.push_back(kind);
  }
  return small;
}

// A moment lists the holders that changed since the one before: holder, bytes, blocks.
Json moments_json(const DevicePage& page, const SmallHolders& small) {
  Json list = Json::array();
  std::map<uint32_t, Held> before;
  for (const Moment& moment : page.moments) {
    Json changes = Json::array();
    std::map<uint32_t, Held> held;
    for (const Held& each : moment.held) {
      const bool is_small = each.bytes <= moment.total_bytes / kSmallestShare;
      const auto holder =
          is_small ? static_cast<uint32_t>(page.holders.size()) + small.of_holders[each.holder] : each.holder;
      Held& sum = held[holder];
      sum.holder = holder;
      sum.bytes += each.bytes;
      sum.blocks += each.blocks;
    }
    for (const auto& [holder, old] : before) {
      if (held.contains(holder)) continue;
      changes.insert(changes.end(), {holder, 0, 0});
    }
    for (const auto& [holder, now] : held) {
      auto old = before.find(holder);
      if (old != before.end() && old->second.bytes == now.bytes && old->second.blocks == now.blocks) continue;
      changes.insert(changes.end(), {uint64_t{holder}, now.bytes, now.blocks});
    }
    list.push_back(Json::array({micros(moment.time_ns), moment.step, moment.total_bytes, changes}));
    before = std::move(held);
  }
  return list;
}

Json layout_json(const DevicePage& page) {
  Json segments = Json::array();
  Json blocks = Json::array();
  size_t drawn = 0;
  for (const SegmentView& view : page.segments) {
    // address, bytes, blocks, used bytes, largest hole
    segments.push_back(Json::array(
        {view.segment.address, view.segment.size_bytes, view.blocks, view.used_bytes, view.largest_hole_bytes}));
    for (size_t index = view.first_block; index < view.first_block + view.blocks; ++index) {
      if (drawn++ >= kMostBlocksDrawn) break;
      const PlacedBlock& block = page.layout.layout.blocks[index];
      // offset in the segment, bytes, requested bytes, holder, step
      blocks.push_back(Json::array(
          {block.address - view.segment.address, block.size_bytes, block.requested_bytes, block.holder, block.step}));
    }
  }
  return {{"refusal", page.layout.is_refusal},
          {"time", micros(page.layout.time_ns)},
          {"step", page.layout.step},
          {"segments", segments},
          {"blocks", blocks},
          {"notDrawn", drawn > kMostBlocksDrawn ? drawn - kMostBlocksDrawn : 0}};
}

}  // namespace

std::string HolderText::place() const { return line == 0 ? "unknown line" : fmt::format("{}:{}", file, line); }

DevicePage make_device_page(uint32_t index, const ProcessHistory& process, const DeviceHistory& device,
                            std::string_view working_directory, bool at_refusal) {
  DevicePage page;
  page.process = index;
  page.process_id = process.process_id;
  page.device = device.account().device();
  page.has_blocks = device.has_blocks();
  page.peak_allocated_bytes = device.account().peak_allocated_bytes();
  page.peak_reserved_bytes = device.account().peak_reserved_bytes();
  page.peak_workspace_bytes = device.account().peak_workspace_bytes();
  page.capacity_bytes = device.capacity_bytes();
  page.duration_ns = process.duration_ns;
  page.steps = thinned(process.steps);
  page.curve = device.curve();
  for (const HolderKey& key : device.holders()) page.holders.push_back(holder_text(process, key, working_directory));

  page.moments = device.moments().moments();
  if (const std::optional<Moment>& refusal = device.held_at_refusal(); refusal) {
    auto after = std::upper_bound(page.moments.begin(), page.moments.end(), refusal->event,
                                  [](uint64_t event, const Moment& moment) { return event < moment.event; });
    page.refusal_moment = static_cast<size_t>(after - page.moments.begin());
    page.moments.insert(after, *refusal);
  } else {
    page.refusal_moment = page.moments.size();
  }
  // What is left at the end, which no highest moment tells.
  const uint64_t last_event = page.moments.empty() ? 0 : page.moments.back().event;
  const auto running_step = static_cast<uint32_t>(process.steps.size() + 1);
  Moment end = device.moments().now(running_step, last_event + 1, process.duration_ns);
  if (end.total_bytes > 0) page.moments.push_back(std::move(end));
  for (size_t moment = 0; moment < page.moments.size(); ++moment)
    if (page.moments[moment].total_bytes > page.moments[page.peak_moment].total_bytes) page.peak_moment = moment;

  const std::vector<HolderTotals>& holders = device.moments().holders();
  for (const GroupTotals& group : device.moments().groups()) {
    page.lines.emplace_back();
    page.lines.back().peak_bytes = group.peak_bytes;
  }
  for (size_t holder = 0; holder < page.holders.size(); ++holder) {
    const HolderTotals& totals = holders[holder];
    LineRow& row = page.lines[totals.group];
    row.holder = page.holders[holder];
    row.byte_seconds += totals.byte_seconds;
    row.allocations += totals.allocations;
    row.allocated_bytes += totals.allocated_bytes;
    row.bytes_at_end += totals.live_bytes;
  }
  if (!page.moments.empty()) {
    for (const Held& held : page.moments[page.peak_moment].held) {
      LineRow& row = page.lines[holders[held.holder].group];
      row.bytes_at_peak += held.bytes;
      row.blocks_at_peak += held.blocks;
    }
  }
  std::stable_sort(page.lines.begin(), page.lines.end(), [](const LineRow& a, const LineRow& b) {
    return std::pair(a.bytes_at_peak, a.peak_bytes) > std::pair(b.bytes_at_peak, b.peak_bytes);
  });

  const std::optional<LayoutMoment> refusal = at_refusal ? device.at_refusal() : std::nullopt;
  page.layout = refusal ? *refusal : device.at_peak();
  if (!page.has_blocks) {
    // Driver memory is the program's own then: each piece counts as a block.
    for (const PlacedSegment& segment : page.layout.layout.segments)
      page.layout.layout.blocks.push_back({segment.address, segment.size_bytes, 0, segment.holder, 0});
  }
  page.segments = view_segments(page.layout.layout, page.blocks_outside);
  return page;
}

std::string device_json(const DevicePage& page) {
  Json holders = Json::array();
  for (const HolderText& holder : page.holders)
    holders.push_back(Json::array({shown_kind(holder), holder.file, holder.line, holder.function, holder.module}));
  const SmallHolders small = small_holders(page);
  for (const std::string& kind : small.kinds) holders.push_back(Json::array({kind, "many small ones", 0, "", ""}));
  Json steps = Json::array();
  for (const StepMark& mark : page.steps) steps.push_back(Json::array({mark.step, micros(mark.time_ns)}));
  const Json json = {{"process", page.process},
                     {"device", page.device},
                     {"hasBlocks", page.has_blocks},
                     {"capacity", page.capacity_bytes},
                     {"duration", micros(page.duration_ns)},
                     {"steps", steps},
                     {"curve", curve_json(page)},
                     {"holders", holders},
                     {"moments", moments_json(page, small)},
                     {"peakMoment", page.peak_moment},
                     {"refusalMoment", page.refusal_moment < page.moments.size() ? Json(page.refusal_moment) : Json()},
                     {"layout", layout_json(page)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace drydock::page
