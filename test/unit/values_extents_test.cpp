#include <array>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "values/extents.h"

namespace drydock::values {
namespace {

// Far from any address another test uses.
constexpr uint64_t kBase = uint64_t{7} << 40;

class ExtentsTest : public ::testing::Test {
 protected:
  void TearDown() override { forget(kBase, uint64_t{1} << 32); }
};

TEST_F(ExtentsTest, UntouchedMemoryIsGhost) {
  EXPECT_EQ(knowledge_of(kBase, 1), Knowledge::kGhost);
  EXPECT_EQ(knowledge_of(kBase, 0), Knowledge::kKnown) << "an empty range has nothing unknown";
}

TEST_F(ExtentsTest, TheWorstByteDecides) {
  set_knowledge(kBase, 100, Knowledge::kKnown);
  set_knowledge(kBase + 100, 100, Knowledge::kAssumed);
  EXPECT_EQ(knowledge_of(kBase, 100), Knowledge::kKnown);
  EXPECT_EQ(knowledge_of(kBase + 50, 100), Knowledge::kAssumed);
  EXPECT_EQ(knowledge_of(kBase + 150, 51), Knowledge::kGhost);
}

TEST_F(ExtentsTest, NeighboursMerge) {
  const uint64_t before = extent_count();
  for (uint64_t part = 0; part < 64; ++part) set_knowledge(kBase + part * 512, 512, Knowledge::kKnown);
  EXPECT_EQ(extent_count(), before + 1);
  set_knowledge(kBase + 512, 512, Knowledge::kGhost);
  EXPECT_EQ(extent_count(), before + 2);
  EXPECT_EQ(knowledge_of(kBase, 512), Knowledge::kKnown);
  EXPECT_EQ(knowledge_of(kBase + 512, 1), Knowledge::kGhost);
  EXPECT_EQ(knowledge_of(kBase + 1024, 512), Knowledge::kKnown);
}

// Against a map of single bytes, with every mixture of overlaps.
TEST_F(ExtentsTest, EqualsAByteMapUnderRandomCalls) {
  constexpr uint64_t kBytes = 257;
  std::vector<Knowledge> bytes(kBytes, Knowledge::kGhost);
  std::mt19937 chance(17);
  const auto range = [&chance] {
    uint64_t begin = chance() % kBytes;
    uint64_t end = chance() % (kBytes + 1);
    if (begin > end) std::swap(begin, end);
    return std::pair(begin, end);
  };
  for (int round = 0; round < 20'000; ++round) {
    auto [begin, end] = range();
    if (round % 5 == 4) {
      const uint64_t size_bytes = std::min(end - begin, kBytes - begin);
      const uint64_t to = chance() % (kBytes - size_bytes + 1);
      std::vector<Knowledge> moved(bytes.begin() + static_cast<ptrdiff_t>(begin),
                                   bytes.begin() + static_cast<ptrdiff_t>(begin + size_bytes));
      std::copy(moved.begin(), moved.end(), bytes.begin() + static_cast<ptrdiff_t>(to));
      copy_knowledge(kBase + to, kBase + begin, size_bytes);
    } else {
      const auto knowledge = static_cast<Knowledge>(chance() % 3);
      std::fill(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(end), knowledge);
      set_knowledge(kBase + begin, end - begin, knowledge);
    }
    const auto [from, until] = range();
    Knowledge worst = Knowledge::kKnown;
    for (uint64_t at = from; at < until; ++at) worst = std::min(worst, bytes[at]);
    ASSERT_EQ(knowledge_of(kBase + from, until - from), worst) << "round " << round;
  }
}

TEST_F(ExtentsTest, GhostsReadAsOnesOfTheirTypeAndKnownBytesStay) {
  std::array<float, 4> host = {5, 6, 7, 8};
  set_knowledge(kBase, 4, Knowledge::kKnown);
  note_ghost(kBase, sizeof host, {DataType::kFloat, 1});
  EXPECT_EQ(fill_assumed(host.data(), kBase, sizeof host), 12U);
  EXPECT_EQ(host, (std::array<float, 4>{5, 1, 1, 1}));
}

TEST_F(ExtentsTest, GhostReadsAreFiniteForEveryFloatingType) {
  for (const DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
    uint16_t host = 0xffff;
    note_ghost(kBase, sizeof host, {dtype, default_reading(dtype)});
    fill_assumed(&host, kBase, sizeof host);
    EXPECT_EQ(host, dtype == DataType::kFloat16 ? 0x3C00 : 0x3F80);
  }
  double host = 0;
  note_ghost(kBase, sizeof host, {DataType::kDouble, default_reading(DataType::kDouble)});
  fill_assumed(&host, kBase, sizeof host);
  EXPECT_EQ(host, 1.0);
}

TEST_F(ExtentsTest, RowsMayAskForZeroOrOne) {
  float found_inf = 9;
  note_ghost(kBase, sizeof found_inf, {DataType::kFloat, 0});
  fill_assumed(&found_inf, kBase, sizeof found_inf);
  EXPECT_EQ(found_inf, 0.0F);
  uint8_t finite = 0;
  note_ghost(kBase, sizeof finite, {DataType::kBool, 1});
  fill_assumed(&finite, kBase, sizeof finite);
  EXPECT_EQ(finite, 1);
}

TEST_F(ExtentsTest, GhostIntegersReadAsZero) {
  int64_t host = -1;
  note_ghost(kBase, sizeof host, {DataType::kInt64, default_reading(DataType::kInt64)});
  EXPECT_EQ(fill_assumed(&host, kBase, sizeof host), sizeof host);
  EXPECT_EQ(host, 0);
}

TEST_F(ExtentsTest, AnElementFarInsideATensorReadsLikeTheTensor) {
  note_ghost(kBase, uint64_t{1} << 30, {DataType::kFloat, 1});
  float host = 0;
  fill_assumed(&host, kBase + (uint64_t{1} << 30) - 4, sizeof host);
  EXPECT_EQ(host, 1.0F);
}

TEST_F(ExtentsTest, AYoungerTensorReadsLikeItself) {
  for (uint64_t old = 0; old < 64; ++old) note_ghost(kBase + old * 512, 512, {DataType::kFloat, 1});
  note_ghost(kBase + 100, 10000, {DataType::kInt64, 0});
  EXPECT_EQ(ghost_reading(kBase + 99).dtype, DataType::kFloat);
  EXPECT_EQ(ghost_reading(kBase + 100).dtype, DataType::kInt64);
  EXPECT_EQ(ghost_reading(kBase + 10099).dtype, DataType::kInt64);
  EXPECT_EQ(ghost_reading(kBase + 10100).dtype, DataType::kFloat);
  forget(kBase, 20000);
  EXPECT_EQ(ghost_reading(kBase + 5000).dtype, DataType::kUndefined);
  EXPECT_EQ(ghost_reading(kBase + 20000).dtype, DataType::kFloat);
}

TEST_F(ExtentsTest, ACopyTakesTheReadingAlong) {
  note_ghost(kBase, 64, {DataType::kBFloat16, 0.5});
  copy_knowledge(kBase + 4096, kBase, 64);
  EXPECT_EQ(ghost_reading(kBase + 4100).value, 0.5);
}

TEST_F(ExtentsTest, AssumedBytesAreCountedButKept) {
  std::array<uint8_t, 2> host = {3, 4};
  set_knowledge(kBase, 2, Knowledge::kAssumed);
  EXPECT_EQ(fill_assumed(host.data(), kBase, 2), 2U);
  EXPECT_EQ(host, (std::array<uint8_t, 2>{3, 4}));
}

TEST_F(ExtentsTest, RealPartsAreVisitedInOrder) {
  set_knowledge(kBase + 10, 10, Knowledge::kKnown);
  set_knowledge(kBase + 30, 10, Knowledge::kAssumed);
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for_each_real_part(
      kBase, 35,
      [](void* context, uint64_t address, uint64_t size_bytes) {
        static_cast<decltype(parts)*>(context)->emplace_back(address - kBase, size_bytes);
      },
      &parts);
  EXPECT_EQ(parts, (std::vector<std::pair<uint64_t, uint64_t>>{{10, 10}, {30, 5}}));
}

}  // namespace
}  // namespace drydock::values
