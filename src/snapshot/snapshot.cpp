#include "snapshot/snapshot.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <sys/stat.h>

#include "snapshot/pickle.h"
#include "snapshot/walk_back.h"

namespace drydock::snapshot {
namespace {

constexpr int32_t kUnreadable = 100003;  // the vendor's number for a file that is invalid
constexpr uint64_t kMostDevices = 256;
constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;

Action action_of(std::string_view name) {
  constexpr std::pair<std::string_view, Action> kActions[] = {
      {"alloc", Action::kAlloc},
      {"free_requested", Action::kFreeRequested},
      {"free_completed", Action::kFreeCompleted},
      {"segment_alloc", Action::kSegmentAlloc},
      {"segment_free", Action::kSegmentFree},
      {"segment_map", Action::kSegmentMap},
      {"segment_unmap", Action::kSegmentUnmap},
      {"oom", Action::kOutOfMemory},
      {"snapshot", Action::kSnapshot},
  };
  for (const auto& [text, action] : kActions)
    if (text == name) return action;
  return Action::kOther;
}

// A file of torch or of the standard library holds no line of the user.
bool is_users(std::string_view file) {
  return file.ends_with(".py") && file.find("site-packages/") == std::string_view::npos &&
         file.find("dist-packages/") == std::string_view::npos && file.find("/lib/python3") == std::string_view::npos;
}

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, Snapshot& snapshot) : pickle_(pickle), snapshot_(snapshot) {}

  Status run();

 private:
  uint64_t number(const Value& dict, std::string_view key, uint64_t otherwise = 0);
  bool flag(const Value& dict, std::string_view key) const;
  std::string_view text(const Value& dict, std::string_view key) const;
  std::pair<uint64_t, uint64_t> pool(const Value& dict) const;
  uint32_t place(const Value& dict);
  uint32_t place_of_frames(const Value& frames);

  void take_segment(const Value& dict);
  void take_blocks(const Value& dict, Segment& segment);
  void take_trace(const Value& list, size_t device);
  void take_settings(const Value& dict);
  void check_segments();
  void count_notes();

  const Pickle& pickle_;
  Snapshot& snapshot_;
  std::unordered_map<std::string, uint32_t> place_ids_;
  std::unordered_map<uint32_t, uint32_t> list_places_;  // by the index of the list of frames
  std::unordered_set<uint32_t> taken_;  // containers that may be taken once: a pickle can refer to one a million times
  uint64_t strange_numbers_ = 0;
  uint64_t foreign_segments_ = 0;
  uint64_t uncovered_segments_ = 0;
  uint64_t doubled_segments_ = 0;
  uint64_t unknown_actions_ = 0;
  uint64_t foreign_entries_ = 0;
  uint64_t backward_times_ = 0;
};

// What is no number, or negative, counts as `otherwise`.
uint64_t SnapshotReader::number(const Value& dict, std::string_view key, uint64_t otherwise) {
  const Value* value = pickle_.find(dict, key);
  if (value == nullptr) return otherwise;
  if (value->kind == ValueKind::kNatural) return value->natural;
  if (value->kind == ValueKind::kInteger && value->integer >= 0) return static_cast<uint64_t>(value->integer);
  ++strange_numbers_;
  return otherwise;
}

bool SnapshotReader::flag(const Value& dict, std::string_view key) const {
  const Value* value = pickle_.find(dict, key);
  return value != nullptr && value->kind == ValueKind::kTrue;
}

std::string_view SnapshotReader::text(const Value& dict, std::string_view key) const {
  const Value* value = pickle_.find(dict, key);
  return value == nullptr ? std::string_view() : pickle_.text(*value);
}

std::pair<uint64_t, uint64_t> SnapshotReader::pool(const Value& dict) const {
  const Value* value = pickle_.find(dict, "segment_pool_id");
  if (value == nullptr) value = pickle_.find(dict, "pool_id");
  if (value == nullptr) return {};
  const std::span<const Value> ids = pickle_.items(*value);
  if (ids.size() != 2 || ids[0].kind != ValueKind::kInteger || ids[1].kind != ValueKind::kInteger) return {};
  return {static_cast<uint64_t>(ids[0].integer), static_cast<uint64_t>(ids[1].integer)};
}

