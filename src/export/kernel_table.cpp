#include "export/kernel_table.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/data_type.h"
#include "export/output_file.h"
#include "trace/call_encoding.h"

namespace drydock::exports {
namespace {

using timeline::Span;

constexpr std::string_view kAclnn = "aclnn";
constexpr int kPidOfHost = 1;
constexpr int kPidOfDevice = 1000;   // and the number of the device
constexpr int kPidOfOverlap = 2000;  // the same

double microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000; }

// To the nanosecond, without a double's rounding of times since 1970.
std::string stamp(int64_t wall_ns, uint64_t ns) {
  const uint64_t time = static_cast<uint64_t>(wall_ns) + ns;
  return fmt::format("{}.{:03}", time / 1000, time % 1000);
}

// As the vendor's tables name types.
std::string type_name(DataType type) {
  switch (type) {
    case DataType::kFloat: return "FLOAT";
    case DataType::kBFloat16: return "DT_BF16";
    default: break;
  }
  std::string name(name_of(type));
  if (name == "fp16") return "FLOAT16";
  if (name == "fp64") return "DOUBLE";
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return name;
}

std::string format_name(int32_t format) {
  switch (format) {
    case 0: return "NCHW";
    case 1: return "NHWC";
    case 2: return "ND";
    case 3: return "NC1HWC0";
    case 29: return "FRACTAL_NZ";
    default: return fmt::format("FORMAT_{}", format);
  }
}

void append(std::string& list, std::string_view text, bool is_first) {
  if (!is_first) list += ';';
  list += text;
}

std::string shape_text(const trace::CallTensor& tensor) {
  return tensor.defined ? fmt::format("{}", fmt::join(tensor.dims, ",")) : std::string();
}

// Tables of the vendor hold shapes in quotes of their own.
std::string quoted(const std::string& text) { return csv_text('"' + text + '"'); }

struct Tally {
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t least_ns = std::numeric_limits<uint64_t>::max();
  uint64_t most_ns = 0;
  void add(uint64_t ns) {
    ++count;
    total_ns += ns;
    least_ns = std::min(least_ns, ns);
    most_ns = std::max(most_ns, ns);
  }
  double mean_us() const { return microseconds(total_ns) / static_cast<double>(count); }
};

const char* copy_name(trace::CopyKind kind) {
  return kind == trace::CopyKind::kMemset ? "MEMSET_ASYNC" : "MEMCPY_ASYNC";
}

}  // namespace

const KernelTable::Facts& KernelTable::facts_of(trace::CallId id) const {
  const auto [place, is_new] = facts_.try_emplace(id);
  Facts& facts = place->second;
  if (!is_new) return facts;
  trace::Call call;
  const bool is_whole = trace::decode_call(reader_.call(id), call);
  const trace::Signature signature = trace::parse_signature(reader_.operator_signature(call.operator_id));
  facts.api = signature.name.empty() ? "unknown" : signature.name;
  facts.type = facts.api.starts_with(kAclnn) ? facts.api.substr(kAclnn.size()) : facts.api;
  facts.core = id == 0 ? "N/A" : std::string(core_of_(id));
  bool is_first_input = true;
  bool is_first_output = true;
  for (size_t index = 0; is_whole && index < call.arguments.size(); ++index) {
    const bool is_output =
        index < signature.arguments.size() && signature.arguments[index].direction == ops::ArgDirection::kOut;
    bool& is_first = is_output ? is_first_output : is_first_input;
    for (const trace::CallTensor& tensor : call.arguments[index].tensors) {
      append(is_output ? facts.output_shapes : facts.input_shapes, shape_text(tensor), is_first);
      append(is_output ? facts.output_types : facts.input_types,
             tensor.defined ? type_name(tensor.dtype) : std::string("DT_UNDEFINED"), is_first);
      append(is_output ? facts.output_formats : facts.input_formats,
             tensor.defined ? format_name(tensor.format) : std::string("NULL"), is_first);
      is_first = false;
    }
  }
  return facts;
}

std::string KernelTable::name_of(const Span& span) const {
  return span.kind == Span::Kind::kCopy ? copy_name(span.copy) : facts_of(span.call).api;
}

