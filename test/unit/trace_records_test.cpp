#include <algorithm>
#include <thread>

#include <gmock/gmock.h>

#include "ops/operator_row.h"
#include "trace/allocator_records.h"
#include "trace/call_encoding.h"
#include "trace_child_process.h"

// Every kind of record through the writer, the file and the reader.

namespace drydock::trace {
namespace {

constexpr uint64_t kTebibyte = uint64_t{1} << 40;

uint32_t operator_named(std::string_view name) {
  const std::span<const ops::OperatorRow> rows = ops::operator_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return each.name == name; });
  EXPECT_NE(row, rows.end());
  return static_cast<uint32_t>(row - rows.begin());
}

ops::Arg tensor_arg(ops::Tensor& tensor) {
  ops::Arg arg;
  arg.kind = ops::ArgKind::kTensor;
  arg.tensor = &tensor;
  return arg;
}

ops::Tensor tensor_of(DataType dtype, std::initializer_list<int64_t> dims) {
  ops::Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims = ops::Dims(dims);
  int64_t stride = 1;
  std::vector<int64_t> strides(dims.size());
  for (int axis = tensor.dims.size() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= tensor.dims[axis];
  }
  tensor.strides = ops::Dims(std::span<const int64_t>(strides));
  return tensor;
}

CallId intern_add() {
  ops::Tensor self = tensor_of(DataType::kBFloat16, {2, 3}), other = tensor_of(DataType::kFloat, {3});
  ops::Scalar alpha;
  alpha.dtype = DataType::kInt64;
  alpha.bytes[0] = 2;
  ops::Arg scalar;
  scalar.kind = ops::ArgKind::kScalar;
  scalar.scalar = &alpha;
  const std::array<ops::Arg, 4> args = {tensor_arg(self), tensor_arg(other), scalar, tensor_arg(self)};
  return intern_call(encode_call(operator_named("aclnnAdd"), args));
}