uint32_t SnapshotReader::place_of_frames(const Value& frames) {
  const Value* chosen = nullptr;
  for (const Value& frame : pickle_.items(frames)) {
    if (frame.kind != ValueKind::kDict) continue;
    if (chosen == nullptr) chosen = &frame;
    if (!is_users(text(frame, "filename"))) continue;
    chosen = &frame;
    break;
  }
  if (chosen == nullptr) return 0;
  std::string sentence =
      fmt::format("{}:{} ({})", text(*chosen, "filename"), number(*chosen, "line"), text(*chosen, "name"));
  const auto [entry, is_new] =
      place_ids_.try_emplace(std::move(sentence), static_cast<uint32_t>(snapshot_.places.size()));
  if (is_new) snapshot_.places.push_back(entry->first);
  return entry->second;
}

uint32_t SnapshotReader::place(const Value& dict) {
  const Value* frames = pickle_.find(dict, "frames");
  if (frames == nullptr) {
    // Until PyTorch 2.1 a block had a history of its allocations, the last one first.
    const Value* history = pickle_.find(dict, "history");
    if (history == nullptr) return 0;
    const std::span<const Value> allocations = pickle_.items(*history);
    if (allocations.empty()) return 0;
    frames = pickle_.find(allocations[0], "frames");
    if (frames == nullptr) return 0;
  }
  if (frames->kind != ValueKind::kList && frames->kind != ValueKind::kTuple) return 0;
  const auto known = list_places_.find(frames->index);
  if (known != list_places_.end()) return known->second;
  const uint32_t found = place_of_frames(*frames);
  list_places_.emplace(frames->index, found);
  return found;
}

// Blocks cover a segment without gaps: an old snapshot therefore gives their sizes only.
void SnapshotReader::take_blocks(const Value& dict, Segment& segment) {
  const Value* blocks = pickle_.find(dict, "blocks");
  if (blocks == nullptr || blocks->kind != ValueKind::kList || !taken_.insert(blocks->index).second) {
    ++uncovered_segments_;
    segment.blocks.push_back({.address = segment.address, .size = segment.size});
    return;
  }
  uint64_t next = segment.address;
  uint64_t covered = 0;
  for (const Value& item : pickle_.items(*blocks)) {
    Block block;
    block.size = number(item, "size");
    block.address = number(item, "address", next);
    block.requested = number(item, "requested_size");
    const std::string_view state = text(item, "state");
    if (state == "active_allocated") block.use = BlockUse::kAllocated;
    // An older name of the same state.
    if (state == "active_pending_free" || state == "active_awaiting_free") block.use = BlockUse::kPendingFree;
    if (block.use != BlockUse::kInactive) block.place = place(item);
    const bool fits = block.size > 0 && block.address == next && block.size <= segment.size - covered;
    if (!fits) break;
    next += block.size;
    covered += block.size;
    segment.blocks.push_back(block);
  }
  if (covered == segment.size) return;
  ++uncovered_segments_;
  segment.blocks.push_back({.address = next, .size = segment.size - covered});
}

void SnapshotReader::take_segment(const Value& dict) {
  Segment segment;
  segment.address = number(dict, "address");
  segment.size = number(dict, "total_size");
  const uint64_t device = number(dict, "device");
  if (dict.kind != ValueKind::kDict || segment.size == 0 || device >= kMostDevices || segment.address > kLargest ||
      segment.size > kLargest) {
    ++foreign_segments_;
    return;
  }
  segment.device = static_cast<int32_t>(device);
  segment.stream = number(dict, "stream");
  segment.pool = pool(dict);
  segment.is_small = text(dict, "segment_type") == "small";
  segment.is_expandable = flag(dict, "is_expandable");
  segment.place = place(dict);
  take_blocks(dict, segment);
  snapshot_.segments.push_back(std::move(segment));
}

