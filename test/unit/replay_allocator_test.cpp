#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replay/caching_allocator.h"
#include "replay/driver.h"
#include "replay/settings.h"
#include "replay_set_allocator.h"

namespace drydock::replay {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;
constexpr uint64_t kHeap = 2 * kMib;  // the first address that the simulated driver gives

Settings settings_of(const std::string& text, Policy policy = Policy::kNpu) {
  Settings settings;
  const Status status = parse_settings(text, policy, settings);
  EXPECT_TRUE(status.is_ok()) << text << ": " << status.message();
  return settings;
}

TEST(Rounding, AddsThePaddingOfTheChipBeforeItRounds) {
  const Settings npu = settings_of("");
  EXPECT_EQ(round_request(npu, 1), 512U);
  EXPECT_EQ(round_request(npu, 480), 512U);
  EXPECT_EQ(round_request(npu, 481), 1024U);
  EXPECT_EQ(round_request(npu, 512), 1024U);
  const Settings cuda = settings_of("", Policy::kCuda);
  EXPECT_EQ(round_request(cuda, 0), 512U);
  EXPECT_EQ(round_request(cuda, 512), 512U);
  EXPECT_EQ(round_request(cuda, 513), 1024U);
}

TEST(Rounding, DividesPowersOfTwo) {
  const Settings cuda = settings_of("roundup_power2_divisions:4", Policy::kCuda);
  EXPECT_EQ(round_request(cuda, 1200 * 512), 1280U * 512);
  EXPECT_EQ(round_request(cuda, 5 * kMib), 5 * kMib);
  EXPECT_EQ(round_request(cuda, 5 * kMib + 1), 6 * kMib);
  EXPECT_EQ(round_request(cuda, 2048), 2048U);  // up to 512 bytes for each division, plain rounding
  const Settings listed = settings_of("roundup_power2_divisions:[256:1,512:2,>:8]", Policy::kCuda);
  EXPECT_EQ(round_request(listed, 200 * kMib + 1), 200 * kMib + 512);
  EXPECT_EQ(round_request(listed, 600 * kMib), 768 * kMib);
  EXPECT_EQ(round_request(listed, 1100 * kMib), 1152 * kMib);
}

TEST(SettingsOfTheAllocator, AreRefusedAsTheClientRefusesThem) {
  Settings settings;
  for (const char* text :
       {"max_split_size_mb:19", "large_segment_size_mb:10", "garbage_collection_threshold:0",
        "garbage_collection_threshold:1", "roundup_power2_divisions:3", "page_size:2m", "segment_size_mb:19",
        "segment_size_mb:513", "base_addr_aligned_kb:17", "expandable_segments:true", "no_such_key:1",
        "max_split_size_mb", "expandable_segments:True,max_split_size_mb:64",
        "expandable_segments:True,garbage_collection_threshold:0.5", "large_segment_size_mb:64,max_split_size_mb:32",
        "max_split_size_mb:10,large_segment_size_mb:11", "max_non_split_rounding_mb:19",
        "max_non_split_rounding_mb:64,large_segment_size_mb:100", "per_process_memory_fraction:1.5"}) {
    const Status status = parse_settings(text, Policy::kNpu, settings);
    EXPECT_FALSE(status.is_ok()) << text;
    EXPECT_FALSE(status.message().empty()) << text;
  }
  for (const char* text :
       {"", "max_split_size_mb:20", "max_non_split_rounding_mb:20", "large_segment_size_mb:11", "segment_size_mb:20",
        "large_segment_size_mb:11,max_split_size_mb:12", "max_non_split_rounding_mb:15,large_segment_size_mb:11",
        "large_segment_size_mb:100", "base_addr_aligned_kb:0", "expandable_segments:True,segment_size_mb:64",
        "pinned_mem_register:True", "garbage_collection_threshold:0.8,max_split_size_mb:128",
        "roundup_power2_divisions:[256:1,>:4]"})
    EXPECT_TRUE(parse_settings(text, Policy::kNpu, settings).is_ok()) << text;
  ASSERT_TRUE(parse_settings("pinned_max_cached_size_mb:8", Policy::kNpu, settings).is_ok());
  EXPECT_EQ(settings.without_effect, std::vector<std::string>{"pinned_max_cached_size_mb"});
}

TEST(CachingAllocator, PacksSmallRequestsIntoSegmentsOfTwoMebibytes) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of(""), driver, 1, 1);
  const uint32_t first = allocator.allocate(1000, 0, 0);
  const uint32_t second = allocator.allocate(1, 0, 0);
  EXPECT_EQ(allocator.address(first), kHeap);
  EXPECT_EQ(allocator.bytes(first), 1536U);  // 1032 bytes in cells of 512
  EXPECT_EQ(allocator.address(second), kHeap + 1536);
  EXPECT_EQ(allocator.tally().reserved_bytes, 2 * kMib);
  allocator.free(first);
  // The smallest that fits is the hole, not the rest of the segment.
  EXPECT_EQ(allocator.address(allocator.allocate(1200, 0, 0)), kHeap);
}

