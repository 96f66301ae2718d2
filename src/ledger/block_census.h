#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ledger/flat_table.h"
#include "trace/block_birth.h"

// What the blocks of the caching allocator are for, at chosen moments.

namespace drydock::ledger {

/// What a block is for. Parameters, buffers, gradients and optimizer state are what torch's own objects said; the rest
/// follows from when the block was born and freed.
enum class BlockKind : uint8_t {
  kParameter,
  kBuffer,
  kGradient,
  kOptimizerState,
  kActivation,   ///< made in a forward pass and still there when backward began
  kTemporary,    ///< gone before its phase or its step was over
  kInput,        ///< filled by a copy from the host
  kResult,       ///< made in a forward pass that no backward followed, and never freed
  kWorkspace,    ///< given to an operator as scratch memory
  kUnexplained,  ///< nothing tells
};
inline constexpr size_t kBlockKinds = 10;
std::string_view name_of(BlockKind kind);

/// What is known of one block once it is freed.
struct BlockPurpose {
  BlockKind kind = BlockKind::kUnexplained;
  trace::StringId name = 0;  ///< of the parameter or buffer that it belongs to
};

/// "model.fc" of "model.fc.weight": the module that a parameter or buffer belongs to, whoever ran when it was made.
/// Empty where the name tells of none.
std::string_view owner_of(std::string_view name);

/// When a block was born.
enum class BirthPhase : uint8_t { kOther, kForward, kBackward, kOptimizer };
std::string_view name_of(BirthPhase phase);

/// Blocks of one kind from one place in the program.
struct KindHolder {
  BlockKind kind = BlockKind::kUnexplained;
  BirthPhase phase = BirthPhase::kOther;
  trace::LineId line = 0;
  uint32_t module = 0;       ///< number of the module that was running; 0 = none
  trace::StringId name = 0;  ///< of the parameter or buffer that it belongs to
  uint32_t first_step = 0;   ///< births, counted from 1
  uint32_t last_step = 0;
  uint64_t bytes = 0;            ///< rounded, as the allocator counts
  uint64_t requested_bytes = 0;  ///< as asked for, where that is known, else rounded
  uint64_t blocks = 0;
};

/// All blocks that were live at one moment.
struct Composition {
  std::array<uint64_t, kBlockKinds> bytes{};
  std::array<uint64_t, kBlockKinds> requested_bytes{};
  std::array<uint64_t, kBlockKinds> blocks{};
  std::vector<KindHolder> holders;  ///< largest first
  uint64_t allocated_bytes() const;
};

/// Keeps an eye on the blocks of one device, in constant time per event. What a block was for may be known only when it
/// is freed, so a moment's blocks are put down one by one as they go; a later peak starts anew.
class BlockCensus {
 public:
  struct Birth {
    trace::LineId line = 0;
    uint32_t module = 0;
    bool gradients_are_recorded = false;
  };
  void allocated(uint64_t address, uint64_t size_bytes, const Birth& birth);
  void freed(uint64_t address);
  void requested(uint64_t address, uint64_t bytes);
  void given_as_workspace(uint64_t address);
  void labelled(uint64_t address, trace::Label label, uint64_t storage_bytes, trace::StringId name);
  void filled_from_host(uint64_t address);
  void phase_began(trace::Phase phase);
  void step_ended();
  /// The present moment is the one of interest; what was put down for an earlier one of its sort is dropped.
  void new_peak() { begin(peak_); }
  void out_of_memory() { begin(out_of_memory_); }
  /// Call once after the last event.
  void finish();

  /// Before the first event: nobody will ask what blocks are for.
  void leave_out() { is_left_out_ = true; }
  /// Before the first event: the purpose of every block is to be known, of those that lived when memory ran out as at
  /// that moment.
  void keep_purposes() { keeps_purposes_ = true; }
  /// After the last event, instead of finish(): by the number of the allocation, from 0.
  std::vector<BlockPurpose> take_purposes();

  const Composition& at_peak() const { return at_peak_; }
  const Composition& at_out_of_memory() const { return at_out_of_memory_; }
  const Composition& at_end() const { return at_end_; }

 private:
  struct Block {
    uint64_t size_bytes = 0;
    uint64_t requested_bytes = 0;
    uint64_t birth = 0;  // number of the allocation
    uint32_t module_changes = 0;
    uint32_t backwards = 0;  // that had begun
    uint32_t phases = 0;     // that had begun
    uint32_t step = 0;
    trace::LineId line = 0;
    uint32_t module = 0;
    trace::StringId name = 0;
    BirthPhase phase = BirthPhase::kOther;
    BlockKind label = BlockKind::kUnexplained;
    bool gradients_are_recorded = false;
  };
  struct Moment {
    bool is_set = false;
    uint64_t births = 0;
    uint32_t module_changes = 0;
    std::vector<KindHolder> gone;
  };
  void begin(Moment& moment);
  BlockKind kind_of(const Block& block, bool is_freed, const Moment* refusal) const;
  /// The moment when memory ran out, if the block was live then.
  const Moment* refusal_of(const Block& block) const;
  void keep_purpose(const Block& block, bool is_freed);
  static KindHolder holder_of(const Block& block, BlockKind kind);
  Composition compose(const Moment* moment, bool is_refusal) const;

  FlatTable<Block> live_;
  uint64_t births_ = 0;
  uint32_t last_module_ = 0;
  uint32_t module_changes_ = 0;
  uint32_t backwards_ = 0;
  uint32_t phases_ = 0;
  uint32_t steps_ = 0;
  trace::Phase phase_ = trace::Phase::kOther;
  bool is_forward_ = false;
  bool is_told_ = false;  // the program said anything of modules, autograd or phases
  bool is_left_out_ = false;
  bool keeps_purposes_ = false;
  bool is_over_ = false;  // the interpreter ends: blocks go because all goes
  Moment peak_;
  Moment out_of_memory_;
  std::vector<BlockPurpose> purposes_;  // by the number of the allocation
  Composition at_peak_;
  Composition at_out_of_memory_;
  Composition at_end_;
};

}  // namespace drydock::ledger
