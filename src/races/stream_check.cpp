#include "races/stream_check.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/python_stack.h"
#include "trace/race_record.h"
#include "trace/recorder.h"

namespace drydock::races {

namespace detail {
bool is_on = false;
}

namespace {

constexpr uint32_t kHost = 0;  // index of the host in clocks
/// More different races than anyone reads.
constexpr size_t kMostRaces = 1000;

struct StreamState {
  uint32_t index = 0;
  VectorClock clock;        ///< what is over for work that is submitted next, the stream's own included
  uint64_t host_joins = 0;  ///< how much of the host's clock it has
  uint32_t awaited = 0;     ///< waits for records that were not submitted yet
};

/// A point that streams wait for: an event's last record, a notify.
struct Point {
  VectorClock clock;
  bool is_recorded = false;
  std::vector<uint32_t> awaiting;  ///< streams
};

struct Range {
  uint64_t begin;
  uint64_t end;
};

struct State {
  std::mutex mutex;
  std::unordered_map<uint32_t, StreamState> streams;        // by id
  std::vector<std::pair<uint32_t, uint64_t>> free_indices;  // of streams that ended, with their last tick
  uint32_t next_index = kHost + 1;
  std::unordered_map<uint32_t, Point> events;
  std::unordered_map<uint32_t, Point> notifies;
  VectorClock host;         // what every later call comes behind
  uint64_t host_joins = 1;  // grows with `host`
  VectorClock allocators;   // what is over for memory that is handed out again
  AccessHistory history;
  std::unordered_map<uint64_t, uint64_t> blocks;  // bytes by address
  std::vector<Conflict> conflicts;
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, bool>;
  std::set<Key> told;

  static State& get() {
    static State& state = *new State;
    return state;
  }

  StreamState& stream(uint32_t id) {
    StreamState& known = streams[id];
    if (known.index == kHost) {
      if (free_indices.empty()) {
        known.index = next_index++;
      } else {
        known.index = free_indices.back().first;
        known.clock.raise(known.index, free_indices.back().second);
        free_indices.pop_back();
      }
    }
    if (known.host_joins != host_joins) {
      known.clock.join(host);
      known.host_joins = host_joins;
    }
    return known;
  }

  void join_host(const VectorClock& clock) {
    if (host.join(clock)) ++host_joins;
  }

  void record(Point& point, uint32_t id) {
    point.clock = stream(id).clock;
    point.is_recorded = true;
    for (const uint32_t waiting : std::exchange(point.awaiting, {})) {
      StreamState& state = stream(waiting);
      state.clock.join(point.clock);
      --state.awaited;
    }
  }

  void await(Point& point, uint32_t id) {
    ++stream(id).awaited;
    point.awaiting.push_back(id);
  }

