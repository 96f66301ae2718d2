#include "replay/simulate.h"

#include <algorithm>
#include <vector>

#include "replay/caching_allocator.h"
#include "replay/driver.h"
#include "replay/steady_state.h"

namespace drydock::replay {
namespace {

constexpr uint64_t kUnknownTotal = uint64_t{1} << 40;
constexpr uint64_t kPadding = 32;

class Replay {
 public:
  Replay(const Workload& workload, const Settings& settings)
      : workload_(workload),
        padding_(settings.policy == Policy::kNpu ? kPadding : 0),
        driver_(workload.total_bytes == 0 ? kUnknownTotal : workload.total_bytes, workload.external_bytes),
        allocator_(settings, driver_, workload.streams, workload.pools),
        blocks_(workload.slots, kNoBlock) {}

  Outcome run() {
    adopt();
    switch (allocator_.speciality()) {
      case Speciality::kNative: return run_all<Speciality::kNative>();
      case Speciality::kExpandable: return run_all<Speciality::kExpandable>();
      case Speciality::kNone: break;
    }
    return run_all<Speciality::kNone>();
  }

  const Indifference& indifference() const { return allocator_.indifference(); }
  uint64_t skipped() const { return skipped_; }

 private:
  template <Speciality kSpeciality>
  Outcome run_all() {
    Outcome outcome;
    const Operation* at = workload_.operations.data();
    bool goes_on = true;
    LastTouch touched(workload_);
    for (const Repeat& repeat : workload_.repeats) {
      if (size_t{repeat.begin} + size_t{repeat.length} * repeat.count > workload_.operations.size()) break;
      SteadyState steady(workload_, repeat, touched);
      while (goes_on && !steady.is_over()) {
        goes_on = run_until<kSpeciality>(steady.next(), at, outcome);
        if (!goes_on) break;
        const Operation* const on = workload_.operations.data() + steady.skip(allocator_, driver_, blocks_);
        skipped_ += static_cast<uint64_t>(on - at);
        at = on;
      }
      if (!goes_on) break;
    }
    if (goes_on) run_until<kSpeciality>(workload_.operations.size(), at, outcome);
    const AllocatorTally& tally = allocator_.tally();
    outcome.operations = static_cast<uint64_t>(at - workload_.operations.data());
    outcome.peak_allocated_bytes = tally.peak_allocated_bytes;
    outcome.peak_reserved_bytes = tally.peak_reserved_bytes;
    outcome.allocated_at_peak_bytes = tally.allocated_at_peak_bytes;
    outcome.end_reserved_bytes = tally.reserved_bytes;
    outcome.free_bytes = driver_.free_bytes();
    outcome.driver_calls = driver_.calls();
    outcome.segments = tally.segments;
    outcome.retries = tally.retries;
    outcome.collections = tally.collections;
    outcome.rejections = tally.rejections;
    return outcome;
  }

  // False if the replay ends before that.
  template <Speciality kSpeciality>
  bool run_until(size_t operation, const Operation*& at, Outcome& outcome) {
    const Operation* const begin = workload_.operations.data();
    const Operation* const end = begin + operation;
    while ((at = first_failure<kSpeciality>(at, end)) != end) {
      if (outcome.fits) {
        outcome.fits = false;
        outcome.failed_operation = static_cast<uint32_t>(at - begin);
        outcome.failed_bytes = at->bytes;
      }
      if (at->kind != OperationKind::kRefuse) return false;
      ++at;
    }
    return true;
  }

  // The operation for which there is no room, or the end.
  template <Speciality kSpeciality>
  [[gnu::noinline]] const Operation* first_failure(const Operation* now, const Operation* end) {
    if constexpr (kSpeciality != Speciality::kNone) {
      for (; end - now > 1; ++now) {
        if (goes_in_pair<kSpeciality>(now[0], now[1])) {
          ++now;
        } else if (!step<kSpeciality>(*now)) [[unlikely]] {
          return now;
        }
      }
    }
    while (now != end && step<kSpeciality>(*now)) ++now;
    return now;
  }

