#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>

#include "trace/format.h"
#include "trace/intern_table.h"
#include "trace/recorder.h"
#include "trace/trace_file.h"

namespace drydock::trace {

/// The one writer of a process: the file, the tables of interned things, and the order of records, which is the order
/// in which threads took its mutex. Constant-initialised and trivially destructible: usable before main and during
/// exit.
class Writer {
 public:
  static Writer& instance() noexcept;

  enum class State : uint8_t {
    kUnopened,
    kRecording,
    kLinesOnly,  ///< no run folder: places are interned for messages, nothing is written
    kNull,       ///< DRYDOCK_RECORD=null
  };
  State state() noexcept {
    const State state = state_.load(std::memory_order_acquire);
    return state == State::kUnopened ? open() : state;
  }
  /// True if something was recorded: asking does not begin a trace.
  bool has_begun() const noexcept { return state_.load(std::memory_order_acquire) == State::kRecording; }
  bool is_recording() noexcept { return state() == State::kRecording; }

  /// Ids of interned things; each takes the mutex only for what is new. 0 when memory ran out.
  StringId string_id(std::string_view text) noexcept;
  LineId line_id(std::string_view file, uint32_t line, std::string_view function) noexcept;
  CallId call_id(std::span<const std::byte> encoded) noexcept;

  struct Line {
    std::string_view file;
    uint32_t line = 0;
    std::string_view function;
  };
  /// False for 0 and unknown ids. The views live as long as the process.
  bool find_line(LineId id, Line& line) const noexcept;

  /// First address of a device's arena, as the header tells it; 0 if the device has none yet.
  uint64_t arena_base(int32_t device) noexcept;

  void set_python(PythonState state, std::string_view version) noexcept;
  Counters counters() noexcept;
  void close() noexcept;

  /// Holds the mutex while a record is put together and written.
  class Append {
   public:
    explicit Append(Writer& writer) noexcept : writer_(writer), lock_(writer.mutex_) {}
    void operator()(Kind kind, uint8_t flags, uint16_t operand, std::initializer_list<uint64_t> words = {}) noexcept {
      writer_.append(kind, flags, operand, {words.begin(), words.size()}, {});
    }
    /// Number of an address of this process, in order of first sight.
    uint64_t identity_of(uint64_t address) noexcept { return writer_.identity_of(address); }
    /// Number of the module at `object`, from 1; 0 for none.
    uint32_t module_of(uint64_t object) noexcept;
    /// The module at `object` is called `name`. Its number if that is news, else 0.
    uint32_t name_module(uint64_t object, StringId name) noexcept;
    uint32_t modules_without_name() const noexcept { return writer_.modules_given_ - writer_.modules_named_; }
    /// The next thing at `address` is another one.
    void forget_identity(uint64_t address) noexcept;
    /// Block of the last kBlockAllocated record: (device, address, bytes).
    struct LastBlock {
      int32_t device = -1;
      uint64_t address = 0;
      uint64_t size_bytes = 0;
    };
    LastBlock& last_block() noexcept { return writer_.last_block_; }
    /// True if blocks of the device came from another stream or pool so far.
    bool changes_stream(int32_t device, uint32_t stream, uint8_t pool) noexcept {
      if (device < 0 || device >= kMaxTracedDevices) return false;
      uint64_t& last = writer_.block_streams_[static_cast<size_t>(device)];
      const uint64_t now = uint64_t{pool} << 32 | stream;
      if (last == now) return false;
      last = now;
      return true;
    }

    /// True if blocks were born elsewhere so far.
    bool changes_birth(uint32_t birth) noexcept {
      if (writer_.birth_ == birth) return false;
      writer_.birth_ = birth;
      return true;
    }

   private:
    Writer& writer_;
    std::lock_guard<std::mutex> lock_;
  };

 private:
  State open() noexcept;
  int create_file(const char* run_folder) noexcept;
  void fill_header(int64_t wall_ns) noexcept;
  void define_everything() noexcept;
  void define_string(StringId id) noexcept;
  void define_line(LineId id) noexcept;
  void define_call(CallId id) noexcept;
  void define_operator(uint32_t operator_id) noexcept;
  StringId string_id_locked(std::string_view text) noexcept;

  void append(Kind kind, uint8_t flags, uint16_t operand, std::span<const uint64_t> words,
              std::span<const std::byte> tail) noexcept;
  uint64_t identity_of(uint64_t address) noexcept;
  uint32_t thread_index() noexcept;

  [[gnu::constructor]] static void watch_forks() noexcept;
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;

  std::atomic<State> state_{State::kUnopened};
  std::mutex mutex_;
  // All below is guarded by mutex_, except lookups in the tables.
  TraceFile file_;
  bool closes_at_exit_ = false;
  bool full_ = false;
  uint64_t last_ns_ = 0;
  uint32_t last_thread_ = 0;
  uint32_t threads_ = 0;
  uint32_t generation_ = 1;  // of thread numbers; a forked child counts anew
  Append::LastBlock last_block_;
  std::array<uint64_t, kMaxTracedDevices> block_streams_{};  // stream | pool << 32 of the last block, by device
  uint32_t birth_ = 0;                                       // of the last block
  InternTable strings_;
  InternTable lines_;
  InternTable calls_;
  static constexpr uint32_t kMostOperators = 16384;
  std::array<uint64_t, kMostOperators / 64> defined_operators_{};
  std::unordered_map<uint64_t, uint64_t>* identities_ = nullptr;
  uint64_t identities_given_ = 0;
  struct Module {
    uint32_t number = 0;
    StringId name = 0;
  };
  std::unordered_map<uint64_t, Module>* modules_ = nullptr;  // by address of the object
  uint32_t modules_given_ = 0;
  uint32_t modules_named_ = 0;
  std::array<std::atomic<uint64_t>, kMaxTracedDevices> arena_bases_{};
  PythonState python_state_ = PythonState::kUntried;
  std::array<char, 16> python_version_{};
};

/// Packs two 32-bit fields into one word of a record.
constexpr uint64_t pair_of(uint32_t low, uint32_t high) noexcept { return low | static_cast<uint64_t>(high) << 32; }

}  // namespace drydock::trace
