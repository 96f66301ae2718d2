#include "trace/writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <type_traits>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/uio.h>

#include "device/heap.h"
#include "ops/operator_row.h"
#include "trace/call_encoding.h"
#include "trace/python_stack.h"

namespace drydock::trace {
namespace {

constinit Writer the_writer;
static_assert(std::is_trivially_destructible_v<Writer>, "threads of the client may record while the process ends");

uint64_t now_ns(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

std::span<const std::byte> bytes_of_text(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), std::min(text.size(), kMaxTextBytes)));
}

std::string_view text_of(const InternTable::Entry* entry) noexcept {
  if (entry == nullptr) return {};
  return {reinterpret_cast<const char*>(entry->data()), entry->size_bytes};
}

void copy_text(char* to, size_t capacity, std::string_view text) noexcept {
  const size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

void copy_environment(char* to, size_t capacity, const char* name) noexcept {
  const char* text = std::getenv(name);
  copy_text(to, capacity, text == nullptr ? "" : text);
}

void copy_command(char* to, size_t capacity) noexcept {
  const int descriptor = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  const ssize_t length = read(descriptor, to, capacity - 1);
  ::close(descriptor);
  for (ssize_t index = 0; index < length; ++index)
    if (to[index] == '\0') to[index] = index + 1 == length ? '\0' : ' ';
}

// A line's key in its table.
struct LineKey {
  StringId file;
  uint32_t line;
  StringId function;
};

}  // namespace

Writer& Writer::instance() noexcept { return the_writer; }

Writer::State Writer::open() noexcept {
  std::lock_guard lock(mutex_);
  State state = state_.load(std::memory_order_relaxed);
  if (state != State::kUnopened) return state;
  if (!closes_at_exit_) {
    closes_at_exit_ = true;
    std::atexit([] { the_writer.close(); });
  }
  const char* record = std::getenv("DRYDOCK_RECORD");
  const char* run_folder = std::getenv("DRYDOCK_RUN_DIR");
  if (record != nullptr && std::strcmp(record, "null") == 0) {
    state = State::kNull;
  } else if (run_folder == nullptr || *run_folder == '\0') {
    state = State::kLinesOnly;
  } else if (const int error = create_file(run_folder); error != 0) {
    dprintf(STDERR_FILENO,
            "drydock: nothing of process %d is recorded: a trace file in %s/traces could not be created: %s. "
            "Choose another run folder (DRYDOCK_RUN_DIR, drydock run --out).\n",
            getpid(), run_folder, std::strerror(error));
    state = State::kLinesOnly;
  } else {
    state = State::kRecording;
    define_everything();
  }
  state_.store(state, std::memory_order_release);
  return state;
}

int Writer::create_file(const char* run_folder) noexcept {
  char path[4096];
  char working_folder[4096] = "";
  if (run_folder[0] != '/' && getcwd(working_folder, sizeof(working_folder)) == nullptr) return errno;
  const char* separator = run_folder[0] == '/' ? "" : "/";
  int length = std::snprintf(path, sizeof(path), "%s%s%s/traces", working_folder, separator, run_folder);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(path)) return ENAMETOOLONG;
  if (mkdir(path, 0755) != 0 && errno != EEXIST) return errno;

  const auto wall_ns = static_cast<int64_t>(now_ns(CLOCK_REALTIME));
  const int more = std::snprintf(path + length, sizeof(path) - static_cast<size_t>(length), "/%d-%lld.ddtrace",
                                 getpid(), static_cast<long long>(wall_ns));
  if (more < 0 || static_cast<size_t>(more) >= sizeof(path) - static_cast<size_t>(length)) return ENAMETOOLONG;
  if (const int error = file_.create(path); error != 0) return error;
  fill_header(wall_ns);
  return 0;
}