TEST(CachingAllocator, SharesLargeSegmentsBelowTenMebibytesAndKeepsSmallRests) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of(""), driver, 1, 1);
  const uint32_t first = allocator.allocate(2 * kMib, 0, 0);
  EXPECT_EQ(allocator.bytes(first), 2 * kMib + 512);
  EXPECT_EQ(allocator.tally().reserved_bytes, 20 * kMib);
  const uint32_t large = allocator.allocate(11 * kMib, 0, 0);
  EXPECT_EQ(allocator.address(large), kHeap + 2 * kMib + 512);
  EXPECT_EQ(allocator.tally().reserved_bytes, 20 * kMib);
  // 11.0005 MiB come in a segment of 12 MiB, whose rest of less than 1 MiB stays with the block.
  const uint32_t alone = allocator.allocate(11 * kMib, 0, 0);
  EXPECT_EQ(allocator.address(alone), kHeap + 20 * kMib);
  EXPECT_EQ(allocator.bytes(alone), 12 * kMib);
}

TEST(CachingAllocator, NeverLendsABlockToAnotherStream) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of(""), driver, 2, 1);
  allocator.free(allocator.allocate(100, 0, 0));
  EXPECT_EQ(allocator.address(allocator.allocate(100, 1, 0)), kHeap + 2 * kMib);
}

TEST(CachingAllocator, KeepsABlockThatOtherStreamsUse) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of(""), driver, 2, 1);
  const uint32_t block = allocator.allocate(100, 0, 0);
  const uint64_t number = allocator.free_later(block);
  EXPECT_EQ(allocator.tally().allocated_bytes, 0U);
  EXPECT_EQ(allocator.address(allocator.allocate(100, 0, 0)), kHeap + 512);
  allocator.complete(number);
  allocator.complete(number);  // once only
  EXPECT_EQ(allocator.address(allocator.allocate(100, 0, 0)), kHeap);
}

TEST(CachingAllocator, GivesBackWhatIsCachedBeforeItFails) {
  SimulatedDriver driver(64 * kMib, 0);
  CachingAllocator allocator(settings_of(""), driver, 1, 1);
  const uint32_t large = allocator.allocate(40 * kMib, 0, 0);
  allocator.free(large);
  EXPECT_NE(allocator.allocate(50 * kMib, 0, 0), kNoBlock);
  EXPECT_EQ(allocator.tally().retries, 1U);
  EXPECT_EQ(allocator.allocate(50 * kMib, 0, 0), kNoBlock);
  EXPECT_EQ(allocator.tally().retries, 2U);
}

TEST(CachingAllocator, KeepsOversizeBlocksWhole) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of("max_split_size_mb:64"), driver, 1, 1);
  const uint32_t oversize = allocator.allocate(100 * kMib, 0, 0);
  EXPECT_EQ(allocator.bytes(oversize), 102 * kMib);
  allocator.free(oversize);
  // Too small for it, and too much smaller than it.
  EXPECT_EQ(allocator.address(allocator.allocate(30 * kMib, 0, 0)), kHeap + 102 * kMib);
  EXPECT_EQ(allocator.address(allocator.allocate(70 * kMib, 0, 0)), kHeap + 134 * kMib);
  EXPECT_EQ(allocator.address(allocator.allocate(90 * kMib, 0, 0)), kHeap);
}

