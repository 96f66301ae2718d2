#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "races/access_history.h"
#include "races/footprint.h"
#include "races/vector_clock.h"

// The stream check's parts: clocks, footprints of strided views, and the store of accesses.

namespace drydock::races {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kBase = uint64_t{1} << 45;

Footprint matrix(uint64_t begin, std::array<int64_t, 2> sizes, std::array<int64_t, 2> strides) {
  return footprint_of(begin, 4, sizes.data(), strides.data(), 2);
}

TEST(VectorClock, joins_the_higher_of_each_entry) {
  VectorClock left, right;
  left.raise(0, 5);
  left.raise(2, 1);
  right.raise(0, 3);
  right.raise(3, 7);
  EXPECT_TRUE(left.join(right));
  EXPECT_THAT((std::array{left.at(0), left.at(1), left.at(2), left.at(3), left.at(9)}), ElementsAre(5, 0, 1, 7, 0));
  EXPECT_FALSE(left.join(right));
  EXPECT_TRUE(left.covers(3, 7));
  EXPECT_FALSE(left.covers(3, 8));
  EXPECT_EQ(left.advance(3), 8U);
}

TEST(Footprint, folds_what_leaves_no_gaps) {
  EXPECT_TRUE(matrix(kBase, {8, 16}, {16, 1}).is_dense());
  EXPECT_TRUE(matrix(kBase, {16, 8}, {1, 16}).is_dense());  // transposed
  EXPECT_TRUE(matrix(kBase, {8, 16}, {0, 1}).is_dense());   // expanded
  EXPECT_TRUE(matrix(kBase, {8, 16}, {4, 1}).is_dense());   // windows that overlap
  const Footprint columns = matrix(kBase, {8, 4}, {16, 1});
  EXPECT_FALSE(columns.is_dense());
  EXPECT_EQ(columns.run_bytes, 16U);
  EXPECT_EQ(columns.end - columns.begin, (7 * 16 + 4) * 4U);
}

TEST(Footprint, overlap_is_that_of_the_bytes) {
  const Footprint left = matrix(kBase, {8, 8}, {16, 1});
  EXPECT_FALSE(overlap(left, matrix(kBase + 32, {8, 8}, {16, 1})));  // the other columns
  EXPECT_TRUE(overlap(left, matrix(kBase + 28, {8, 8}, {16, 1})));
  EXPECT_FALSE(overlap(matrix(kBase, {4, 16}, {32, 1}), matrix(kBase + 64, {4, 16}, {32, 1})));  // even and odd rows
  EXPECT_TRUE(overlap(left, Footprint::dense(kBase + 60, kBase + 65)));
  EXPECT_FALSE(overlap(left, Footprint::dense(kBase + 32, kBase + 64)));
}

TEST(Footprint, overlap_agrees_with_the_bytes_one_by_one) {
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  const auto any = [&] {
    const std::array<int64_t, 3> sizes = {pick(1, 4), pick(1, 4), pick(1, 5)};
    const std::array<int64_t, 3> strides = {pick(0, 40), pick(1, 12), pick(1, 3)};
    return std::tuple(static_cast<uint64_t>(pick(0, 60)), sizes, strides);
  };
  const auto bytes_of = [](const auto& view) {
    const auto& [begin, sizes, strides] = view;
    std::vector<bool> bytes(1024);
    for (int64_t i = 0; i < sizes[0]; ++i)
      for (int64_t j = 0; j < sizes[1]; ++j)
        for (int64_t k = 0; k < sizes[2]; ++k)
          for (int64_t byte = 0; byte < 2; ++byte)
            bytes[begin + static_cast<uint64_t>((i * strides[0] + j * strides[1] + k * strides[2]) * 2 + byte)] = true;
    return bytes;
  };
  for (int round = 0; round < 20000; ++round) {
    const auto left = any(), right = any();
    const auto left_bytes = bytes_of(left), right_bytes = bytes_of(right);
    bool expected = false;
    for (size_t byte = 0; byte < left_bytes.size(); ++byte) expected |= left_bytes[byte] && right_bytes[byte];
    const auto footprint = [](const auto& view) {
      return footprint_of(std::get<0>(view), 2, std::get<1>(view).data(), std::get<2>(view).data(), 3);
    };
    ASSERT_EQ(overlap(footprint(left), footprint(right)), expected) << "round " << round;
    ASSERT_EQ(overlap(footprint(right), footprint(left)), expected) << "round " << round;
  }
}

/// Streams 1 and 2 that know nothing of each other, unless a test says so.
class AccessHistoryTest : public testing::Test {
 protected:
  std::vector<Conflict> touch(uint32_t stream, bool writes, const Footprint& footprint, uint32_t line = 1) {
    std::vector<Conflict> conflicts;
    Access access;
    access.stream = stream;
    access.tick = clocks_[stream].advance(stream);
    access.writes = writes;
    access.site.line = line;
    access.site.stream_id = stream;
    history_.add(access, footprint, clocks_[stream], everyone_, conflicts);
    return conflicts;
  }
  static Footprint bytes(uint64_t begin, uint64_t end) { return Footprint::dense(kBase + begin, kBase + end); }

