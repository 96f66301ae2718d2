#include "replay/verify.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "replay/caching_allocator.h"
#include "replay/recorded_driver.h"

namespace drydock::replay {
namespace {

// Only the room for addresses of an expandable segment follows from it.
constexpr uint64_t kUnknownTotal = uint64_t{1} << 40;
constexpr uint64_t kPadding = 32;

bool is_segment_call(EventKind kind) {
  switch (kind) {
    case EventKind::kSegmentAllocated:
    case EventKind::kSegmentFreed:
    case EventKind::kSegmentMapped:
    case EventKind::kSegmentUnmapped:
    case EventKind::kReserved:
    case EventKind::kUnreserved:
    case EventKind::kDriverRefused: return true;
    default: return false;
  }
}

bool gives_back(const Event* event) {
  return event != nullptr && (event->kind == EventKind::kSegmentFreed || event->kind == EventKind::kSegmentUnmapped ||
                              event->kind == EventKind::kUnreserved);
}

class Comparison {
 public:
  Comparison(const History& history, const Workload& workload, const Settings& settings)
      : history_(history),
        workload_(workload),
        padding_(settings.policy == Policy::kNpu ? kPadding : 0),
        driver_(workload.total_bytes == 0 ? kUnknownTotal : workload.total_bytes, history.source),
        allocator_(settings, driver_, workload.streams, workload.pools),
        blocks_(workload.slots, kNoBlock),
        numbers_(workload.slots, 0) {}

  Verification run() {
    result_.device = workload_.device;
    adopt();
    size_t operation = 0;
    size_t last_request = 0;
    for (size_t each = 0; each < workload_.operations.size(); ++each) {
      const OperationKind kind = workload_.operations[each].kind;
      if (kind == OperationKind::kAllocate || kind == OperationKind::kRefuse) last_request = each;
    }
    for (uint32_t index = 0; index < history_.events.size() && result_.is_equal; ++index) {
      const Event& event = history_.events[index];
      if (event.device != workload_.device) continue;
      if (event.kind == EventKind::kStreamsIdle) {
        note_idle();
        continue;
      }
      ++result_.events;
      if (is_segment_call(event.kind)) {
        driver_.add(event);
        ++result_.segment_calls;
        last_call_ = &event;
        // That a pool was let go was concluded from this call, and is concluded here where the call is made.
        while (operation < workload_.events.size() && workload_.events[operation] == index) ++operation;
        continue;
      }
      is_after_last_request_ = operation > last_request;
      while (!is_reset_ && operation < workload_.events.size() && workload_.events[operation] == index)
        step(workload_.operations[operation++], event);
    }
    is_after_last_request_ = true;
    if (result_.is_equal) settle_calls();
    result_.segment_calls_equal = driver_.equal_calls();
    const AllocatorTally& tally = allocator_.tally();
    result_.retries = tally.retries;
    result_.peak_allocated_bytes = tally.peak_allocated_bytes;
    result_.peak_reserved_bytes = tally.peak_reserved_bytes;
    if (result_.is_equal && history_.has_final_state) compare_final_state();
    return std::move(result_);
  }

 private:
  void adopt() {
    if (workload_.initial.empty()) return;
    std::vector<std::pair<uint64_t, uint32_t>> held;
    allocator_.adopt(workload_.initial, held);
    std::unordered_map<uint64_t, uint32_t> by_address(held.begin(), held.end());
    for (const auto& [address, slot] : workload_.held) {
      blocks_[slot] = by_address.at(address);
      held_before_.emplace(address, slot);
    }
    for (const StateSegment& segment : workload_.initial)
      for (const StateBlock& block : segment.blocks)
        if (block.state == BlockState::kPendingFree) {
          const uint32_t slot = held_before_.at(block.address);
          numbers_[slot] = allocator_.free_later(blocks_[slot]);
        }
  }