TEST(CachingAllocator, CollectsOldSegmentsAboveTheThreshold) {
  SimulatedDriver driver(200 * kMib, 0);
  CachingAllocator allocator(settings_of("garbage_collection_threshold:0.5,per_process_memory_fraction:0.9"), driver, 1,
                             1);
  allocator.free(allocator.allocate(60 * kMib, 0, 0));
  const uint32_t held = allocator.allocate(80 * kMib, 0, 0);  // 62 MiB of 90: below
  EXPECT_EQ(allocator.tally().reserved_bytes, (62 + 82) * kMib);
  EXPECT_EQ(allocator.tally().collections, 0U);
  allocator.allocate(90 * kMib, 0, 0);
  EXPECT_EQ(allocator.tally().collections, 1U);
  EXPECT_EQ(allocator.tally().reserved_bytes, (82 + 92) * kMib);
  (void)held;
}

TEST(CachingAllocator, LooksForCompletedBlocksLateWithLazyReclaim) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of("multi_stream_lazy_reclaim:True"), driver, 2, 1);
  const uint32_t block = allocator.allocate(100, 0, 0);
  const uint64_t number = allocator.free_later(block, 2);
  allocator.complete(number);
  // A block is found without it, so nobody looks; a request that finds none does.
  EXPECT_EQ(allocator.address(allocator.allocate(100, 0, 0)), kHeap + 512);
  EXPECT_EQ(allocator.tally().reserved_bytes, 2 * kMib);
  allocator.allocate(3 * kMib, 0, 0);
  EXPECT_EQ(allocator.address(allocator.allocate(100, 0, 0)), kHeap);
}

TEST(CachingAllocator, LooksForCompletedBlocksFirstWhereLazyReclaimHasABacklog) {
  for (const uint64_t events : {512, 513}) {
    SimulatedDriver driver(kGib, 0);
    CachingAllocator allocator(settings_of("multi_stream_lazy_reclaim:True"), driver, 2, 1);
    allocator.complete(allocator.free_later(allocator.allocate(100, 0, 0), events));
    EXPECT_EQ(allocator.address(allocator.allocate(100, 0, 0)), events == 512 ? kHeap + 512 : kHeap);
  }
}

TEST(CachingAllocator, AgesWhatLazyReclaimFoundByOneSearchLess) {
  SimulatedDriver driver(400 * kMib, 0);
  for (const bool is_lazy : {false, true}) {
    CachingAllocator allocator(
        settings_of(std::string("garbage_collection_threshold:0.5,per_process_memory_fraction:0.9") +
                    (is_lazy ? ",multi_stream_lazy_reclaim:True" : "")),
        driver, 2, 1);
    const uint32_t first = allocator.allocate(60 * kMib, 0, 0);
    const uint32_t second = allocator.allocate(140 * kMib, 0, 0);
    const uint64_t number = allocator.free_later(first);
    allocator.free(second);
    allocator.complete(number);
    // Of the same age, both go; found between two searches, the first is younger than the mean.
    allocator.allocate(150 * kMib, 0, 0);
    EXPECT_EQ(allocator.tally().reserved_bytes, (is_lazy ? 62 + 152 : 152) * kMib);
    allocator.empty_cache();
  }
}

TEST(CachingAllocator, GrowsExpandableSegmentsByPieces) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of("expandable_segments:True,base_addr_aligned_kb:0"), driver, 1, 1);
  const uint32_t first = allocator.allocate(15 * kMib, 0, 0);
  EXPECT_EQ(allocator.tally().reserved_bytes, 20 * kMib);
  const uint32_t second = allocator.allocate(15 * kMib, 0, 0);
  EXPECT_EQ(allocator.address(second), allocator.address(first) + 15 * kMib + 512);
  EXPECT_EQ(allocator.tally().reserved_bytes, 40 * kMib);
  allocator.free(first);
  allocator.empty_cache();  // no whole piece is free at the front, one is not at the back
  EXPECT_EQ(allocator.tally().reserved_bytes, 40 * kMib);
  allocator.free(second);
  allocator.empty_cache();
  EXPECT_EQ(allocator.tally().reserved_bytes, 0U);
}

TEST(CachingAllocator, AlignsLargeBlocksOfExpandableSegments) {
  SimulatedDriver driver(kGib, 0);
  CachingAllocator allocator(settings_of("expandable_segments:True"), driver, 1, 1);
  const uint32_t first = allocator.allocate(3 * kMib, 0, 0);
  const uint32_t second = allocator.allocate(3 * kMib, 0, 0);
  EXPECT_EQ(allocator.address(second), allocator.address(first) + 3 * kMib + 16 * 1024);
}

// Random programs, against the plain allocator: the same addresses to the last one.
struct Fuzzed {
  const char* settings;
  Policy policy;
};