  void report(const Work& work, const Access& later, const Conflict& conflict);
  void add(const Work& work, const Access& access, std::span<const Use> uses, VectorClock& clock);
};

void State::report(const Work& work, const Access& later, const Conflict& conflict) {
  const Site& first = conflict.earlier.site;
  const Site& second = later.site;
  const bool is_reuse = conflict.earlier.is_over;
  // One block that is used too early is one fault, whatever comes into its bytes.
  const Key key = is_reuse ? Key{first.line, first.call, first.what, conflict.earlier.freed_line, 0, 0, true}
                           : Key{first.line, first.call, first.what, second.line, second.call, second.what, false};
  if (told.size() >= kMostRaces || !told.insert(key).second) return;
  trace::RaceRecord record;
  record.device = work.device;
  record.is_reuse = is_reuse;
  record.first = {first.stream_id, first.line, first.call, first.what, first.argument, conflict.earlier.writes};
  record.second = {second.stream_id, second.line, second.call, second.what, second.argument, later.writes};
  record.address = conflict.begin;
  record.size_bytes = conflict.end - conflict.begin;
  record.freed_line = conflict.earlier.freed_line;
  trace::race_found(record);
}

void State::add(const Work& work, const Access& access, std::span<const Use> uses, VectorClock& clock) {
  Access each = access;
  for (const Use& use : uses) {
    each.site.argument = use.argument;
    each.writes = use.writes;
    conflicts.clear();
    if (use.is_host) {
      VectorClock over = clock;
      over.join(allocators);
      history.add(each, use.footprint, over, host, conflicts);
    } else {
      history.add(each, use.footprint, clock, host, conflicts);
    }
    for (const Conflict& conflict : conflicts) {
      report(work, each, conflict);
      // As if the missing wait were there: what else it would have ordered is the same fault. A block that is reused
      // too early says nothing about other memory.
      if (conflict.earlier.is_over) continue;
      for (const auto& [id, other] : streams)
        if (other.index == conflict.earlier.stream) clock.join(other.clock);
      clock.raise(conflict.earlier.stream, conflict.earlier.tick);
    }
  }
}

Access access_of(const Work& work, uint32_t stream_id) {
  Access access;
  access.site.stream_id = stream_id;
  access.site.line = work.line;
  access.site.call = work.call;
  if (work.call == 0 && work.what != nullptr) access.site.what = trace::intern_string(work.what);
  return access;
}

/// Runs `tell` under the lock. Memory that runs out costs findings, never the program.
template <class Tell>
void locked(Tell&& tell) noexcept {
  try {
    State& state = State::get();
    const std::lock_guard lock(state.mutex);
    tell(state);
  } catch (...) {}
}

[[gnu::constructor]] void read_environment() noexcept {
  const char* check = std::getenv("DRYDOCK_CHECK");
  detail::is_on = check != nullptr && std::string_view(check) == "streams" && std::getenv("DRYDOCK_RUN_DIR") != nullptr;
}

}  // namespace

void submitted(uint32_t stream, const Work& work, std::span<const Use> uses) noexcept {
  locked([&](State& state) {
    StreamState& on = state.stream(stream);
    if (on.awaited > 0) return;
    Access access = access_of(work, stream);
    access.stream = on.index;
    access.tick = on.clock.advance(on.index);
    state.add(work, access, uses, on.clock);
  });
}

void touched_by_host(const Work& work, std::span<const Use> uses) noexcept {
  locked([&](State& state) {
    Access access = access_of(work, 0);
    access.stream = kHost;
    access.tick = state.host.advance(kHost);
    ++state.host_joins;
    VectorClock clock = state.host;
    state.add(work, access, uses, clock);
    state.join_host(clock);
  });
}

void event_recorded(uint32_t event, uint32_t stream) noexcept {
  locked([&](State& state) { state.record(state.events[event], stream); });
}

void event_waited_for(uint32_t event, uint32_t stream) noexcept {
  locked([&](State& state) { state.stream(stream).clock.join(state.events[event].clock); });
}

void event_awaited(uint32_t event, uint32_t stream) noexcept {
  locked([&](State& state) { state.await(state.events[event], stream); });
}

void notify_recorded(uint32_t notify, uint32_t stream) noexcept {
  locked([&](State& state) { state.record(state.notifies[notify], stream); });
}

void notify_waited_for(uint32_t notify, uint32_t stream) noexcept {
  locked([&](State& state) {
    Point& point = state.notifies[notify];
    if (!point.is_recorded) {
      state.await(point, stream);
      return;
    }
    state.stream(stream).clock.join(point.clock);
    point.is_recorded = false;  // the wait resets it
  });
}

void host_waited_for_event(uint32_t event) noexcept {
  locked([&](State& state) { state.join_host(state.events[event].clock); });
}

void host_saw_event(uint32_t event) noexcept {
  const bool is_programs =
      trace::python_state() != trace::PythonState::kReading || trace::is_in_python_function("Event.query");
  locked([&](State& state) {
    const VectorClock& clock = state.events[event].clock;
    state.allocators.join(clock);
    if (is_programs) state.join_host(clock);
  });
}

void host_waited_for_stream(uint32_t stream) noexcept {
  locked([&](State& state) { state.join_host(state.stream(stream).clock); });
}

void stream_ended(uint32_t stream) noexcept {
  locked([&](State& state) {
    const auto found = state.streams.find(stream);
    if (found == state.streams.end()) return;
    const uint32_t index = found->second.index;
    state.join_host(found->second.clock);
    state.free_indices.emplace_back(index, state.host.at(index));
    state.streams.erase(found);
  });
}

void event_ended(uint32_t event) noexcept {
  locked([&](State& state) {
    const auto found = state.events.find(event);
    if (found == state.events.end()) return;
    for (const uint32_t waiting : found->second.awaiting) --state.stream(waiting).awaited;
    state.events.erase(found);
  });
}

void block_born(uint64_t address, uint64_t size_bytes) noexcept {
  locked([&](State& state) {
    state.blocks[address] = size_bytes;
    state.history.forget(address, address + size_bytes, state.allocators);
  });
}

void block_freed(uint64_t address, uint32_t line) noexcept {
  locked([&](State& state) {
    const auto block = state.blocks.find(address);
    if (block == state.blocks.end()) return;
    state.history.give_back(address, address + block->second, line);
    state.blocks.erase(block);
  });
}

void memory_returned(uint64_t address, uint64_t size_bytes) noexcept {
  locked([&](State& state) { state.history.forget(address, address + size_bytes); });
}

}  // namespace drydock::races
