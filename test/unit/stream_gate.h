#pragma once

#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "device/callback.h"
#include "device/context.h"
#include "device/event.h"
#include "device/stream.h"

namespace drydock::device {

/// A host function that holds its stream until it is told to go on. Outlives its call.
class Gate {
 public:
  ~Gate() {
    open();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_inside_; });
  }
  static void wait(void* argument) {
    auto& gate = *static_cast<Gate*>(argument);
    std::unique_lock lock(gate.mutex_);
    gate.is_inside_ = gate.was_entered_ = true;
    gate.changed_.notify_all();
    gate.changed_.wait(lock, [&] { return gate.is_open_; });
    gate.is_inside_ = false;
    gate.changed_.notify_all();
  }
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_until_entered() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return was_entered_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  bool is_inside_ = false;
  bool was_entered_ = false;
};

class StreamTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(set_device(0).is_ok()); }
  void TearDown() override { ASSERT_TRUE(reset_device(0, true).is_ok()); }

  static Stream& make_stream() {
    Stream* stream = nullptr;
    EXPECT_TRUE(create_stream("test", 0, 3, stream).is_ok());
    return *stream;
  }
  static Event& make_event(EventKind kind = EventKind::kExtended, uint32_t flags = kEventSync | kEventTimeLine) {
    void* handle = nullptr;
    EXPECT_TRUE(create_event("test", kind, flags, handle).is_ok());
    Event* event = nullptr;
    EXPECT_TRUE(find_event("test", handle, event).is_ok());
    return *event;
  }
  static void close(Stream& stream, Gate& gate) {
    ASSERT_TRUE(launch_host_function("test", stream, Gate::wait, &gate).is_ok());
    gate.wait_until_entered();
  }
};

}  // namespace drydock::device
