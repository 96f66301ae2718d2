#include "page/block_purposes.h"

#include <memory>
#include <utility>

#include "ledger/flat_table.h"
#include "ledger/memory_records.h"
#include "trace/reader.h"

namespace drydock::page {

using ledger::BlockCensus;
using ledger::BlockPurpose;
using ledger::key_of;
using trace::Kind;
using trace::Record;

namespace {

constexpr uint64_t kNoAddress = ledger::FlatTable<int>::kEmptyKey;  // in damaged traces alone

class Censuses {
 public:
  BlockCensus& of(int32_t device) {
    if (last_ != nullptr && last_device_ == device) return *last_;
    const auto [place, is_new] = censuses_.try_emplace(device);
    last_ = &place->second;
    last_device_ = device;
    if (!is_new) return *last_;
    last_->keep_purposes();
    last_->phase_began(phase_);
    return *last_;
  }

  void take(const Record& record) {
    switch (record.kind) {
      case Kind::kBlockAllocated:
        if (!record.is_workspace && key_of(record.address) != kNoAddress)
          of(record.device)
              .allocated(key_of(record.address), record.size_bytes,
                         {record.line, record.module, record.gradients_are_recorded});
        break;
      case Kind::kBlockFreed: of(record.device).freed(key_of(record.address)); break;
      case Kind::kWorkspaceGiven: of(record.device).given_as_workspace(key_of(record.address)); break;
      case Kind::kLabel:
        of(record.device).labelled(key_of(record.address), record.label, record.size_bytes, record.text);
        break;
      case Kind::kCopy:
        if (record.copy == trace::CopyKind::kHostToDevice && record.address.tag == trace::ValueTag::kDevice)
          of(record.address.device).filled_from_host(key_of(record.address));
        break;
      case Kind::kDriverOutOfMemory: of(record.device).out_of_memory(); break;
      case Kind::kPhase:
        phase_ = record.phase;
        for (auto& [device, census] : censuses_) census.phase_began(record.phase);
        break;
      case Kind::kStep:
        for (auto& [device, census] : censuses_) census.step_ended();
        break;
      default: break;
    }
  }

  std::map<int32_t, std::vector<BlockPurpose>> finish() {
    std::map<int32_t, std::vector<BlockPurpose>> purposes;
    for (auto& [device, census] : censuses_) purposes[device] = census.take_purposes();
    return purposes;
  }

 private:
  std::map<int32_t, BlockCensus> censuses_;
  BlockCensus* last_ = nullptr;
  int32_t last_device_ = 0;
  trace::Phase phase_ = trace::Phase::kOther;
};

}  // namespace

Status read_block_purposes(const std::filesystem::path& trace, BlockPurposes& purposes) {
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(trace.string(), reader));
  reader->skip_operators();
  Record record;
  Censuses censuses;
  while (reader->next(record)) {
    censuses.take(record);
    if (record.kind == Kind::kModuleNamed) purposes.modules[record.module] = reader->string(record.text);
  }
  purposes.of_devices = censuses.finish();
  for (const auto& [device, blocks] : purposes.of_devices)
    for (const BlockPurpose& block : blocks) {
      if (block.name == 0) continue;
      const auto [owner, is_new] = purposes.owners.try_emplace(block.name);
      if (is_new) owner->second = ledger::owner_of(reader->string(block.name));
    }
  return Status::ok();
}

}  // namespace drydock::page