void SnapshotReader::take_trace(const Value& list, size_t device) {
  if (list.kind != ValueKind::kList || !taken_.insert(list.index).second) return;
  const std::span<const Value> items = pickle_.items(list);
  std::vector<Entry>& trace = snapshot_.traces[device];
  trace.reserve(items.size());
  int64_t latest = 0;
  for (const Value& item : items) {
    if (item.kind != ValueKind::kDict) {
      ++foreign_entries_;
      continue;
    }
    Entry entry;
    entry.action = action_of(text(item, "action"));
    if (entry.action == Action::kOther) ++unknown_actions_;
    entry.address = number(item, entry.action == Action::kOutOfMemory ? "device_free" : "addr");
    entry.size = number(item, "size");
    entry.stream = number(item, "stream");
    entry.time_us = static_cast<int64_t>(number(item, "time_us"));
    entry.pool = pool(item);
    entry.place = place(item);
    if (entry.time_us < latest) ++backward_times_;
    latest = std::max(latest, entry.time_us);
    trace.push_back(entry);
  }
}

void SnapshotReader::take_settings(const Value& dict) {
  Settings& settings = snapshot_.settings;
  settings.are_known = true;
  for (const auto& [key, is_npu] : {std::pair<const char*, bool>{"PYTORCH_NPU_ALLOC_CONF", true},
                                    {"PYTORCH_CUDA_ALLOC_CONF", false},
                                    {"PYTORCH_ALLOC_CONF", false}}) {
    if (pickle_.find(dict, key) == nullptr) continue;
    settings.is_npu = is_npu;
    settings.text = text(dict, key);
    if (!settings.text.empty()) break;
  }
  settings.expandable_segments = flag(dict, "expandable_segments");
  if (const Value* limit = pickle_.find(dict, "max_split_size");
      limit != nullptr && limit->kind == ValueKind::kInteger && limit->integer >= 0)
    settings.max_split_bytes = limit->integer;
  if (const Value* threshold = pickle_.find(dict, "garbage_collection_threshold");
      threshold != nullptr && threshold->kind == ValueKind::kReal)
    settings.garbage_collection_threshold = threshold->real;
}

// Two segments that share memory can't both be true: the one of the higher address is left out.
void SnapshotReader::check_segments() {
  std::vector<Segment>& segments = snapshot_.segments;
  std::stable_sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
    return std::pair(a.device, a.address) < std::pair(b.device, b.address);
  });
  size_t kept = 0;
  for (size_t index = 0; index < segments.size(); ++index) {
    if (kept > 0 && segments[kept - 1].device == segments[index].device &&
        segments[index].address - segments[kept - 1].address < segments[kept - 1].size) {
      ++doubled_segments_;
      continue;
    }
    if (kept != index) segments[kept] = std::move(segments[index]);
    ++kept;
  }
  segments.resize(kept);
}

void SnapshotReader::count_notes() {
  std::vector<std::string>& notes = snapshot_.notes;
  if (strange_numbers_ > 0)
    notes.push_back(
        fmt::format("{} addresses, sizes or times are no numbers, or negative: they count as 0.", strange_numbers_));
  if (foreign_segments_ > 0)
    notes.push_back(fmt::format("{} segments have no size or no place and are left out.", foreign_segments_));
  if (uncovered_segments_ > 0)
    notes.push_back(fmt::format("The blocks of {} segments do not cover them: what is missing counts as free.",
                                uncovered_segments_));
  if (doubled_segments_ > 0)
    notes.push_back(
        fmt::format("{} segments lie within another, which can't be: they are left out.", doubled_segments_));
  if (foreign_entries_ > 0)
    notes.push_back(fmt::format("{} entries of the history are no dicts and are left out.", foreign_entries_));
  if (unknown_actions_ > 0)
    notes.push_back(fmt::format("{} entries of the history have an action that is not known here and are left out.",
                                unknown_actions_));
  if (backward_times_ > 0)
    notes.push_back(fmt::format("The clock goes back in {} entries of the history: their order in the file counts.",
                                backward_times_));
  const bool has_history = std::any_of(snapshot_.traces.begin(), snapshot_.traces.end(), [](const auto& trace) {
    return std::any_of(trace.begin(), trace.end(), [](const Entry& entry) {
      return entry.action != Action::kSnapshot && entry.action != Action::kOther;
    });
  });
  if (!has_history)
    notes.emplace_back(
        "The snapshot has no history (torch.cuda.memory._record_memory_history was not on): it tells what is held and "
        "where, not how it came to be, and nothing can be replayed.");
  if (snapshot_.segments.empty()) notes.emplace_back("The snapshot has no segments: the allocator held no memory.");
}

