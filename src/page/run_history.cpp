#include "page/run_history.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ledger/build.h"
#include "ledger/memory_records.h"
#include "page/block_purposes.h"
#include "trace/reader.h"

namespace drydock::page {

using trace::Kind;
using trace::Record;

Status read_process_history(const std::filesystem::path& trace, ProcessHistory& process, std::string& missing) {
  BlockPurposes purposes;
  DRYDOCK_RETURN_IF_ERROR(read_block_purposes(trace, purposes));
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(trace.string(), reader));
  reader->skip_operators();
  Record record;
  uint32_t step = 1;
  DeviceHistory* last = nullptr;
  int32_t last_device = -1;
  while (reader->next(record)) {
    process.duration_ns = std::max(process.duration_ns, record.time_ns);
    if (record.kind == Kind::kStep) {
      process.steps.push_back({step, record.time_ns});
      for (auto& [device, history] : process.devices) history.step_ended(step, record.time_ns);
      ++step;
      continue;
    }
    if (!(record.kind == Kind::kCapacity || ledger::is_memory_record(record.kind))) continue;
    if (last == nullptr || last_device != record.device) {
      last_device = record.device;
      last = &process.devices.try_emplace(record.device, record.device, std::move(purposes.of_devices[record.device]))
                  .first->second;
    }
    last->take(*reader, record, step);
  }
  for (auto& [device, history] : process.devices) history.finish(step, process.duration_ns);
  process.trace_file = trace.filename().string();
  process.process_id = reader->info().pid;
  process.start_wall_ns = reader->info().start_wall_ns;
  for (trace::LineId id = 0; id <= reader->lines(); ++id) {
    const trace::Reader::Line line = reader->line(id);
    process.lines.push_back(
        {std::string(reader->string(line.file)), line.line, std::string(reader->string(line.function))});
  }
  process.modules = std::move(purposes.modules);
  process.owners = std::move(purposes.owners);
  missing = reader->truncation();
  return Status::ok();
}

RunHistory read_run_history(const std::filesystem::path& run_folder) {
  RunHistory run;
  std::string failure;
  for (const std::filesystem::path& trace : ledger::traces_of(run_folder, failure)) {
    ProcessHistory process;
    std::string missing;
    if (Status status = read_process_history(trace, process, missing); status.is_ok())
      run.processes.push_back(std::move(process));
    else
      missing = status.message();
    if (!missing.empty()) run.missing.push_back(std::move(missing));
  }
  if (!failure.empty()) run.missing.push_back(std::move(failure));
  std::stable_sort(run.processes.begin(), run.processes.end(),
                   [](const ProcessHistory& a, const ProcessHistory& b) { return a.start_wall_ns < b.start_wall_ns; });
  return run;
}

}  // namespace drydock::page
