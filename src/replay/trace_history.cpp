#include "replay/trace_history.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "abi/generated/entry_rows.h"
#include "base/generated/error_codes.h"
#include "trace/reader.h"

namespace drydock::replay {
namespace {

using trace::DriverMemory;
using trace::Kind;
using trace::Record;

// Addresses are counted from the beginning of the device's arena, one page up so that none is 0.
constexpr uint64_t kBase = uint64_t{2} << 20;

// Memory that the driver gave to the client: whose it is shows when a block lies in it.
struct DriverRange {
  uint64_t size = 0;
  size_t event = 0;
  bool is_reservation = false;
  bool is_caching = false;
};

class TraceReading {
 public:
  TraceReading(trace::Reader& reader, History& history) : reader_(reader), history_(history) {}

  void read() {
    history_.source = Source::kDrydockTrace;
    history_.devices.resize(trace::kMaxTracedDevices);
    Record record;
    uint32_t ordinal = 0;
    while (reader_.next(record)) {
      if (record.kind < Kind::kOperator) continue;
      take(record, ordinal);
      ++ordinal;
    }
    for (const auto& [key, range] : ranges_) settle(range);
    drop_foreign();
    if (reader_.is_truncated()) history_.missing.push_back(reader_.truncation());
    if (reader_.info().lost_records > 0)
      history_.missing.push_back(
          fmt::format("{} records were lost, so what follows them can't be replayed.", reader_.info().lost_records));
  }

 private:
  static uint64_t address_of(const trace::TracedValue& value) {
    return value.tag == trace::ValueTag::kDevice ? value.bits + kBase : value.bits;
  }

  uint32_t place_of(trace::LineId line) {
    if (line == 0) return kUnknownPlace;
    const auto [found, is_new] = places_.try_emplace(line, static_cast<uint32_t>(history_.places.size()));
    if (is_new) history_.places.push_back(reader_.describe_line(line));
    return found->second;
  }

  Event& append(EventKind kind, const Record& record, uint32_t ordinal) {
    Event& event = history_.events.emplace_back();
    event.kind = kind;
    event.ordinal = ordinal;
    event.device = static_cast<uint8_t>(record.device);
    event.address = address_of(record.address);
    event.size = record.size_bytes;
    event.place = place_of(record.line);
    foreign_.push_back(false);
    return event;
  }

  void take(const Record& record, uint32_t ordinal) {
    if (record.device < 0 || record.device >= trace::kMaxTracedDevices) {
      if (record.kind == Kind::kStep || record.kind == Kind::kCacheEmptied) {
        everywhere(record.kind == Kind::kStep ? EventKind::kStep : EventKind::kCacheEmptied, ordinal);
      } else if (record.kind == Kind::kEntry) {
        entered(static_cast<abi::EntryId>(record.entry), ordinal);
      }
      return;
    }
    switch (record.kind) {
      case Kind::kBlockAllocated: block_allocated(record, ordinal); break;
      case Kind::kBlockRequested: block_requested(record); break;
      case Kind::kWorkspaceGiven: workspace_given(record); break;
      case Kind::kBlockFreed: block_freed(record, ordinal); break;
      case Kind::kBlockCompleted: append(EventKind::kBlockFreeCompleted, record, ordinal); break;
      case Kind::kAllocatorOutOfMemory: {
        Event& event = append(EventKind::kOutOfMemory, record, ordinal);
        event.requested = record.size_bytes;
        event.size = record.free_bytes;
        take_stream(event, record);
        break;
      }
      case Kind::kFractionSet: append(EventKind::kFractionSet, record, ordinal); break;
      case Kind::kCapacity:
        history_.devices[static_cast<size_t>(record.device)].total_bytes = record.capacity_bytes;
        break;
      case Kind::kDriverAllocated: driver_allocated(record, ordinal); break;
      case Kind::kDriverFreed: driver_freed(record, ordinal); break;
      case Kind::kDriverOutOfMemory: driver_refused(record, ordinal); break;
      case Kind::kOverhead:
        history_.devices[static_cast<size_t>(record.device)].external_bytes += record.size_bytes;
        break;
      default: break;
    }
  }

