#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trace/intern_table.h"
#include "trace/line_table.h"
#include "trace/process_memory.h"
#include "trace/python_stack.h"

namespace drydock::trace {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(TraceInternTable, NumbersInOrderAndFindsAll) {
  InternTable table;
  constexpr uint32_t kCount = 20'000;
  EXPECT_EQ(table.find(bytes_of("text 1"), hash_bytes(bytes_of("text 1"))), 0U);
  for (uint32_t number = 1; number <= kCount; ++number) {
    const std::string text = "text " + std::to_string(number);
    ASSERT_EQ(table.insert(bytes_of(text), hash_bytes(bytes_of(text))), number);
  }
  for (uint32_t number = 1; number <= kCount; ++number) {
    const std::string text = "text " + std::to_string(number);
    ASSERT_EQ(table.find(bytes_of(text), hash_bytes(bytes_of(text))), number);
    const std::span<const std::byte> kept = table.by_id(number)->bytes();
    ASSERT_EQ(std::string(reinterpret_cast<const char*>(kept.data()), kept.size()), text);
  }
  EXPECT_EQ(table.by_id(0), nullptr);
  EXPECT_EQ(table.by_id(kCount + 1), nullptr);
}

TEST(TraceInternTable, EqualHashesOfOtherBytesAreTold) {
  InternTable table;
  const std::string one = "one", two = "two", empty;
  EXPECT_EQ(table.insert(bytes_of(one), 5), 1U);
  EXPECT_EQ(table.find(bytes_of(two), 5), 0U);
  EXPECT_EQ(table.insert(bytes_of(two), 5), 2U);
  EXPECT_EQ(table.insert(bytes_of(empty), 5), 3U);
  EXPECT_EQ(table.find(bytes_of(one), 5), 1U);
  EXPECT_EQ(table.find(bytes_of(two), 5), 2U);
  EXPECT_EQ(table.find(bytes_of(empty), 5), 3U);
}

TEST(TraceInternTable, LookupsRunWhileAnotherThreadInserts) {
  InternTable table;
  constexpr uint32_t kFinds = 2'000, kMost = 1'000'000;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint32_t number = 1; number <= kMost && !stop; ++number) {
      const std::string text = std::to_string(number);
      table.insert(bytes_of(text), hash_bytes(bytes_of(text)));
    }
  });
  uint32_t found = 0;
  while (found < kFinds && table.size() < kMost) {
    const uint32_t size = table.size();
    if (size == 0) continue;
    const std::string text = std::to_string(size);
    ASSERT_NE(table.by_id(size), nullptr);
    ASSERT_EQ(table.by_id(size)->size_bytes, text.size());
    // The id may be known a moment before its place in the table of hashes is.
    const uint32_t id = table.find(bytes_of(text), hash_bytes(bytes_of(text)));
    ASSERT_TRUE(id == size || id == 0);
    found += id != 0 ? 1 : 0;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(found, kFinds);
}

TEST(TraceHash, EveryByteCounts) {
  for (size_t size = 1; size <= 40; ++size) {
    const std::string text(size, 'a');
    const uint64_t hash = hash_bytes(bytes_of(text));
    EXPECT_NE(hash, hash_bytes(bytes_of(std::string(size + 1, 'a'))));
    for (size_t index = 0; index < size; ++index) {
      std::string other = text;
      other[index] = 'b';
      EXPECT_NE(hash, hash_bytes(bytes_of(other))) << size << " " << index;
    }
  }
}

// Tables of `def f():` at line 10 with bodies as below, as the interpreters made them.
TEST(TraceLineTable, LocationTableOfPython311) {
  // Forms: none (RESUME of a module has one), short, one line, no columns, long, with moves up and down.
  const std::vector<uint8_t> table = {
      128 | 15 << 3 | 0,                    // one instruction without a line
      128 | 0 << 3 | 1,  0x12,              // two, on line 10
      128 | 11 << 3 | 0, 4,       9,        // one, on line 11
      128 | 13 << 3 | 2, 6,                 // three, 3 lines down: 14
      128 | 14 << 3 | 7, 5,       0, 0, 0,  // eight, 2 lines up: 12
      128 | 13 << 3 | 0, 64 | 40, 3,        // one, (3 << 6 | 40) / 2 = 116 down: 128
  };
  const auto line_of = [&](int instruction) { return decode_line(11, table, 10, instruction * 2); };
  EXPECT_EQ(decode_line(11, table, 10, -2), 10) << "not begun";
  EXPECT_EQ(line_of(0), -1);
  EXPECT_EQ(line_of(1), 10);
  EXPECT_EQ(line_of(2), 10);
  EXPECT_EQ(line_of(3), 11);
  EXPECT_EQ(line_of(4), 14);
  EXPECT_EQ(line_of(6), 14);
  EXPECT_EQ(line_of(7), 12);
  EXPECT_EQ(line_of(14), 12);
  EXPECT_EQ(line_of(15), 128);
  EXPECT_EQ(line_of(16), -1) << "beyond the table";
}

