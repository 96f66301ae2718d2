#include "replay/repeats.h"

#include <algorithm>

namespace drydock::replay {
namespace {

constexpr size_t kMostSteps = 64;  // that make up one repetition
constexpr size_t kLeastCount = 3;  // repetitions: the first two show that a third need not be replayed

bool touches_block(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllocate:
    case OperationKind::kFree:
    case OperationKind::kFreeLater:
    case OperationKind::kComplete: return true;
    default: return false;
  }
}

// How many operations ago each operation's block was touched. An allocation begins anew.
std::vector<uint32_t> distances_of(const Workload& workload) {
  std::vector<uint32_t> distances(workload.operations.size(), 0);
  std::vector<uint32_t> touched(workload.slots, LastTouch::kNever);
  for (uint32_t index = 0; index < distances.size(); ++index) {
    const Operation& operation = workload.operations[index];
    if (!touches_block(operation.kind)) continue;
    if (operation.kind != OperationKind::kAllocate)
      distances[index] =
          touched[operation.slot] == LastTouch::kNever ? LastTouch::kNever : index - touched[operation.slot];
    touched[operation.slot] = index;
  }
  return distances;
}

class Search {
 public:
  explicit Search(const Workload& workload) : workload_(workload), distances_(distances_of(workload)) {
    for (const uint32_t end : workload.steps)
      if (ends_.empty() || ends_.back() < end) ends_.push_back(end);
    for (size_t step = 0; step + 1 < ends_.size(); ++step) hashes_.push_back(hash(ends_[step], ends_[step + 1]));
  }

  std::vector<Repeat> run() {
    std::vector<Repeat> repeats;
    size_t step = 0;
    while (step < hashes_.size()) {
      const Repeat repeat = repeat_at(step);
      if (repeat.count == 0) {
        ++step;
        continue;
      }
      repeats.push_back(repeat);
      const uint32_t end = repeat.begin + repeat.length * repeat.count;
      while (step < hashes_.size() && ends_[step] < end) ++step;
    }
    return repeats;
  }

 private:
  Repeat repeat_at(size_t step) const {
    for (size_t period = 1; period <= kMostSteps && step + kLeastCount * period <= hashes_.size(); ++period) {
      size_t same = 0;
      while (step + same + period < hashes_.size() && hashes_[step + same] == hashes_[step + same + period]) ++same;
      if (same / period + 1 < kLeastCount) continue;
      Repeat repeat;
      repeat.begin = ends_[step];
      repeat.length = ends_[step + period] - ends_[step];
      repeat.count = 1;
      while (repeat.count < same / period + 1 &&
             is_same(repeat.begin + (repeat.count - 1) * repeat.length, repeat.length))
        ++repeat.count;
      if (repeat.count >= kLeastCount) return repeat;
    }
    return {};
  }

  // A hash proposes; this decides.
  bool is_same(uint32_t begin, uint32_t length) const {
    if (size_t{begin} + 2 * size_t{length} > distances_.size()) return false;
    for (uint32_t index = begin; index < begin + length; ++index) {
      const Operation& one = workload_.operations[index];
      const Operation& other = workload_.operations[index + length];
      if (one.kind != other.kind || one.bytes != other.bytes || one.stream != other.stream || one.pool != other.pool ||
          distances_[index] != distances_[index + length] || distances_[index] == LastTouch::kNever)
        return false;
    }
    return true;
  }

  uint64_t hash(uint32_t begin, uint32_t end) const {
    uint64_t hash = end - begin;
    const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15U ^ hash >> 29; };
    for (uint32_t index = begin; index < end; ++index) {
      const Operation& operation = workload_.operations[index];
      add(operation.bytes);
      add(uint64_t{distances_[index]} << 32 | uint64_t{operation.stream} << 16 | uint64_t{operation.pool} << 8 |
          static_cast<uint64_t>(operation.kind));
    }
    return hash;
  }

  const Workload& workload_;
  std::vector<uint32_t> distances_;
  std::vector<uint32_t> ends_;
  std::vector<uint64_t> hashes_;  // of the operations between an end and the next
};

}  // namespace

std::vector<Repeat> find_repeats(const Workload& workload) {
  if (workload.steps.size() <= kLeastCount) return {};
  return Search(workload).run();
}

LastTouch::LastTouch(const Workload& workload) : workload_(&workload), touched_(workload.slots, kNever) {
  for (const auto& [address, slot] : workload.held) touched_[slot] = kBefore;
}

void LastTouch::pass_until(uint32_t operation) {
  for (; passed_ < operation; ++passed_) {
    const Operation& each = workload_->operations[passed_];
    if (touches_block(each.kind)) touched_[each.slot] = passed_;
  }
}

}  // namespace drydock::replay
