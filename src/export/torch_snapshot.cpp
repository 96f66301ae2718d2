#include "export/torch_snapshot.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include "export/allocator_history.h"
#include "export/output_file.h"
#include "export/pickle_writer.h"
#include "trace/reader.h"

namespace drydock::exports {
namespace {

using Action = AllocatorHistory::Action;
using Entry = AllocatorHistory::Entry;

class SnapshotWriter {
 public:
  SnapshotWriter(const trace::Reader& reader, OutputFile& file) : reader_(reader), pickle_(file) {}
  void write(const std::map<int32_t, AllocatorHistory>& devices, const TorchSnapshotOptions& options);

  uint64_t entries_dropped() const { return dropped_; }

 private:
  void frames(trace::LineId line);
  void segment(int32_t device, uint64_t address, const AllocatorHistory::Segment& segment,
               const std::map<uint64_t, AllocatorHistory::Block>& blocks);
  void block(uint64_t address, uint64_t size, const AllocatorHistory::Block* held);
  void entry(const Entry& entry, const char* action, uint64_t& count);
  void trace(const std::vector<Entry>& entries, uint64_t most);

  const trace::Reader& reader_;
  PickleWriter pickle_;
  std::unordered_map<trace::LineId, uint32_t> frames_;
  uint64_t dropped_ = 0;
};

// One list of frames for each line, written once.
void SnapshotWriter::frames(trace::LineId line) {
  pickle_.text("frames");
  if (const auto known = frames_.find(line); known != frames_.end()) {
    pickle_.again(known->second);
    return;
  }
  const SourceLine place = source_line(reader_, line);
  uint64_t count = 0;
  pickle_.open_list();
  if (!place.file.empty()) {
    pickle_.item(count);
    pickle_.open_dict();
    pickle_.entry("name", place.function.empty() ? "<unknown>" : place.function);
    pickle_.entry("filename", place.file);
    pickle_.entry("line", place.line);
    pickle_.close_dict();
  }
  pickle_.close_list(count);
  frames_[line] = pickle_.remember();
}

void SnapshotWriter::block(uint64_t address, uint64_t size, const AllocatorHistory::Block* held) {
  pickle_.open_dict();
  pickle_.entry("address", address);
  pickle_.entry("size", size);
  pickle_.entry("requested_size", held == nullptr ? 0 : held->requested);
  pickle_.entry("state", held == nullptr ? "inactive" : "active_allocated");
  frames(held == nullptr ? 0 : held->line);
  pickle_.close_dict();
}

void SnapshotWriter::segment(int32_t device, uint64_t address, const AllocatorHistory::Segment& segment,
                             const std::map<uint64_t, AllocatorHistory::Block>& blocks) {
  const uint64_t end = address + segment.size;
  uint64_t allocated = 0, requested = 0;
  for (auto held = blocks.lower_bound(address); held != blocks.end() && held->first < end; ++held) {
    allocated += held->second.size;
    requested += held->second.requested;
  }
  pickle_.open_dict();
  pickle_.entry("device", static_cast<uint64_t>(device));
  pickle_.entry("address", address);
  pickle_.entry("total_size", segment.size);
  pickle_.entry("allocated_size", allocated);
  pickle_.entry("active_size", allocated);
  pickle_.entry("requested_size", requested);
  pickle_.entry("stream", uint64_t{0});
  pickle_.entry("segment_type", segment.is_small ? "small" : "large");
  pickle_.text("segment_pool_id");
  pickle_.pair(0, 0);
  pickle_.text("is_expandable");
  pickle_.truth(segment.is_expandable);
  frames(segment.line);
  pickle_.text("blocks");
  uint64_t count = 0, next = address;
  pickle_.open_list();
  const auto free_until = [&](uint64_t border) {
    if (border <= next) return;
    pickle_.item(count);
    block(next, border - next, nullptr);
  };
  for (auto held = blocks.lower_bound(address); held != blocks.end() && held->first < end; ++held) {
    free_until(held->first);
    pickle_.item(count);
    block(held->first, held->second.size, &held->second);
    next = held->first + held->second.size;
  }
  free_until(end);
  pickle_.close_list(count);
  pickle_.close_dict();
}

void SnapshotWriter::entry(const Entry& entry, const char* action, uint64_t& count) {
  pickle_.item(count);
  pickle_.open_dict();
  pickle_.entry("action", action);
  pickle_.entry(entry.action == Action::kOutOfMemory ? "device_free" : "addr", entry.address);
  pickle_.entry("size", entry.size);
  pickle_.entry("stream", uint64_t{0});
  pickle_.entry("time_us", static_cast<uint64_t>(reader_.info().start_wall_ns) / 1000 + entry.time_ns / 1000);
  frames(entry.line);
  pickle_.close_dict();
}

void SnapshotWriter::trace(const std::vector<Entry>& entries, uint64_t most) {
  const auto entries_of = [](const Entry& entry) -> uint64_t {
    return entry.action == Action::kNothing ? 0 : entry.action == Action::kFree ? 2 : 1;
  };
  uint64_t kept = 0;
  size_t first = entries.size();
  while (first > 0 && kept + entries_of(entries[first - 1]) <= most) kept += entries_of(entries[--first]);
  for (size_t index = 0; index < first; ++index) dropped_ += entries_of(entries[index]);
  uint64_t count = 0;
  pickle_.open_list();
  for (size_t index = first; index < entries.size(); ++index) {
    const Entry& each = entries[index];
    switch (each.action) {
      case Action::kAlloc: entry(each, "alloc", count); break;
      case Action::kFree:
        entry(each, "free_requested", count);
        entry(each, "free_completed", count);
        break;
      case Action::kSegmentAlloc: entry(each, "segment_alloc", count); break;
      case Action::kSegmentFree: entry(each, "segment_free", count); break;
      case Action::kSegmentMap: entry(each, "segment_map", count); break;
      case Action::kSegmentUnmap: entry(each, "segment_unmap", count); break;
      case Action::kOutOfMemory: entry(each, "oom", count); break;
      case Action::kNothing: break;
    }
  }
  pickle_.close_list(count);
}

void SnapshotWriter::write(const std::map<int32_t, AllocatorHistory>& devices, const TorchSnapshotOptions& options) {
  pickle_.open_dict();
  pickle_.text("segments");
  uint64_t count = 0;
  pickle_.open_list();
  for (const auto& [device, history] : devices)
    for (const auto& [address, each] : history.segments()) {
      pickle_.item(count);
      segment(device, address, each, history.blocks());
    }
  pickle_.close_list(count);

  pickle_.text("device_traces");
  count = 0;
  pickle_.open_list();
  const int32_t last = devices.empty() ? -1 : devices.rbegin()->first;
  for (int32_t device = 0; device <= last; ++device) {
    pickle_.item(count);
    const auto found = devices.find(device);
    trace(found == devices.end() ? std::vector<Entry>() : found->second.entries(), options.most_entries);
  }
  pickle_.close_list(count);

  pickle_.text("allocator_settings");
  pickle_.open_dict();
  pickle_.entry("PYTORCH_NPU_ALLOC_CONF", options.allocator_settings);
  pickle_.text("expandable_segments");
  pickle_.truth(options.allocator_settings.find("expandable_segments:True") != std::string::npos);
  pickle_.close_dict();
  pickle_.close_dict();
  pickle_.finish();
}

// Where the file's moment is: behind this record nothing is taken. A process that ends gives all back, so its end is
// its last act that is no release: an allocation, an operator, a copy, a refusal.
Status moment_of(const RunTrace& trace, bool at_peak, uint64_t& position) {
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(trace.path.string(), reader));
  trace::Record record;
  std::map<std::pair<int32_t, uint64_t>, uint64_t> blocks;
  uint64_t allocated = 0, peak = 0;
  while (reader->next(record)) {
    const std::pair<int32_t, uint64_t> place(record.device, record.address.bits);
    const bool is_block = record.kind == trace::Kind::kBlockAllocated && !record.is_workspace;
    if (!at_peak) {
      if (record.kind == trace::Kind::kBlockAllocated || record.kind == trace::Kind::kOperator ||
          record.kind == trace::Kind::kCopy || record.kind == trace::Kind::kDriverAllocated ||
          record.kind == trace::Kind::kDriverOutOfMemory)
        position = record.position;
    } else if (is_block) {
      blocks[place] = record.size_bytes;
      allocated += record.size_bytes;
      if (allocated > peak) {
        peak = allocated;
        position = record.position;
      }
    } else if (record.kind == trace::Kind::kBlockFreed) {
      const auto found = blocks.find(place);
      if (found == blocks.end()) continue;
      allocated -= found->second;
      blocks.erase(found);
    }
  }
  return Status::ok();
}

}  // namespace