void Writer::fill_header(int64_t wall_ns) noexcept {
  FileHeader& header = *file_.header();
  last_ns_ = now_ns(CLOCK_MONOTONIC);
  header.version = kFormatVersion;
  header.header_bytes = kHeaderBytes;
  header.pid = getpid();
  header.parent_pid = getppid();
  header.start_wall_ns = wall_ns;
  header.start_monotonic_ns = static_cast<int64_t>(last_ns_);
  header.python_state = static_cast<uint32_t>(python_state_);
  copy_text(header.python_version, sizeof(header.python_version), python_version_.data());
  copy_environment(header.values, sizeof(header.values), "DRYDOCK_VALUES");
  copy_environment(header.profile, sizeof(header.profile), "DRYDOCK_PROFILE");
  copy_command(header.command, sizeof(header.command));
  for (int device = 0; device < kMaxTracedDevices; ++device)
    header.arena_bases[device] = arena_bases_[static_cast<size_t>(device)].load(std::memory_order_relaxed);
  uint64_t magic = 0;
  std::memcpy(&magic, kFileMagic, sizeof(magic));
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(header.magic)).store(magic, std::memory_order_release);
}

// A forked child knows what its parent interned; its own file has to tell it again.
void Writer::define_everything() noexcept {
  for (StringId id = 1; id <= strings_.size(); ++id) define_string(id);
  for (LineId id = 1; id <= lines_.size(); ++id) define_line(id);
  for (CallId id = 1; id <= calls_.size(); ++id) define_call(id);
}

void Writer::define_string(StringId id) noexcept {
  const InternTable::Entry* entry = strings_.by_id(id);
  const uint64_t word = pair_of(id, entry->size_bytes);
  append(Kind::kDefineString, 0, 0, {&word, 1}, entry->bytes());
}

void Writer::define_line(LineId id) noexcept {
  LineKey key{};
  std::memcpy(&key, lines_.by_id(id)->data(), sizeof(key));
  const std::array<uint64_t, 2> words = {pair_of(id, key.line), pair_of(key.file, key.function)};
  append(Kind::kDefineLine, 0, 0, words, {});
}

void Writer::define_call(CallId id) noexcept {
  const InternTable::Entry* entry = calls_.by_id(id);
  define_operator(operator_of(entry->bytes()));
  const uint64_t word = pair_of(id, entry->size_bytes);
  append(Kind::kDefineCall, 0, 0, {&word, 1}, entry->bytes());
}

void Writer::define_operator(uint32_t operator_id) noexcept {
  const std::span<const ops::OperatorRow> rows = ops::operator_rows();
  if (operator_id >= rows.size() || operator_id >= kMostOperators) return;
  uint64_t& word = defined_operators_[operator_id / 64];
  const uint64_t bit = uint64_t{1} << operator_id % 64;
  if ((word & bit) != 0) return;
  word |= bit;
  StringId text = 0;
  try {
    text = string_id_locked(signature_of(rows[operator_id]));
  } catch (...) {  // out of memory: the operator stays a number
    return;
  }
  const uint64_t definition = pair_of(operator_id, text);
  append(Kind::kDefineOperator, 0, 0, {&definition, 1}, {});
}

StringId Writer::string_id(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const std::span<const std::byte> bytes = bytes_of_text(text);
  if (const StringId id = strings_.find(bytes, hash_bytes(bytes)); id != 0) return id;
  state();
  std::lock_guard lock(mutex_);
  return string_id_locked(text);
}

StringId Writer::string_id_locked(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const std::span<const std::byte> bytes = bytes_of_text(text);
  const uint64_t hash = hash_bytes(bytes);
  if (const StringId id = strings_.find(bytes, hash); id != 0) return id;
  const StringId id = strings_.insert(bytes, hash);
  if (id != 0) define_string(id);
  return id;
}

LineId Writer::line_id(std::string_view file, uint32_t line, std::string_view function) noexcept {
  if (file.empty()) return 0;
  const LineKey key{string_id(file), line, string_id(function)};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&key, 1));
  const uint64_t hash = hash_bytes(bytes);
  if (const LineId id = lines_.find(bytes, hash); id != 0) return id;
  std::lock_guard lock(mutex_);
  if (const LineId id = lines_.find(bytes, hash); id != 0) return id;
  const LineId id = lines_.insert(bytes, hash);
  if (id != 0) define_line(id);
  return id;
}

