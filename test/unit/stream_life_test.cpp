#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "stream_gate.h"

namespace drydock::device {
namespace {

using std::chrono::milliseconds;

class StreamLife : public StreamTest {};

TEST_F(StreamLife, IdsAreUniqueAndNeverUsedAgain) {
  std::set<uint32_t> ids;
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> handles;
    for (int count = 0; count < 70; ++count) {  // torch_npu makes 66 on a device
      Stream& stream = make_stream();
      EXPECT_TRUE(ids.insert(stream.id()).second);
      handles.push_back(stream.handle());
    }
    for (void* handle : handles) ASSERT_TRUE(destroy_stream("test", handle, false).is_ok());
  }
  EXPECT_EQ(ids.size(), 210U);
}

TEST_F(StreamLife, ADeviceHasSoManyStreamsAndNoMore) {
  std::vector<void*> handles;
  Stream* stream = nullptr;
  Status status = Status::ok();
  while ((status = create_stream("test", 0, 0, stream)).is_ok()) handles.push_back(stream->handle());
  EXPECT_EQ(status.code(), 207008);
  EXPECT_EQ(stream_count(0), kMaxStreamsPerDevice);
  ASSERT_TRUE(destroy_stream("test", handles.back(), true).is_ok());
  EXPECT_TRUE(create_stream("test", 0, 0, stream).is_ok());
}

TEST_F(StreamLife, ForcedDestructionDropsWhatIsPending) {
  Stream& stream = make_stream();
  Gate gate;
  std::atomic<bool> ran{false};
  close(stream, gate);
  ASSERT_TRUE(stream
                  .submit([&] {
                    ran = true;
                    return Status::ok();
                  })
                  .is_ok());
  std::thread waiting([&] { EXPECT_TRUE(stream.synchronize(10'000).is_ok()); });
  ASSERT_TRUE(destroy_stream("test", stream.handle(), true).is_ok());
  waiting.join();
  gate.open();
  EXPECT_FALSE(ran);
}

TEST_F(StreamLife, DestructionWaitsForTheWork) {
  Stream& stream = make_stream();
  Gate gate;
  std::atomic<bool> ran{false};
  close(stream, gate);
  ASSERT_TRUE(stream
                  .submit([&] {
                    ran = true;
                    return Status::ok();
                  })
                  .is_ok());
  std::thread opener([&] {
    std::this_thread::sleep_for(milliseconds(20));
    gate.open();
  });
  ASSERT_TRUE(destroy_stream("test", stream.handle(), false).is_ok());
  EXPECT_TRUE(ran);
  opener.join();
}

TEST_F(StreamLife, ResetOfTheDeviceEndsItsStreams) {
  Stream& stream = make_stream();
  void* handle = stream.handle();
  Stream* by_default = nullptr;
  ASSERT_TRUE(find_stream("test", nullptr, by_default).is_ok());
  ASSERT_TRUE(reset_device(0, true).is_ok());
  EXPECT_EQ(stream_count(0), 0U);
  Stream* found = nullptr;
  EXPECT_EQ(find_stream("test", handle, found).code(), 107000);
  EXPECT_EQ(stream.submit([] { return Status::ok(); }).code(), 107003);
  ASSERT_TRUE(set_device(0).is_ok());
  ASSERT_TRUE(find_stream("test", nullptr, found).is_ok());
  EXPECT_TRUE(found->is_default());
}

TEST_F(StreamLife, TheDefaultStreamIsOnePerContext) {
  Stream* first = nullptr;
  Stream* again = nullptr;
  ASSERT_TRUE(find_stream("test", nullptr, first).is_ok());
  ASSERT_TRUE(find_stream("test", nullptr, again).is_ok());
  EXPECT_EQ(first, again);
  Context* context = nullptr;
  ASSERT_TRUE(create_context(0, context).is_ok());
  ASSERT_TRUE(set_current_context(context).is_ok());
  ASSERT_TRUE(find_stream("test", nullptr, again).is_ok());
  EXPECT_NE(first, again);
  EXPECT_NE(first->id(), again->id());
  ASSERT_TRUE(destroy_context(context).is_ok());
}

TEST_F(StreamLife, WorkOfAnotherContextIsRefused) {
  Stream& stream = make_stream();
  Context* context = nullptr;
  ASSERT_TRUE(create_context(0, context).is_ok());
  ASSERT_TRUE(set_current_context(context).is_ok());
  Stream* found = nullptr;
  EXPECT_EQ(find_stream_to_submit("test", stream.handle(), found).code(), 107003);
  EXPECT_TRUE(find_stream("test", stream.handle(), found).is_ok()) << "asking is allowed from anywhere";
  ASSERT_TRUE(destroy_context(context).is_ok());
}

}  // namespace
}  // namespace drydock::device
