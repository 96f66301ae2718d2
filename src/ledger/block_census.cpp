#include "ledger/block_census.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace drydock::ledger {

std::string_view name_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::kParameter: return "parameters";
    case BlockKind::kBuffer: return "buffers";
    case BlockKind::kGradient: return "gradients";
    case BlockKind::kOptimizerState: return "optimizer state";
    case BlockKind::kActivation: return "activations";
    case BlockKind::kTemporary: return "temporaries";
    case BlockKind::kInput: return "inputs";
    case BlockKind::kResult: return "results";
    case BlockKind::kWorkspace: return "operator workspace";
    case BlockKind::kUnexplained: return "unexplained";
  }
  return "unexplained";
}

std::string_view owner_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return name.substr(0, dot == std::string_view::npos ? 0 : dot);
}

std::string_view name_of(BirthPhase phase) {
  switch (phase) {
    case BirthPhase::kOther: return "other";
    case BirthPhase::kForward: return "forward";
    case BirthPhase::kBackward: return "backward";
    case BirthPhase::kOptimizer: return "optimizer";
  }
  return "other";
}

uint64_t Composition::allocated_bytes() const {
  uint64_t sum = 0;
  for (const uint64_t each : bytes) sum += each;
  return sum;
}

void BlockCensus::begin(Moment& moment) {
  moment.is_set = true;
  moment.births = births_;
  moment.module_changes = module_changes_;
  moment.gone.clear();
}

void BlockCensus::allocated(uint64_t address, uint64_t size_bytes, const Birth& birth) {
  if (is_left_out_) return;                            // nor is there anything to free, then
  if (live_.find(address) != nullptr) freed(address);  // its release was not recorded
  if (birth.module != last_module_) {
    last_module_ = birth.module;
    ++module_changes_;
  }
  // A forward pass goes on, with the loss, until backward or the optimizer begins.
  if (birth.module != 0 || birth.gradients_are_recorded) is_told_ = true;
  if (birth.module != 0 && phase_ == trace::Phase::kOther && !is_forward_) {
    is_forward_ = true;
    ++phases_;
  }
  Block block;
  block.size_bytes = size_bytes;
  block.birth = ++births_;
  block.module_changes = module_changes_;
  block.backwards = backwards_;
  block.phases = phases_;
  block.step = steps_ + 1;
  block.line = birth.line;
  block.module = birth.module;
  block.gradients_are_recorded = birth.gradients_are_recorded;
  block.phase = phase_ == trace::Phase::kBackward    ? BirthPhase::kBackward
                : phase_ == trace::Phase::kOptimizer ? BirthPhase::kOptimizer
                : is_forward_                        ? BirthPhase::kForward
                                                     : BirthPhase::kOther;
  live_[address] = block;
  if (keeps_purposes_) purposes_.emplace_back();
}

void BlockCensus::freed(uint64_t address) {
  const Block* block = live_.find(address);
  if (block == nullptr) return;
  // What a program that ran out of memory gives back last, its exception held.
  const bool was_dropped = !is_over_ || out_of_memory_.is_set;
  if (peak_.is_set && block->birth <= peak_.births)
    peak_.gone.push_back(holder_of(*block, kind_of(*block, was_dropped, nullptr)));
  const Moment* const refusal = refusal_of(*block);
  if (refusal != nullptr) out_of_memory_.gone.push_back(holder_of(*block, kind_of(*block, true, refusal)));
  if (keeps_purposes_) keep_purpose(*block, was_dropped || refusal != nullptr);
  live_.erase(address);
}

const BlockCensus::Moment* BlockCensus::refusal_of(const Block& block) const {
  return out_of_memory_.is_set && block.birth <= out_of_memory_.births ? &out_of_memory_ : nullptr;
}

void BlockCensus::keep_purpose(const Block& block, bool is_freed) {
  purposes_[block.birth - 1] = {kind_of(block, is_freed, refusal_of(block)), block.name};
}

std::vector<BlockPurpose> BlockCensus::take_purposes() {
  live_.for_each([&](uint64_t, const Block& block) { keep_purpose(block, false); });
  return std::exchange(purposes_, {});
}

void BlockCensus::requested(uint64_t address, uint64_t bytes) {
  Block* block = live_.find(address);
  if (block != nullptr && block->requested_bytes == 0 && bytes <= block->size_bytes) block->requested_bytes = bytes;
}

void BlockCensus::given_as_workspace(uint64_t address) {
  if (Block* block = live_.find(address); block != nullptr) block->label = BlockKind::kWorkspace;
}

