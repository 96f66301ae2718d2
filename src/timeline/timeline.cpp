#include "timeline/timeline.h"

#include <algorithm>
#include <array>
#include <utility>

namespace drydock::timeline {

using trace::Kind;
using trace::Record;

Ordering ordering_of(std::string_view entry) {
  struct Row {
    std::string_view entry;
    Ordering ordering;
  };
  static constexpr std::array kRows = {
      Row{"aclrtRecordEvent", Ordering::kRecordEvent},
      Row{"aclrtStreamWaitEvent", Ordering::kStreamWait},
      Row{"aclrtStreamWaitEventWithTimeout", Ordering::kStreamWait},
      Row{"aclrtSynchronizeStream", Ordering::kSynchronizeStream},
      Row{"aclrtSynchronizeStreamWithTimeout", Ordering::kSynchronizeStream},
      Row{"aclrtSynchronizeDevice", Ordering::kSynchronizeDevice},
      Row{"aclrtSynchronizeDeviceWithTimeout", Ordering::kSynchronizeDevice},
      Row{"aclrtSynchronizeEvent", Ordering::kSynchronizeEvent},
      Row{"aclrtSynchronizeEventWithTimeout", Ordering::kSynchronizeEvent},
      Row{"aclrtResetEvent", Ordering::kResetEvent},
  };
  const auto* const found =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.entry == entry; });
  return found == kRows.end() ? Ordering::kNone : found->ordering;
}

Timeline::Timeline(Clocks clocks, EntryName entry_name)
    : clocks_(std::move(clocks)), entry_name_(std::move(entry_name)) {}

uint64_t Timeline::end_ns() const {
  uint64_t end = host_ns_;
  for (const auto& [stream, end_ns] : streams_) end = std::max(end, end_ns);
  return end;
}

bool Timeline::take(const Record& record, Span& span) {
  switch (record.kind) {
    case Kind::kOperator: return record.outcome != trace::Outcome::kRefused && launch(record, span);
    case Kind::kCopy: return record.device >= 0 && launch(record, span);
    case Kind::kEntry: order(record); return false;
    default: return false;
  }
}

bool Timeline::launch(const Record& record, Span& span) {
  span = {};
  span.recorded_ns = record.time_ns;
  span.device = record.device;
  span.stream = record.stream;
  span.thread = record.thread;
  span.line = record.line;
  CallTime time;
  if (record.kind == Kind::kOperator) {
    span.call = record.call;
    time = time_of(record.call);
  } else {
    span.kind = Span::Kind::kCopy;
    span.copy = record.copy;
    span.bytes = record.size_bytes;
    if (clocks_.copy) time = clocks_.copy(record.copy, record.size_bytes);
  }
  span.is_known = time.is_known;
  span.issue_begin_ns = clocks_.follows_recorded_host ? record.time_ns : host_ns_;
  issue(record);
  span.issue_end_ns = clocks_.follows_recorded_host ? record.time_ns : host_ns_;
  uint64_t& end_ns = streams_[record.stream];
  span.begin_ns = std::max(host_ns_, end_ns);
  span.end_ns = span.begin_ns + time.device_ns;
  end_ns = span.end_ns;
  if (span.kind == Span::Kind::kCopy && !record.is_async) wait_for(span.end_ns, record);
  return true;
}

void Timeline::order(const Record& record) {
  const uint64_t subject = record.address.bits;
  const auto other = static_cast<uint32_t>(record.detail.bits);
  switch (ordering(record.entry)) {
    case Ordering::kNone: return;
    case Ordering::kRecordEvent:
      issue(record);
      events_[subject] = std::max(streams_[other], host_ns_);
      return;
    case Ordering::kStreamWait: {
      issue(record);
      uint64_t& end_ns = streams_[other];
      if (const auto event = events_.find(subject); event != events_.end()) end_ns = std::max(end_ns, event->second);
      return;
    }
    case Ordering::kSynchronizeStream: return wait_for(streams_[static_cast<uint32_t>(subject)], record);
    case Ordering::kSynchronizeDevice: return wait_for(end_ns(), record);
    case Ordering::kSynchronizeEvent:
      if (const auto event = events_.find(subject); event != events_.end()) wait_for(event->second, record);
      return;
    case Ordering::kResetEvent: events_.erase(subject); return;
  }
}

void Timeline::issue(const Record& record) {
  host_ns_ = clocks_.follows_recorded_host ? std::max(host_ns_, record.time_ns) : host_ns_ + clocks_.host_ns;
}

void Timeline::wait_for(uint64_t device_ns, const Record& record) {
  if (device_ns <= host_ns_ || clocks_.follows_recorded_host) return;
  waits_.push_back({host_ns_, device_ns, record.thread, record.entry, record.line});
  host_ns_ = device_ns;
}

Ordering Timeline::ordering(uint32_t entry) {
  if (entry >= has_ordering_.size()) {
    has_ordering_.resize(size_t{entry} + 1, 0);
    orderings_.resize(size_t{entry} + 1, Ordering::kNone);
  }
  if (has_ordering_[entry] == 0) {
    has_ordering_[entry] = 1;
    orderings_[entry] = ordering_of(entry_name_(entry));
  }
  return orderings_[entry];
}

const CallTime& Timeline::time_of(trace::CallId call) {
  if (call >= is_asked_.size()) {
    is_asked_.resize(size_t{call} + 1, 0);
    call_times_.resize(size_t{call} + 1);
  }
  if (is_asked_[call] == 0) {
    is_asked_[call] = 1;
    if (call != 0 && clocks_.call) call_times_[call] = clocks_.call(call);
  }
  return call_times_[call];
}

}  // namespace drydock::timeline
