#include <algorithm>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ledger/trend.h"
#include "ledger/verdict.h"
#include "ledger_synthetic_run.h"

namespace drydock::ledger {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kRoom = 60 * kGiB;

std::vector<StepEnd> steps_of(size_t count, const std::function<void(size_t, StepEnd&)>& fill) {
  std::vector<StepEnd> steps(count);
  for (size_t index = 0; index < count; ++index) {
    steps[index].step = static_cast<uint32_t>(index + 1);
    fill(index, steps[index]);
  }
  return steps;
}

// The same scatter in every run.
uint64_t scatter(size_t index) { return index * 7919 % 13; }

TEST(Trend, ALeakIsFoundWithItsLineAndTheStepThatWillNotFit) {
  const auto steps = steps_of(20, [](size_t index, StepEnd& step) {
    step.allocated_bytes = 10 * kGiB + index * kGiB;
    step.peak_allocated_bytes = step.allocated_bytes + 2 * kGiB;
    step.input_bytes = 1000 + scatter(index);
    step.rising = {7, kGiB + 5};
    step.falling = {8, 5};
  });
  const Trend trend = find_trend(steps, kRoom);
  EXPECT_EQ(trend.growth, Growth::kLeak);
  EXPECT_EQ(trend.growing, 7U);
  EXPECT_EQ(trend.bytes_per_step, kGiB);
  EXPECT_EQ(trend.grown_bytes, 18 * kGiB);
  // Step n ends with 9 + n and had 11 + n at its highest: 60 fit in step 49, 61 in step 50 do not.
  EXPECT_EQ(trend.full_at_step, 50U);
  EXPECT_EQ(trend.tooth, ToothCause::kNone);
  EXPECT_EQ(find_trend(steps, 0).full_at_step, 0U) << "nobody knows the device's size";
}

TEST(Trend, LongerInputsAreToldFromALeakAndFromLargerSteps) {
  const auto fill = [](bool with_inputs) {
    return [with_inputs](size_t index, StepEnd& step) {
      const uint64_t length = 100 + index * 10 + scatter(index);
      step.allocated_bytes = 10 * kGiB + scatter(index) * kMiB;
      step.peak_allocated_bytes = 10 * kGiB + length * 100 * kMiB;
      step.input_bytes = with_inputs ? length * 8 : 4096;
      step.largest = {{3, length * kMiB}, {4, 50 * kMiB}};
    };
  };
  const Trend longer = find_trend(steps_of(24, fill(true)), kRoom);
  EXPECT_EQ(longer.growth, Growth::kLongerInputs);
  EXPECT_EQ(longer.growing, 3U);
  EXPECT_GT(longer.full_at_step, 24U);
  EXPECT_EQ(find_trend(steps_of(24, fill(false)), kRoom).growth, Growth::kLargerSteps);
}

TEST(Trend, VariablesThatHoldTheLastBatchAreNoLeak) {
  uint64_t kept = 0;
  const auto fill = [&kept](bool leaks) {
    return [leaks, &kept](size_t index, StepEnd& step) {
      const uint64_t length = 100 + index * 10;
      kept = (leaks ? kept : 0) + length * 10 * kMiB;
      step.allocated_bytes = 10 * kGiB + kept;
      step.peak_allocated_bytes = step.allocated_bytes + length * 20 * kMiB;
      step.input_bytes = length * 8;
    };
  };
  EXPECT_EQ(find_trend(steps_of(24, fill(false)), kRoom).growth, Growth::kLongerInputs);
  kept = 0;
  EXPECT_EQ(find_trend(steps_of(24, fill(true)), kRoom).growth, Growth::kLeak);
}

TEST(Trend, StepsThatOnlyScatterAreNoTrend) {
  const auto steps = steps_of(40, [](size_t index, StepEnd& step) {
    step.allocated_bytes = 10 * kGiB;
    step.peak_allocated_bytes = 20 * kGiB + scatter(index) * kMiB;
    step.input_bytes = 1000 * scatter(index);
  });
  const Trend trend = find_trend(steps, kRoom);
  EXPECT_EQ(trend.growth, Growth::kNone);
  EXPECT_EQ(trend.tooth, ToothCause::kNone) << "13 MiB of 60 GiB";
}

TEST(Trend, ASawToothOfReferenceCyclesNamesTheCollector) {
  const auto fill = [](bool collected) {
    return [collected](size_t index, StepEnd& step) {
      step.allocated_bytes = 10 * kGiB + index % 8 * kGiB;
      step.peak_allocated_bytes = step.allocated_bytes + kGiB;
      const bool falls = index % 8 == 0;
      step.collected_blocks = collected && falls ? 40 : 0;
      if (falls) step.falling = {9, 7 * kGiB};
    };
  };
  const Trend cycles = find_trend(steps_of(48, fill(true)), kRoom);
  EXPECT_EQ(cycles.tooth, ToothCause::kGarbageCollection);
  EXPECT_EQ(cycles.period_steps, 8U);
  EXPECT_EQ(cycles.tooth_bytes, 7 * kGiB);
  EXPECT_EQ(cycles.line, 9U);
  EXPECT_EQ(cycles.growth, Growth::kNone);
  EXPECT_EQ(find_trend(steps_of(48, fill(false)), kRoom).tooth, ToothCause::kReleased);
}

TEST(Trend, ASawToothOfThePeaksIsOtherWorkOrInputs) {
  const auto fill = [](bool of_inputs) {
    return [of_inputs](size_t index, StepEnd& step) {
      const bool high = index % 5 == 4;
      step.allocated_bytes = 10 * kGiB;
      step.peak_allocated_bytes = (high ? 30 : 20) * kGiB + scatter(index) * kMiB;
      step.input_bytes = of_inputs && high ? 9000 + scatter(index) : 1000 + (of_inputs ? scatter(index) : 0);
      step.largest = {{2, 5 * kGiB}};
      if (high) step.largest.push_back({6, 10 * kGiB});
    };
  };
  const Trend evaluation = find_trend(steps_of(41, fill(false)), kRoom);
  EXPECT_EQ(evaluation.tooth, ToothCause::kOtherWork);
  EXPECT_EQ(evaluation.period_steps, 5U);
  EXPECT_EQ(evaluation.line, 6U);
  EXPECT_EQ(find_trend(steps_of(41, fill(true)), kRoom).tooth, ToothCause::kInputLengths);
}

TEST(Trend, AnEmptiedCacheIsASawToothOfReservedBytes) {
  const auto steps = steps_of(30, [](size_t index, StepEnd& step) {
    step.allocated_bytes = 10 * kGiB;
    step.peak_allocated_bytes = 20 * kGiB;
    const bool emptied = index % 4 == 0;
    step.reserved_bytes = (emptied ? 12 : 22) * kGiB;
    if (emptied) step.returned_bytes = 10 * kGiB, step.returning = {11, 10 * kGiB};
  });
  const Trend trend = find_trend(steps, kRoom);
  EXPECT_EQ(trend.tooth, ToothCause::kCacheEmptied);
  EXPECT_EQ(trend.period_steps, 4U);
  EXPECT_EQ(trend.line, 11U);
}

TEST(Trend, FallsAtUnevenDistancesAreNoSawTooth) {
  const std::vector<size_t> falls = {3, 4, 15, 17, 33, 39};
  uint64_t level = 0;
  const auto steps = steps_of(45, [&](size_t index, StepEnd& step) {
    level = std::find(falls.begin(), falls.end(), index) != falls.end() ? 0 : level + 1;
    step.allocated_bytes = 20 * kGiB + std::min<uint64_t>(level, 5) * kGiB;
    step.peak_allocated_bytes = 40 * kGiB;
  });
  EXPECT_EQ(find_trend(steps, kRoom).tooth, ToothCause::kNone);
}

TEST(Trend, TooFewStepsSayNothing) {
  EXPECT_EQ(find_trend({}, kRoom).growth, Growth::kNone);
  EXPECT_EQ(
      find_trend(steps_of(5, [](size_t index, StepEnd& step) { step.allocated_bytes = index * kGiB; }), kRoom).growth,
      Growth::kNone);
}

TEST(Trend, SentencesNameRateLineAndStep) {
  TrendRow row;
  row.trend.growth = Growth::kLeak;
  row.trend.bytes_per_step = 3 * kMiB;
  row.trend.full_at_step = 812;
  row.growing_line = "train.py:42";
  EXPECT_THAT(sentences_of(row, 40, false),
              ElementsAre("Steps keep about 3.00 MiB more each (train.py:42). At that rate step 812 will be the first "
                          "that does not fit."));
  EXPECT_THAT(sentences_of(row, 40, true), ElementsAre("Steps keep about 3.00 MiB more each (train.py:42)."));
  EXPECT_THAT(sentences_of(TrendRow(), 40, false), IsEmpty());
}

// A run from records: the capacity, a leak, the collector, and what the verdict makes of it.
TEST(Trend, ARunThatGrowsIsForetold) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record([] {
    trace::capacity_told(0, 100 * kMiB);
    segment(kBase, 100 * kMiB, line(1));
    for (uint32_t step = 0; step < 12; ++step) {
      block(kBase + step * 4 * kMiB, 4 * kMiB, line(20));
      trace::step_ended();
    }
  });
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kRan);
  EXPECT_EQ(report.verdict.trend.trend.growth, Growth::kLeak);
  EXPECT_EQ(report.verdict.trend.trend.bytes_per_step, 4 * kMiB);
  EXPECT_EQ(report.verdict.trend.growing_line, "train.py:20");
  EXPECT_EQ(report.verdict.trend.trend.full_at_step, 26U);  // 100 / 4 fit
  EXPECT_THAT(report_text(report), HasSubstr("step 26 will be the"));
  EXPECT_THAT(report_json(report), HasSubstr("\"full_at_step\": 26"));
}

}  // namespace
}  // namespace drydock::ledger