void BlockCensus::labelled(uint64_t address, trace::Label label, uint64_t storage_bytes, trace::StringId name) {
  Block* block = live_.find(address);
  if (block == nullptr || storage_bytes > block->size_bytes) return;
  switch (label) {
    case trace::Label::kParameter: block->label = BlockKind::kParameter; break;
    case trace::Label::kGradient: block->label = BlockKind::kGradient; break;
    case trace::Label::kOptimizerState: block->label = BlockKind::kOptimizerState; break;
    case trace::Label::kBuffer: block->label = BlockKind::kBuffer; break;
  }
  block->name = name;
  // torch's own word for what was asked.
  block->requested_bytes = storage_bytes;
}

void BlockCensus::filled_from_host(uint64_t address) {
  Block* block = live_.find(address);
  if (block != nullptr && block->label == BlockKind::kUnexplained) block->label = BlockKind::kInput;
}

void BlockCensus::phase_began(trace::Phase phase) {
  is_told_ = is_told_ || phase != trace::Phase::kOther;
  if (phase == trace::Phase::kExit) {
    is_over_ = true;
    return;
  }
  phase_ = phase;
  ++phases_;
  is_forward_ = false;
  if (phase == trace::Phase::kBackward) ++backwards_;
}

void BlockCensus::step_ended() {
  ++steps_;
  is_forward_ = false;
}

// `refusal` is the moment when the driver had no room, if that is what is asked about: what goes then goes because the
// program fails, and says nothing of what it was for.
BlockKind BlockCensus::kind_of(const Block& block, bool is_freed, const Moment* refusal) const {
  if (block.label != BlockKind::kUnexplained) return block.label;
  if (!is_told_) return BlockKind::kUnexplained;  // a program without torch, or whose holders were not asked for
  const bool saw_backward = backwards_ > block.backwards;
  const bool is_same_step = steps_ + 1 == block.step;
  if (block.phase == BirthPhase::kForward) {
    if (saw_backward) return BlockKind::kActivation;
    if (refusal != nullptr)
      // What outlives the module that made it, while autograd records, is kept for backward.
      return block.gradients_are_recorded && refusal->module_changes > block.module_changes ? BlockKind::kActivation
                                                                                            : BlockKind::kTemporary;
    return is_freed ? BlockKind::kTemporary : BlockKind::kResult;
  }
  // A program without modules: its forward passes are what autograd records before backward.
  if (block.phase == BirthPhase::kOther && saw_backward && is_freed && block.gradients_are_recorded && is_same_step)
    return BlockKind::kActivation;
  // Where there are no steps, only the phase tells.
  const bool was_short = phases_ == block.phases || (is_same_step && backwards_ > 0);
  return is_freed && was_short ? BlockKind::kTemporary : BlockKind::kUnexplained;
}

KindHolder BlockCensus::holder_of(const Block& block, BlockKind kind) {
  return {.kind = kind,
          .phase = block.phase,
          .line = block.line,
          .module = block.module,
          .name = block.name,
          .first_step = block.step,
          .last_step = block.step,
          .bytes = block.size_bytes,
          .requested_bytes = block.requested_bytes != 0 ? block.requested_bytes : block.size_bytes,
          .blocks = 1};
}

Composition BlockCensus::compose(const Moment* moment, bool is_refusal) const {
  Composition composition;
  if (moment != nullptr && !moment->is_set) return composition;
  using Key = std::tuple<BlockKind, BirthPhase, trace::LineId, uint32_t, trace::StringId>;
  std::map<Key, KindHolder> holders;
  const auto add = [&](const KindHolder& one) {
    const auto kind = static_cast<size_t>(one.kind);
    composition.bytes[kind] += one.bytes;
    composition.requested_bytes[kind] += one.requested_bytes;
    ++composition.blocks[kind];
    auto [place, is_new] = holders.try_emplace({one.kind, one.phase, one.line, one.module, one.name}, one);
    if (is_new) return;
    KindHolder& sum = place->second;
    sum.first_step = std::min(sum.first_step, one.first_step);
    sum.last_step = std::max(sum.last_step, one.last_step);
    sum.bytes += one.bytes;
    sum.requested_bytes += one.requested_bytes;
    ++sum.blocks;
  };
  if (moment != nullptr)
    for (const KindHolder& one : moment->gone) add(one);
  live_.for_each([&](uint64_t, const Block& block) {
    if (moment != nullptr && block.birth > moment->births) return;
    add(holder_of(block, kind_of(block, false, is_refusal ? moment : nullptr)));
  });
  for (const auto& [key, holder] : holders) composition.holders.push_back(holder);
  std::stable_sort(composition.holders.begin(), composition.holders.end(),
                   [](const KindHolder& a, const KindHolder& b) { return a.bytes > b.bytes; });
  return composition;
}

void BlockCensus::finish() {
  at_peak_ = compose(&peak_, false);
  at_out_of_memory_ = compose(&out_of_memory_, true);
  at_end_ = compose(nullptr, false);
}

}  // namespace drydock::ledger
