#include "trace/text.h"

#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "trace/call_encoding.h"

namespace drydock::trace {
namespace {

std::string print_value(const TracedValue& value) {
  switch (value.tag) {
    case ValueTag::kPlain: return fmt::format("{}", value.bits);
    case ValueTag::kDevice: return fmt::format("npu:{}+{:#x}", value.device, value.bits);
    case ValueTag::kIdentity: return fmt::format("object {}", value.bits);
  }
  return "unknown";
}

std::string print_call_of(const Reader& reader, CallId id) {
  const std::span<const std::byte> encoded = reader.call(id);
  if (encoded.empty()) return fmt::format("unknown call {}", id);
  Call call;
  const bool is_sound = decode_call(encoded, call);
  std::string text = print_call(call, parse_signature(reader.operator_signature(call.operator_id)));
  if (!is_sound) text += " (damaged)";
  return text;
}

// The stream of a block, and where in the model it was asked for, where that is known.
std::string block_place(const Record& record) {
  return (record.stream == 0 ? std::string() : fmt::format(" stream {}", record.stream)) +
         (record.module == 0 ? std::string() : fmt::format(" in module {}", record.module)) +
         (record.gradients_are_recorded ? " with gradients" : "");
}

std::string print_content(const Reader& reader, const Record& record, const TextOptions& options) {
  const auto at = [&] { return reader.describe_line(record.line); };
  const auto entry = [&] {
    return options.entry_name == nullptr ? std::to_string(record.entry) : options.entry_name(record.entry);
  };
  switch (record.kind) {
    case Kind::kOperator:
      return fmt::format("npu:{} stream {} {} {} at {}", record.device, record.stream, name_of(record.outcome),
                         print_call_of(reader, record.call), at());
    case Kind::kBlockAllocated:
      return fmt::format("{} {} bytes{}{}{} at {}", print_value(record.address), record.size_bytes,
                         record.is_workspace ? " workspace" : "",
                         record.has_request ? fmt::format(" of which {} asked", record.requested_bytes) : "",
                         block_place(record), at());
    case Kind::kBlockFreed: return print_value(record.address) + (record.is_pending ? " pending" : "");
    case Kind::kBlockBirth: return {};
    case Kind::kBlockCompleted: return print_value(record.address);
    case Kind::kWorkspaceGiven:
      if (record.size_bytes == 0) return print_value(record.address);
      return fmt::format("{} {} bytes ({}) stream {} for {} at {}", print_value(record.address), record.size_bytes,
                         name_of(record.basis), record.stream, print_call_of(reader, record.call), at());
    case Kind::kBlockStream: return fmt::format("npu:{} stream {} pool {}", record.device, record.stream, record.pool);
    case Kind::kAllocatorOutOfMemory:
      return fmt::format("npu:{} requested {} free {} stream {} at {}", record.device, record.size_bytes,
                         record.free_bytes, record.stream, at());
    case Kind::kCacheEmptied: return {};
    case Kind::kFractionSet: return fmt::format("npu:{} {} bytes", record.device, record.size_bytes);
    case Kind::kBlockRequested: return fmt::format("{} {} bytes", print_value(record.address), record.size_bytes);
    case Kind::kDriverAllocated:
    case Kind::kDriverFreed:
      return fmt::format("{} npu:{} address {} handle {} {} bytes at {}", name_of(record.memory), record.device,
                         print_value(record.address), print_value(record.detail), record.size_bytes, at());
    case Kind::kDriverOutOfMemory:
      return fmt::format("{} npu:{} requested {} free {} capacity {} at {}", name_of(record.memory), record.device,
                         record.size_bytes, record.free_bytes, record.capacity_bytes, at());
    case Kind::kOverhead:
      return fmt::format("npu:{} {} bytes {}", record.device, record.size_bytes, reader.string(record.text));
    case Kind::kCapacity: return fmt::format("npu:{} {} bytes", record.device, record.capacity_bytes);
    case Kind::kGarbageCollected:
      return fmt::format("generation {} freed {} blocks at {}", record.generation, record.count, at());
    case Kind::kCopy:
      return fmt::format("{} {} npu:{} stream {} {} {} bytes at {}", name_of(record.copy),
                         record.is_async ? "async" : "sync", record.device, record.stream, print_value(record.address),
                         record.size_bytes, at());
    case Kind::kAssumed: return fmt::format("{} {} bytes at {}", name_of(record.assumption), record.size_bytes, at());
    case Kind::kEntry:
      return fmt::format("{} subject {} detail {} at {}", entry(), print_value(record.address),
                         print_value(record.detail), at());
    case Kind::kFailed:
      return fmt::format("{} code {} \"{}\" at {}", entry(), record.code, reader.string(record.text), at());
    case Kind::kStep: return {};
    case Kind::kRace: {
      const RaceRecord& race = record.race;
      const auto side = [&](const RaceAccess& access) {
        return fmt::format(
            "stream {} {} {} argument {} at {}", access.stream, access.writes ? "writes" : "reads",
            access.call != 0 ? print_call_of(reader, access.call) : std::string(reader.string(access.what)),
            access.argument, reader.describe_line(access.line));
      };
      return fmt::format("{} {} bytes{}: {}; {}", print_value(record.address), record.size_bytes,
                         race.is_reuse ? fmt::format(" freed at {}", reader.describe_line(race.freed_line)) : "",
                         side(race.first), side(race.second));
    }
    case Kind::kPhase: return std::string(name_of(record.phase));
    case Kind::kModuleNamed: return fmt::format("{} \"{}\"", record.module, reader.string(record.text));
    case Kind::kLabel:
      return fmt::format("{} {} {} bytes \"{}\"", print_value(record.address), name_of(record.label), record.size_bytes,
                         reader.string(record.text));
    case Kind::kHostFallback: return fmt::format("{} at {}", reader.string(record.text), at());
    case Kind::kPythonException:
      return fmt::format("{}: {} at {}:{}", reader.string(record.type), reader.string(record.text),
                         reader.string(record.file), record.file_line);
    case Kind::kDefineString: return fmt::format("{} \"{}\"", record.defined_id, reader.string(record.defined_id));
    case Kind::kDefineLine: return fmt::format("{} {}", record.defined_id, reader.describe_line(record.defined_id));
    case Kind::kDefineCall: return fmt::format("{} {}", record.defined_id, print_call_of(reader, record.defined_id));
    case Kind::kDefineOperator:
      return fmt::format("{} {}", record.defined_id, reader.operator_signature(record.defined_id));
    default: return {};
  }
}

bool is_definition(Kind kind) { return static_cast<uint8_t>(kind) < static_cast<uint8_t>(Kind::kOperator); }

// A record is one line of text: messages with line ends of their own keep them as "\n".
std::string on_one_line(const std::string& text) {
  std::string line;
  line.reserve(text.size());
  for (const char character : text) {
    if (character == '\n') {
      line += "\\n";
    } else if (character == '\r') {
      line += "\\r";
    } else {
      line += character;
    }
  }
  return line;
}

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::kEnd: return "end";
    case Kind::kGap: return "gap";
    case Kind::kThread: return "thread";
    case Kind::kDefineString: return "define-string";
    case Kind::kDefineLine: return "define-line";
    case Kind::kDefineCall: return "define-call";
    case Kind::kDefineOperator: return "define-operator";
    case Kind::kOperator:
    case Kind::kOperatorWide: return "operator";
    case Kind::kBlockAllocated:
    case Kind::kBlockAllocatedWide: return "block-allocated";
    case Kind::kBlockFreed: return "block-freed";
    case Kind::kWorkspaceUsed:
    case Kind::kWorkspaceGiven: return "workspace-given";
    case Kind::kRace: return "race";
    case Kind::kBlockStream: return "block-stream";
    case Kind::kBlockCompleted: return "block-completed";
    case Kind::kAllocatorOutOfMemory: return "allocator-out-of-memory";
    case Kind::kCacheEmptied: return "cache-emptied";
    case Kind::kFractionSet: return "fraction-set";
    case Kind::kBlockRequestedLast:
    case Kind::kBlockRequested:
    case Kind::kBlockRequestedWide: return "block-requested";
    case Kind::kDriverAllocated: return "driver-allocated";
    case Kind::kDriverFreed: return "driver-freed";
    case Kind::kDriverOutOfMemory: return "driver-out-of-memory";
    case Kind::kOverhead: return "overhead";
    case Kind::kCopy: return "copy";
    case Kind::kAssumed: return "assumed";
    case Kind::kEntry:
    case Kind::kEntryWide: return "entry";
    case Kind::kFailed: return "failed";
    case Kind::kStep: return "step";
    case Kind::kBlockBirth: return "block-birth";
    case Kind::kPhase: return "phase";
    case Kind::kModuleNamed: return "module-named";
    case Kind::kLabel: return "label";
    case Kind::kCapacity: return "capacity";
    case Kind::kHostFallback: return "host-fallback";
    case Kind::kPythonException: return "python-exception";
    case Kind::kGarbageCollected: return "garbage-collected";
  }
  return "unknown";
}

