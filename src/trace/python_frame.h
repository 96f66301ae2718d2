#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "trace/line_table.h"
#include "trace/python_layout.h"

// Frames, code objects and texts of the running interpreter, read by offsets. Everything is a template over where it
// reads: `OwnMemory` for the calling thread's own stack, `ProcessMemory` where an address may be bad.

namespace drydock::trace {

/// What is needed of the interpreter. Written once, before anything reads it.
struct Interpreter {
  void* (*this_thread_state)() = nullptr;
  int (*is_finalizing)() = nullptr;
  int (*line_of)(void* code, int byte_offset) = nullptr;  // PyCode_Addr2Line: pure reading, no lock needed
  uintptr_t code_type = 0;
  uintptr_t unicode_type = 0;
  uintptr_t bytes_type = 0;
  PythonLayout layout{};
  std::array<char, 16> version{};
};

extern Interpreter interpreter;

inline constexpr size_t kMostTextChars = 4096;
inline constexpr size_t kMostTableBytes = 256 * 1024;

// Memory of the calling thread's own stack and of what that keeps alive: plain loads.
struct OwnMemory {
  template <class T>
  bool load(uintptr_t address, T& value) noexcept {
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof(value));  // NOLINT
    return true;
  }
  bool read(uintptr_t address, void* to, size_t bytes) noexcept {
    std::memcpy(to, reinterpret_cast<const void*>(address), bytes);  // NOLINT
    return true;
  }
};

template <class Memory>
bool has_type(Memory& memory, uintptr_t object, uintptr_t type) noexcept {
  uintptr_t actual = 0;
  return object != 0 && memory.load(object + kObjectType, actual) && actual == type;
}

inline void append_utf8(std::string& text, uint32_t point) {
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0 | point >> 6);
    text += static_cast<char>(0x80 | (point & 63));
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0 | point >> 12);
    text += static_cast<char>(0x80 | (point >> 6 & 63));
    text += static_cast<char>(0x80 | (point & 63));
  } else {
    text += static_cast<char>(0xf0 | (point >> 18 & 7));
    text += static_cast<char>(0x80 | (point >> 12 & 63));
    text += static_cast<char>(0x80 | (point >> 6 & 63));
    text += static_cast<char>(0x80 | (point & 63));
  }
}

template <class Memory>
bool read_text(Memory& memory, uintptr_t object, std::string& text) {
  constexpr uint32_t kCompact = 1U << 5, kAscii = 1U << 6;
  if (!has_type(memory, object, interpreter.unicode_type)) return false;
  uint64_t length = 0;
  uint32_t state = 0;
  if (!memory.load(object + kUnicodeLength, length) || !memory.load(object + kUnicodeState, state)) return false;
  const uint32_t char_bytes = state >> 2 & 7;
  if ((state & kCompact) == 0 || (char_bytes != 1 && char_bytes != 2 && char_bytes != 4)) return false;
  length = std::min<uint64_t>(length, kMostTextChars);
  const bool is_ascii = (state & kAscii) != 0;
  std::vector<unsigned char> chars(length * char_bytes);
  const PythonLayout& layout = interpreter.layout;
  if (!memory.read(object + (is_ascii ? layout.ascii_data : layout.compact_data), chars.data(), chars.size()))
    return false;
  text.clear();
  for (size_t index = 0; index < length; ++index) {
    uint32_t point = 0;
    std::memcpy(&point, chars.data() + index * char_bytes, char_bytes);
    append_utf8(text, point);
  }
  return true;
}

// A Python frame: its code object and the instruction it is at.
struct Frame {
  uintptr_t address = 0;
  uintptr_t code = 0;
};

template <class Memory>
uintptr_t top_frame(Memory& memory, uintptr_t thread_state) noexcept {
  const PythonLayout& layout = interpreter.layout;
  uintptr_t frame = 0;
  if (!memory.load(thread_state + layout.thread_frame, frame) || frame == 0) return 0;
  if (layout.thread_frame_indirect && !memory.load(frame + layout.indirect_frame, frame)) return 0;
  return frame;
}

// Finds the code of the frame at or above `frame.address` that is Python code. False at the end of the stack.
template <class Memory>
bool settle_on_code(Memory& memory, Frame& frame) noexcept {
  const PythonLayout& layout = interpreter.layout;
  while (frame.address != 0) {
    uint8_t owner = 0;
    if (layout.frame_owner != 0 && !memory.load(frame.address + layout.frame_owner, owner)) return false;
    if (owner != layout.owner_c_stack || layout.frame_owner == 0)
      return memory.load(frame.address + layout.frame_code, frame.code) && frame.code != 0;
    if (!memory.load(frame.address + layout.frame_previous, frame.address)) return false;
  }
  return false;
}

template <class Memory>
bool step_out(Memory& memory, Frame& frame) noexcept {
  return memory.load(frame.address + interpreter.layout.frame_previous, frame.address) && settle_on_code(memory, frame);
}

// Bytes from the first instruction to the one that runs.
template <class Memory>
bool byte_offset_of(Memory& memory, const Frame& frame, int32_t& byte_offset) noexcept {
  const PythonLayout& layout = interpreter.layout;
  if (layout.minor < 11) {
    int32_t index = 0;
    if (!memory.load(frame.address + layout.frame_instruction, index) || index < -1) return false;
    byte_offset = index * 2;
    return true;
  }
  uintptr_t instruction = 0;
  uint64_t count = 0;
  if (!memory.load(frame.address + layout.frame_instruction, instruction) ||
      !memory.load(frame.code + kObjectSize, count))
    return false;
  const auto distance = static_cast<int64_t>(instruction - (frame.code + layout.code_instructions));
  // A frame that has not begun is one instruction before its first.
  if (distance < -2 || distance % 2 != 0 || distance / 2 > static_cast<int64_t>(count) || distance > 0x3fffffff)
    return false;
  byte_offset = static_cast<int32_t>(distance);
  return true;
}

template <class Memory>
int line_of_frame(Memory& memory, const Frame& frame, int32_t byte_offset) {
  const PythonLayout& layout = interpreter.layout;
  uintptr_t table = 0;
  int32_t first_line = 0;
  uint64_t size = 0;
  if (!memory.load(frame.code + layout.code_line_table, table) ||
      !memory.load(frame.code + layout.code_first_line, first_line) ||
      !has_type(memory, table, interpreter.bytes_type) || !memory.load(table + kObjectSize, size))
    return -1;
  std::vector<uint8_t> bytes(std::min<uint64_t>(size, kMostTableBytes));
  if (!memory.read(table + kBytesData, bytes.data(), bytes.size())) return -1;
  return decode_line(layout.minor, bytes, first_line, byte_offset);
}

}  // namespace drydock::trace
