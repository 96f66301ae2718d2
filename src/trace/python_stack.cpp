#include "trace/python_stack.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "trace/layout_fit.h"
#include "trace/process_memory.h"
#include "trace/python_caches.h"
#include "trace/python_frame.h"
#include "trace/recorder.h"
#include "trace/writer.h"

namespace drydock::trace {

constinit Interpreter interpreter;

namespace {

constexpr int kMostFrames = 10'000;  // deeper stacks are endless recursion, or not stacks
constexpr int kMostRemoteFrames = 1'000;

enum class Stage : uint8_t {
  kUntried,
  kOff,    ///< no Python, unknown version, layout mismatch or DRYDOCK_RECORD=null
  kFound,  ///< the interpreter is there, its layout not checked yet: no thread had frames so far
  kReading,
};

constinit std::mutex discovery_mutex;
constinit std::mutex remote_mutex;
std::atomic<Stage> stage{Stage::kUntried};
std::atomic<PythonState> known_state{PythonState::kUntried};

// The Python thread that last asked for its line. Fields are read one by one: a mixture fails the checks of the reader
// or names a line that was right a moment ago.
struct Lender {
  std::atomic<uintptr_t> thread_state{0};
  std::atomic<uintptr_t> thread{0};
  std::atomic<LineId> line{0};
  std::atomic<uint64_t> calls{0};
};
constinit Lender lender;

// What a thread borrowed from the lender.
struct Loan {
  uint64_t calls = 0;  // of the lender, when the line was borrowed
  LineId line = 0;
  uint32_t calls_since_look = 0;
  uint32_t short_bursts = 0;
};
thread_local constinit Loan loan{};

template <class Memory>
CodeOrigin origin_of_code(Memory& memory, uintptr_t code, uintptr_t filename) noexcept {
  try {
    std::string file, function;
    uintptr_t name = 0;
    if (!read_text(memory, filename, file)) return CodeOrigin::kLibrary;
    if (!memory.load(code + interpreter.layout.code_qualname, name) || !read_text(memory, name, function))
      return CodeOrigin::kLibrary;
    return origin_of(file, function, interpreter.layout.minor);
  } catch (...) {
    return CodeOrigin::kLibrary;
  }
}

template <class Memory>
bool origin_of_frame(Memory& memory, const Frame& frame, ThreadCaches& caches, CodeOrigin& origin) noexcept {
  uintptr_t filename = 0;
  if (!memory.load(frame.code + interpreter.layout.code_filename, filename)) return false;
  const size_t home = slot_of(frame.code, 0, ThreadCaches::kCodes);
  ThreadCaches::CodeEntry* free = &caches.codes[home];
  for (size_t probe = 0; probe < ThreadCaches::kProbes; ++probe) {
    ThreadCaches::CodeEntry& entry = caches.codes[(home + probe) & (ThreadCaches::kCodes - 1)];
    if (entry.code == frame.code && entry.filename == filename) {
      origin = entry.origin;
      return true;
    }
    if (entry.code == frame.code || entry.code == 0) {
      free = &entry;
      break;
    }
  }
  origin = origin_of_code(memory, frame.code, filename);
  *free = {frame.code, filename, origin};
  return true;
}

template <class Memory>
LineId intern_frame(Memory& memory, const Frame& frame, ThreadCaches& caches) noexcept {
  const PythonLayout& layout = interpreter.layout;
  ThreadCaches::LineEntry wanted{};
  wanted.code = frame.code;
  if (!byte_offset_of(memory, frame, wanted.byte_offset) ||
      !memory.load(frame.code + layout.code_filename, wanted.filename) ||
      !memory.load(frame.code + layout.code_line_table, wanted.line_table) ||
      !memory.load(frame.code + layout.code_first_line, wanted.first_line))
    return 0;
  ThreadCaches::LineEntry& entry =
      caches.lines[slot_of(frame.code, static_cast<uintptr_t>(wanted.byte_offset) + 1, ThreadCaches::kLines)];
  if (entry.code == wanted.code && entry.byte_offset == wanted.byte_offset && entry.filename == wanted.filename &&
      entry.line_table == wanted.line_table && entry.first_line == wanted.first_line)
    return entry.line;
  try {
    std::string file, function;
    uintptr_t name = 0;
    if (!read_text(memory, wanted.filename, file) || !memory.load(frame.code + layout.code_qualname, name) ||
        !read_text(memory, name, function))
      return 0;
    drop_process_number(file);
    int line = line_of_frame(memory, frame, wanted.byte_offset);
    if (line < 0) line = wanted.first_line;
    wanted.line = intern_line(file, static_cast<uint32_t>(line), function);
  } catch (...) {
    return 0;  // out of memory
  }
  entry = wanted;
  return wanted.line;
}

struct StackLine {
  LineId line = 0;
  bool is_user = false;
  bool has_frames = false;
};

StackLine line_of_own_stack(uintptr_t thread_state, ThreadCaches& caches) noexcept {
  OwnMemory memory;
  StackLine found;
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return found;
  found.has_frames = true;
  Frame innermost;
  for (int depth = 0; depth < kMostFrames; ++depth) {
    CodeOrigin origin{};
    if (!origin_of_frame(memory, frame, caches, origin)) return found;
    if (origin == CodeOrigin::kUser) {
      found.line = intern_frame(memory, frame, caches);
      found.is_user = found.line != 0;
      return found;
    }
    if (innermost.code == 0 && origin != CodeOrigin::kDrydock) innermost = frame;
    if (!step_out(memory, frame)) break;
  }
  if (innermost.code != 0) found.line = intern_frame(memory, innermost, caches);
  return found;
}

// The first argument of the innermost entry into a module's forward: the module. It is only compared, never read.
uint64_t module_of_own_stack(uintptr_t thread_state, ThreadCaches& caches) noexcept {
  OwnMemory memory;
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return 0;
  for (int depth = 0; depth < kMostFrames; ++depth) {
    CodeOrigin origin{};
    if (!origin_of_frame(memory, frame, caches, origin)) return 0;
    uint64_t module = 0;
    if (origin == CodeOrigin::kModuleCall)
      return memory.load(frame.address + interpreter.layout.frame_locals, module) ? module : 0;
    if (!step_out(memory, frame)) return 0;
  }
  return 0;
}

// Who started the calling thread, which has frames: its outermost function tells.
ThreadStart start_of_thread(uintptr_t thread_state) noexcept {
  OwnMemory memory;
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return ThreadStart::kUnknown;
  Frame outermost = frame;
  for (int depth = 0; depth < kMostFrames && step_out(memory, frame); ++depth) outermost = frame;
  try {
    std::string function;
    uintptr_t name = 0;
    if (!memory.load(outermost.code + interpreter.layout.code_qualname, name) || !read_text(memory, name, function))
      return ThreadStart::kUnknown;
    return function == "Thread._bootstrap" || function == "_bootstrap" ? ThreadStart::kPython : ThreadStart::kNative;
  } catch (...) {
    return ThreadStart::kUnknown;
  }
}

// Looks at the lender's stack from another thread. 0 if it can't be read or makes no sense.
LineId line_of_lender(uintptr_t thread_state) noexcept {
  static ProcessMemory& memory = *new ProcessMemory;
  const std::unique_lock lock(remote_mutex, std::try_to_lock);
  ThreadCaches* caches = caches_of_this_thread();
  if (!lock.owns_lock() || caches == nullptr || thread_state == 0) return 0;
  memory.restart();
  uintptr_t thread = 0;
  if (!memory.load(thread_state + interpreter.layout.thread_id, thread) ||
      thread != lender.thread.load(std::memory_order_relaxed))
    return 0;
  // Frames of a running thread may be half made: only what is a code object all the way counts.
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return 0;
  for (int depth = 0; depth < kMostRemoteFrames; ++depth) {
    if (!has_type(memory, frame.code, interpreter.code_type)) return 0;
    CodeOrigin origin{};
    if (!origin_of_frame(memory, frame, *caches, origin)) return 0;
    if (origin == CodeOrigin::kUser) return intern_frame(memory, frame, *caches);
    if (!step_out(memory, frame)) return 0;
  }
  return 0;
}

// The line for a thread that runs no Python code. It looks at the lender once per burst of calls: while a thread of the
// autograd engine works, the thread that called backward() waits and asks for no line of its own. If the two take turns
// (a task queue), bursts are one or two calls long; then the line that the lender last had serves, and a look is taken
// now and then.
LineId borrowed_line() noexcept {
  constexpr uint32_t kShortBurst = 4, kManyShortBursts = 16, kLookEvery = 64;
  Loan& self = loan;
  const uint64_t calls = lender.calls.load(std::memory_order_acquire);
  ++self.calls_since_look;
  if (calls == self.calls) return self.line;
  const bool is_short = self.calls_since_look <= kShortBurst;
  if (self.short_bursts >= kManyShortBursts && self.calls_since_look < kLookEvery) {
    return lender.line.load(std::memory_order_relaxed);
  }
  self.short_bursts = is_short || self.calls_since_look >= kLookEvery ? self.short_bursts + 1 : 0;
  self.calls_since_look = 0;
  self.calls = calls;
  const LineId line = line_of_lender(lender.thread_state.load(std::memory_order_relaxed));
  self.line = line != 0 ? line : lender.line.load(std::memory_order_relaxed);
  return self.line;
}

void set_state(PythonState state) noexcept {
  known_state.store(state, std::memory_order_relaxed);
  Writer::instance().set_python(state, interpreter.version.data());
}

template <class Function>
Function find_symbol(const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));  // NOLINT: what dlsym is for
}

