#include "device/client_allocator.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/heap.h"
#include "device/stream.h"

namespace drydock::device {
namespace {

// An event as torch_npu 2.13 hands it to trackers (its public header NPUCachingAllocator.h).
enum class Action : int32_t {
  kAllocated = 0,
  kFreeRequested = 1,
  kFreeCompleted = 2,
  kOutOfMemory = 8,
};
struct AllocatorEvent {
  Action action;
  int32_t device;
  int64_t address;  // of kOutOfMemory: bytes that are free
  std::array<void*, 2> context;
  void* stream;
  int64_t size;
  std::pair<uint64_t, uint64_t> pool;
};
static_assert(sizeof(AllocatorEvent) == 64 && offsetof(AllocatorEvent, stream) == 32 &&
              offsetof(AllocatorEvent, pool) == 48);

using Tracker = std::function<void(const AllocatorEvent&)>;
// A tracker is passed by value, which for its type means: a pointer to the caller's copy.
using Attach = void (*)(void* allocator, Tracker* tracker);

// Place of attachAllocatorTraceTracker among the allocator's virtual functions, by version of torch_npu.
struct KnownVersion {
  std::string_view version;
  size_t attach_slot;
};
constexpr std::array<KnownVersion, 1> kKnownVersions = {{{"2.13.0", 57}}};

constexpr const char* kAllocatorName = "_ZN7c10_npu19NPUCachingAllocator9allocatorE";

enum class State : uint8_t { kUntried, kTrying, kAttached, kImpossible };
constinit std::atomic<State> state{State::kUntried};

// What the tracker said last on this thread. The mstx hooks follow within the same call of the allocator.
struct LastEvents {
  uint64_t allocated = 0;
  trace::BlockOrigin origin;
  uint64_t free_requested = 0;
  bool is_pending = false;
  void* stream_handle = nullptr;
  uint32_t stream = 0;
};
thread_local constinit LastEvents last;

// Pools of graphs, by order of first sight. Rare; 0 is the default pool.
uint8_t pool_number(const std::pair<uint64_t, uint64_t>& pool) noexcept {
  if (pool.first == 0 && pool.second == 0) return 0;
  static std::mutex mutex;
  static auto& pools = *new std::vector<std::pair<uint64_t, uint64_t>>;
  std::lock_guard lock(mutex);
  for (size_t index = 0; index < pools.size(); ++index)
    if (pools[index] == pool) return static_cast<uint8_t>(index + 1);
  if (pools.size() < 254) pools.push_back(pool);
  return static_cast<uint8_t>(pools.size());
}

uint32_t stream_number(void* handle) noexcept {
  if (handle == last.stream_handle) return last.stream;
  Stream* stream = nullptr;
  const bool is_known = find_stream("", handle, stream).is_ok() && stream != nullptr;
  last.stream_handle = handle;
  last.stream = is_known ? stream->id() : 0;
  return last.stream;
}

void take(const AllocatorEvent& event) noexcept {
  const auto address = static_cast<uint64_t>(event.address);
  switch (event.action) {
    case Action::kAllocated:
      last.allocated = address;
      last.origin = {true, static_cast<uint64_t>(event.size), stream_number(event.stream), pool_number(event.pool)};
      break;
    case Action::kFreeRequested:
      last.free_requested = address;
      last.is_pending = true;
      break;
    case Action::kFreeCompleted:
      if (last.free_requested == address && last.is_pending) {
        last.is_pending = false;
      } else {
        trace::block_completed(event.device, address);
      }
      break;
    case Action::kOutOfMemory:
      trace::allocator_out_of_memory(event.device, stream_number(event.stream), pool_number(event.pool),
                                     static_cast<uint64_t>(event.size), address, trace::current_line());
      break;
  }
}

// torch_npu/version.py stands beside torch_npu/lib/libtorch_npu.so.
std::string version_beside(const char* library) {
  const std::string path(library);
  const size_t file = path.rfind('/');
  const size_t folder = file == std::string::npos ? file : path.rfind('/', file - 1);
  if (folder == std::string::npos) return {};
  std::ifstream text(path.substr(0, folder) + "/version.py");
  std::string line;
  while (std::getline(text, line)) {
    if (!line.starts_with("__version__")) continue;
    const size_t begin = line.find_first_of("'\"");
    const size_t end = line.find_last_of("'\"");
    return begin == std::string::npos || end <= begin ? std::string() : line.substr(begin + 1, end - begin - 1);
  }
  return {};
}

State attach() {
  void* library = dlopen("libtorch_npu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return State::kUntried;  // a program without torch_npu, or before its import
  auto* allocator = static_cast<std::atomic<void*>*>(dlsym(library, kAllocatorName));
  Dl_info info{};
  if (allocator == nullptr || dladdr(allocator, &info) == 0) return State::kImpossible;
  const std::string version = version_beside(info.dli_fname);
  for (const KnownVersion& known : kKnownVersions) {
    if (version != known.version) continue;
    void* object = allocator->load();
    if (object == nullptr) return State::kUntried;
    void** functions = *static_cast<void***>(object);
    Tracker tracker = [](const AllocatorEvent& event) { take(event); };
    reinterpret_cast<Attach>(functions[known.attach_slot])(object, &tracker);
    return State::kAttached;
  }
  return State::kImpossible;
}

}  // namespace

void watch_client_allocator() noexcept {
  State seen = state.load(std::memory_order_relaxed);
  if (seen != State::kUntried || !trace::enabled()) return;
  // Another thread that is at it must not be waited for: it may wait for this thread's lock.
  if (!state.compare_exchange_strong(seen, State::kTrying)) return;
  try {
    state.store(attach());
  } catch (...) {  // no memory for a name
    state.store(State::kImpossible);
  }
}

trace::BlockOrigin take_block_origin(uint64_t address) noexcept {
  if (last.allocated != address) return {};
  last.allocated = 0;
  return last.origin;
}

bool take_block_pending(uint64_t address) noexcept {
  const bool is_pending = last.free_requested == address && last.is_pending;
  last.free_requested = 0;  // what completes it comes from a later call
  return is_pending;
}

}  // namespace drydock::device
