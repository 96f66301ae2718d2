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

#include "trace/process_memory.h"
#include "trace/python_frame.h"
#include "trace/recorder.h"
#include "trace/writer.h"

namespace drydock::trace {

constinit Interpreter interpreter;

namespace {

constexpr int kMostFrames = 10'000;     // deeper stacks are endless recursion, or not stacks
constexpr int kMostCheckedFrames = 64;  // by the self-check
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

// Per thread: which code objects are the user's, and lines of instructions. Entries are compared with the objects they
// were made from, since a code object's address may come back for another one.
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
  bool is_main_thread;
};

struct ThreadState {
  ThreadCaches* caches;
  uint64_t borrowed_calls;  // of the lender, when the line was borrowed
  LineId borrowed_line;
  uint32_t calls_since_look;
  uint32_t short_bursts;
};
thread_local constinit ThreadState this_thread{};

void drop_caches(void* caches) noexcept {
  this_thread.caches = nullptr;
  munmap(caches, sizeof(ThreadCaches));
}

ThreadCaches* caches_of_this_thread() noexcept {
  if (this_thread.caches != nullptr) return this_thread.caches;
  void* memory = mmap(nullptr, sizeof(ThreadCaches), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* caches = static_cast<ThreadCaches*>(memory);
  caches->is_main_thread = syscall(SYS_gettid) == getpid();
  this_thread.caches = caches;
  if (interpreter.has_caches_key) pthread_setspecific(interpreter.caches_key, caches);
  return caches;
}

size_t slot_of(uintptr_t code, uintptr_t salt, size_t slots) noexcept {
  return ((code >> 4 ^ salt * 0x85ebca6bU) * 0x9e3779b97f4a7c15ULL >> 40) & (slots - 1);
}

// Notebook kernels name their cells after the process, which would make two runs differ.
void drop_process_number(std::string& file) {
  const size_t begin = file.find("/ipykernel_");
  if (begin == std::string::npos) return;
  const size_t number = begin + std::strlen("/ipykernel");
  size_t end = number + 1;
  while (end < file.size() && file[end] >= '0' && file[end] <= '9') ++end;
  if (end < file.size() && file[end] == '/') file.erase(number, end - number);
}

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
  bool is_python_thread = false;  ///< started by the threading module; only found out if no frame is the user's
};

template <class Memory>
StackLine line_of_stack(Memory& memory, uintptr_t thread_state, ThreadCaches& caches, int most_frames) noexcept {
  StackLine found;
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return found;
  found.has_frames = true;
  Frame innermost, outermost;
  for (int depth = 0; depth < most_frames; ++depth) {
    CodeOrigin origin{};
    if (!origin_of_frame(memory, frame, caches, origin)) return found;
    if (origin == CodeOrigin::kUser) {
      found.line = intern_frame(memory, frame, caches);
      found.is_user = found.line != 0;
      return found;
    }
    if (innermost.code == 0 && origin != CodeOrigin::kDrydock) innermost = frame;
    outermost = frame;
    if (!step_out(memory, frame)) break;
  }
  if (innermost.code != 0) found.line = intern_frame(memory, innermost, caches);
  try {
    std::string function;
    uintptr_t name = 0;
    if (memory.load(outermost.code + interpreter.layout.code_qualname, name) && read_text(memory, name, function))
      found.is_python_thread = function == "Thread._bootstrap" || function == "_bootstrap";
  } catch (...) {
    found.is_python_thread = false;
  }
  return found;
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
  ThreadState& self = this_thread;
  const uint64_t calls = lender.calls.load(std::memory_order_acquire);
  ++self.calls_since_look;
  if (calls == self.borrowed_calls) return self.borrowed_line;
  const bool is_short = self.calls_since_look <= kShortBurst;
  if (self.short_bursts >= kManyShortBursts && self.calls_since_look < kLookEvery) {
    return lender.line.load(std::memory_order_relaxed);
  }
  self.short_bursts = is_short || self.calls_since_look >= kLookEvery ? self.short_bursts + 1 : 0;
  self.calls_since_look = 0;
  self.borrowed_calls = calls;
  const LineId line = line_of_lender(lender.thread_state.load(std::memory_order_relaxed));
  self.borrowed_line = line != 0 ? line : lender.line.load(std::memory_order_relaxed);
  return self.borrowed_line;
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
  interpreter.has_caches_key = pthread_key_create(&interpreter.caches_key, drop_caches) == 0;
  stage.store(Stage::kFound, std::memory_order_release);
  return Stage::kFound;
}

// Does the layout fit this build? Looks at the calling thread's stack with reads that can't fault: the thread state
// must name this thread, every frame a code object with texts and a line table in their places and an instruction
// inside it, and every line must be the one that the interpreter itself decodes.
bool is_layout_right(ProcessMemory& memory, uintptr_t thread_state) {
  const PythonLayout& layout = interpreter.layout;
  uintptr_t thread = 0;
  if (!memory.load(thread_state + layout.thread_id, thread) || thread != static_cast<uintptr_t>(pthread_self()))
    return false;
  Frame frame{top_frame(memory, thread_state), 0};
  if (!settle_on_code(memory, frame)) return false;
  for (int depth = 0; depth < kMostCheckedFrames; ++depth) {
    uintptr_t filename = 0, name = 0, table = 0;
    int32_t byte_offset = 0;
    if (!has_type(memory, frame.code, interpreter.code_type) ||
        !memory.load(frame.code + layout.code_filename, filename) ||
        !memory.load(frame.code + layout.code_qualname, name) ||
        !memory.load(frame.code + layout.code_line_table, table) ||
        !has_type(memory, filename, interpreter.unicode_type) || !has_type(memory, name, interpreter.unicode_type) ||
        !has_type(memory, table, interpreter.bytes_type) || !byte_offset_of(memory, frame, byte_offset))
      return false;
    std::string text;
    if (!read_text(memory, filename, text) || text.empty()) return false;
    const int line = line_of_frame(memory, frame, byte_offset);
    if (line != interpreter.line_of(reinterpret_cast<void*>(frame.code), byte_offset)) return false;  // NOLINT
    if (!step_out(memory, frame)) return frame.address == 0;
  }
  return true;
}

Stage check_layout(uintptr_t thread_state) noexcept {
  const std::unique_lock lock(discovery_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return Stage::kFound;
  const Stage now = stage.load(std::memory_order_relaxed);
  if (now != Stage::kFound) return now;
  try {
    ProcessMemory memory;
    memory.restart();
    if (top_frame(memory, thread_state) == 0) return Stage::kFound;  // not in Python code: nothing to compare with
    if (!is_layout_right(memory, thread_state)) return turn_off(PythonState::kLayoutMismatch);
  } catch (...) {
    return turn_off(PythonState::kLayoutMismatch);
  }
  set_state(PythonState::kReading);
  stage.store(Stage::kReading, std::memory_order_release);
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
  this_thread.borrowed_line = 0;
  if (this_thread.caches != nullptr) this_thread.caches->is_main_thread = true;
  if (stage.load(std::memory_order_relaxed) == Stage::kOff) stage.store(Stage::kUntried, std::memory_order_relaxed);
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
  OwnMemory memory;
  const StackLine found = line_of_stack(memory, thread_state, *caches, kMostFrames);
  if (!found.has_frames) return borrowed_line();
  // Threads of the autograd engine run library code (checkpoints, hooks) on behalf of another thread.
  if (!found.is_user && !caches->is_main_thread && !found.is_python_thread) {
    const LineId line = borrowed_line();
    return line != 0 ? line : found.line;
  }
  // A thread of library code (a data loader's) is nobody's origin, as long as another can be.
  if (!found.is_user && !caches->is_main_thread && lender.thread_state.load(std::memory_order_relaxed) != 0)
    return found.line;
  lender.thread_state.store(thread_state, std::memory_order_relaxed);
  lender.thread.store(static_cast<uintptr_t>(pthread_self()), std::memory_order_relaxed);
  lender.line.store(found.line, std::memory_order_relaxed);
  lender.calls.store(lender.calls.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return found.line;
}

}  // namespace drydock::trace