Status export_torch_snapshot(const RunTrace& trace, const TorchSnapshotOptions& options, const std::string& path,
                             std::vector<std::string>& sentences) {
  uint64_t last = 0;
  DRYDOCK_RETURN_IF_ERROR(moment_of(trace, options.at_peak, last));
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(trace.path.string(), reader));
  std::map<int32_t, AllocatorHistory> devices;
  trace::Record record;
  while (reader->next(record) && (record.position <= last || record.kind == trace::Kind::kBlockRequested)) {
    if (record.device >= 0 && record.device < trace::kMaxTracedDevices) {
      switch (record.kind) {
        case trace::Kind::kBlockAllocated:
        case trace::Kind::kBlockFreed:
        case trace::Kind::kBlockRequested:
        case trace::Kind::kDriverAllocated:
        case trace::Kind::kDriverFreed:
        case trace::Kind::kDriverOutOfMemory: devices[record.device].take(reader->info(), record); break;
        default: break;
      }
    }
  }
  if (reader->is_truncated()) sentences.push_back(reader->truncation());
  uint64_t unknown_sizes = 0, unknown_frees = 0, workspace = 0;
  for (auto& [device, history] : devices) {
    history.finish();
    unknown_sizes += history.unknown_sizes();
    unknown_frees += history.unknown_frees();
    workspace += history.workspace_bytes();
  }

  OutputFile file;
  DRYDOCK_RETURN_IF_ERROR(file.open(path));
  SnapshotWriter writer(*reader, file);
  writer.write(devices, options);
  DRYDOCK_RETURN_IF_ERROR(file.close());
  if (writer.entries_dropped() > 0)
    sentences.push_back(
        fmt::format("The first {} entries of the history are left out (--entries).", writer.entries_dropped()));
  if (unknown_sizes > 0)
    sentences.push_back(
        fmt::format("{} blocks were never given to an operator, so that what was asked for is not known: "
                    "the file has the most that it can have been.",
                    unknown_sizes));
  if (unknown_frees > 0)
    sentences.push_back(fmt::format("{} frees are of blocks whose allocation is not recorded.", unknown_frees));
  if (workspace > 0)
    sentences.push_back(
        fmt::format("{} bytes of operators' workspace are not of the caching allocator and are left out.", workspace));
  return Status::ok();
}

}  // namespace drydock::exports