Status SnapshotReader::run() {
  const Value& root = pickle_.root();
  const Value* segments = pickle_.find(root, "segments");
  // Before PyTorch 2.0 a snapshot was the list of segments alone.
  if (root.kind == ValueKind::kList) segments = &root;
  if (segments == nullptr || segments->kind != ValueKind::kList)
    return Status::error(kNoSnapshot,
                         "The pickle is no memory snapshot: it has no list \"segments\". Make one with "
                         "torch.npu.memory._dump_snapshot or torch.cuda.memory._dump_snapshot.");
  for (const Value& segment : pickle_.items(*segments)) take_segment(segment);
  check_segments();
  if (const Value* traces = pickle_.find(root, "device_traces"); traces != nullptr) {
    const std::span<const Value> lists = pickle_.items(*traces);
    snapshot_.traces.resize(std::min<size_t>(lists.size(), kMostDevices));
    for (size_t device = 0; device < snapshot_.traces.size(); ++device) take_trace(lists[device], device);
  }
  if (const Value* settings = pickle_.find(root, "allocator_settings"); settings != nullptr) take_settings(*settings);
  count_notes();
  return Status::ok();
}

// Read, not mapped: a file that becomes shorter meanwhile must not end the process.
Status read_whole(const std::string& path, std::vector<std::byte>& bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return Status::error(kUnreadable, fmt::format("{} can't be read: {}.", path, std::strerror(errno)));
  const auto closed = [descriptor](Status status) {
    ::close(descriptor);
    return status;
  };
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    return closed(Status::error(kUnreadable, fmt::format("{} is not a file.", path)));
  if (static_cast<uint64_t>(status.st_size) > kMostFileBytes)
    return closed(Status::error(kUnreadable, fmt::format("{} has {} bytes, and snapshots of up to {} are read.", path,
                                                         status.st_size, kMostFileBytes)));
  bytes.resize(static_cast<size_t>(status.st_size));
  size_t length = 0;
  while (length < bytes.size()) {
    const ssize_t got = ::read(descriptor, bytes.data() + length, bytes.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return closed(Status::error(kUnreadable, fmt::format("{} can't be read: {}.", path, std::strerror(errno))));
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  bytes.resize(length);
  return closed(Status::ok());
}

}  // namespace

Status read_snapshot(std::span<const std::byte> bytes, Snapshot& snapshot) {
  snapshot = Snapshot();
  Pickle pickle;
  DRYDOCK_RETURN_IF_ERROR(Pickle::parse(bytes, PickleLimits(), pickle));
  return SnapshotReader(pickle, snapshot).run();
}

Status read_snapshot_file(const std::string& path, Snapshot& snapshot) {
  std::vector<std::byte> bytes;
  DRYDOCK_RETURN_IF_ERROR(read_whole(path, bytes));
  Status status = read_snapshot(bytes, snapshot);
  if (status.is_ok()) return status;
  return Status::error(status.code(), fmt::format("{}: {}", path, status.message()));
}

bool looks_like_pickle(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  unsigned char head[2] = {};
  const ssize_t got = ::read(descriptor, head, sizeof(head));
  ::close(descriptor);
  return got == sizeof(head) && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

}  // namespace drydock::snapshot
