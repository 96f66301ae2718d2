#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "stream_gate.h"

namespace {
std::atomic<size_t> allocations{0};
}

// Counts what the fast path must not do.
void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace drydock::device {
namespace {

using std::chrono::milliseconds;

class StreamOrder : public StreamTest {};

TEST_F(StreamOrder, IdleStreamRunsWorkOnTheCallingThread) {
  Stream& stream = make_stream();
  std::thread::id ran_on;
  ASSERT_TRUE(stream
                  .submit([&] {
                    ran_on = std::this_thread::get_id();
                    return Status::ok();
                  })
                  .is_ok());
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_EQ(stream.submitted(), 1U);
  EXPECT_EQ(stream.completed(), 1U);
  EXPECT_TRUE(stream.is_complete());
}

TEST_F(StreamOrder, FastPathAllocatesNothing) {
  Stream& stream = make_stream();
  Event& event = make_event();
  std::vector<char> big(1000);
  ASSERT_TRUE(event.record(stream).is_ok());  // the event's own list grows once
  const size_t before = allocations;
  for (int repeat = 0; repeat < 100; ++repeat) {
    ASSERT_TRUE(stream
                    .submit([&big, copy = std::array<char, 256>{}] {
                      big[0] = copy[0];
                      return Status::ok();
                    })
                    .is_ok());
    ASSERT_TRUE(event.record(stream).is_ok());
    ASSERT_TRUE(event.wait("test", stream).is_ok());
  }
  EXPECT_EQ(allocations, before);
}

TEST_F(StreamOrder, WorkBehindAHostFunctionRunsAfterItInOrderAndLaunchesDoNotWait) {
  Stream& stream = make_stream();
  Gate gate;
  std::vector<int> order;
  close(stream, gate);
  for (int number = 0; number < 5; ++number) {
    ASSERT_TRUE(stream
                    .submit([&order, number] {
                      order.push_back(number);
                      return Status::ok();
                    })
                    .is_ok());
  }
  EXPECT_TRUE(order.empty());
  EXPECT_FALSE(stream.is_complete());
  EXPECT_EQ(stream.submitted(), 6U);
  EXPECT_EQ(stream.completed(), 0U);
  gate.open();
  ASSERT_TRUE(stream.synchronize().is_ok());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(stream.is_complete());
}

TEST_F(StreamOrder, DeferredWorkOwnsACopyOfWhatItCaptured) {
  Stream& stream = make_stream();
  Gate gate;
  close(stream, gate);
  int seen = 0;
  {
    std::vector<int> dies_early{7};
    ASSERT_TRUE(stream
                    .submit([dies_early, &seen] {
                      seen = dies_early[0];
                      return Status::ok();
                    })
                    .is_ok());
  }
  gate.open();
  ASSERT_TRUE(stream.synchronize().is_ok());
  EXPECT_EQ(seen, 7);
}

TEST_F(StreamOrder, HostFunctionRunsOnAThreadOfItsOwnInItsStreamsContext) {
  Stream& stream = make_stream();
  struct Seen {
    std::thread::id thread;
    Context* context = nullptr;
  } seen;
  ASSERT_TRUE(launch_host_function(
                  "test", stream,
                  [](void* argument) {
                    auto& seen = *static_cast<Seen*>(argument);
                    seen.thread = std::this_thread::get_id();
                    seen.context = current_context();
                  },
                  &seen)
                  .is_ok());
  ASSERT_TRUE(stream.synchronize().is_ok());
  EXPECT_NE(seen.thread, std::this_thread::get_id());
  EXPECT_EQ(seen.context, &stream.context());
}

TEST_F(StreamOrder, SynchronizeGivesUpAfterItsTimeAndTheStreamGoesOn) {
  Stream& stream = make_stream();
  Gate gate;
  close(stream, gate);
  const Status status = stream.synchronize(20);
  EXPECT_EQ(status.code(), 507046);
  EXPECT_NE(status.message().find("1 pieces of work"), std::string::npos) << status.message();
  gate.open();
  EXPECT_TRUE(stream.synchronize(10'000).is_ok());
}

TEST_F(StreamOrder, AStreamWaitsForAnEventOfAnotherStream) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  Event& event = make_event();
  Gate gate;
  std::atomic<int> ran{0};
  close(first, gate);
  ASSERT_TRUE(event.record(first).is_ok());
  EXPECT_FALSE(event.is_recorded());
  ASSERT_TRUE(event.wait("test", second).is_ok());
  ASSERT_TRUE(second
                  .submit([&] {
                    ran = 1;
                    return Status::ok();
                  })
                  .is_ok());
  EXPECT_EQ(ran, 0);
  EXPECT_FALSE(second.is_complete());
  gate.open();
  ASSERT_TRUE(second.synchronize(10'000).is_ok());
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(event.is_recorded());
}

TEST_F(StreamOrder, AWaitBelongsToTheRecordBeforeItWhateverComesLater) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  Stream& third = make_stream();
  Event& event = make_event();
  Gate first_gate;
  Gate third_gate;
  close(first, first_gate);
  ASSERT_TRUE(event.record(first).is_ok());
  ASSERT_TRUE(event.wait("test", second).is_ok());  // the record on `first`
  close(third, third_gate);
  ASSERT_TRUE(event.record(third).is_ok());  // recorded again before the wait ran
  first_gate.open();
  ASSERT_TRUE(second.synchronize(10'000).is_ok());
  EXPECT_FALSE(event.is_recorded()) << "the last record is still behind the gate of its stream";
  EXPECT_EQ(event.synchronize(20).code(), 507047);
  third_gate.open();
  EXPECT_TRUE(event.synchronize(10'000).is_ok());
}

TEST_F(StreamOrder, AnEventMayBeDestroyedWhileItsRecordAndWaitArePending) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  void* handle = nullptr;
  ASSERT_TRUE(create_event("test", EventKind::kExtended, kEventSync, handle).is_ok());
  Event* event = nullptr;
  ASSERT_TRUE(find_event("test", handle, event).is_ok());
  Gate gate;
  close(first, gate);
  ASSERT_TRUE(event->record(first).is_ok());
  ASSERT_TRUE(event->wait("test", second).is_ok());
  ASSERT_TRUE(destroy_event("test", handle).is_ok());
  EXPECT_EQ(destroy_event("test", handle).code(), 107000);
  // New events must not take over an object that pending work still points at.
  for (int count = 0; count < 16; ++count) EXPECT_NE(&make_event(), event);
  EXPECT_FALSE(second.is_complete());
  gate.open();
  EXPECT_TRUE(second.synchronize(10'000).is_ok());
}

TEST_F(StreamOrder, DeviceSynchronizationCoversOtherThreadsStreams) {
  Gate gate;
  std::promise<void> launched;
  std::thread other([&] {
    ASSERT_TRUE(set_device(0).is_ok());
    close(make_stream(), gate);
    launched.set_value();
  });
  launched.get_future().wait();
  EXPECT_EQ(synchronize_device(0, 20).code(), 507046);
  gate.open();
  EXPECT_TRUE(synchronize_device(0, 10'000).is_ok());
  other.join();
}

TEST_F(StreamOrder, AbortDropsTheWorkAndLetsWaitersGo) {
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
  std::promise<int32_t> code;
  std::thread waiting([&] { code.set_value(stream.synchronize().code()); });
  std::this_thread::sleep_for(milliseconds(20));
  abort_device(0);
  EXPECT_EQ(code.get_future().get(), 107023);
  waiting.join();
  EXPECT_TRUE(stream.synchronize(10'000).is_ok()) << "what comes after an abort starts afresh";
  ASSERT_TRUE(stream.submit([] { return Status::ok(); }).is_ok());
  gate.open();
  EXPECT_FALSE(ran);
}

TEST_F(StreamOrder, ThreadsOnOneStreamNeverRunAtOnce) {
  Stream& stream = make_stream();
  int counter = 0;  // not atomic: the stream's order protects it
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 1000; ++repeat) {
        ASSERT_TRUE(stream
                        .submit([&] {
                          ++counter;
                          return Status::ok();
                        })
                        .is_ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4000);
  EXPECT_EQ(stream.completed(), 4000U);
}

TEST_F(StreamOrder, ManyStreamsThatWaitForOneAnotherAllFinish) {
  constexpr int kStreams = 8;
  std::vector<Stream*> streams;
  std::vector<Event*> events;
  for (int index = 0; index < kStreams; ++index) {
    streams.push_back(&make_stream());
    events.push_back(&make_event());
  }
  std::atomic<int> ran{0};
  Gate gate;
  close(*streams[0], gate);
  std::vector<std::thread> threads;
  for (int index = 1; index < kStreams; ++index) {
    ASSERT_TRUE(events[static_cast<size_t>(index) - 1]->record(*streams[static_cast<size_t>(index) - 1]).is_ok());
    ASSERT_TRUE(events[static_cast<size_t>(index) - 1]->wait("test", *streams[static_cast<size_t>(index)]).is_ok());
    threads.emplace_back([&, index] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        ASSERT_TRUE(streams[static_cast<size_t>(index)]
                        ->submit([&] {
                          ++ran;
                          return Status::ok();
                        })
                        .is_ok());
      }
    });
  }
  gate.open();
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(synchronize_device(0, 10'000).is_ok());
  EXPECT_EQ(ran, 7 * 200);
}

}  // namespace
}  // namespace drydock::device
