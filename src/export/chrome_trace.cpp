#include "export/chrome_trace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "export/output_file.h"
#include "ledger/memory_records.h"
#include "trace/call_encoding.h"

namespace drydock::exports {
namespace {

using trace::Kind;
using trace::Record;

constexpr int kStepThread = 1'000'000;  // a row of its own below the threads

// Microseconds, as the format wants them, to the nanosecond.
std::string microseconds(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class ProcessTrace {
 public:
  ProcessTrace(const trace::Reader& reader, uint64_t offset_ns, OutputFile& file, bool& is_first)
      : reader_(reader), offset_ns_(offset_ns), file_(file), is_first_(is_first), pid_(reader.info().pid) {}

  void begin();
  void take(const Record& record);
  void end();

 private:
  struct Figures {
    uint64_t allocated = 0, reserved = 0, workspace = 0;
    bool operator==(const Figures&) const = default;
  };
  struct Device {
    explicit Device(int32_t number) : account(number) {}
    ledger::MemoryAccount account;
    Figures written;
  };
  struct Slice {
    uint64_t begin_ns;
    trace::CallId call;
    trace::LineId line;
  };

  // Events stand one in a line, between commas.
  void next() {
    file_.write(is_first_ ? "\n" : ",\n");
    is_first_ = false;
  }
  void name_thread(int64_t thread, std::string_view name);
  void close_slice(uint32_t thread, uint64_t now_ns);
  void count(Device& device, uint64_t now_ns);
  const std::string& name_of(trace::CallId call);
  const std::string& line_of(trace::LineId line);

  const trace::Reader& reader_;
  const uint64_t offset_ns_;
  OutputFile& file_;
  bool& is_first_;
  const int32_t pid_;
  std::map<int32_t, Device> devices_;
  std::map<uint32_t, std::optional<Slice>> open_;  // by thread
  std::map<trace::CallId, std::string> names_;     // as JSON
  std::map<trace::LineId, std::string> lines_;     // as JSON
  uint64_t step_begin_ns_ = 0;
  uint64_t last_ns_ = 0;
  uint32_t steps_ = 0;
};

void ProcessTrace::name_thread(int64_t thread, std::string_view name) {
  next();
  file_.print(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", pid_, thread, name);
}

void ProcessTrace::begin() {
  next();
  file_.print(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", pid_,
              json_text(reader_.info().command));
  name_thread(kStepThread, "steps");
}

const std::string& ProcessTrace::name_of(trace::CallId call) {
  std::string& name = names_[call];
  if (name.empty()) {
    const uint32_t number = trace::operator_of(reader_.call(call));
    const trace::Signature signature = trace::parse_signature(reader_.operator_signature(number));
    name = json_text(signature.name.empty() ? fmt::format("operator {}", number) : signature.name);
  }
  return name;
}

const std::string& ProcessTrace::line_of(trace::LineId line) {
  std::string& text = lines_[line];
  if (text.empty()) text = json_text(reader_.describe_line(line));
  return text;
}

void ProcessTrace::close_slice(uint32_t thread, uint64_t now_ns) {
  const auto found = open_.find(thread);
  if (found == open_.end()) {
    open_[thread].reset();
    name_thread(thread, fmt::format("thread {}", thread));
    return;
  }
  std::optional<Slice>& slice = found->second;
  if (!slice) return;
  next();
  file_.print(R"({{"ph":"X","cat":"operator","name":{},"ts":{},"dur":{},"pid":{},"tid":{},"args":{{"line":{}}}}})",
              name_of(slice->call), microseconds(offset_ns_ + slice->begin_ns), microseconds(now_ns - slice->begin_ns),
              pid_, thread, line_of(slice->line));
  slice.reset();
}

void ProcessTrace::count(Device& device, uint64_t now_ns) {
  // Until the first block it is not known whether driver memory is the caching allocator's.
  const Figures now{device.account.has_blocks() ? device.account.allocated_bytes() : 0, device.account.reserved_bytes(),
                    device.account.workspace_bytes()};
  if (now == device.written) return;
  device.written = now;
  next();
  file_.print(
      R"({{"ph":"C","name":"npu:{} memory","ts":{},"pid":{},"args":{{"allocated":{},"reserved":{},"workspace":{}}}}})",
      device.account.device(), microseconds(offset_ns_ + now_ns), pid_, now.allocated, now.reserved, now.workspace);
}

void ProcessTrace::take(const Record& record) {
  if (record.kind < Kind::kOperator) return;  // definitions
  last_ns_ = std::max(last_ns_, record.time_ns);
  close_slice(record.thread, record.time_ns);
  if (record.kind == Kind::kOperator) {
    open_[record.thread] = Slice{record.time_ns, record.call, record.line};
  } else if (record.kind == Kind::kStep) {
    next();
    file_.print(R"({{"ph":"X","cat":"step","name":"step {}","ts":{},"dur":{},"pid":{},"tid":{}}})", ++steps_,
                microseconds(offset_ns_ + step_begin_ns_), microseconds(record.time_ns - step_begin_ns_), pid_,
                kStepThread);
    step_begin_ns_ = record.time_ns;
  } else if (record.kind == Kind::kDriverOutOfMemory) {
    next();
    file_.print(
        R"({{"ph":"i","s":"p","cat":"memory","name":"npu:{} out of memory","ts":{},"pid":{},"tid":{},"args":{{"requested":{},"free":{},"line":{}}}}})",
        record.device, microseconds(offset_ns_ + record.time_ns), pid_, record.thread, record.size_bytes,
        record.free_bytes, line_of(record.line));
  } else if (ledger::is_memory_record(record.kind) && record.device >= 0) {
    Device& device = devices_.try_emplace(record.device, record.device).first->second;
    ledger::take_memory_record(reader_, record, device.account);
    count(device, record.time_ns);
  }
}

void ProcessTrace::end() {
  for (const auto& [thread, slice] : open_)
    if (slice) close_slice(thread, last_ns_);
}

}  // namespace

Status export_chrome_trace(const std::vector<RunTrace>& traces, const std::string& path,
                           std::vector<std::string>& sentences) {
  OutputFile file;
  DRYDOCK_RETURN_IF_ERROR(file.open(path));
  file.write(R"({"displayTimeUnit":"ms","traceEvents":[)");
  bool is_first = true;
  for (const RunTrace& each : traces) {
    std::unique_ptr<trace::Reader> reader;
    DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(each.path.string(), reader));
    const int64_t offset_ns = each.start_wall_ns - traces.front().start_wall_ns;
    ProcessTrace process(*reader, static_cast<uint64_t>(std::max<int64_t>(offset_ns, 0)), file, is_first);
    process.begin();
    Record record;
    while (reader->next(record)) process.take(record);
    process.end();
    if (reader->is_truncated()) sentences.push_back(reader->truncation());
  }
  file.write("\n]}\n");
  return file.close();
}

}  // namespace drydock::exports
