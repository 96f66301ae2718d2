#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/copy.h"
#include "device/heap.h"
#include "values/extents.h"

namespace drydock {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using values::Knowledge;

constexpr size_t kMib = size_t{1} << 20;
enum Kind : int32_t { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kDefault, kBuffered, kInner, kInter };

[[maybe_unused]] const bool two_devices = [] {
  setenv("DRYDOCK_DEVICES", "2", 1);
  return true;
}();

std::vector<uint8_t> ramp(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  return bytes;
}

class CopyTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok()); }

  char* allocate(size_t size) {
    void* address = nullptr;
    const Status status = entries::aclrtMalloc(&address, size, 0);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return static_cast<char*>(address);
  }
  static void copy(void* to, const void* from, size_t size, int32_t kind) {
    const Status status = entries::aclrtMemcpy(to, size, from, size, kind);
    EXPECT_TRUE(status.is_ok()) << status.message();
  }
  static Knowledge knowledge(const char* address, size_t size) {
    return values::knowledge_of(reinterpret_cast<uint64_t>(address), size);
  }
  static std::vector<uint8_t> read(const char* address, size_t size) {
    std::vector<uint8_t> bytes(size, 0xEE);
    copy(bytes.data(), address, size, kDeviceToHost);
    return bytes;
  }
};

TEST_F(CopyTest, AllDirectionsMoveBytes) {
  // Contract E10: synchronous, from pageable memory, all four directions.
  const std::vector<uint8_t> bytes = ramp(1000);
  char* const one = allocate(1000);
  char* const two = allocate(1000);
  for (const int32_t to_device : {kHostToDevice, kDefault, kBuffered}) {
    for (const int32_t on_device : {kDeviceToDevice, kDefault, kInner, kInter}) {
      for (const int32_t to_host : {kDeviceToHost, kDefault}) {
        copy(one, bytes.data(), 1000, to_device);
        copy(two, one, 1000, on_device);
        std::vector<uint8_t> back(1000);
        copy(back.data(), two, 1000, to_host);
        EXPECT_EQ(back, bytes);
        ASSERT_TRUE(entries::aclrtMemset(one, 1000, 0, 1000).is_ok());
        ASSERT_TRUE(entries::aclrtMemset(two, 1000, 0, 1000).is_ok());
      }
    }
  }
  std::vector<uint8_t> other(1000);
  copy(other.data(), bytes.data(), 1000, kHostToHost);
  EXPECT_EQ(other, bytes);
}

TEST_F(CopyTest, BetweenDevices) {
  char* const here = allocate(100);
  ASSERT_TRUE(entries::aclrtSetDevice(1).is_ok());
  char* const there = allocate(100);
  EXPECT_EQ(device::device_of(here), 0);
  EXPECT_EQ(device::device_of(there), 1);
  const std::vector<uint8_t> bytes = ramp(100);
  copy(here, bytes.data(), 100, kHostToDevice);
  copy(there, here, 100, kDeviceToDevice);
  EXPECT_EQ(read(there, 100), bytes);
}

TEST_F(CopyTest, KnowledgeTravelsWithTheBytes) {
  char* const from = allocate(3 * kMib);
  char* const to = allocate(3 * kMib);
  const std::vector<uint8_t> bytes = ramp(64);
  EXPECT_EQ(knowledge(from, 64), Knowledge::kGhost);
  copy(from + 128, bytes.data(), 64, kHostToDevice);
  EXPECT_EQ(knowledge(from + 128, 64), Knowledge::kKnown);
  values::set_knowledge(reinterpret_cast<uint64_t>(from) + 192, 8, Knowledge::kAssumed);
  copy(to, from, 3 * kMib, kDeviceToDevice);
  EXPECT_EQ(knowledge(to + 128, 64), Knowledge::kKnown);
  EXPECT_EQ(knowledge(to + 192, 8), Knowledge::kAssumed);
  EXPECT_EQ(knowledge(to, 128), Knowledge::kGhost);
  EXPECT_EQ(read(to + 128, 64), bytes);
}

TEST_F(CopyTest, GhostsReadAsSomethingBenign) {
  char* const address = allocate(256);
  const std::vector<uint8_t> bytes = ramp(16);
  copy(address + 64, bytes.data(), 16, kHostToDevice);
  const std::vector<uint8_t> back = read(address, 256);
  EXPECT_EQ(std::vector<uint8_t>(back.begin() + 64, back.begin() + 80), bytes);
  EXPECT_NE(back[0], 0xEE);  // filled, not left as it was
  EXPECT_NE(back[255], 0xEE);
}