  void step(const Operation& operation, const Event& event) {
    switch (operation.kind) {
      case OperationKind::kAllocate: allocate(operation, event); break;
      case OperationKind::kRefuse: refuse(operation, event); break;
      case OperationKind::kComplete: (driver_.is_used_up() ? unsure_ : late_).push_back(operation.slot); break;
      case OperationKind::kFree:
        settle_calls();
        if (blocks_[operation.slot] != kNoBlock) allocator_.free(blocks_[operation.slot]);
        break;
      case OperationKind::kFreeLater:
        settle_calls();
        if (blocks_[operation.slot] != kNoBlock)
          numbers_[operation.slot] =
              allocator_.free_later(blocks_[operation.slot], std::max<uint64_t>(1, operation.bytes));
        break;
      case OperationKind::kEmptyCache:
        settle_calls();
        is_emptying_ = true;
        break;
      case OperationKind::kLimit:
        settle_calls();
        allocator_.limit(operation.bytes);
        break;
      case OperationKind::kAllocateWorkspace: break;  // its driver calls are not in a history
      case OperationKind::kReleasePool: break;
    }
  }

  // Blocks complete at the beginning of a request, or while it has waited for the device to make room: then memory goes
  // back right after them. What completed before a wait did so at the beginning.
  void note_idle() {
    knows_waits_ = true;
    early_.insert(early_.end(), unsure_.begin(), unsure_.end());
    unsure_.clear();
  }

  void settle_unsure(bool is_late) {
    std::vector<uint32_t>& slots = is_late && knows_waits_ ? late_ : early_;
    slots.insert(slots.end(), unsure_.begin(), unsure_.end());
    unsure_.clear();
  }

  void complete(std::vector<uint32_t>& slots) {
    for (const uint32_t slot : slots) allocator_.complete(numbers_[slot]);
    slots.clear();
  }

  void complete_rest() {
    settle_unsure(false);
    complete(early_);
    complete(late_);
  }

  void empty() {
    ++result_.caches_emptied;
    is_emptying_ = false;
    allocator_.empty_cache();
    complete_rest();
    note_difference(last_call_);
  }

  // MemPool's end gives back what is cached of it; a graph's end leaves that to whoever gives back the rest.
  void release_pools() {
    if (allocator_.pool_released_next() == 0) return;
    settle_unsure(false);
    complete(early_);
    allocator_.release_pools();
  }

  // Between a request and the next there may have been calls that belong to neither: the cache was emptied, or what
  // stands here is more than the model would do.
  void settle_calls() {
    if (!is_emptying_) release_pools();
    if (is_emptying_ || gives_back(driver_.peek())) {
      empty();
    } else {
      complete_rest();
    }
    if (is_after_last_request_) skip_reset();
    if (!driver_.is_used_up() && result_.is_equal)
      differ(fmt::format("the real allocator {}, the model does nothing", describe_call(*driver_.peek())),
             driver_.peek());
    driver_.clear();
  }

  // At exit the device is reset and gives back what is left, held or not; frees may come after that.
  void skip_reset() {
    while (gives_back(driver_.peek())) {
      driver_.skip();
      --result_.segment_calls;
      is_reset_ = true;
    }
  }

  void prepare(uint64_t bytes, const Operation& operation, bool is_refused) {
    if (is_emptying_) empty();
    release_pools();
    settle_unsure(gives_back(driver_.peek()) || is_refused);
    if (knows_waits_ || !gives_back(driver_.peek())) complete(early_);
    if (!gives_back(driver_.peek())) return;
    // Memory goes back before more is asked for: garbage collection or a limit make the request itself do that; where
    // they do not, the cache was emptied first.
    if (allocator_.would_hit(bytes, operation.stream, operation.pool)) {
      empty();
    } else if (allocator_.would_collect()) {
      complete(early_);
    } else if (!allocator_.would_exceed_limit(bytes, operation.stream, operation.pool) &&
               history_.source != Source::kSnapshot) {
      empty();
    }
  }