Status KernelTable::write_summary(const Spans& spans, int64_t wall_ns, const std::filesystem::path& path) const {
  OutputFile file;
  DRYDOCK_RETURN_IF_ERROR(file.open(path.string()));
  file.write(
      "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
      "Task Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,"
      "Output Shapes,Output Data Types,Output Formats,Context ID\n");
  constexpr uint32_t kNoModel = 0xffffffff;
  std::map<std::pair<int32_t, uint32_t>, uint64_t> ends;  // of streams
  uint64_t task = 0;
  for (const Span& span : spans) {
    uint64_t& end_ns = ends[{span.device, span.stream}];
    const uint64_t waited_ns = end_ns != 0 && span.begin_ns > end_ns ? span.begin_ns - end_ns : 0;
    end_ns = span.end_ns;
    ++task;
    if (span.kind != Span::Kind::kOperator) continue;
    const Facts& facts = facts_of(span.call);
    file.print("{},{},{},{},{},{},dynamic,{},{}\t,{:.3f},{:.3f},0,0,NO,{},{},{},{},{},{},N/A\n", span.device, kNoModel,
               task, span.stream, csv_text(facts.api), csv_text(facts.type), facts.core, stamp(wall_ns, span.begin_ns),
               microseconds(span.end_ns - span.begin_ns), microseconds(waited_ns), quoted(facts.input_shapes),
               facts.input_types, facts.input_formats, quoted(facts.output_shapes), facts.output_types,
               facts.output_formats);
  }
  return file.close();
}

Status KernelTable::write_statistic(const Spans& spans, const std::filesystem::path& path) const {
  std::map<std::tuple<int32_t, std::string, std::string>, Tally> tallies;
  std::map<int32_t, uint64_t> totals;
  for (const Span& span : spans) {
    if (span.kind != Span::Kind::kOperator) continue;
    const Facts& facts = facts_of(span.call);
    tallies[{span.device, facts.type, facts.core}].add(span.end_ns - span.begin_ns);
    totals[span.device] += span.end_ns - span.begin_ns;
  }
  std::vector<std::pair<std::tuple<int32_t, std::string, std::string>, Tally>> rows(tallies.begin(), tallies.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(std::get<0>(a.first), b.second.total_ns) < std::pair(std::get<0>(b.first), a.second.total_ns);
  });
  OutputFile file;
  DRYDOCK_RETURN_IF_ERROR(file.open(path.string()));
  file.write(
      "Device_id,Model Name,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n");
  for (const auto& [key, tally] : rows) {
    const auto& [device, type, core] = key;
    const uint64_t total = totals[device];
    file.print("{},N/A,{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f}\n", device, csv_text(type), core, tally.count,
               microseconds(tally.total_ns), microseconds(tally.least_ns), tally.mean_us(), microseconds(tally.most_ns),
               total == 0 ? 0.0 : 100.0 * static_cast<double>(tally.total_ns) / static_cast<double>(total));
  }
  return file.close();
}

Status KernelTable::write_task_times(const Spans& spans, int64_t wall_ns, const std::filesystem::path& path) const {
  OutputFile file;
  DRYDOCK_RETURN_IF_ERROR(file.open(path.string()));
  file.write("Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n");
  uint64_t task = 0;
  for (const Span& span : spans) {
    const std::string_view type =
        span.kind == Span::Kind::kCopy ? std::string_view(copy_name(span.copy)) : facts_of(span.call).core;
    file.print("{},{},{},{},{},{:.3f},{}\t,{}\t\n", span.device, csv_text(name_of(span)), type, span.stream, ++task,
               microseconds(span.end_ns - span.begin_ns), stamp(wall_ns, span.begin_ns), stamp(wall_ns, span.end_ns));
  }
  return file.close();
}