TEST_F(CopyTest, OverlappingRangesMoveRight) {
  const std::vector<uint8_t> bytes = ramp(200);
  char* const address = allocate(1000);
  copy(address, bytes.data(), 100, kHostToDevice);
  copy(address + 200, bytes.data() + 100, 100, kHostToDevice);  // and a gap of ghosts between
  // Either way a part would be written over before it was read, in the wrong order.
  copy(address + 150, address, 300, kDeviceToDevice);
  EXPECT_EQ(read(address + 150, 100), std::vector<uint8_t>(bytes.begin(), bytes.begin() + 100));
  EXPECT_EQ(read(address + 350, 100), std::vector<uint8_t>(bytes.begin() + 100, bytes.end()));
  EXPECT_EQ(knowledge(address + 250, 100), Knowledge::kGhost);
  copy(address, address + 150, 300, kDeviceToDevice);
  EXPECT_EQ(read(address, 100), std::vector<uint8_t>(bytes.begin(), bytes.begin() + 100));
  EXPECT_EQ(read(address + 200, 100), std::vector<uint8_t>(bytes.begin() + 100, bytes.end()));
}

TEST_F(CopyTest, FillsAreKnownUpToTheBudget) {
  char* const address = allocate(8 * kMib);
  ASSERT_TRUE(entries::aclrtMemset(address, kMib, 7, kMib).is_ok());
  EXPECT_EQ(knowledge(address, kMib), Knowledge::kKnown);
  EXPECT_THAT(read(address, 1000), Each(7));
  // A larger one would take pages for one byte's worth of value.
  ASSERT_TRUE(entries::aclrtMemset(address, 8 * kMib, 7, 8 * kMib).is_ok());
  EXPECT_EQ(knowledge(address, 1), Knowledge::kGhost);
  // Only the low byte of the value counts.
  ASSERT_TRUE(entries::aclrtMemset(address, 16, 0x1FF, 16).is_ok());
  EXPECT_THAT(read(address, 16), Each(0xFF));
}

TEST_F(CopyTest, ZeroFillsAreKnownHoweverLarge) {
  constexpr size_t kSize = size_t{20} << 30;
  char* const address = allocate(kSize);
  const std::vector<uint8_t> bytes = ramp(9000);
  copy(address, bytes.data(), 9000, kHostToDevice);
  copy(address + kMib * 3 - 10, bytes.data(), 9000, kHostToDevice);
  ASSERT_TRUE(entries::aclrtMemset(address + 5, kSize - 5, 0, kSize - 10).is_ok());
  EXPECT_EQ(knowledge(address, kSize - 5), Knowledge::kKnown);
  EXPECT_EQ(knowledge(address + kSize - 5, 5), Knowledge::kGhost);
  EXPECT_EQ(read(address, 5), std::vector<uint8_t>(bytes.begin(), bytes.begin() + 5));
  EXPECT_THAT(read(address + 5, 9000), Each(0));
  EXPECT_THAT(read(address + kMib * 3 - 10, 9000), Each(0));
  ASSERT_TRUE(entries::aclrtFree(address).is_ok());
}

TEST_F(CopyTest, WrongArgumentsGetSentences) {
  char* const address = allocate(1000);
  char host[64] = {};
  const auto fail = [&](void* to, size_t to_bytes, const void* from, size_t size, int32_t kind) {
    const Status status = entries::aclrtMemcpy(to, to_bytes, from, size, kind);
    EXPECT_FALSE(status.is_ok());
    return std::to_string(status.code()) + " " + status.message();
  };
  EXPECT_THAT(fail(nullptr, 4, host, 4, kHostToDevice), AllOf(HasSubstr("100000"), HasSubstr("destination is null")));
  EXPECT_THAT(fail(address, 4, nullptr, 4, kHostToDevice), AllOf(HasSubstr("100000"), HasSubstr("source is null")));
  EXPECT_THAT(fail(address, 3, host, 4, kHostToDevice), AllOf(HasSubstr("107000"), HasSubstr("do not fit")));
  EXPECT_THAT(fail(address, 4, host, 4, 8), HasSubstr("no kind of copy 8"));
  EXPECT_THAT(fail(address, 4, host, 4, -1), HasSubstr("no kind of copy -1"));
  EXPECT_THAT(fail(host, 4, host + 8, 4, kHostToDevice),
              AllOf(HasSubstr("destination is device memory"), HasSubstr("not device memory")));
  EXPECT_THAT(fail(host, 4, address, 4, kHostToHost), HasSubstr("source is host memory"));
  EXPECT_THAT(fail(address, 4, address + 8, 4, kHostToDevice), HasSubstr("source is host memory"));
  // Past the end: aclrtMalloc gave 1024 + 32 bytes.
  EXPECT_THAT(fail(address + 1040, 64, host, 17, kHostToDevice),
              AllOf(HasSubstr("not all allocated"), HasSubstr("byte 1040 of the allocation of 1056 bytes")));
  EXPECT_THAT(fail(address + 1056, 64, host, 1, kHostToDevice),
              HasSubstr("0 bytes behind the end of the allocation of 1056 bytes"));
  EXPECT_THAT(fail(address + 1900, 64, host, 1, kHostToDevice), HasSubstr("844 bytes behind the end"));
  ASSERT_TRUE(entries::aclrtFree(address).is_ok());
  EXPECT_THAT(fail(host, 4, address, 4, kDeviceToHost),
              AllOf(HasSubstr("107000"), HasSubstr("memory that was freed at"), HasSubstr("allocated at")));
  EXPECT_FALSE(entries::aclrtMemset(address, 4, 0, 4).is_ok());
  EXPECT_FALSE(entries::aclrtMemset(nullptr, 4, 0, 4).is_ok());
  EXPECT_THAT(entries::aclrtMemset(host, 3, 0, 4).message(), HasSubstr("do not fit"));
}