  void allocate(const Operation& operation, const Event& event) {
    prepare(operation.bytes, operation, false);
    const uint32_t block = allocator_.allocate(operation.bytes, operation.stream, operation.pool);
    complete_rest();
    blocks_[operation.slot] = block;
    ++result_.blocks;
    if (note_difference(&event)) return;
    if (block == kNoBlock) {
      differ(fmt::format("the model has no room for {} bytes, the real allocator gave {:#x}", operation.bytes,
                         event.address),
             &event);
    } else if (allocator_.address(block) != event.address) {
      differ(fmt::format("the model gives {:#x} for {} bytes, the real allocator gave {:#x}", allocator_.address(block),
                         operation.bytes, event.address),
             &event);
    } else if (event.size != 0 && allocator_.bytes(block) != event.size) {
      differ(fmt::format("the model gives a block of {} bytes for {} bytes, the real allocator one of {}",
                         allocator_.bytes(block), operation.bytes, event.size),
             &event);
    } else {
      ++result_.blocks_equal;
      finish_calls();
    }
  }

  void refuse(const Operation& operation, const Event& event) {
    const uint64_t bytes = operation.bytes - std::min(padding_, operation.bytes);
    prepare(bytes, operation, true);
    ++result_.out_of_memory;
    const uint32_t block = allocator_.allocate(bytes, operation.stream, operation.pool);
    complete_rest();
    if (note_difference(&event)) return;
    if (block != kNoBlock) {
      differ(fmt::format("the model finds room for {} bytes, the real allocator ran out of memory", bytes), &event);
      return;
    }
    ++result_.out_of_memory_equal;
    finish_calls();
  }

  void finish_calls() {
    if (!driver_.is_used_up())
      differ(fmt::format("the real allocator {}, the model does nothing more", describe_call(*driver_.peek())),
             driver_.peek());
    driver_.clear();
  }

  bool note_difference(const Event* fallback) {
    if (!driver_.differs()) return false;
    differ(driver_.difference(), driver_.difference_event() == nullptr ? fallback : driver_.difference_event());
    return true;
  }

  void differ(std::string what, const Event* event) {
    if (!result_.is_equal) return;
    result_.is_equal = false;
    result_.difference = std::move(what);
    if (event == nullptr) return;
    result_.ordinal = event->ordinal;
    result_.place = event->place;
  }

  void compare_final_state() {
    std::vector<StateSegment> wanted;
    for (const StateSegment& segment : history_.final_state) {
      if (segment.device != workload_.device) continue;
      wanted.push_back(segment);
      wanted.back().device = 0;
      wanted.back().stream = workload_.stream_ranks[segment.stream];
      for (StateBlock& block : wanted.back().blocks) block = {block.address, block.size, 0, 0, block.state};
    }
    std::sort(wanted.begin(), wanted.end(),
              [](const StateSegment& a, const StateSegment& b) { return a.address < b.address; });
    const std::vector<StateSegment> got = allocator_.state();
    result_.has_final_state = true;
    result_.is_final_state_equal = got == wanted;
    if (result_.is_final_state_equal) return;
    for (size_t index = 0; index < std::max(got.size(), wanted.size()); ++index) {
      if (index < got.size() && index < wanted.size() && got[index] == wanted[index]) continue;
      const StateSegment& first = index < wanted.size() ? wanted[index] : got[index];
      differ(fmt::format("at the end, the segment at {:#x} of {} bytes is not the same", first.address, first.size),
             nullptr);
      return;
    }
  }

  const History& history_;
  const Workload& workload_;
  uint64_t padding_;
  RecordedDriver driver_;
  CachingAllocator allocator_;
  std::vector<uint32_t> blocks_;   // by slot
  std::vector<uint64_t> numbers_;  // by slot
  std::unordered_map<uint64_t, uint32_t> held_before_;
  // Slots of completed blocks that the model holds back yet.
  std::vector<uint32_t> early_;
  std::vector<uint32_t> late_;
  std::vector<uint32_t> unsure_;  // which of the two they are shows later
  bool knows_waits_ = false;      // the history says when the device was waited for
  bool is_emptying_ = false;
  bool is_after_last_request_ = false;
  bool is_reset_ = false;
  const Event* last_call_ = nullptr;
  Verification result_;
};

}  // namespace

Verification verify(const History& history, const Workload& workload, const Settings& settings) {
  return Comparison(history, workload, settings).run();
}

}  // namespace drydock::replay
