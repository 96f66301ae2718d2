#include "trace/layout_fit.h"

#include <pthread.h>
#include <string>

#include "trace/python_frame.h"

namespace drydock::trace {
namespace {

constexpr int kMostCheckedFrames = 64;

}  // namespace

LayoutFit fit_of_layout(ProcessMemory& memory, uintptr_t thread_state) {
  const PythonLayout& layout = interpreter.layout;
  // Types know how large their objects are: code objects without their instructions, texts with a pointer at the end.
  uint64_t code_bytes = 0, text_bytes = 0;
  if (!memory.load(interpreter.code_type + kTypeBasicSize, code_bytes) ||
      !memory.load(interpreter.unicode_type + kTypeBasicSize, text_bytes) ||
      (layout.minor >= 11 && code_bytes != layout.code_instructions) || text_bytes != layout.compact_data + 8U)
    return LayoutFit::kWrong;
  uintptr_t thread = 0;
  if (!memory.load(thread_state + layout.thread_id, thread) || thread != static_cast<uintptr_t>(pthread_self()))
    return LayoutFit::kWrong;
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return LayoutFit::kWrong;
  for (int depth = 0; depth < kMostCheckedFrames; ++depth) {
    uintptr_t filename = 0, name = 0, table = 0;
    int32_t byte_offset = 0;
    if (!has_type(memory, frame.code, interpreter.code_type) ||
        !memory.load(frame.code + layout.code_filename, filename) ||
        !memory.load(frame.code + layout.code_qualname, name) ||
        !memory.load(frame.code + layout.code_line_table, table) ||
        !has_type(memory, filename, interpreter.unicode_type) || !has_type(memory, name, interpreter.unicode_type) ||
        !has_type(memory, table, interpreter.bytes_type) || !byte_offset_of(memory, frame, byte_offset))
      return LayoutFit::kWrong;
    std::string file, function;
    if (!read_text(memory, filename, file) || !read_text(memory, name, function) || file.empty() || file == function)
      return LayoutFit::kWrong;
    const int line = line_of_frame(memory, frame, byte_offset);
    if (line != interpreter.line_of(reinterpret_cast<void*>(frame.code), byte_offset))
      return LayoutFit::kWrong;  // NOLINT
    if (!step_out(memory, frame)) {
      if (frame.address != 0) return LayoutFit::kWrong;
      return depth == 0 ? LayoutFit::kRightSoFar : LayoutFit::kRight;
    }
  }
  return LayoutFit::kRight;
}

}  // namespace drydock::trace