TEST_F(CopyTest, NothingToCopyIsNoFailure) {
  char* const address = allocate(10);
  char host[4];
  EXPECT_TRUE(entries::aclrtMemcpy(address, 0, host, 0, kHostToDevice).is_ok());
}

TEST_F(CopyTest, PinnedMemoryMayStandWhereDeviceMemoryIsAskedFor) {
  void* pinned = nullptr;
  ASSERT_TRUE(entries::aclrtMallocHost(&pinned, 100).is_ok());
  const std::vector<uint8_t> bytes = ramp(100);
  copy(pinned, bytes.data(), 100, kHostToDevice);
  EXPECT_EQ(std::memcmp(pinned, bytes.data(), 100), 0);
  ASSERT_TRUE(entries::aclrtMemset(pinned, 100, 9, 100).is_ok());
  EXPECT_EQ(static_cast<uint8_t*>(pinned)[99], 9);
  EXPECT_TRUE(entries::aclrtFreeHost(pinned).is_ok());
}

TEST_F(CopyTest, AsynchronousCopiesRunInTheStreamsOrder) {
  void* stream = nullptr;
  ASSERT_TRUE(entries::aclrtCreateStream(&stream).is_ok());
  char* const address = allocate(100);
  const std::vector<uint8_t> bytes = ramp(100);
  std::vector<uint8_t> back(100);
  ASSERT_TRUE(entries::aclrtMemcpyAsync(address, 100, bytes.data(), 100, kHostToDevice, stream).is_ok());
  ASSERT_TRUE(entries::aclrtMemsetAsync(address, 50, 3, 50, stream).is_ok());
  ASSERT_TRUE(entries::aclrtMemcpyAsyncWithCondition(back.data(), 100, address, 100, kDeviceToHost, stream).is_ok());
  ASSERT_TRUE(entries::aclrtSynchronizeStream(stream).is_ok());
  EXPECT_EQ(back[49], 3);
  EXPECT_EQ(back[50], bytes[50]);
  EXPECT_EQ(entries::aclrtMemcpyAsync(address, 100, nullptr, 100, kHostToDevice, stream).code(),
            code::ACL_ERROR_INVALID_PARAM);
  int not_a_stream = 0;
  EXPECT_FALSE(entries::aclrtMemcpyAsync(address, 100, bytes.data(), 100, kHostToDevice, &not_a_stream).is_ok());
  ASSERT_TRUE(entries::aclrtDestroyStream(stream).is_ok());
}

// A stream whose first work is a host function that waits: what comes behind it is kept.
class HeldStream {
 public:
  HeldStream() {
    EXPECT_TRUE(entries::aclrtCreateStream(&stream_).is_ok());
    EXPECT_TRUE(entries::aclrtLaunchHostFunc(
                    stream_, [](void* self) { static_cast<HeldStream*>(self)->released_.wait(false); }, this)
                    .is_ok());
  }
  ~HeldStream() {
    release();
    EXPECT_TRUE(entries::aclrtDestroyStreamForce(stream_).is_ok());
  }
  void* handle() const { return stream_; }
  Status finish() {
    release();
    return entries::aclrtSynchronizeStream(stream_);
  }

 private:
  void release() {
    released_.store(true);
    released_.notify_all();
  }
  void* stream_ = nullptr;
  std::atomic<bool> released_{false};
};