Status KernelTable::write_timeline(const Spans& spans, int64_t wall_ns, const std::filesystem::path& path) const {
  OutputFile file;
  DRYDOCK_RETURN_IF_ERROR(file.open(path.string()));
  bool is_first = true;
  const auto next = [&] {
    file.write(is_first ? "[\n" : ",\n");
    is_first = false;
  };
  const auto name_process = [&](int pid, std::string_view name, std::string_view labels) {
    next();
    file.print(R"({{"name":"process_name","pid":{},"tid":0,"ph":"M","args":{{"name":"{}"}}}})", pid, name);
    next();
    file.print(R"({{"name":"process_labels","pid":{},"tid":0,"ph":"M","args":{{"labels":"{}"}}}})", pid, labels);
    next();
    file.print(R"({{"name":"process_sort_index","pid":{},"tid":0,"ph":"M","args":{{"sort_index":{}}}}})", pid, pid);
  };
  const auto name_thread = [&](int pid, uint32_t tid, const std::string& name) {
    next();
    file.print(R"({{"name":"thread_name","pid":{},"tid":{},"ph":"M","args":{{"name":"{}"}}}})", pid, tid, name);
  };
  name_process(kPidOfHost, "CANN", "CPU");
  std::set<int32_t> devices;
  std::set<uint32_t> threads;
  std::set<std::pair<int32_t, uint32_t>> streams;
  for (const Span& span : spans) {
    const int pid = kPidOfDevice + span.device;
    if (devices.insert(span.device).second) name_process(pid, "Ascend Hardware", fmt::format("NPU {}", span.device));
    if (streams.emplace(span.device, span.stream).second)
      name_thread(pid, span.stream, fmt::format("Stream {}", span.stream));
    if (threads.insert(span.thread).second) name_thread(kPidOfHost, span.thread, fmt::format("Thread {}", span.thread));
  }
  uint64_t task = 0;
  for (const Span& span : spans) {
    ++task;
    const std::string name = json_text(name_of(span));
    const int pid = kPidOfDevice + span.device;
    const std::string issued = stamp(wall_ns, span.issue_begin_ns);
    const std::string begun = stamp(wall_ns, span.begin_ns);
    next();
    file.print(R"({{"name":{},"pid":{},"tid":{},"ts":"{}","dur":{:.3f},"ph":"X","args":{{"connection_id":{}}}}})", name,
               kPidOfHost, span.thread, issued, microseconds(span.issue_end_ns - span.issue_begin_ns), task);
    next();
    file.print(
        R"({{"name":{},"pid":{},"tid":{},"ts":"{}","dur":{:.3f},"ph":"X","args":{{"Task Type":"{}","Physic Stream Id":{},"Task Id":{},"connection_id":{},"line":{}}}}})",
        name, pid, span.stream, begun, microseconds(span.end_ns - span.begin_ns),
        span.kind == Span::Kind::kCopy ? copy_name(span.copy) : facts_of(span.call).core, span.stream, task, task,
        json_text(reader_.describe_line(span.line)));
    next();
    file.print(R"({{"name":"HostToDevice{}","ph":"s","cat":"HostToDevice","id":"{}","pid":{},"tid":{},"ts":"{}"}})",
               task, task, kPidOfHost, span.thread, issued);
    next();
    file.print(
        R"({{"name":"HostToDevice{}","ph":"f","bp":"e","cat":"HostToDevice","id":"{}","pid":{},"tid":{},"ts":"{}"}})",
        task, task, pid, span.stream, begun);
  }
  for (const int32_t device : devices) {
    const int pid = kPidOfOverlap + device;
    name_process(pid, "Overlap Analysis", fmt::format("NPU {}", device));
    name_thread(pid, 0, "Computing");
    name_thread(pid, 1, "Communication");
    name_thread(pid, 2, "Communication(Not Overlapped)");
    name_thread(pid, 3, "Free");
    std::vector<std::pair<uint64_t, uint64_t>> busy;
    for (const Span& span : spans)
      if (span.device == device && span.kind == Span::Kind::kOperator) busy.emplace_back(span.begin_ns, span.end_ns);
    std::sort(busy.begin(), busy.end());
    std::vector<std::pair<uint64_t, uint64_t>> whole;
    for (const auto& [begin, end] : busy) {
      if (!whole.empty() && begin <= whole.back().second) {
        whole.back().second = std::max(whole.back().second, end);
      } else {
        whole.emplace_back(begin, end);
      }
    }
    const auto slice = [&](std::string_view name, int tid, uint64_t begin, uint64_t end) {
      next();
      file.print(R"({{"name":"{}","pid":{},"tid":{},"ts":"{}","dur":{:.3f},"ph":"X"}})", name, pid, tid,
                 stamp(wall_ns, begin), microseconds(end - begin));
    };
    for (size_t index = 0; index < whole.size(); ++index) {
      slice("Computing", 0, whole[index].first, whole[index].second);
      if (index + 1 < whole.size()) slice("Free", 3, whole[index].second, whole[index + 1].first);
    }
  }
  file.write(is_first ? "[]\n" : "\n]\n");
  return file.close();
}

}  // namespace drydock::exports
