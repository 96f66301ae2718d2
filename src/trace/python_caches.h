#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trace/python_stack.h"
#include "trace/recorder.h"

namespace drydock::trace {

/// How a thread came to be.
enum class ThreadStart : uint8_t {
  kUnknown,  ///< no frames seen yet
  kMain,
  kPython,  ///< by the threading module
  kNative,  ///< by C or C++ code
};

/// Per thread: which code objects are the user's, and lines of instructions. Zeroed memory is empty. Entries are
/// compared with the objects they were made from, since a code object's address may come back for another one.
struct ThreadCaches {
  struct CodeEntry {
    uintptr_t code;
    uintptr_t filename;
    CodeOrigin origin;
  };
  struct LineEntry {
    uintptr_t code;
    uintptr_t filename;
    uintptr_t line_table;
    int32_t first_line;
    int32_t byte_offset;
    LineId line;
  };
  static constexpr size_t kCodes = 2048;
  static constexpr size_t kLines = 1024;
  static constexpr size_t kProbes = 4;
  std::array<CodeEntry, kCodes> codes;
  std::array<LineEntry, kLines> lines;
  ThreadStart start;
};

/// The calling thread's caches, made at its first call and given back when it ends. Null if memory ran out.
ThreadCaches* caches_of_this_thread() noexcept;
/// For the child after fork: its one thread is the main thread now.
void become_main_thread() noexcept;

/// Slot of a table of `slots` (a power of two) to search first.
inline size_t slot_of(uintptr_t code, uintptr_t salt, size_t slots) noexcept {
  return ((code >> 4 ^ salt * 0x85ebca6bU) * 0x9e3779b97f4a7c15ULL >> 40) & (slots - 1);
}

}  // namespace drydock::trace