  // Whether two operations in a row leave everything where it is: a block that is given back at once, or is got again.
  // One in four of the demo's operations goes like that.
  template <Speciality kSpeciality>
  [[gnu::always_inline]] bool goes_in_pair(const Operation& operation, const Operation& next) {
    if (operation.kind == OperationKind::kAllocate) {
      return next.slot == operation.slot && next.kind == OperationKind::kFree &&
             allocator_.touch<kSpeciality>(operation.bytes, operation.stream, operation.pool);
    }
    if (operation.kind != OperationKind::kFree || next.kind != OperationKind::kAllocate) return false;
    const uint32_t block = blocks_[operation.slot];
    if (!allocator_.would_keep<kSpeciality>(block, next.bytes, next.stream, next.pool)) return false;
    blocks_[next.slot] = block;
    return true;
  }

  // What was held before the first event has to lie somewhere: it is asked for anew, largest first, so that a history
  // which began mid-run can be replayed under settings that would have laid it out differently.
  void adopt() {
    struct Held {
      uint64_t bytes;
      uint32_t slot;
      uint16_t stream;
      uint8_t pool;
    };
    std::vector<Held> held;
    size_t next = 0;
    for (const StateSegment& segment : workload_.initial)
      for (const StateBlock& block : segment.blocks)
        if (block.state != BlockState::kFree) {
          held.push_back({block.size > padding_ ? block.size - padding_ : block.size, workload_.held[next].second,
                          static_cast<uint16_t>(segment.stream), static_cast<uint8_t>(segment.pool)});
          ++next;
        }
    std::stable_sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.bytes > b.bytes; });
    for (const Held& block : held) blocks_[block.slot] = allocator_.allocate(block.bytes, block.stream, block.pool);
  }

  template <Speciality kSpeciality>
  [[gnu::always_inline]] bool step(const Operation& operation) {
    if (operation.kind == OperationKind::kAllocate) {
      const uint32_t block = allocator_.allocate<kSpeciality>(operation.bytes, operation.stream, operation.pool);
      blocks_[operation.slot] = block;
      return block != kNoBlock;
    }
    if (operation.kind == OperationKind::kFree) [[likely]] {
      if (blocks_[operation.slot] != kNoBlock) allocator_.free<kSpeciality>(blocks_[operation.slot]);
      return true;
    }
    return step_rarely(operation);
  }

  // Of every other kind.
  [[gnu::noinline]] bool step_rarely(const Operation& operation) {
    switch (operation.kind) {
      case OperationKind::kAllocate:
      case OperationKind::kFree: break;
      case OperationKind::kFreeLater:
        if (numbers_.empty()) numbers_.resize(workload_.slots, 0);
        if (blocks_[operation.slot] != kNoBlock)
          numbers_[operation.slot] =
              allocator_.free_later(blocks_[operation.slot], std::max<uint64_t>(1, operation.bytes));
        return true;
      case OperationKind::kComplete:
        if (!numbers_.empty()) allocator_.complete(numbers_[operation.slot]);
        return true;
      case OperationKind::kRefuse:
        // Where there is room now, what the program would have done with it is not known: given back at once.
        if (const uint32_t block = allocator_.allocate(operation.bytes - std::min(padding_, operation.bytes),
                                                       operation.stream, operation.pool);
            block != kNoBlock) {
          allocator_.free(block);
          return true;
        }
        return false;
      case OperationKind::kAllocateWorkspace: return allocator_.allocate_workspace(operation.bytes, operation.stream);
      case OperationKind::kEmptyCache: allocator_.empty_cache(); return true;
      case OperationKind::kReleasePool: allocator_.release_pool(operation.pool); return true;
      case OperationKind::kLimit: allocator_.limit(operation.bytes); return true;
    }
    return true;
  }