std::string_view name_of(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kGhost: return "ghost";
    case Outcome::kComputed: return "computed";
    case Outcome::kAssumed: return "assumed";
    case Outcome::kRefused: return "refused";
  }
  return "unknown";
}

std::string_view name_of(DriverMemory memory) noexcept {
  switch (memory) {
    case DriverMemory::kMalloc: return "malloc";
    case DriverMemory::kPhysical: return "physical";
    case DriverMemory::kReservation: return "reservation";
    case DriverMemory::kMapping: return "mapping";
    case DriverMemory::kHost: return "host";
    case DriverMemory::kHostRegistered: return "host-registered";
  }
  return "unknown";
}

std::string_view name_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::kOther: return "other";
    case Phase::kBackward: return "backward";
    case Phase::kOptimizer: return "optimizer";
    case Phase::kExit: return "exit";
  }
  return "unknown";
}

std::string_view name_of(Label label) noexcept {
  switch (label) {
    case Label::kParameter: return "parameter";
    case Label::kGradient: return "gradient";
    case Label::kOptimizerState: return "optimizer state";
    case Label::kBuffer: return "buffer";
  }
  return "unknown";
}

std::string_view name_of(CopyKind kind) noexcept {
  switch (kind) {
    case CopyKind::kHostToHost: return "host-to-host";
    case CopyKind::kHostToDevice: return "host-to-device";
    case CopyKind::kDeviceToHost: return "device-to-host";
    case CopyKind::kDeviceToDevice: return "device-to-device";
    case CopyKind::kMemset: return "memset";
  }
  return "unknown";
}