CallId Writer::call_id(std::span<const std::byte> encoded) noexcept {
  if (encoded.empty() || encoded.size() > kMaxCallBytes) return 0;
  const uint64_t hash = hash_bytes(encoded);
  if (const CallId id = calls_.find(encoded, hash); id != 0) return id;
  std::lock_guard lock(mutex_);
  if (const CallId id = calls_.find(encoded, hash); id != 0) return id;
  const CallId id = calls_.insert(encoded, hash);
  if (id != 0) define_call(id);
  return id;
}

bool Writer::find_line(LineId id, Line& line) const noexcept {
  const InternTable::Entry* entry = lines_.by_id(id);
  if (entry == nullptr) return false;
  LineKey key{};
  std::memcpy(&key, entry->data(), sizeof(key));
  line = {text_of(strings_.by_id(key.file)), key.line, text_of(strings_.by_id(key.function))};
  return true;
}

uint64_t Writer::arena_base(int32_t device) noexcept {
  if (device < 0 || device >= kMaxTracedDevices) return 0;
  std::atomic<uint64_t>& known = arena_bases_[static_cast<size_t>(device)];
  uint64_t base = known.load(std::memory_order_relaxed);
  if (base != 0) return base;
  base = device::arena_base(device);
  if (base == 0) return 0;
  std::lock_guard lock(mutex_);
  known.store(base, std::memory_order_relaxed);
  if (file_.header() != nullptr) file_.header()->arena_bases[device] = base;
  return base;
}

void Writer::set_python(PythonState state, std::string_view version) noexcept {
  std::lock_guard lock(mutex_);
  python_state_ = state;
  copy_text(python_version_.data(), python_version_.size(), version);
  if (FileHeader* header = file_.header(); header != nullptr) {
    header->python_state = static_cast<uint32_t>(state);
    copy_text(header->python_version, sizeof(header->python_version), version);
  }
}

Counters Writer::counters() noexcept {
  std::lock_guard lock(mutex_);
  const FileHeader* header = file_.header();
  if (header == nullptr) return {};
  return {header->records, header->used_bytes, header->lost_records, header->lost_bytes};
}

void Writer::close() noexcept {
  std::lock_guard lock(mutex_);
  FileHeader* header = file_.header();
  if (header == nullptr) return;
  file_.trim();
  header->closed = 1;
}

void Writer::append(Kind kind, uint8_t flags, uint16_t operand, std::span<const uint64_t> words,
                    std::span<const std::byte> tail) noexcept {
  FileHeader* header = file_.header();
  if (header == nullptr) return;
  const size_t size = 8 + words.size_bytes() + (tail.size() + 7) / 8 * 8;
  const uint64_t now = std::max(now_ns(CLOCK_MONOTONIC), last_ns_);
  const uint64_t delta = now - last_ns_;
  const uint32_t thread = thread_index();
  const bool has_gap = delta > 0xffffffffU;
  const bool has_switch = thread != last_thread_;

  std::byte* place = full_ ? nullptr : file_.reserve(size + 32);  // 32: both escapes at their largest
  if (place == nullptr) {
    // What is in the file stays a true beginning: once something is missing, nothing more is added.
    full_ = true;
    ++header->lost_records;
    header->lost_bytes += size;
    return;
  }
  // The first word goes last: a record that was not completed reads as the end of the file.
  const auto write = [&](Kind record_kind, uint8_t record_flags, uint16_t record_operand, uint32_t record_delta,
                         std::span<const uint64_t> record_words, std::span<const std::byte> record_tail) {
    if (!record_words.empty()) std::memcpy(place + 8, record_words.data(), record_words.size_bytes());
    if (!record_tail.empty())
      std::memcpy(place + 8 + record_words.size_bytes(), record_tail.data(), record_tail.size());
    uint64_t first = static_cast<uint64_t>(record_kind) | static_cast<uint64_t>(record_flags) << 8 |
                     static_cast<uint64_t>(record_operand) << 16 | static_cast<uint64_t>(record_delta) << 32;
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(place)).store(first, std::memory_order_release);
    const size_t bytes = 8 + record_words.size_bytes() + (record_tail.size() + 7) / 8 * 8;
    place += bytes;
    file_.advance(bytes);
  };
  if (has_gap) write(Kind::kGap, 0, 0, 0, {&delta, 1}, {});
  if (has_switch) {
    const uint64_t wide = thread;
    if (thread < 0xffff) {
      write(Kind::kThread, 0, static_cast<uint16_t>(thread), 0, {}, {});
    } else {
      write(Kind::kThread, 0, 0xffff, 0, {&wide, 1}, {});
    }
    last_thread_ = thread;
  }
  write(kind, flags, operand, has_gap ? 0 : static_cast<uint32_t>(delta), words, tail);
  last_ns_ = now;
  ++header->records;
  header->used_bytes = file_.used_bytes() - kHeaderBytes;
  if (header->closed != 0) header->closed = 0;
}