  const Workload& workload_;
  uint64_t padding_;
  SimulatedDriver driver_;
  CachingAllocator allocator_;
  uint64_t skipped_ = 0;
  std::vector<uint32_t> blocks_;   // by slot
  std::vector<uint64_t> numbers_;  // by slot, of blocks that were freed for later
};

// The numbers that an allocator with these settings compares with.
struct Thresholds {
  Thresholds(const Workload& workload, const Settings& settings) {
    SimulatedDriver driver(workload.total_bytes == 0 ? kUnknownTotal : workload.total_bytes, 0);
    const CachingAllocator allocator(settings, driver, 1, 1);
    split = allocator.max_split_units();
    collection = allocator.collection_threshold();
    allowed = allocator.allowed_units();
  }
  uint32_t split = 0;
  uint64_t collection = 0;
  uint64_t allowed = 0;
};

}  // namespace

Outcome simulate(const Workload& workload, const Settings& settings, uint64_t* skipped) {
  Replay replay(workload, settings);
  const Outcome outcome = replay.run();
  if (skipped != nullptr) *skipped = replay.skipped();
  return outcome;
}

Outcomes::Outcomes(const Workload& workload) : workload_(workload) {
  for (const Operation& operation : workload.operations) {
    has_limits_ = has_limits_ || operation.kind == OperationKind::kLimit;
    has_waiting_ = has_waiting_ || operation.kind == OperationKind::kFreeLater;
  }
}

Outcome Outcomes::of(const Settings& settings, bool& was_replayed) {
  const Thresholds values(workload_, settings);
  const auto is_within = [&](const Indifference& range) {
    return values.split > range.split_above && values.split <= range.split_to &&
           values.collection >= range.threshold_from && values.collection <= range.threshold_to &&
           values.allowed >= range.allowed_from && values.allowed <= range.allowed_to;
  };
  {
    const std::lock_guard lock(mutex_);
    was_replayed = false;
    for (const Known& known : known_)
      if (is_within(known.indifference) && has_same_rules(known.settings, settings)) return known.outcome;
  }
  was_replayed = true;
  Replay replay(workload_, settings);
  Known known{settings, {}, replay.run()};
  known.indifference = replay.indifference();
  const std::lock_guard lock(mutex_);
  known_.push_back(known);
  return known.outcome;
}

size_t Outcomes::replays() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

// Whether they differ in nothing but the numbers of an Indifference.
bool Outcomes::has_same_rules(const Settings& other, const Settings& settings) const {
  if (settings.policy != other.policy || settings.expandable_segments != other.expandable_segments ||
      settings.large_segment_bytes != other.large_segment_bytes || settings.giant_pages != other.giant_pages ||
      settings.throw_on_oom != other.throw_on_oom || settings.power2_divisions != other.power2_divisions)
    return false;
  const bool is_expandable = settings.expandable_segments;
  if (is_expandable &&
      (settings.segment_bytes != other.segment_bytes || settings.base_alignment_bytes != other.base_alignment_bytes ||
       settings.max_split_bytes != other.max_split_bytes))
    return false;
  const bool splits_all = settings.max_split_bytes == kUnlimited || other.max_split_bytes == kUnlimited;
  if (!splits_all && settings.max_non_split_rounding_bytes != other.max_non_split_rounding_bytes) return false;
  // Lazy reclaim searches once more, which makes what is cached older.
  const bool ages = settings.garbage_collection_threshold > 0 || other.garbage_collection_threshold > 0;
  if (settings.lazy_reclaim != other.lazy_reclaim && (ages || has_waiting_)) return false;
  if ((has_limits_ || settings.throw_on_oom) &&
      (settings.memory_fraction != other.memory_fraction ||
       settings.garbage_collection_threshold != other.garbage_collection_threshold))
    return false;
  return true;
}

}  // namespace drydock::replay
