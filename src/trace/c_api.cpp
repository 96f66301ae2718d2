#include <algorithm>
#include <cstring>
#include <string>

#include "base/export.h"
#include "trace/allocator_records.h"
#include "trace/block_birth.h"
#include "trace/node_module.h"
#include "trace/recorder.h"

// What Drydock's Python package calls through ctypes. Texts are UTF-8 and end with a zero byte; null means empty.

namespace {

std::string_view text_of(const char* text) noexcept { return text == nullptr ? std::string_view() : text; }

}  // namespace

extern "C" {

DRYDOCK_API void drydock_trace_step_ended() noexcept { drydock::trace::step_ended(); }

DRYDOCK_API uint64_t drydock_trace_blocks_freed() noexcept { return drydock::trace::blocks_freed(); }

/// `freed_before`: what drydock_trace_blocks_freed said when the collection began. Nothing freed: nothing to record.
DRYDOCK_API void drydock_trace_garbage_collected(uint32_t generation, uint64_t freed_before) noexcept {
  const uint64_t freed = drydock::trace::blocks_freed() - freed_before;
  if (freed > 0) drydock::trace::garbage_collected(generation, freed, drydock::trace::current_line());
}

DRYDOCK_API void drydock_trace_host_fallback(const char* aten_name) noexcept {
  drydock::trace::host_fallback(text_of(aten_name), drydock::trace::current_line());
}

DRYDOCK_API void drydock_trace_python_exception(const char* type, const char* text, const char* file,
                                                uint32_t line) noexcept {
  drydock::trace::python_exception(text_of(type), text_of(text), text_of(file), line);
}

DRYDOCK_API void drydock_trace_cache_emptied() noexcept { drydock::trace::cache_emptied(); }

DRYDOCK_API void drydock_trace_fraction_set(int32_t device, uint64_t allowed_bytes) noexcept {
  drydock::trace::fraction_set(device, allowed_bytes);
}

/// `phase` is a trace::Phase.
DRYDOCK_API void drydock_trace_phase(uint32_t phase) noexcept {
  if (phase <= static_cast<uint32_t>(drydock::trace::Phase::kExit))
    drydock::trace::phase_began(static_cast<drydock::trace::Phase>(phase));
}

/// Where autograd's nodes keep their sequence numbers and the threads that made them, in bytes from their beginning,
/// and whether they count their owners themselves.
DRYDOCK_API void drydock_trace_node_layout(uint32_t sequence_offset, uint32_t thread_offset,
                                           bool counts_itself) noexcept {
  drydock::trace::node_layout_found(sequence_offset, thread_offset, counts_itself);
}

DRYDOCK_API void drydock_trace_name_module(uint64_t object, const char* name) noexcept {
  drydock::trace::module_named(object, text_of(name));
}

DRYDOCK_API bool drydock_trace_has_begun() noexcept { return drydock::trace::has_begun(); }

DRYDOCK_API uint32_t drydock_trace_modules_without_name() noexcept { return drydock::trace::modules_without_name(); }

/// Id of a text, for drydock_trace_label.
DRYDOCK_API uint32_t drydock_trace_string(const char* text) noexcept {
  return drydock::trace::intern_string(text_of(text));
}

/// `label` is a trace::Label, `name` an id from drydock_trace_string.
DRYDOCK_API void drydock_trace_label(uint32_t label, uint64_t address, uint64_t storage_bytes, uint32_t name) noexcept {
  if (label <= static_cast<uint32_t>(drydock::trace::Label::kBuffer))
    drydock::trace::block_labelled(static_cast<drydock::trace::Label>(label), address, storage_bytes, name);
}

DRYDOCK_API void drydock_trace_close() noexcept { drydock::trace::close(); }

/// Writes "file:line (function)" of the calling thread into `buffer`, cut to `size_bytes` with the zero byte.
/// Returns the line's id, 0 if it is unknown.
DRYDOCK_API uint32_t drydock_trace_current_line(char* buffer, size_t size_bytes) noexcept {
  const drydock::trace::LineId line = drydock::trace::current_line();
  if (buffer == nullptr || size_bytes == 0) return line;
  buffer[0] = '\0';
  try {
    const std::string text = drydock::trace::describe_line(line);
    const size_t length = std::min(text.size(), size_bytes - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  } catch (...) {  // out of memory: the text stays empty
    return line;
  }
  return line;
}

/// A function that a thread can start with (pthread_create): `buffer` of 512 bytes takes the line's text.
DRYDOCK_API void* drydock_trace_thread_line(void* buffer) noexcept {
  drydock_trace_current_line(static_cast<char*>(buffer), 512);
  return buffer;
}

}  // extern "C"