std::string_view name_of(Assumption kind) noexcept {
  switch (kind) {
    case Assumption::kHostRead: return "host-read";
    case Assumption::kOperatorResult: return "operator-result";
    case Assumption::kOutputShape: return "output-shape";
  }
  return "unknown";
}

std::string_view name_of(PythonState state) noexcept {
  switch (state) {
    case PythonState::kUntried: return "untried";
    case PythonState::kReading: return "reading";
    case PythonState::kNoPython: return "no-python";
    case PythonState::kUnknownVersion: return "unknown-version";
    case PythonState::kLayoutMismatch: return "layout-mismatch";
  }
  return "unknown";
}

std::string print_record(const Reader& reader, const Record& record, const TextOptions& options) {
  std::string text;
  if (options.times) {
    fmt::format_to(std::back_inserter(text), "{:>12}.{:03} ", record.time_ns / 1000, record.time_ns % 1000);
  }
  fmt::format_to(std::back_inserter(text), "thread {} {}", record.thread, name_of(record.kind));
  const std::string content = print_content(reader, record, options);
  if (!content.empty()) text += ' ' + on_one_line(content);
  return text;
}

Status print_trace(const std::string& path, const TextOptions& options, std::string& text) {
  std::unique_ptr<Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(Reader::open(path, reader));
  Record record;
  text.clear();
  while (reader->next(record)) {
    if (is_definition(record.kind) && !options.definitions) continue;
    text += print_record(*reader, record, options) + '\n';
  }
  if (reader->is_truncated()) text += reader->truncation() + '\n';
  return Status::ok();
}

}  // namespace drydock::trace
