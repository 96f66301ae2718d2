#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "ledger_synthetic_run.h"
#include "page/device_page.h"
#include "page/page.h"
#include "page/run_history.h"

namespace drydock::page {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using ledger::kBase;
using ledger::kGiB;
using ledger::kMiB;
using ledger::line;
using ledger::SyntheticRun;

uint64_t held_bytes(const Moment& moment, const std::vector<HolderText>& holders) {
  uint64_t sum = 0;
  for (const Held& held : moment.held)
    if (holders[held.holder].kind != "workspace") sum += held.bytes;
  return sum;
}

// Four steps of different heights, with blocks that stay, a hole, and workspace of its own.
void train() {
  ledger::segment(kBase, 100 * kMiB, line(1));
  ledger::block(kBase, 10 * kMiB, line(10));
  ledger::segment(kBase + kGiB, 40 * kMiB, line(2));
  trace::block_allocated(0, kBase + kGiB, 4 * kMiB, true, line(2));
  for (uint64_t step = 1; step <= 4; ++step) {
    const uint64_t size = (step == 3 ? 30 : 5 + step) * kMiB;
    ledger::block(kBase + 10 * kMiB, size, line(20));
    ledger::block(kBase + 60 * kMiB, 8 * kMiB, line(30));
    trace::block_freed(0, kBase + 10 * kMiB);
    trace::block_freed(0, kBase + 60 * kMiB);
    trace::step_ended();
  }
}

DevicePage only_device(const SyntheticRun& run, bool at_refusal = false) {
  const RunHistory history = read_run_history(run.path());
  EXPECT_EQ(history.processes.size(), 1U);
  EXPECT_EQ(history.processes.at(0).devices.size(), 1U);
  return make_device_page(0, history.processes.at(0), history.processes.at(0).devices.begin()->second, "/home/user",
                          at_refusal);
}

TEST(PageHistory, MaximaAreTheLedgersAndHoldersAddUp) {
  SyntheticRun run;
  run.record(train);
  const ledger::Report report = run.report();
  const DevicePage page = only_device(run);

  uint64_t allocated = 0;
  uint64_t reserved = 0;
  uint64_t workspace = 0;
  for (const CurvePoint& point : page.curve) {
    allocated = std::max(allocated, point.allocated_bytes);
    reserved = std::max(reserved, point.reserved_bytes);
    workspace = std::max(workspace, point.workspace_bytes);
  }
  EXPECT_EQ(allocated, 48 * kMiB);
  EXPECT_EQ(allocated, report.peak_allocated_bytes);
  EXPECT_EQ(reserved, report.peak_reserved_bytes);
  EXPECT_EQ(workspace, report.peak_workspace_bytes);
  EXPECT_EQ(page.moments.at(page.peak_moment).total_bytes, allocated);
  EXPECT_EQ(page.moments.at(page.peak_moment).step, 3U);
  for (const Moment& moment : page.moments) EXPECT_EQ(held_bytes(moment, page.holders), moment.total_bytes);

  ASSERT_EQ(page.steps.size(), 4U);
  ASSERT_EQ(page.moments.size(), 5U) << "the highest moment of each step, and the end";
  EXPECT_EQ(page.moments[0].total_bytes, 24 * kMiB);
  EXPECT_EQ(page.moments[3].total_bytes, 27 * kMiB);
  EXPECT_EQ(page.moments[4].total_bytes, 10 * kMiB);
}

TEST(PageHistory, LayoutOfThePeakHasItsBlocksAndHoles) {
  SyntheticRun run;
  run.record(train);
  const DevicePage page = only_device(run);

  EXPECT_FALSE(page.layout.is_refusal);
  EXPECT_EQ(page.layout.step, 3U);
  ASSERT_EQ(page.segments.size(), 2U);
  EXPECT_EQ(page.segments[0].blocks, 3U);
  EXPECT_EQ(page.segments[0].used_bytes, 48 * kMiB) << "as at the peak, although two of them are gone now";
  EXPECT_EQ(page.segments[0].largest_hole_bytes, 32 * kMiB);
  EXPECT_EQ(page.segments[1].blocks, 1U);
  EXPECT_EQ(page.blocks_outside, 0U);
}

TEST(PageHistory, LayoutOfTheLastRefusalIsThatMoments) {
  SyntheticRun run;
  run.record([] {
    ledger::segment(kBase, 100 * kMiB, line(1));
    ledger::block(kBase, 90 * kMiB, line(10));
    trace::block_freed(0, kBase);
    ledger::block(kBase, 20 * kMiB, line(11));
    ledger::block(kBase + 50 * kMiB, 20 * kMiB, line(12));
    ledger::no_room(80 * kMiB, 0, 100 * kMiB, line(13));
    trace::block_freed(0, kBase);
    ledger::raise_out_of_memory("80.00 MiB");
  });
  const DevicePage page = only_device(run, true);

  EXPECT_TRUE(page.layout.is_refusal);
  ASSERT_EQ(page.segments.size(), 1U);
  EXPECT_EQ(page.segments[0].blocks, 2U);
  EXPECT_EQ(page.segments[0].largest_hole_bytes, 30 * kMiB);
  EXPECT_EQ(page.capacity_bytes, 100 * kMiB);
  ASSERT_LT(page.refusal_moment, page.moments.size());
  EXPECT_EQ(page.moments[page.refusal_moment].total_bytes, 40 * kMiB);
  EXPECT_EQ(held_bytes(page.moments[page.refusal_moment], page.holders), 40 * kMiB);
}

TEST(PageHistory, MappingsSideBySideAreOneSegment) {
  SyntheticRun run;
  run.record([] {
    trace::driver_allocated(trace::DriverMemory::kReservation, 0, kBase, 0, kGiB, line(1));
    for (uint64_t page : {0, 1, 3}) {
      trace::driver_allocated(trace::DriverMemory::kPhysical, 0, 0, 0x100 + page, 2 * kMiB, line(1));
      trace::driver_allocated(trace::DriverMemory::kMapping, 0, kBase + page * 2 * kMiB, 0x100 + page, 2 * kMiB,
                              line(1));
    }
    ledger::block(kBase + kMiB, 2 * kMiB, line(5));
  });
  const DevicePage page = only_device(run);
  ASSERT_EQ(page.segments.size(), 2U);
  EXPECT_EQ(page.segments[0].segment.size_bytes, 4 * kMiB);
  EXPECT_EQ(page.segments[0].used_bytes, 2 * kMiB);
  EXPECT_EQ(page.segments[1].segment.size_bytes, 2 * kMiB);
}

TEST(PageHistory, DriverMemoryCountsWhereThereAreNoBlocks) {
  SyntheticRun run;
  run.record([] {
    ledger::segment(kBase, 3 * kMiB, line(1));
    ledger::segment(kBase + kGiB, 5 * kMiB, line(2));
    trace::driver_freed(trace::DriverMemory::kMalloc, 0, kBase, 0, 3 * kMiB, line(1));
  });
  const ledger::Report report = run.report();
  const DevicePage page = only_device(run);
  EXPECT_FALSE(page.has_blocks);
  EXPECT_EQ(page.peak_allocated_bytes, 8 * kMiB);
  EXPECT_EQ(page.peak_allocated_bytes, report.peak_allocated_bytes);
  ASSERT_EQ(page.moments.size(), 2U);
  EXPECT_EQ(page.moments[0].total_bytes, 8 * kMiB);
  EXPECT_EQ(page.moments[1].total_bytes, 5 * kMiB) << "at the end";
  EXPECT_EQ(page.segments.size(), 2U);
}

TEST(PageHistory, CurveOfManyEventsKeepsEveryMaximum) {
  MemoryCurve curve(16);
  uint64_t most = 0;
  for (uint64_t event = 0; event < 100'000; ++event) {
    const uint64_t allocated = (event * 2654435761U) % 1'000'003;
    most = std::max(most, allocated);
    curve.add({event, event, allocated, 2 * allocated, 0});
  }
  const std::vector<CurvePoint> points = curve.points();
  EXPECT_LE(points.size(), 16U * 5 + 1);
  EXPECT_EQ(points.back().event, 99'999U);
  uint64_t kept = 0;
  for (size_t index = 0; index < points.size(); ++index) {
    kept = std::max(kept, points[index].allocated_bytes);
    if (index > 0) {
      EXPECT_LT(points[index - 1].event, points[index].event);
    }
  }
  EXPECT_EQ(kept, most);
}

TEST(PageHistory, ManyWindowsBecomeFewMomentsWithTheHighestAmongThem) {
  HolderMoments moments(10);
  const uint32_t one = moments.add_holder(true, moments.add_group());
  const uint32_t two = moments.add_holder(true, moments.add_group());
  moments.add(two, 7, 1, 0);
  for (uint64_t window = 1; window <= 1000; ++window) {
    const uint64_t bytes = window == 333 ? 5000 : window;
    moments.add(one, bytes, 2 * window, 2 * window);
    moments.remove(one, bytes, 2 * window + 1);
    moments.close_window(static_cast<uint32_t>(window), 2 * window + 1, 2 * window + 1);
  }
  moments.finish(1001, 2002, 2002);
  EXPECT_LE(moments.moments().size(), 10U);
  const Moment* highest = &moments.moments().front();
  for (const Moment& moment : moments.moments())
    if (moment.total_bytes > highest->total_bytes) highest = &moment;
  EXPECT_EQ(highest->total_bytes, 5007U);
  EXPECT_EQ(highest->step, 333U);
  ASSERT_EQ(highest->held.size(), 2U);
  EXPECT_EQ(highest->held[one].bytes, 5000U);
  EXPECT_EQ(highest->held[two].bytes, 7U);
}

TEST(PageHistory, NothingOfTheProgramIsReadAsHtml) {
  SyntheticRun run;
  run.info().command = {"python", "</script><evil>\"'&.py"};
  run.record([] {
    const trace::LineId evil = trace::intern_line("/home/user/</script><pic src=x>\"\u00e9.py", 3, "<fun>");
    ledger::segment(kBase, 10 * kMiB, evil);
    ledger::block(kBase, kMiB, evil);
  });
  ledger::Report report = run.report();
  RunHistory history = read_run_history(run.path());
  const std::string page = render_page(report, history, {}, {"<lost>missing</lost>"});
  EXPECT_THAT(page, Not(HasSubstr("<pic")));
  EXPECT_THAT(page, Not(HasSubstr("<evil>")));
  EXPECT_THAT(page, Not(HasSubstr("<lost>")));
  EXPECT_THAT(page, Not(HasSubstr("<fun>")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;pic src=x&gt;&quot;\u00e9.py:3"));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cpic src=x>")) << "in the data";
}

TEST(PageHistory, ACutTraceGivesItsBeginningAndASentence) {
  SyntheticRun run;
  run.record(train);
  const std::string whole = run.trace();
  // The file is larger than its records: its writer did not close it.
  for (const uint64_t cut : {4096 + 600, 4096 + 300, 4096 + 100, 100, 0}) {
    std::filesystem::resize_file(whole, cut);
    const ledger::Report report = run.report();
    RunHistory history = read_run_history(run.path());
    const std::string page = render_page(report, history, {}, history.missing);
    EXPECT_THAT(page, HasSubstr("What is missing")) << "cut at " << cut;
  }
}

TEST(PageHistory, WithoutTracesThePageSaysSo) {
  SyntheticRun run;
  const ledger::Report report = run.report();
  RunHistory history = read_run_history(run.path());
  EXPECT_THAT(render_page(report, history, {}, history.missing),
              HasSubstr("No trace of this run tells of device memory"));
}

TEST(PageHistory, SettingsThatWereTriedHaveATable) {
  SyntheticRun run;
  run.record(train);
  const ledger::Report report = run.report();
  RunHistory history = read_run_history(run.path());
  ledger::TuneResult tried{.setting = "expandable_segments:True<",
                           .peak_reserved_bytes = 3 * kGiB,
                           .peak_allocated_bytes = 2 * kGiB,
                           .fragmentation = 0.25,
                           .retries = 0,
                           .driver_calls = 12,
                           .fits = true,
                           .margin_bytes = -512,
                           .is_pareto = true,
                           .is_confirmed = true};
  ledger::TuneResult unknown;
  unknown.setting = "unknown";
  const std::string page = render_page(report, history, {tried, unknown}, {});
  EXPECT_THAT(page, HasSubstr("<code>expandable_segments:True&lt;</code>"));
  EXPECT_THAT(page, HasSubstr(">25.0%<"));
  EXPECT_THAT(page, HasSubstr(">-512 B<"));
}

}  // namespace
}  // namespace drydock::page
