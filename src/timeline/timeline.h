#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/reader.h"

// Puts a recorded run on the clock of the device that it was meant for: when would each operator have begun and ended?
// A trace tells the order in which the host issued work, on which streams, and where it waited; how long an operator
// takes is asked of a cost model, and how long the host takes to issue one is a number. The same trace gives the same
// times.

namespace drydock::timeline {

/// How long a call keeps its stream busy.
struct CallTime {
  bool is_known = false;
  uint64_t device_ns = 0;
};
/// Asked once for each distinct call.
using CallClock = std::function<CallTime(trace::CallId call)>;
/// How long a copy between host and device, or within a device, takes.
using CopyClock = std::function<CallTime(trace::CopyKind kind, uint64_t bytes)>;

struct Clocks {
  CallClock call;
  CopyClock copy;
  uint64_t host_ns = 0;  ///< that the host takes to issue one operator or copy, or to record or wait for an event
  /// The host's calls keep the times at which they were recorded, and it waits for nothing: for a view beside other
  /// measurements of the same host.
  bool follows_recorded_host = false;
};

/// What a stream did.
struct Span {
  enum class Kind : uint8_t { kOperator, kCopy };
  Kind kind = Kind::kOperator;
  bool is_known = false;  ///< how long it takes; else it takes no time here
  int32_t device = 0;
  uint32_t stream = 0;
  uint32_t thread = 0;  ///< that issued it
  trace::CallId call = 0;
  trace::LineId line = 0;
  trace::CopyKind copy{};
  uint64_t bytes = 0;           ///< of a copy
  uint64_t recorded_ns = 0;     ///< when the record was written, of the trace's own clock
  uint64_t issue_begin_ns = 0;  ///< the host's call, on the device's clock
  uint64_t issue_end_ns = 0;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

/// A time that the host waited for the device.
struct HostWait {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint32_t thread = 0;
  uint32_t entry = 0;
  trace::LineId line = 0;
};

/// What the records of entries mean that order streams and hosts.
enum class Ordering : uint8_t {
  kNone,
  kRecordEvent,        ///< subject: event, detail: stream
  kStreamWait,         ///< the same
  kSynchronizeStream,  ///< subject: stream
  kSynchronizeDevice,  ///< of the calling thread; its device is not recorded, all are waited for
  kSynchronizeEvent,   ///< subject: event
  kResetEvent,
};
Ordering ordering_of(std::string_view entry);

/// Feed the records of one process in order. The host is one clock for all threads: what one of them issues, the others
/// come after, as they were recorded. Not thread-safe.
class Timeline {
 public:
  using EntryName = std::function<std::string(uint32_t entry)>;
  Timeline(Clocks clocks, EntryName entry_name);

  /// True if the record put something on a stream: `span` is that.
  bool take(const trace::Record& record, Span& span);

  /// Where the host's clock and that of the last stream to end stand.
  uint64_t host_ns() const { return host_ns_; }
  uint64_t end_ns() const;
  const std::vector<HostWait>& waits() const { return waits_; }

 private:
  bool launch(const trace::Record& record, Span& span);
  void order(const trace::Record& record);
  void issue(const trace::Record& record);
  void wait_for(uint64_t device_ns, const trace::Record& record);
  Ordering ordering(uint32_t entry);
  const CallTime& time_of(trace::CallId call);

  Clocks clocks_;
  EntryName entry_name_;
  uint64_t host_ns_ = 0;
  std::map<uint32_t, uint64_t> streams_;  // by number, which is the process's: when its work ends
  std::map<uint64_t, uint64_t> events_;   // by number: when it is reached
  std::vector<HostWait> waits_;
  std::vector<char> is_asked_;        // by call
  std::vector<CallTime> call_times_;  // the same
  std::vector<Ordering> orderings_;   // by entry
  std::vector<char> has_ordering_;    // the same
};

}  // namespace drydock::timeline