Stage turn_off(PythonState state) noexcept {
  set_state(state);
  stage.store(Stage::kOff, std::memory_order_release);
  return Stage::kOff;
}

Stage find_interpreter() noexcept {
  const Writer::State recording = Writer::instance().state();
  const std::unique_lock lock(discovery_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return Stage::kUntried;
  Stage now = stage.load(std::memory_order_relaxed);
  if (now != Stage::kUntried) return now;
  if (recording == Writer::State::kNull) {
    stage.store(Stage::kOff, std::memory_order_release);
    return Stage::kOff;
  }
  interpreter.this_thread_state = find_symbol<void* (*)()>("PyGILState_GetThisThreadState");
  const auto version = find_symbol<const char* (*)()>("Py_GetVersion");
  interpreter.line_of = find_symbol<int (*)(void*, int)>("PyCode_Addr2Line");
  interpreter.code_type = find_symbol<uintptr_t>("PyCode_Type");
  interpreter.unicode_type = find_symbol<uintptr_t>("PyUnicode_Type");
  interpreter.bytes_type = find_symbol<uintptr_t>("PyBytes_Type");
  interpreter.is_finalizing = find_symbol<int (*)()>("_Py_IsFinalizing");
  if (interpreter.is_finalizing == nullptr) interpreter.is_finalizing = find_symbol<int (*)()>("Py_IsFinalizing");
  if (interpreter.this_thread_state == nullptr || version == nullptr || interpreter.line_of == nullptr ||
      interpreter.code_type == 0 || interpreter.unicode_type == 0 || interpreter.bytes_type == 0)
    return turn_off(PythonState::kNoPython);

  const char* text = version();  // "3.11.7 (main, ...) [...]"
  const size_t length = std::min(std::strcspn(text, " "), interpreter.version.size() - 1);
  std::memcpy(interpreter.version.data(), text, length);
  const bool is_three = std::strncmp(text, "3.", 2) == 0;
  const PythonLayout* layout = is_three ? layout_of(std::atoi(text + 2)) : nullptr;
  if (layout == nullptr) return turn_off(PythonState::kUnknownVersion);
  interpreter.layout = *layout;
  stage.store(Stage::kFound, std::memory_order_release);
  return Stage::kFound;
}

// kReading for this call only, as long as nothing but one frame at a time was seen.
Stage check_layout(uintptr_t thread_state) noexcept {
  const std::unique_lock lock(discovery_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return Stage::kFound;
  const Stage now = stage.load(std::memory_order_relaxed);
  if (now != Stage::kFound) return now;
  LayoutFit fit = LayoutFit::kWrong;
  try {
    static ProcessMemory& memory = *new ProcessMemory;
    memory.restart();
    if (top_frame(memory, thread_state) == 0) return Stage::kFound;  // not in Python code: nothing to compare with
    fit = fit_of_layout(memory, thread_state);
  } catch (...) {
    fit = LayoutFit::kWrong;
  }
  if (fit == LayoutFit::kWrong) return turn_off(PythonState::kLayoutMismatch);
  if (python_state() != PythonState::kReading) set_state(PythonState::kReading);
  if (fit == LayoutFit::kRight) stage.store(Stage::kReading, std::memory_order_release);
  return Stage::kReading;
}

}  // namespace

PythonState python_state() noexcept { return known_state.load(std::memory_order_relaxed); }

void forget_python_threads() noexcept {
  // Another thread may have held these at the time of the fork.
  new (&discovery_mutex) std::mutex;
  new (&remote_mutex) std::mutex;
  lender.thread_state.store(0, std::memory_order_relaxed);
  lender.line.store(0, std::memory_order_relaxed);
  loan = {};
  become_main_thread();
  if (stage.load(std::memory_order_relaxed) == Stage::kOff) stage.store(Stage::kUntried, std::memory_order_relaxed);
}

uint64_t current_module() noexcept {
  if (stage.load(std::memory_order_acquire) != Stage::kReading) return 0;
  const auto thread_state = reinterpret_cast<uintptr_t>(interpreter.this_thread_state());
  if (thread_state == 0 || (interpreter.is_finalizing != nullptr && interpreter.is_finalizing() != 0)) return 0;
  ThreadCaches* caches = caches_of_this_thread();
  return caches == nullptr ? 0 : module_of_own_stack(thread_state, *caches);
}

bool is_in_python_function(std::string_view qualified_name) noexcept {
  if (stage.load(std::memory_order_acquire) != Stage::kReading) return false;
  const auto thread_state = reinterpret_cast<uintptr_t>(interpreter.this_thread_state());
  if (thread_state == 0 || (interpreter.is_finalizing != nullptr && interpreter.is_finalizing() != 0)) return false;
  OwnMemory memory;
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return false;
  try {
    std::string function;
    uintptr_t name = 0;
    return memory.load(frame.code + interpreter.layout.code_qualname, name) && read_text(memory, name, function) &&
           function == qualified_name;
  } catch (...) {
    return false;
  }
}

LineId current_line() noexcept {
  Stage now = stage.load(std::memory_order_acquire);
  if (now == Stage::kUntried) now = find_interpreter();
  if (now == Stage::kOff || now == Stage::kUntried) return 0;
  const auto thread_state = reinterpret_cast<uintptr_t>(interpreter.this_thread_state());
  // At the end of the interpreter the states of its other threads are freed under them.
  const bool is_ending = interpreter.is_finalizing != nullptr && interpreter.is_finalizing() != 0;
  if (thread_state == 0 || is_ending) return is_ending ? lender.line.load(std::memory_order_relaxed) : borrowed_line();
  if (now == Stage::kFound) {
    now = check_layout(thread_state);
    if (now == Stage::kOff) return 0;
    if (now == Stage::kFound) return borrowed_line();
  }
  ThreadCaches* caches = caches_of_this_thread();
  if (caches == nullptr) return 0;
  const StackLine found = line_of_own_stack(thread_state, *caches);
  if (!found.has_frames) return borrowed_line();
  if (caches->start == ThreadStart::kUnknown) caches->start = start_of_thread(thread_state);
  // A native thread runs Python code now and then (the autograd engine: hooks, checkpoints) on behalf of another
  // thread. It does not lend, and where its code is a library's, it borrows.
  if (caches->start == ThreadStart::kNative) {
    if (!found.is_user) {
      const LineId line = borrowed_line();
      return line != 0 ? line : found.line;
    }
    if (lender.thread_state.load(std::memory_order_relaxed) != 0) return found.line;
  }
  // A thread of library code (a data loader's) lends nothing either, as long as another does.
  if (!found.is_user && caches->start != ThreadStart::kMain && lender.thread_state.load(std::memory_order_relaxed) != 0)
    return found.line;
  lender.thread_state.store(thread_state, std::memory_order_relaxed);
  lender.thread.store(static_cast<uintptr_t>(pthread_self()), std::memory_order_relaxed);
  lender.line.store(found.line, std::memory_order_relaxed);
  lender.calls.store(lender.calls.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return found.line;
}

}  // namespace drydock::trace
