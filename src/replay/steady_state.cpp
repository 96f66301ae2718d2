#include "replay/steady_state.h"

#include <utility>

namespace drydock::replay {
namespace {

constexpr uint64_t kUntouched = uint64_t{1} << 32;
constexpr size_t kLooks = 16;  // in a row; after that the allocator is left alone, for longer and longer

LastTouch& passed(LastTouch& touched, uint32_t operation) {
  touched.pass_until(operation);
  return touched;
}

}  // namespace

SteadyState::SteadyState(const Workload& workload, const Repeat& repeat, LastTouch& touched)
    : workload_(workload),
      repeat_(repeat),
      now_(touched),
      last_(passed(touched, repeat.begin + repeat.length * repeat.count)),
      pause_(kLooks) {}

uint32_t SteadyState::skip(CachingAllocator& allocator, SimulatedDriver& driver, std::vector<uint32_t>& blocks) {
  const uint32_t here = next();
  now_.pass_until(here);
  Look look{boundary_, {}, allocator.tally(), driver.calls()};
  std::vector<uint64_t> ids;
  const bool is_known = name_blocks(allocator, blocks, ids) && allocator.describe(ids, look.words);
  driver.describe(look.words);
  for (const Look& before : looks_) {
    if (!is_known || before.words != look.words) continue;
    const uint32_t period = boundary_ - before.boundary;
    const uint32_t times = (repeat_.count - boundary_) / period;
    if (times == 0) break;
    LastTouch then = now_;
    const uint32_t there = end_of(boundary_ + times * period);
    then.pass_until(there);
    if (!rename(then, there - here, blocks)) break;
    allocator.repeat_tally(before.tally, times);
    driver.repeat_calls(before.calls, times);
    boundary_ = repeat_.count + 1;
    return there;
  }
  if (is_known) looks_.push_back(std::move(look));
  ++boundary_;
  if (looks_.size() == kLooks) {
    looks_.clear();
    boundary_ += pause_;
    pause_ *= 2;
  }
  return here;
}

// A block that the repetitions leave alone goes by the operation that allocated it, any other by how long ago that was.
bool SteadyState::name_blocks(const CachingAllocator& allocator, const std::vector<uint32_t>& blocks,
                              std::vector<uint64_t>& ids) const {
  ids.assign(allocator.blocks(), 0);
  for (uint32_t slot = 0; slot < workload_.slots; ++slot) {
    if (!now_.is_held(slot)) continue;
    if (blocks[slot] == kNoBlock) return false;
    const uint32_t touched = now_[slot];
    if (last_[slot] == touched) {
      ids[blocks[slot]] = kUntouched + touched;
    } else if (touched == LastTouch::kBefore) {
      return false;
    } else {
      ids[blocks[slot]] = next() - touched;
    }
  }
  return true;
}

// Where the program's blocks are `ahead` operations later: those that it left alone where they were, of the others
// where what was allocated as long before is now.
bool SteadyState::rename(const LastTouch& then, uint32_t ahead, std::vector<uint32_t>& blocks) const {
  std::vector<uint32_t> renamed = blocks;
  size_t held = 0;
  size_t held_then = 0;
  for (uint32_t slot = 0; slot < workload_.slots; ++slot) {
    held += now_.is_held(slot) ? 1 : 0;
    if (!then.is_held(slot)) continue;
    ++held_then;
    const uint32_t touched = then[slot];
    if (touched == now_[slot]) {
      if (last_[slot] != touched) return false;
      continue;
    }
    if (touched < repeat_.begin + ahead) return false;
    const uint32_t same = workload_.operations[touched - ahead].slot;
    if (now_[same] != touched - ahead) return false;
    renamed[slot] = blocks[same];
  }
  if (held != held_then) return false;
  blocks = std::move(renamed);
  return true;
}

}  // namespace drydock::replay