  void entered(abi::EntryId entry, uint32_t ordinal) {
    switch (entry) {
      case abi::EntryId::aclrtSynchronizeDevice:
      case abi::EntryId::aclrtSynchronizeDeviceWithTimeout: everywhere(EventKind::kStreamsIdle, ordinal); break;
      // The allocator records an event on each stream that a block was used on, between two changes of context.
      case abi::EntryId::aclrtSetCurrentContext: awaited_ = std::exchange(recorded_, 0); break;
      case abi::EntryId::aclrtRecordEvent: ++recorded_; break;
      default: break;
    }
  }

  // Of no device: an event for each that the trace has so far, for steps the first alone.
  void everywhere(EventKind kind, uint32_t ordinal) {
    const bool is_step = kind == EventKind::kStep;
    for (size_t device = 0; device < history_.devices.size(); ++device) {
      if (!is_step && history_.devices[device].total_bytes == 0) continue;
      Event& event = history_.events.emplace_back();
      event.kind = kind;
      event.ordinal = ordinal;
      event.device = static_cast<uint8_t>(device);
      foreign_.push_back(false);
      if (is_step) return;
    }
  }

  void take_stream(Event& event, const Record& record) {
    const auto [found, is_new] = streams_.try_emplace(record.stream, static_cast<uint32_t>(history_.streams.size()));
    if (is_new) history_.streams.push_back(record.stream);
    event.stream = found->second;
    event.pool = record.pool;
    while (history_.pools.size() <= record.pool) history_.pools.emplace_back(0, history_.pools.size());
  }

  void block_allocated(const Record& record, uint32_t ordinal) {
    Event& event = append(EventKind::kBlockAllocated, record, ordinal);
    event.is_workspace = record.is_workspace;
    event.requested = record.has_request ? record.requested_bytes : 0;
    take_stream(event, record);
    Live& live = live_[{event.device, event.address}];
    live = {history_.events.size() - 1, record.is_workspace};
    if (record.is_workspace) return;
    auto range = ranges_.upper_bound({event.device, event.address});
    if (range != ranges_.begin()) {
      --range;
      if (range->first.first == event.device && event.address - range->first.second < range->second.size)
        range->second.is_caching = true;
    }
  }

  void block_requested(const Record& record) {
    const auto found = live_.find({static_cast<uint8_t>(record.device), address_of(record.address)});
    // The first wish for a block is the block's.
    if (found != live_.end() && history_.events[found->second.event].requested == 0)
      history_.events[found->second.event].requested = record.size_bytes;
  }

  void workspace_given(const Record& record) {
    const auto found = live_.find({static_cast<uint8_t>(record.device), address_of(record.address)});
    if (found != live_.end()) history_.events[found->second.event].is_scratch = true;
  }

  void block_freed(const Record& record, uint32_t ordinal) {
    const auto found = live_.find({static_cast<uint8_t>(record.device), address_of(record.address)});
    const bool is_workspace = found != live_.end() && found->second.is_workspace;
    Event& event = append(EventKind::kBlockFreeRequested, record, ordinal);
    event.is_workspace = is_workspace;
    event.size = record.is_pending ? std::max<uint64_t>(1, std::exchange(awaited_, 0)) : 0;
    if (!record.is_pending) append(EventKind::kBlockFreeCompleted, record, ordinal).is_workspace = is_workspace;
    if (found != live_.end()) live_.erase(found);
  }

