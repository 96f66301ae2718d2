#include "export/profiler_csv.h"

#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "export/output_file.h"
#include "ledger/memory_records.h"
#include "trace/call_encoding.h"

namespace drydock::exports {
namespace {

using trace::Kind;
using trace::Record;

constexpr int32_t kUnwritable = 100004;  // the vendor's number for a file that can't be written

// The columns of torch_npu's profiler, by name and order.
constexpr const char* kRecordColumns =
    "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type\n";
constexpr const char* kOperatorColumns =
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type\n";

double mebibytes(uint64_t size_bytes) { return static_cast<double>(size_bytes) / (1 << 20); }
double kibibytes(uint64_t size_bytes) { return static_cast<double>(size_bytes) / 1024; }

// Microseconds with the nanoseconds behind the point. The tab keeps spreadsheets from rounding it, as in the profiler's
// own files.
std::string stamp(uint64_t ns) { return fmt::format("{}.{:03}\t", ns / 1000, ns % 1000); }
std::string span(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// A block from its allocation to its release.
struct BlockRow {
  trace::CallId call = 0;  // of the operator that was launched next
  int32_t device = 0;
  uint64_t size = 0;
  uint64_t allocated_ns = 0, released_ns = 0;  // since 1970; 0 = not released
  uint64_t allocated_bytes = 0, reserved_bytes = 0;
  uint64_t allocated_after = 0, reserved_after = 0;
};

class MemoryTables {
 public:
  MemoryTables(const trace::Reader& reader, OutputFile& records) : reader_(reader), records_(records) {}
  void take(const Record& record);
  void write_blocks(OutputFile& file);
  uint64_t rows() const { return rows_.size(); }

 private:
  void write_record(const char* component, const ledger::MemoryAccount& account, uint64_t allocated, uint64_t reserved,
                    uint64_t now_ns);
  std::string name_of(trace::CallId call);

  const trace::Reader& reader_;
  OutputFile& records_;
  std::map<int32_t, ledger::MemoryAccount> accounts_;
  std::map<std::pair<int32_t, uint64_t>, size_t> live_;   // rows by address
  std::map<uint32_t, std::vector<size_t>> nameless_;      // rows by thread, since its last operator
  std::map<std::pair<int32_t, uint64_t>, bool> scratch_;  // blocks of the workspace allocator
  std::vector<BlockRow> rows_;
  std::map<trace::CallId, std::string> names_;
};

void MemoryTables::write_record(const char* component, const ledger::MemoryAccount& account, uint64_t allocated,
                                uint64_t reserved, uint64_t now_ns) {
  records_.print("{},{},{},{},{},,NPU:{}\n", component, stamp(now_ns), mebibytes(allocated), mebibytes(reserved),
                 mebibytes(allocated), account.device());
}

void MemoryTables::take(const Record& record) {
  if (record.kind == Kind::kOperator) {
    std::vector<size_t>& waiting = nameless_[record.thread];
    for (const size_t row : waiting) rows_[row].call = record.call;
    waiting.clear();
    return;
  }
  if (!ledger::is_memory_record(record.kind) || record.kind == Kind::kDriverOutOfMemory || record.device < 0) return;
  ledger::MemoryAccount& account = accounts_.try_emplace(record.device, record.device).first->second;
  const std::pair<int32_t, uint64_t> place(record.device, ledger::key_of(record.address));
  ledger::take_memory_record(reader_, record, account);
  const uint64_t now = static_cast<uint64_t>(reader_.info().start_wall_ns) + record.time_ns;
  const bool is_block = record.kind == Kind::kBlockAllocated || record.kind == Kind::kBlockFreed;
  if (!is_block) return;
  const bool is_scratch = record.kind == Kind::kBlockAllocated ? record.is_workspace : scratch_.erase(place) > 0;
  if (is_scratch) {
    if (record.kind == Kind::kBlockAllocated) scratch_[place] = true;
    write_record("WORKSPACE", account, record.kind == Kind::kBlockAllocated ? record.size_bytes : 0,
                 account.workspace_bytes(), now);
    return;
  }
  write_record("PTA", account, account.allocated_bytes(), account.reserved_bytes(), now);
  if (record.kind == Kind::kBlockAllocated) {
    live_[place] = rows_.size();
    nameless_[record.thread].push_back(rows_.size());
    rows_.push_back({.device = record.device,
                     .size = record.size_bytes,
                     .allocated_ns = now,
                     .allocated_bytes = account.allocated_bytes(),
                     .reserved_bytes = account.reserved_bytes()});
  } else if (const auto found = live_.find(place); found != live_.end()) {
    BlockRow& row = rows_[found->second];
    row.released_ns = now;
    row.allocated_after = account.allocated_bytes();
    row.reserved_after = account.reserved_bytes();
    live_.erase(found);
  }
}

std::string MemoryTables::name_of(trace::CallId call) {
  if (call == 0) return "";
  std::string& name = names_[call];
  if (name.empty())
    name = trace::parse_signature(reader_.operator_signature(trace::operator_of(reader_.call(call)))).name;
  return name;
}

void MemoryTables::write_blocks(OutputFile& file) {
  for (const BlockRow& row : rows_) {
    file.print("{},{},{},", csv_text(name_of(row.call)), kibibytes(row.size), stamp(row.allocated_ns));
    if (row.released_ns == 0) {
      file.print(",,,,");
    } else {
      const std::string released = stamp(row.released_ns), lasted = span(row.released_ns - row.allocated_ns);
      file.print("{},{},{},{},", released, released, lasted, lasted);
    }
    file.print("{},{},{},", mebibytes(row.allocated_bytes), mebibytes(row.reserved_bytes),
               mebibytes(row.allocated_bytes));
    if (row.released_ns == 0) {
      file.print(",,,");
    } else {
      file.print("{},{},{},", mebibytes(row.allocated_after), mebibytes(row.reserved_after),
                 mebibytes(row.allocated_after));
    }
    file.print(",NPU:{}\n", row.device);
  }
}

}  // namespace

Status export_csv(const RunTrace& trace, const std::string& folder, std::vector<std::string>& sentences) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Status::error(kUnwritable, fmt::format("The folder {} can't be made: {}.", folder, error.message()));
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(trace.path.string(), reader));
  OutputFile records, blocks;
  const std::filesystem::path place(folder);
  DRYDOCK_RETURN_IF_ERROR(records.open((place / "memory_record.csv").string()));
  DRYDOCK_RETURN_IF_ERROR(blocks.open((place / "operator_memory.csv").string()));
  records.write(kRecordColumns);
  blocks.write(kOperatorColumns);
  MemoryTables tables(*reader, records);
  Record record;
  while (reader->next(record)) tables.take(record);
  tables.write_blocks(blocks);
  if (reader->is_truncated()) sentences.push_back(reader->truncation());
  if (tables.rows() == 0)
    sentences.emplace_back("The process has no blocks of torch_npu's allocator: the tables have no rows.");
  DRYDOCK_RETURN_IF_ERROR(records.close());
  return blocks.close();
}

}  // namespace drydock::exports