uint64_t Writer::identity_of(uint64_t address) noexcept {
  try {
    if (identities_ == nullptr) identities_ = new std::unordered_map<uint64_t, uint64_t>;
    const auto [place, is_new] = identities_->try_emplace(address, identities_given_ + 1);
    if (is_new) ++identities_given_;
    return place->second;
  } catch (...) {
    return 0;  // out of memory: the address is unknown
  }
}

void Writer::Append::forget_identity(uint64_t address) noexcept {
  if (writer_.identities_ != nullptr) writer_.identities_->erase(address);
}

uint32_t Writer::Append::module_of(uint64_t object) noexcept {
  if (object == 0) return 0;
  try {
    if (writer_.modules_ == nullptr) writer_.modules_ = new std::unordered_map<uint64_t, Module>;
    const auto [place, is_new] = writer_.modules_->try_emplace(object);
    if (is_new) place->second.number = ++writer_.modules_given_;
    return place->second.number;
  } catch (...) {
    return 0;  // out of memory: the module is unknown
  }
}

uint32_t Writer::Append::name_module(uint64_t object, StringId name) noexcept {
  if (module_of(object) == 0 || name == 0) return 0;
  Module& module = writer_.modules_->find(object)->second;
  if (module.name == name) return 0;
  // An object of another name at this address is another one, and gets a number of its own.
  if (module.name != 0) module.number = ++writer_.modules_given_;
  module.name = name;
  ++writer_.modules_named_;
  return module.number;
}

// Threads are numbered in the order of their first records, from 0.
uint32_t Writer::thread_index() noexcept {
  thread_local uint64_t numbered = 0;  // generation << 32 | index
  if (numbered >> 32 != generation_) numbered = static_cast<uint64_t>(generation_) << 32 | threads_++;
  return static_cast<uint32_t>(numbered);
}

// At load, before any thread can hold the mutex: a fork that has begun does not meet handlers that another thread
// registers meanwhile, and its child would find the mutex held for good.
void Writer::watch_forks() noexcept { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

void Writer::before_fork() noexcept { the_writer.mutex_.lock(); }

void Writer::after_fork_in_parent() noexcept { the_writer.mutex_.unlock(); }

void Writer::after_fork_in_child() noexcept {
  Writer& writer = the_writer;
  writer.file_.abandon();
  writer.full_ = false;
  writer.last_thread_ = writer.threads_ = 0;
  ++writer.generation_;
  writer.last_block_ = {};
  writer.block_streams_ = {};
  writer.birth_ = 0;
  writer.defined_operators_ = {};
  // Numbers of modules are told by events, which the child's file does not have.
  if (writer.modules_ != nullptr) writer.modules_->clear();
  writer.modules_given_ = writer.modules_named_ = 0;
  forget_python_threads();
  writer.state_.store(State::kUnopened, std::memory_order_release);
  writer.mutex_.unlock();
}

}  // namespace drydock::trace
