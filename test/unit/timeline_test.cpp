#include "timeline/timeline.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace drydock::timeline {
namespace {

using trace::Kind;
using trace::Record;

constexpr uint64_t kHostNs = 10;
constexpr uint64_t kCallNs = 100;

// Entries by their place in this list.
const std::vector<std::string> kEntries = {"aclrtRecordEvent",      "aclrtStreamWaitEvent",   "aclrtSynchronizeStream",
                                           "aclrtSynchronizeEvent", "aclrtSynchronizeDevice", "aclrtSetDevice"};

Timeline timeline() {
  Clocks clocks;
  clocks.host_ns = kHostNs;
  clocks.call = [](trace::CallId call) { return CallTime{call <= 100, call < 100 ? kCallNs * call : 0}; };
  clocks.copy = [](trace::CopyKind, uint64_t bytes) { return CallTime{true, bytes}; };
  return Timeline(clocks, [](uint32_t entry) { return kEntries.at(entry); });
}

Record launch(uint32_t stream, trace::CallId call) {
  Record record;
  record.kind = Kind::kOperator;
  record.device = 0;
  record.stream = stream;
  record.call = call;
  return record;
}

Record entry(std::string_view name, uint64_t subject, uint64_t detail = 0) {
  Record record;
  record.kind = Kind::kEntry;
  for (size_t index = 0; index < kEntries.size(); ++index)
    if (kEntries[index] == name) record.entry = static_cast<uint32_t>(index);
  record.address.bits = subject;
  record.detail.bits = detail;
  return record;
}

TEST(Timeline, AStreamRunsItsWorkInOrderAndAfterTheHostIssuedIt) {
  Timeline line = timeline();
  Span first;
  Span second;
  ASSERT_TRUE(line.take(launch(1, 1), first));
  ASSERT_TRUE(line.take(launch(1, 2), second));
  EXPECT_EQ(first.begin_ns, kHostNs);
  EXPECT_EQ(first.end_ns, kHostNs + kCallNs);
  EXPECT_EQ(second.begin_ns, first.end_ns) << "the host was there earlier";
  EXPECT_EQ(second.end_ns, first.end_ns + 2 * kCallNs);
  EXPECT_EQ(line.host_ns(), 2 * kHostNs) << "nothing waited";
  EXPECT_EQ(line.end_ns(), second.end_ns);
}

TEST(Timeline, WhereTheHostIsSlowTheDeviceIsIdle) {
  Timeline line = timeline();
  Span span;
  line.take(launch(1, 100), span);  // takes no time
  EXPECT_TRUE(span.is_known);
  line.take(launch(1, 1), span);
  EXPECT_EQ(span.begin_ns, 2 * kHostNs);
}

TEST(Timeline, StreamsRunSideBySideUnlessAnEventOrdersThem) {
  Timeline line = timeline();
  Span span;
  line.take(launch(1, 5), span);
  const uint64_t first_end = span.end_ns;
  line.take(launch(2, 1), span);
  EXPECT_LT(span.end_ns, first_end);
  EXPECT_FALSE(line.take(entry("aclrtRecordEvent", 7, 1), span));
  line.take(launch(1, 9), span);  // behind the event: nobody waits for it
  EXPECT_FALSE(line.take(entry("aclrtStreamWaitEvent", 7, 2), span));
  line.take(launch(2, 1), span);
  EXPECT_EQ(span.begin_ns, first_end);
}

TEST(Timeline, SynchronisingMovesTheHost) {
  Timeline line = timeline();
  Span span;
  line.take(launch(1, 5), span);
  const uint64_t one = span.end_ns;
  line.take(launch(2, 50), span);
  const uint64_t two = span.end_ns;
  line.take(entry("aclrtSynchronizeStream", 1), span);
  EXPECT_EQ(line.host_ns(), one);
  line.take(entry("aclrtSynchronizeStream", 1), span);
  line.take(entry("aclrtSetDevice", 1), span);
  EXPECT_EQ(line.host_ns(), one);
  line.take(entry("aclrtRecordEvent", 3, 2), span);
  line.take(entry("aclrtSynchronizeEvent", 3), span);
  EXPECT_EQ(line.host_ns(), two);
  line.take(launch(1, 1), span);
  EXPECT_EQ(span.begin_ns, two + kHostNs);
  line.take(entry("aclrtSynchronizeDevice", 0), span);
  EXPECT_EQ(line.host_ns(), span.end_ns);
  ASSERT_EQ(line.waits().size(), 3U);
  EXPECT_EQ(line.waits().front().end_ns, one);
}

TEST(Timeline, ASynchronousCopyIsWaitedForAndAnAsynchronousOneIsNot) {
  Timeline line = timeline();
  Record copy;
  copy.kind = Kind::kCopy;
  copy.device = 0;
  copy.stream = 1;
  copy.size_bytes = 1000;
  copy.is_async = true;
  Span span;
  ASSERT_TRUE(line.take(copy, span));
  EXPECT_EQ(line.host_ns(), kHostNs);
  copy.is_async = false;
  ASSERT_TRUE(line.take(copy, span));
  EXPECT_EQ(line.host_ns(), kHostNs + 2000);
  copy.device = -1;
  EXPECT_FALSE(line.take(copy, span)) << "from host to host";
}

TEST(Timeline, WhatNobodyKnowsTakesNoTimeAndIsSaid) {
  Timeline line = timeline();
  Span span;
  ASSERT_TRUE(line.take(launch(1, 101), span));
  EXPECT_FALSE(span.is_known);
  EXPECT_EQ(span.begin_ns, span.end_ns);
  Record refused = launch(1, 1);
  refused.outcome = trace::Outcome::kRefused;
  EXPECT_FALSE(line.take(refused, span));
  line.take(entry("aclrtStreamWaitEvent", 99, 1), span);  // never recorded: holds nothing back
  line.take(entry("aclrtSynchronizeEvent", 99), span);
  EXPECT_EQ(line.host_ns(), 2 * kHostNs);
}

}  // namespace
}  // namespace drydock::timeline