void record_everything() {
  const uint64_t base = open_arena();
  const LineId line = intern_line("/home/user/train.py", 12, "Model.forward");
  const CallId call = intern_add();
  operator_launched(0, 7, call, line, Outcome::kComputed);
  operator_launched(3, 70'000, call, 0, Outcome::kRefused);
  operator_launched(100, 1, 0, line, Outcome::kAssumed);
  block_allocated(0, base + 1024, 1536, false, line);
  block_requested(0, base + 1024, 1000);
  block_allocated(0, base + 3 * kTebibyte, 512, true, 0);
  block_requested(0, base + 1024, 1001);
  block_requested(0, base + 3 * kTebibyte, 100);
  block_allocated(0, base + 100, 777, false, line);
  block_requested(0, base + 100, 7);
  block_requested(0, base + 300, 7);
  block_allocated(0, base, uint64_t{5} << 41, false, line);
  block_requested(0, base, uint64_t{5} << 40);
  workspace_given(0, base + 1024,
                  {.size_bytes = 1500, .call = call, .line = line, .stream = 7, .basis = WorkspaceBasis::kMedium});
  block_freed(0, base + 1024);
  driver_allocated(DriverMemory::kMalloc, 0, base + (2 << 20), 0, 4 << 20, line);
  driver_allocated(DriverMemory::kPhysical, 0, 0, 5, 2 << 20, line);
  driver_allocated(DriverMemory::kHost, -1, 0x7f0011112000, 0, 4096, line);
  driver_freed(DriverMemory::kHost, -1, 0x7f0011112000, 0, 4096, line);
  driver_allocated(DriverMemory::kHost, -1, 0x7f0011112000, 0, 4096, line);
  driver_freed(DriverMemory::kMapping, 0, base + kTebibyte, 5, 2 << 20, 0);
  driver_out_of_memory(DriverMemory::kPhysical, 0, 48 << 20, 1 << 20, uint64_t{64} << 30, line);
  overhead_charged(0, "context", 123);
  copied(CopyKind::kHostToDevice, 0, base + 4, 1024, true, 3, line);
  copied(CopyKind::kHostToHost, -1, 0, 10, false, 0, 0);
  assumed(Assumption::kOutputShape, 8, line);
  entry_called(17, 4, 0, line);
  entry_called(70'000, 0x7f1234567890, base + 512, line);
  entry_called(18, 0x7f1234567890, uint64_t{60} << 30, 0);
  failed(19, 507000, "first line\nsecond", line);
  step_ended();
  host_fallback("aten::nonzero", line);
  python_exception("ValueError", "no such thing", "/home/user/train.py", 99);

  block_allocated(0, base + 4096, 1024, false, line, {true, 600, 3, 1});
  block_allocated(0, base + 8192, 512, false, line, {true, 512, 3, 1});  // the stream is said once
  block_freed_pending(0, base + 4096);
  block_completed(0, base + 4096);
  allocator_out_of_memory(0, 3, 1, 2048, 100, line);
  cache_emptied();
  fraction_set(0, uint64_t{1} << 34);
  capacity_told(0, uint64_t{64} << 30);
  garbage_collected(2, 17, line);
}

constexpr std::string_view kExpected =
    R"(thread 0 operator npu:0 stream 7 computed aclnnAdd(self=bf16[2,3], other=fp32[3], alpha=2, >out=bf16[2,3]) at /home/user/train.py:12 (Model.forward)
thread 0 operator npu:3 stream 70000 refused aclnnAdd(self=bf16[2,3], other=fp32[3], alpha=2, >out=bf16[2,3]) at unknown line
thread 0 operator npu:100 stream 1 assumed unknown call 0 at /home/user/train.py:12 (Model.forward)
thread 0 block-allocated npu:0+0x400 1536 bytes at /home/user/train.py:12 (Model.forward)
thread 0 block-requested npu:0+0x400 1000 bytes
thread 0 block-allocated npu:0+0x30000000000 512 bytes workspace at unknown line
thread 0 block-requested npu:0+0x400 1001 bytes
thread 0 block-requested npu:0+0x30000000000 100 bytes
thread 0 block-allocated npu:0+0x64 777 bytes at /home/user/train.py:12 (Model.forward)
thread 0 block-requested npu:0+0x64 7 bytes
thread 0 block-requested npu:0+0x12c 7 bytes
thread 0 block-allocated npu:0+0x0 10995116277760 bytes at /home/user/train.py:12 (Model.forward)
thread 0 block-requested npu:0+0x0 5497558138880 bytes
thread 0 workspace-given npu:0+0x400 1500 bytes (medium) stream 7 for aclnnAdd(self=bf16[2,3], other=fp32[3], alpha=2, >out=bf16[2,3]) at /home/user/train.py:12 (Model.forward)
thread 0 block-freed npu:0+0x400
thread 0 driver-allocated malloc npu:0 address npu:0+0x200000 handle 0 4194304 bytes at /home/user/train.py:12 (Model.forward)
thread 0 driver-allocated physical npu:0 address 0 handle 5 2097152 bytes at /home/user/train.py:12 (Model.forward)
thread 0 driver-allocated host npu:-1 address object 1 handle 0 4096 bytes at /home/user/train.py:12 (Model.forward)
thread 0 driver-freed host npu:-1 address object 1 handle 0 4096 bytes at /home/user/train.py:12 (Model.forward)
thread 0 driver-allocated host npu:-1 address object 2 handle 0 4096 bytes at /home/user/train.py:12 (Model.forward)
thread 0 driver-freed mapping npu:0 address npu:0+0x10000000000 handle 5 2097152 bytes at unknown line
thread 0 driver-out-of-memory physical npu:0 requested 50331648 free 1048576 capacity 68719476736 at /home/user/train.py:12 (Model.forward)
thread 0 overhead npu:0 123 bytes context
thread 0 copy host-to-device async npu:0 stream 3 npu:0+0x4 1024 bytes at /home/user/train.py:12 (Model.forward)
thread 0 copy host-to-host sync npu:-1 stream 0 0 10 bytes at unknown line
thread 0 assumed output-shape 8 bytes at /home/user/train.py:12 (Model.forward)
thread 0 entry 17 subject 4 detail 0 at /home/user/train.py:12 (Model.forward)
thread 0 entry 70000 subject object 3 detail npu:0+0x200 at /home/user/train.py:12 (Model.forward)
thread 0 entry 18 subject object 3 detail 64424509440 at unknown line
thread 0 failed 19 code 507000 "first line\nsecond" at /home/user/train.py:12 (Model.forward)
thread 0 step
thread 0 host-fallback aten::nonzero at /home/user/train.py:12 (Model.forward)
thread 0 python-exception ValueError: no such thing at /home/user/train.py:99
thread 0 block-stream npu:0 stream 3 pool 1
thread 0 block-allocated npu:0+0x1000 1024 bytes of which 600 asked stream 3 at /home/user/train.py:12 (Model.forward)
thread 0 block-allocated npu:0+0x2000 512 bytes of which 512 asked stream 3 at /home/user/train.py:12 (Model.forward)
thread 0 block-freed npu:0+0x1000 pending
thread 0 block-completed npu:0+0x1000
thread 0 allocator-out-of-memory npu:0 requested 2048 free 100 stream 3 at /home/user/train.py:12 (Model.forward)
thread 0 cache-emptied
thread 0 fraction-set npu:0 17179869184 bytes
thread 0 capacity npu:0 68719476736 bytes
thread 0 garbage-collected generation 2 freed 17 blocks at /home/user/train.py:12 (Model.forward)
)";

TEST(TraceRecords, EveryKindComesBackAsItWasRecorded) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(), record_everything), 0);
  EXPECT_EQ(text_of_trace(run.trace()), kExpected);
}