TEST_F(CopyTest, HostBytesAreReadInStreamOrder) {
  // Contract E9; only the buffered kind takes them when the call is made.
  char* const late = allocate(8);
  char* const early = allocate(8);
  HeldStream stream;
  char host[8] = "before.";
  ASSERT_TRUE(entries::aclrtMemcpyAsync(late, 8, host, 8, kHostToDevice, stream.handle()).is_ok());
  ASSERT_TRUE(entries::aclrtMemcpyAsync(early, 8, host, 8, kBuffered, stream.handle()).is_ok());
  std::memcpy(host, "after..", 8);
  ASSERT_TRUE(stream.finish().is_ok());
  EXPECT_EQ(std::memcmp(device::host_address(late), "after..", 8), 0);
  EXPECT_EQ(std::memcmp(device::host_address(early), "before.", 8), 0);
}

TEST_F(CopyTest, MemoryFreedBeforeTheStreamGotThereIsTheStreamsFailure) {
  char* const address = allocate(8);
  HeldStream stream;
  char host[8] = {};
  ASSERT_TRUE(entries::aclrtMemcpyAsync(address, 8, host, 8, kHostToDevice, stream.handle()).is_ok());
  ASSERT_TRUE(entries::aclrtFree(address).is_ok());
  const Status status = stream.finish();
  EXPECT_FALSE(status.is_ok());
  EXPECT_THAT(status.message(), AllOf(HasSubstr("went away"), HasSubstr("freed at")));
}

struct Location {
  uint32_t to_id;
  int32_t to_type;
  uint32_t from_id;
  int32_t from_type;
  uint8_t reserved[16];
};
static_assert(sizeof(Location) == 32);

TEST_F(CopyTest, BatchesCopyAllOrSayWhichIsWrong) {
  const std::vector<uint8_t> bytes = ramp(30);
  char* const address = allocate(30);
  copy(address + 20, bytes.data() + 20, 10, kHostToDevice);
  std::vector<uint8_t> back(10);
  void* to[] = {address, address + 10, back.data()};
  void* from[] = {const_cast<uint8_t*>(bytes.data()), const_cast<uint8_t*>(bytes.data()) + 10, address + 20};
  size_t sizes[] = {10, 10, 10};
  Location locations[] = {{0, 1, 0, 0, {}}, {0, 0, 0, 1, {}}};
  size_t begins[] = {0, 2};
  size_t failed = 0;
  ASSERT_TRUE(entries::aclrtMemcpyBatch(to, sizes, from, sizes, 3, locations, begins, 2, &failed).is_ok());
  EXPECT_EQ(failed, SIZE_MAX);
  EXPECT_EQ(read(address, 20), std::vector<uint8_t>(bytes.begin(), bytes.begin() + 20));
  EXPECT_EQ(back, std::vector<uint8_t>(bytes.begin() + 20, bytes.end()));

  ASSERT_TRUE(entries::aclrtMemset(address, 30, 0, 30).is_ok());
  void* wrong[] = {address, nullptr, back.data()};
  EXPECT_FALSE(
      entries::aclrtMemcpyBatchAsync(wrong, sizes, from, sizes, 3, locations, begins, 2, &failed, nullptr).is_ok());
  EXPECT_EQ(failed, 1U);
  EXPECT_THAT(read(address, 10), Each(0));  // nothing was begun
  EXPECT_FALSE(entries::aclrtMemcpyBatch(to, sizes, from, sizes, 0, locations, begins, 1, &failed).is_ok());
  EXPECT_FALSE(entries::aclrtMemcpyBatch(to, sizes, from, sizes, 3, locations, begins, 4, &failed).is_ok());
  EXPECT_FALSE(entries::aclrtMemcpyBatch(to, sizes, from, sizes, 3, nullptr, begins, 2, &failed).is_ok());
  EXPECT_FALSE(entries::aclrtMemcpyBatch(to, sizes, from, sizes, 3, locations, begins, 2, nullptr).is_ok());
}

TEST_F(CopyTest, CopiesAndFreesFromManyThreadsNeverCrash) {
  std::atomic<bool> stop{false};
  std::atomic<char*> shared{allocate(4 * kMib)};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
      std::vector<uint8_t> bytes(100'000);
      while (!stop) {
        // The memory may be gone: then the copy says so.
        char* const address = shared + static_cast<size_t>(t) * kMib;
        (void)entries::aclrtMemcpy(address, bytes.size(), bytes.data(), bytes.size(), kHostToDevice);
        (void)entries::aclrtMemcpy(bytes.data(), bytes.size(), address, bytes.size(), kDeviceToHost);
      }
    });
  }
  for (int i = 0; i < 500; ++i) {
    char* const old = shared;
    ASSERT_TRUE(entries::aclrtFree(old).is_ok());
    shared = allocate(4 * kMib);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace drydock