TEST(TraceLineTable, PairsOfPython310) {
  const std::vector<uint8_t> table = {4, 1, 2, static_cast<uint8_t>(-128), 6, static_cast<uint8_t>(-3), 254, 0, 8, 127};
  const auto line_of = [&](int offset) { return decode_line(10, table, 10, offset); };
  EXPECT_EQ(line_of(0), 11);
  EXPECT_EQ(line_of(2), 11);
  EXPECT_EQ(line_of(4), -1);
  EXPECT_EQ(line_of(6), 8);
  EXPECT_EQ(line_of(12), 8);
  EXPECT_EQ(line_of(264), 8);
  EXPECT_EQ(line_of(266), 135);
  EXPECT_EQ(line_of(274), -1);
}

TEST(TraceLineTable, BadBytesEndTheSearch) {
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) {
      const std::vector<uint8_t> table = {static_cast<uint8_t>(first), static_cast<uint8_t>(second)};
      static_cast<void>(decode_line(11, table, 1, 100));
      static_cast<void>(decode_line(10, table, 1, 100));
    }
  EXPECT_EQ(decode_line(11, {}, 1, 0), -1);
  EXPECT_EQ(decode_line(10, {}, 1, 0), -1);
}

TEST(TracePythonOrigin, FileNames) {
  const auto origin = [](std::string_view file, std::string_view function = "f") {
    return origin_of(file, function, 11);
  };
  EXPECT_EQ(origin("/home/user/train.py"), CodeOrigin::kUser);
  EXPECT_EQ(origin("train.py"), CodeOrigin::kUser);
  EXPECT_EQ(origin("<stdin>"), CodeOrigin::kUser);
  EXPECT_EQ(origin("<string>", "<module>"), CodeOrigin::kUser);
  EXPECT_EQ(origin("<string>", "__create_fn__.<locals>.__init__"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("/tmp/ipykernel_12/34.py"), CodeOrigin::kUser);
  EXPECT_EQ(origin("<ipython-input-1-abc>"), CodeOrigin::kUser);
  EXPECT_EQ(origin("<frozen importlib._bootstrap>"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("<eval_with_key>.3"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("/usr/lib/python3/dist-packages/numpy/core.py"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("/usr/lib/python3.11/threading.py"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("/usr/lib64/python3.11/threading.py"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("/usr/lib/python311.zip/threading.py"), CodeOrigin::kLibrary);
  EXPECT_EQ(origin("/home/user/lib/python3.9/mine.py"), CodeOrigin::kUser) << "another version's folder is no library";
  EXPECT_EQ(origin("/venv/lib/python3.11/site-packages/drydock/steps.py"), CodeOrigin::kDrydock);
}

TEST(TracePythonOrigin, NotebookCellsAreNamedWithoutTheirProcess) {
  const auto without = [](std::string file) {
    drop_process_number(file);
    return file;
  };
  EXPECT_EQ(without("/tmp/ipykernel_12/34.py"), "/tmp/ipykernel/34.py");
  EXPECT_EQ(without("/tmp/ipykernel_x/34.py"), "/tmp/ipykernel_x/34.py");
  EXPECT_EQ(without("/tmp/ipykernel_12"), "/tmp/ipykernel_12");
  EXPECT_EQ(without("/home/user/a.py"), "/home/user/a.py");
}

TEST(TraceProcessMemory, BadAddressesAreRefused) {
  auto memory = std::make_unique<ProcessMemory>();
  const uint64_t here = 0x1234'5678'9abc'def0;
  uint64_t value = 0;
  EXPECT_TRUE(memory->load(reinterpret_cast<uintptr_t>(&here), value));
  EXPECT_EQ(value, here);
  EXPECT_FALSE(memory->load(0, value));
  EXPECT_FALSE(memory->load(8, value));
  EXPECT_FALSE(memory->load(~uintptr_t{0} - 3, value));
  EXPECT_FALSE(memory->load(uintptr_t{1} << 63, value));
  std::vector<std::byte> large(3 * 4096), copy(large.size());
  large[5000] = std::byte{7};
  EXPECT_TRUE(memory->read(reinterpret_cast<uintptr_t>(large.data()), copy.data(), copy.size()));
  EXPECT_EQ(copy, large);
}

}  // namespace
}  // namespace drydock::trace