TEST(TraceRecords, FieldsThatTheTextLeavesOutComeBackToo) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(), record_everything), 0);
  const ReadTrace read = read_all(run.trace());
  EXPECT_FALSE(read.reader->is_truncated()) << read.reader->truncation();
  EXPECT_EQ(read.reader->records(), read.reader->info().records);
  EXPECT_EQ(read.reader->bytes(), read.reader->info().used_bytes);
  ASSERT_FALSE(read.reader->info().arena_bases.empty());
  EXPECT_EQ(read.reader->info().arena_bases.front(), open_arena());
  EXPECT_GT(read.reader->info().start_wall_ns, 1'600'000'000'000'000'000);
  EXPECT_THAT(read.reader->info().command, ::testing::HasSubstr("trace_records_test"));
}

TEST(TraceRecords, TwoRunsGiveTheSameRecords) {
  const RunFolder first, second;
  const auto record_with_threads = [] {
    record_everything();
    for (int turn = 0; turn < 3; ++turn) {
      std::thread([turn] { operator_launched(0, static_cast<uint32_t>(turn), 0, 0, Outcome::kGhost); }).join();
      step_ended();
    }
  };
  ASSERT_EQ(run_child(first.path(), record_with_threads), 0);
  ASSERT_EQ(run_child(second.path(), record_with_threads), 0);
  const TextOptions options{.times = false, .definitions = true};
  const std::string text = text_of_trace(first.trace(), options);
  EXPECT_EQ(text, text_of_trace(second.trace(), options));
  EXPECT_THAT(text, ::testing::HasSubstr("thread 3 operator npu:0 stream 2"));
  EXPECT_THAT(text, ::testing::HasSubstr("thread 0 step"));
}

TEST(TraceRecords, TimesGoOnAndLongPausesAreKept) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        step_ended();
                        usleep(4'400'000);  // more than 32 bits of nanoseconds
                        step_ended();
                        step_ended();
                      }),
            0);
  const ReadTrace read = read_all(run.trace());
  ASSERT_EQ(read.records.size(), 3U);
  EXPECT_GE(read.records[1].time_ns, read.records[0].time_ns + 4'400'000'000);
  EXPECT_LT(read.records[1].time_ns, read.records[0].time_ns + 60'000'000'000);
  EXPECT_GE(read.records[2].time_ns, read.records[1].time_ns);
}

TEST(TraceRecords, MillionOperatorsWithTheirBlocksTakeAtMostSixtyMebibytes) {
  constexpr uint64_t kLaunches = 100'000;
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        const uint64_t base = open_arena() + 2 * kTebibyte;
                        const LineId line = intern_line("/a.py", 1, "f");
                        for (uint64_t launch = 0; launch < kLaunches; ++launch) {
                          operator_launched(0, 1, 1, line, Outcome::kGhost);
                          if (launch % 10 >= 7) continue;
                          const uint64_t address = base + launch * 512;
                          // A second block in between: the size of the first is then told with its address.
                          block_allocated(0, address, 1024, false, line);
                          if (launch % 10 == 0) block_allocated(0, address + (uint64_t{1} << 32), 1024, false, line);
                          block_requested(0, address, 1000);
                          block_freed(0, address);
                        }
                        EXPECT_EQ(counters().lost_records, 0U);
                      }),
            0);
  const ReadTrace read = read_all(run.trace());
  EXPECT_LE(read.reader->bytes() * (1'000'000 / kLaunches), uint64_t{60} << 20);
  EXPECT_EQ(std::count_if(read.records.begin(), read.records.end(),
                          [](const Record& record) { return record.kind == Kind::kOperator; }),
            static_cast<int64_t>(kLaunches));
}

TEST(TraceRecords, LinesAndStringsKeepTheirIds) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        const LineId line = intern_line("a.py", 3, "f");
                        EXPECT_NE(line, 0U);
                        EXPECT_EQ(intern_line("a.py", 3, "f"), line);
                        EXPECT_NE(intern_line("a.py", 4, "f"), line);
                        EXPECT_EQ(intern_line("", 3, "f"), 0U);
                        EXPECT_EQ(describe_line(line), "a.py:3 (f)");
                        EXPECT_EQ(describe_line(intern_line("b.py", 7, "")), "b.py:7");
                        EXPECT_EQ(describe_line(0), "unknown line");
                        EXPECT_EQ(describe_line(12'345), "unknown line");
                        EXPECT_EQ(intern_string(""), 0U);
                        const std::string long_text(100'000, 'x');
                        EXPECT_NE(intern_string(long_text), 0U);
                        EXPECT_EQ(intern_call({}), 0U);
                        const std::vector<std::byte> too_long(100'000);
                        EXPECT_EQ(intern_call(too_long), 0U);
                      }),
            0);
  const ReadTrace read = read_all(run.trace());
  EXPECT_FALSE(read.reader->is_truncated()) << read.reader->truncation();
  EXPECT_EQ(read.reader->string(read.reader->strings()).size(), kMaxTextBytes);
}

}  // namespace
}  // namespace drydock::trace