class RandomPrograms : public testing::TestWithParam<Fuzzed> {};

TEST_P(RandomPrograms, GetTheSameBlocksAsFromThePlainAllocator) {
  const Settings settings = settings_of(GetParam().settings, GetParam().policy);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t total = (64 + random() % 1500) * 2 * kMib;
    SimulatedDriver driver(total, 0);
    SimulatedDriver plain_driver(total, 0);
    CachingAllocator allocator(settings, driver, 3, 1);
    SetAllocator plain(settings, plain_driver);
    struct Held {
      uint32_t block;
      SetAllocator::Block* plain;
      uint64_t number = 0;
    };
    std::vector<Held> held;
    std::vector<Held> pending;
    uint64_t retries = 0;
    for (int step = 0; step < 1500; ++step) {
      const uint64_t dice = random() % 100;
      if (dice < 52) {
        const int bits = static_cast<int>(random() % 27);
        const uint64_t bytes = (uint64_t{1} << bits) + random() % (uint64_t{1} << bits);
        const auto stream = static_cast<uint32_t>(random() % 3);
        const uint32_t block = allocator.allocate(bytes, stream, 0);
        SetAllocator::Block* other = plain.allocate(bytes, stream);
        ASSERT_EQ(block == kNoBlock, other == nullptr) << "seed " << seed << " step " << step;
        // Before it gives up, an allocator waits for whatever is pending.
        if (allocator.tally().retries != retries) pending.clear();
        retries = allocator.tally().retries;
        if (block == kNoBlock) continue;
        ASSERT_EQ(allocator.address(block), other->address) << "seed " << seed << " step " << step;
        ASSERT_EQ(allocator.bytes(block), other->size) << "seed " << seed << " step " << step;
        held.push_back({block, other});
      } else if (dice < 94 && !held.empty()) {
        const size_t index = random() % held.size();
        Held one = held[index];
        held[index] = held.back();
        held.pop_back();
        if (dice < 86) {
          allocator.free(one.block);
          plain.free(one.plain);
        } else {
          one.number = allocator.free_later(one.block);
          plain.free_later(one.plain);
          pending.push_back(one);
        }
      } else if (dice < 99 && !pending.empty()) {
        allocator.complete(pending.front().number);
        plain.complete(pending.front().plain);
        pending.erase(pending.begin());
      } else if (dice == 99) {
        allocator.empty_cache();
        plain.release_cached();
        pending.clear();
      }
      ASSERT_EQ(allocator.tally().reserved_bytes, plain.reserved()) << "seed " << seed << " step " << step;
      ASSERT_EQ(driver.calls(), plain_driver.calls()) << "seed " << seed << " step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllSettings, RandomPrograms,
    testing::Values(Fuzzed{"", Policy::kNpu}, Fuzzed{"", Policy::kCuda},
                    Fuzzed{"expandable_segments:True", Policy::kNpu}, Fuzzed{"expandable_segments:True", Policy::kCuda},
                    Fuzzed{"expandable_segments:True,base_addr_aligned_kb:4", Policy::kNpu},
                    Fuzzed{"expandable_segments:True,segment_size_mb:64", Policy::kNpu},
                    Fuzzed{"expandable_segments:True,large_segment_size_mb:34", Policy::kNpu},
                    Fuzzed{"max_split_size_mb:40", Policy::kNpu},
                    Fuzzed{"max_split_size_mb:40,max_non_split_rounding_mb:64", Policy::kNpu},
                    Fuzzed{"max_split_size_mb:100,large_segment_size_mb:40", Policy::kCuda},
                    Fuzzed{"garbage_collection_threshold:0.4,per_process_memory_fraction:0.7", Policy::kNpu},
                    Fuzzed{"garbage_collection_threshold:0.6,per_process_memory_fraction:0.9,max_split_size_mb:30",
                           Policy::kNpu},
                    Fuzzed{"roundup_power2_divisions:4", Policy::kNpu},
                    Fuzzed{"roundup_power2_divisions:[1:8,64:2,>:1],expandable_segments:True", Policy::kNpu},
                    Fuzzed{"per_process_memory_fraction:0.5", Policy::kNpu},
                    Fuzzed{"throw_on_npumalloc_oom:True", Policy::kNpu},
                    Fuzzed{"multi_stream_lazy_reclaim:True", Policy::kNpu}));

}  // namespace
}  // namespace drydock::replay