  AccessHistory history_;
  std::array<VectorClock, 4> clocks_;
  VectorClock everyone_;
};

TEST_F(AccessHistoryTest, reads_never_conflict) {
  EXPECT_THAT(touch(1, false, bytes(0, 100)), IsEmpty());
  EXPECT_THAT(touch(2, false, bytes(0, 100)), IsEmpty());
  EXPECT_THAT(touch(3, true, bytes(0, 100)), SizeIs(2));
}

TEST_F(AccessHistoryTest, a_wait_orders) {
  touch(1, true, bytes(0, 100));
  clocks_[2].join(clocks_[1]);
  EXPECT_THAT(touch(2, false, bytes(0, 100)), IsEmpty());
  touch(1, true, bytes(200, 300));
  EXPECT_THAT(touch(2, false, bytes(200, 300)), SizeIs(1));
}

TEST_F(AccessHistoryTest, only_bytes_in_common_count) {
  touch(1, true, bytes(0, 100), 11);
  touch(1, true, bytes(100, 200), 12);
  EXPECT_THAT(touch(2, false, bytes(200, 300)), IsEmpty());
  const std::vector<Conflict> found = touch(2, false, bytes(90, 110));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].earlier.site.line, 11U);
  EXPECT_EQ(found[0].begin, kBase + 90);
  EXPECT_EQ(found[0].end, kBase + 100);
  EXPECT_EQ(found[1].earlier.site.line, 12U);
}

TEST_F(AccessHistoryTest, one_place_is_told_once_however_many_pieces_it_is_in) {
  touch(1, true, bytes(0, 100));
  for (uint64_t piece = 0; piece < 10; ++piece) touch(1, false, bytes(piece * 10, piece * 10 + 5), 2);
  const std::vector<Conflict> found = touch(2, true, bytes(0, 100));
  EXPECT_THAT(found, SizeIs(2));  // the write, and the place that reads
}

TEST_F(AccessHistoryTest, a_write_joins_what_views_had_cut) {
  for (uint64_t piece = 0; piece < 100; ++piece) touch(1, true, bytes(piece * 10, piece * 10 + 10));
  EXPECT_EQ(history_.size(), 100U);
  touch(1, true, bytes(0, 1000));
  EXPECT_EQ(history_.size(), 1U);
  EXPECT_THAT(touch(2, true, bytes(500, 501)), SizeIs(1));
}

TEST_F(AccessHistoryTest, strided_views_conflict_only_where_they_meet) {
  touch(1, true, matrix(kBase, {8, 8}, {16, 1}));
  EXPECT_THAT(touch(2, true, matrix(kBase + 32, {8, 8}, {16, 1})), IsEmpty());
  EXPECT_THAT(touch(3, false, matrix(kBase, {8, 16}, {16, 1})), SizeIs(2));
}

TEST_F(AccessHistoryTest, what_everyone_knows_to_be_over_is_dropped) {
  touch(1, true, bytes(0, 100));
  everyone_.join(clocks_[1]);
  EXPECT_THAT(touch(2, true, bytes(0, 100)), IsEmpty());
}

TEST_F(AccessHistoryTest, a_new_life_keeps_what_is_not_over) {
  touch(1, true, bytes(0, 100));
  const VectorClock over = clocks_[1];
  touch(2, false, bytes(0, 50));
  history_.give_back(kBase, kBase + 100, 77);
  history_.forget(kBase, kBase + 100, over);
  const std::vector<Conflict> found = touch(3, true, bytes(0, 100));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].earlier.stream, 2U);
  EXPECT_TRUE(found[0].earlier.is_over);
  EXPECT_EQ(found[0].earlier.freed_line, 77U);
  EXPECT_EQ(found[0].end, kBase + 50);
}

TEST_F(AccessHistoryTest, memory_that_the_driver_took_back_is_forgotten) {
  touch(1, true, bytes(0, 100));
  history_.forget(kBase + 20, kBase + 80);
  EXPECT_THAT(touch(2, true, bytes(20, 80)), IsEmpty());
  EXPECT_THAT(touch(3, true, bytes(0, 20)), SizeIs(1));
}

// The store against one that keeps every access of every byte, on random accesses and waits.
TEST_F(AccessHistoryTest, agrees_with_a_store_of_single_bytes) {
  constexpr uint64_t kBytes = 64;
  struct Touch {
    uint32_t stream;
    uint64_t tick;
    bool writes;
  };
  std::mt19937 random(3);
  const auto pick = [&](uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    history_ = AccessHistory();
    clocks_ = {};
    std::array<std::vector<Touch>, kBytes> all;
    bool raced = false;
    for (int step = 0; step < 40 && !raced; ++step) {
      const auto stream = static_cast<uint32_t>(pick(1, 3));
      if (pick(0, 1) == 0) clocks_[stream].join(clocks_[pick(1, 3)]);
      if (pick(0, 3) == 0)
        for (uint32_t other = 1; other <= 3; ++other) clocks_[stream].join(clocks_[other]);
      const uint64_t begin = pick(0, kBytes - 1);
      const uint64_t end = pick(begin + 1, kBytes);
      const bool writes = pick(0, 2) == 0;
      bool expected = false;
      for (uint64_t byte = begin; byte < end; ++byte)
        for (const Touch& earlier : all[byte])
          expected |= (earlier.writes || writes) && !clocks_[stream].covers(earlier.stream, earlier.tick);
      const bool found = !touch(stream, writes, bytes(begin, end)).empty();
      ASSERT_EQ(found, expected) << "round " << round << " step " << step;
      raced = found;  // what was told is dropped from the store: from here on the two differ
      for (uint64_t byte = begin; byte < end; ++byte) all[byte].push_back({stream, clocks_[stream].at(stream), writes});
    }
  }
}

}  // namespace
}  // namespace drydock::races
