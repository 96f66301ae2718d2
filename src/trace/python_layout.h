#pragma once

#include <cstdint>

namespace drydock::trace {

/// Offsets of what the stack reader needs in one minor version of CPython (64-bit, not free-threaded, not a debug
/// build). Facts from CPython's headers: cpython/pystate.h, cpython/code.h, cpython/unicodeobject.h and
/// internal/pycore_frame.h of each version. They are stable within a minor version; a build that differs is found by
/// the self-check.
struct PythonLayout {
  int minor;

  uint16_t thread_frame;       ///< PyThreadState: frame (3.10), cframe (3.11, 3.12), current_frame (3.13)
  bool thread_frame_indirect;  ///< the above points to a struct that holds the frame
  uint16_t indirect_frame;     ///< _PyCFrame.current_frame
  uint16_t thread_id;          ///< PyThreadState.thread_id: its pthread_t

  uint16_t frame_previous;     ///< caller
  uint16_t frame_code;         ///< f_code, f_executable
  uint16_t frame_instruction;  ///< prev_instr, instr_ptr: a pointer; f_lasti (3.10): an int
  uint16_t frame_owner;        ///< 0 where frames have no owner
  uint16_t frame_locals;       ///< first of the local variables: the first argument
  uint8_t owner_c_stack;       ///< FRAME_OWNED_BY_CSTACK: frames that are no Python code; 255 where there are none

  uint16_t code_filename;
  uint16_t code_qualname;  ///< co_name in 3.10
  uint16_t code_first_line;
  uint16_t code_line_table;
  uint16_t code_instructions;  ///< co_code_adaptive, in the object; co_code (3.10): a bytes object

  uint16_t ascii_data;    ///< of a compact ASCII string: sizeof(PyASCIIObject)
  uint16_t compact_data;  ///< of other compact strings: sizeof(PyCompactUnicodeObject)
};

inline constexpr PythonLayout kPythonLayouts[] = {
    {.minor = 10,
     .thread_frame = 24,
     .thread_frame_indirect = false,
     .indirect_frame = 0,
     .thread_id = 176,
     .frame_previous = 24,
     .frame_code = 32,
     .frame_instruction = 96,
     .frame_owner = 0,
     .frame_locals = 352,
     .owner_c_stack = 255,
     .code_filename = 104,
     .code_qualname = 112,
     .code_first_line = 40,
     .code_line_table = 120,
     .code_instructions = 48,
     .ascii_data = 48,
     .compact_data = 72},
    {.minor = 11,
     .thread_frame = 56,
     .thread_frame_indirect = true,
     .indirect_frame = 8,
     .thread_id = 152,
     .frame_previous = 48,
     .frame_code = 32,
     .frame_instruction = 56,
     .frame_owner = 69,
     .frame_locals = 72,
     .owner_c_stack = 255,
     .code_filename = 112,
     .code_qualname = 128,
     .code_first_line = 72,
     .code_line_table = 136,
     .code_instructions = 184,
     .ascii_data = 48,
     .compact_data = 72},
    {.minor = 12,
     .thread_frame = 56,
     .thread_frame_indirect = true,
     .indirect_frame = 0,
     .thread_id = 136,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 70,
     .frame_locals = 72,
     .owner_c_stack = 3,
     .code_filename = 112,
     .code_qualname = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_instructions = 192,
     .ascii_data = 40,
     .compact_data = 56},
    {.minor = 13,
     .thread_frame = 72,
     .thread_frame_indirect = false,
     .indirect_frame = 0,
     .thread_id = 152,
     .frame_previous = 8,
     .frame_code = 0,
     .frame_instruction = 56,
     .frame_owner = 70,
     .frame_locals = 72,
     .owner_c_stack = 3,
     .code_filename = 112,
     .code_qualname = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_instructions = 200,
     .ascii_data = 40,
     .compact_data = 56},
};

/// Same in all of them: PyObject.ob_type, PyVarObject.ob_size, PyTypeObject.tp_basicsize,
/// PyBytesObject.ob_sval, PyASCIIObject.length and .state.
inline constexpr uint16_t kObjectType = 8;
inline constexpr uint16_t kObjectSize = 16;
inline constexpr uint16_t kTypeBasicSize = 32;
inline constexpr uint16_t kBytesData = 32;
inline constexpr uint16_t kUnicodeLength = 16;
inline constexpr uint16_t kUnicodeState = 32;

inline const PythonLayout* layout_of(int minor) noexcept {
  for (const PythonLayout& layout : kPythonLayouts)
    if (layout.minor == minor) return &layout;
  return nullptr;
}

}  // namespace drydock::trace