  void driver_allocated(const Record& record, uint32_t ordinal) {
    EventKind kind{};
    switch (record.memory) {
      case DriverMemory::kMalloc: kind = EventKind::kSegmentAllocated; break;
      case DriverMemory::kReservation: kind = EventKind::kReserved; break;
      case DriverMemory::kMapping: kind = EventKind::kSegmentMapped; break;
      default: return;  // physical memory shows in its mapping
    }
    const Event& event = append(kind, record, ordinal);
    if (kind == EventKind::kSegmentMapped) {
      auto range = ranges_.upper_bound({event.device, event.address});
      if (range == ranges_.begin()) return;
      --range;
      if (range->first.first == event.device && range->second.is_reservation) range->second.is_caching = true;
      return;
    }
    DriverRange& range = ranges_[{event.device, event.address}];
    range = {event.size, history_.events.size() - 1, kind == EventKind::kReserved, false};
  }

  void driver_freed(const Record& record, uint32_t ordinal) {
    EventKind kind{};
    switch (record.memory) {
      case DriverMemory::kMalloc: kind = EventKind::kSegmentFreed; break;
      case DriverMemory::kReservation: kind = EventKind::kUnreserved; break;
      case DriverMemory::kMapping: kind = EventKind::kSegmentUnmapped; break;
      default: return;
    }
    const Event& event = append(kind, record, ordinal);
    if (kind == EventKind::kSegmentUnmapped) return;
    const auto found = ranges_.find({event.device, event.address});
    if (found == ranges_.end()) return;
    foreign_.back() = !found->second.is_caching;
    settle(found->second);
    ranges_.erase(found);
  }

  void driver_refused(const Record& record, uint32_t ordinal) {
    history_.devices[static_cast<size_t>(record.device)].total_bytes = record.capacity_bytes;
    if (record.memory != DriverMemory::kMalloc && record.memory != DriverMemory::kPhysical) return;
    append(EventKind::kDriverRefused, record, ordinal);
  }

  // Memory that no block of the caching allocator lay in belongs to someone else: workspaces, the program itself.
  void settle(const DriverRange& range) {
    if (!range.is_caching) foreign_[range.event] = true;
  }

  void drop_foreign() {
    size_t kept = 0;
    for (size_t index = 0; index < history_.events.size(); ++index) {
      if (foreign_[index]) continue;
      history_.events[kept++] = history_.events[index];
    }
    history_.events.resize(kept);
  }

  struct Live {
    size_t event = 0;
    bool is_workspace = false;
  };
  struct KeyHash {
    size_t operator()(const std::pair<uint8_t, uint64_t>& key) const {
      return std::hash<uint64_t>()(key.second ^ (uint64_t{key.first} << 56));
    }
  };

  trace::Reader& reader_;
  History& history_;
  std::vector<bool> foreign_;  // by event
  uint64_t recorded_ = 0;      // aclrtRecordEvent since the context was set
  uint64_t awaited_ = 0;       // the same, between the last two times
  std::unordered_map<std::pair<uint8_t, uint64_t>, Live, KeyHash> live_;
  std::map<std::pair<uint8_t, uint64_t>, DriverRange> ranges_;  // alive, by device and address
  // Damaged traces have numbers of any size.
  std::unordered_map<uint32_t, uint32_t> streams_ = {{0, 0}};  // by the trace's number: index into History::streams
  std::unordered_map<trace::LineId, uint32_t> places_;
};

}  // namespace

Status read_trace(const std::string& path, History& history) {
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(path, reader));
  history = {};
  TraceReading(*reader, history).read();
  return Status::ok();
}

Status traces_of(const std::string& run, std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::error_code error;
  paths.clear();
  if (!fs::is_directory(run, error)) {
    paths.push_back(run);
    return Status::ok();
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(run) / "traces", error))
    if (entry.path().extension() == ".ddtrace") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  if (!paths.empty()) return Status::ok();
  return Status::error(code::ACL_ERROR_INVALID_FILE,
                       fmt::format("{} holds no trace: there is no file {}/traces/*.ddtrace.", run, run));
}

}  // namespace drydock::replay
