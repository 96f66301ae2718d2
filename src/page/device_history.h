#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ledger/flat_table.h"
#include "ledger/memory_account.h"
#include "page/address_space.h"
#include "page/holder_moments.h"
#include "page/memory_curve.h"
#include "trace/reader.h"

namespace drydock::page {

/// What a holder's bytes are, as far as the trace tells.
enum class HolderKind : uint8_t {
  kBlock,      ///< blocks of the caching allocator
  kScratch,    ///< such blocks that were given to operators as workspace
  kWorkspace,  ///< blocks of torch_npu's workspace allocator: no part of what is allocated
  kDriver,     ///< driver memory of a program that has no blocks
};

struct HolderKey {
  HolderKind kind{};
  ledger::BlockKind block_kind = ledger::BlockKind::kUnexplained;  ///< of kBlock
  trace::LineId line = 0;
  uint32_t module = 0;       ///< number of the module that was running; 0 = none
  trace::StringId name = 0;  ///< of the parameter or buffer that it belongs to, which tells the module then
};

/// The layout at a moment that is worth a look.
struct LayoutMoment {
  Layout layout;
  bool is_refusal = false;  ///< the driver refused memory just then; else the highest moment
  uint64_t time_ns = 0;
  uint32_t step = 0;
};

/// How the memory of one device went, as one process used it: curve, holders at many moments, and where all lay at the
/// moment that counts. Numbers come from a MemoryAccount, so that they are the ledger's.
class DeviceHistory {
 public:
  /// `purposes`: of the device's blocks, by the number of the allocation; what is beyond is unexplained.
  explicit DeviceHistory(int32_t device, std::vector<ledger::BlockPurpose> purposes = {})
      : account_(device), purposes_(std::move(purposes)) {
    account_.leave_out_purposes();
  }

  /// Takes a record about this device's memory; others change nothing. `step`: counted from 1, running.
  void take(const trace::Reader& reader, const trace::Record& record, uint32_t step);
  void step_ended(uint32_t step, uint64_t time_ns);
  /// Call once after the last record.
  void finish(uint32_t step, uint64_t time_ns);
  /// For pages of many devices: at most so many spans and moments.
  void shrink_to(size_t spans, size_t moments);

  /// False for a program without a caching allocator: its driver memory counts as allocated then.
  bool has_blocks() const { return account_.has_blocks(); }
  const ledger::MemoryAccount& account() const { return account_; }
  /// What the driver said; 0 if it was not asked.
  uint64_t capacity_bytes() const { return capacity_; }
  std::vector<CurvePoint> curve() const;
  const std::vector<HolderKey>& holders() const { return has_blocks() ? block_holders_ : driver_holders_; }
  const HolderMoments& moments() const { return has_blocks() ? blocks_ : drivers_; }
  /// The moment of the driver's last refusal.
  std::optional<LayoutMoment> at_refusal() const;
  const std::optional<Moment>& held_at_refusal() const { return held_at_refusal_; }
  LayoutMoment at_peak() const;

 private:
  uint32_t holder(const HolderKey& key);
  void sample();
  void take_block(const trace::Record& record, uint32_t step);
  void take_driver(const trace::Record& record, uint32_t step);

  ledger::MemoryAccount account_;
  std::vector<ledger::BlockPurpose> purposes_;
  MemoryCurve curve_;
  HolderMoments blocks_;
  HolderMoments drivers_;
  AddressSpace space_;
  ledger::FlatTable<uint32_t> holder_ids_;
  ledger::FlatTable<uint32_t> group_ids_;
  std::vector<HolderKey> block_holders_;
  std::vector<HolderKey> driver_holders_;
  std::map<uint64_t, std::pair<uint32_t, uint64_t>> driver_pieces_;  // holder and size, by address or handle
  std::optional<Moment> held_at_refusal_;
  uint64_t births_ = 0;  // of blocks that are no workspace
  uint64_t event_ = 0;
  uint64_t time_ns_ = 0;
  uint64_t window_events_ = 0;
  uint64_t scratch_ = 0;
  uint64_t peak_ = 0;
  uint64_t capacity_ = 0;
  uint64_t peak_ns_ = 0;
  uint32_t peak_step_ = 0;
  bool unsampled_ = false;
  bool unplaced_ = false;  // new driver memory: what it is for is known with the next block
};

}  // namespace drydock::page
