#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ledger_synthetic_run.h"
#include "watch/chart.h"
#include "watch/npu_smi_table.h"
#include "watch/run_follower.h"

namespace drydock::watch {
namespace {

using testing::HasSubstr;

NpuSmiTable read(const std::string& name) {
  std::ifstream file(std::string(DRYDOCK_TEST_DATA) + "/npu_smi/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  NpuSmiTable table;
  const Status status = parse_npu_smi(text.str(), table);
  EXPECT_TRUE(status.is_ok()) << name << ": " << status.message();
  return table;
}

using Row = std::tuple<int, int, int, std::string, std::string, int, uint64_t, uint64_t>;

std::vector<Row> rows_of(const NpuSmiTable& table) {
  std::vector<Row> rows;
  for (const NpuSmiChip& chip : table.chips)
    rows.emplace_back(chip.npu, chip.chip, chip.physical, chip.name, chip.health, chip.aicore_percent, chip.hbm_used_mb,
                      chip.hbm_total_mb);
  return rows;
}

TEST(NpuSmiTable, IsReadInTheLayoutsOfAllVersions) {
  const NpuSmiTable a = read("910a-23.0.txt");
  EXPECT_EQ(a.version, "23.0.rc2");
  EXPECT_EQ(rows_of(a), (std::vector<Row>{{3, 0, -1, "910A", "OK", 7, 1200, 32768}}));
  EXPECT_EQ(a.chips[0].memory_used_mb, 2301U);
  EXPECT_EQ(a.chips[0].memory_total_mb, 15039U);
  const NpuSmiTable b = read("910b-24.1.txt");
  EXPECT_EQ(b.version, "24.1.rc3");
  EXPECT_EQ(rows_of(b), (std::vector<Row>{{0, 0, -1, "910B3", "OK", 0, 4153, 65536},
                                          {5, 0, -1, "910B3", "Warning", 88, 60123, 65536}}));
  const NpuSmiTable c = read("910c-25.2.txt");
  EXPECT_EQ(c.version, "25.2.0");
  EXPECT_EQ(rows_of(c), (std::vector<Row>{{0, 0, 0, "Ascend910", "OK", 0, 3132, 65536},
                                          {0, 1, 1, "Ascend910", "OK", 12, 2880, 65536},
                                          {1, 0, 2, "Ascend910", "OK", 0, 3133, 65536},
                                          {1, 1, 3, "Ascend910", "Alarm", 0, 2879, 65536}}));
  const NpuSmiTable wide = read("910c-26.0.txt");
  EXPECT_EQ(wide.version, "26.0.rc2");
  EXPECT_EQ(rows_of(wide), (std::vector<Row>{{7, 0, 14, "Ascend910", "OK", 0, 3419, 65536},
                                             {7, 1, 15, "Ascend910", "OK", 95, 31877, 65536}}));
}

TEST(NpuSmiTable, OtherTextsAreRefusedAndCutOnesGiveNoHalfChip) {
  NpuSmiTable table;
  EXPECT_THAT(parse_npu_smi("", table).message(), HasSubstr("no table"));
  EXPECT_THAT(
      parse_npu_smi("dcmi model initialized failed, because the device is used. ret is -8020\n", table).message(),
      HasSubstr("not what npu-smi info prints"));
  std::ifstream file(std::string(DRYDOCK_TEST_DATA) + "/npu_smi/910c-25.2.txt");
  std::ostringstream text;
  text << file.rdbuf();
  for (size_t length = 0; length < text.str().size(); ++length) {
    const Status status = parse_npu_smi(text.str().substr(0, length), table);
    EXPECT_TRUE(status.is_ok() || !status.message().empty());
    for (const NpuSmiChip& chip : table.chips) ASSERT_EQ(chip.hbm_total_mb, 65536U) << length;
  }
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(Chart, FillsDrawsALineAndALimit) {
  const Chart chart{.width = 20, .height = 4, .use_braille = false, .limit_bytes = 8 << 20};
  ASSERT_EQ(chart_points(chart), 16);
  std::vector<ChartPoint> points(16);
  for (size_t index = 8; index < 16; ++index) points[index] = {4 << 20, 6 << 20};
  EXPECT_EQ(joined(draw_chart(chart, points)),
            "  8.00 MiB |. . . . \n"
            "           |    ----\n"
            "  4.00 MiB |    ####\n"
            "       0 B |    ####\n");
  const std::vector<std::string> dots = draw_chart({.width = 20, .height = 4, .limit_bytes = 8 << 20}, points);
  EXPECT_THAT(dots[3], HasSubstr("⣿⣿⣿⣿"));
  EXPECT_THAT(draw_chart({.width = 1, .height = 0}, {}).size(), 1U);  // too small to show anything: nothing breaks
}

TEST(Curve, KeepsTheHighestOfEachStretchWhateverItsLength) {
  Curve curve;
  for (uint64_t second = 0; second < 100'000; ++second)
    curve.add(second * 1'000'000'000, {.allocated = second == 70'000 ? 99 : second % 7});
  EXPECT_EQ(curve.highest(0, 100'000'000'000'000).allocated, 99U);
  EXPECT_EQ(curve.highest(0, 60'000'000'000'000).allocated, 6U);
  EXPECT_EQ(curve.highest(200'000'000'000'000, 300'000'000'000'000).allocated, 99'999U % 7);
}

TEST(RunFollower, GoesOnWhereATraceHadEnded) {
  ledger::SyntheticRun run;
  run.record([] {
    ledger::segment(ledger::kBase, 20 * ledger::kMiB, ledger::line(1));
    ledger::block(ledger::kBase, 4 * ledger::kMiB, ledger::line(2));
    trace::step_ended();
    ledger::block(ledger::kBase + 8 * ledger::kMiB, 2 * ledger::kMiB, ledger::line(2));
    trace::block_freed(0, ledger::kBase);
  });
  run.write_info();
  // The same file, as it was when its process had written less: the rest is zeros.
  const std::string whole = run.trace();
  std::ifstream file(whole, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::unique_ptr<trace::Reader> reader;
  ASSERT_TRUE(trace::Reader::open(whole, reader).is_ok());
  std::vector<uint64_t> ends;
  trace::Record record;
  while (reader->next(record)) ends.push_back(record.position);
  ends.push_back(bytes.size());
  const std::string path = testing::TempDir() + "/drydock-growing.ddtrace";
  { std::ofstream(path, std::ios::binary) << bytes.substr(0, 4096) << std::string(1 << 16, '\0'); }
  RunFollower follower(path);
  ASSERT_TRUE(follower.poll().is_ok());
  EXPECT_TRUE(follower.devices().empty());
  uint64_t highest = 0;
  for (const uint64_t end : ends) {
    std::fstream growing(path, std::ios::binary | std::ios::in | std::ios::out);
    growing.write(bytes.data(), static_cast<std::streamsize>(end));
    growing.close();
    ASSERT_TRUE(follower.poll().is_ok());
    if (!follower.devices().empty()) highest = std::max(highest, follower.now(0, false).allocated);
  }
  EXPECT_EQ(highest, 6 * ledger::kMiB);
  EXPECT_EQ(follower.now(0, false).allocated, 2 * ledger::kMiB);
  EXPECT_EQ(follower.now(0, false).reserved, 20 * ledger::kMiB);
  EXPECT_EQ(follower.now(0, true).allocated, 0U);  // its process has ended
  EXPECT_EQ(follower.highest(0, 0, follower.last_ns() + 1).allocated, 6 * ledger::kMiB);
  EXPECT_EQ(follower.steps(), 1U);
  std::filesystem::remove(path);
}

TEST(RunFollower, SaysWhatItCannotRead) {
  RunFollower nowhere("/no/such/run");
  EXPECT_THAT(nowhere.poll().message(), HasSubstr("There is no run"));
  ledger::SyntheticRun empty;
  empty.write_info();
  RunFollower follower(empty.path());
  EXPECT_TRUE(follower.poll().is_ok());
  EXPECT_TRUE(follower.has_ended());
  EXPECT_TRUE(follower.devices().empty());
}

}  // namespace
}  // namespace drydock::watch
