#include "trace/node_module.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace drydock::trace {
namespace {

constexpr size_t kMostRanges = 65'536;  // of a thread; what is older belongs to steps that are over

// Numbers of nodes, first and one past the last, that the forward of a module made.
struct NodeRange {
  uint64_t first = 0;
  uint64_t end = 0;
  uint64_t module = 0;
};

// What torch::autograd::get_current_node returns: up to 2.12 a std::shared_ptr, then a pointer to a node that counts
// its owners itself, in the lower half of the word at kCountOffset. The engine owns the node while it runs it, so that
// this one owner more is never the first beside Python's, nor the last, at which more than counting would be due.
constexpr uint64_t kCountOffset = 8;
struct CountedNode {
  CountedNode() = delete;
  CountedNode(const CountedNode&) = delete;
  CountedNode& operator=(const CountedNode&) = delete;
  ~CountedNode() {
    if (node == nullptr) return;
    std::atomic_ref<uint64_t> count(*reinterpret_cast<uint64_t*>(static_cast<char*>(node) + kCountOffset));
    constexpr uint32_t kEngineAndThis = 3;
    if (static_cast<uint32_t>(count.load(std::memory_order_relaxed)) >= kEngineAndThis)
      count.fetch_sub(1, std::memory_order_acq_rel);
  }
  void* node;
};

struct Autograd {
  uint64_t (*next_number)() = nullptr;  // at::sequence_number::peek
  uint64_t (*this_thread)() = nullptr;  // at::RecordFunction::currentThreadId
  void* running_node = nullptr;         // torch::autograd::get_current_node
};

template <class Function>
bool find(void* library, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(dlsym(library, name));  // NOLINT: what dlsym is for
  return function != nullptr;
}

// All of it or nothing.
const Autograd* autograd() noexcept {
  static const Autograd found = [] {
    Autograd functions;
    void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr || !find(library, "_ZN2at15sequence_number4peekEv", functions.next_number) ||
        !find(library, "_ZN2at14RecordFunction15currentThreadIdEv", functions.this_thread) ||
        !find(library, "_ZN5torch8autograd16get_current_nodeEv", functions.running_node))
      return Autograd{};
    return functions;
  }();
  return found.running_node == nullptr ? nullptr : &found;
}

constexpr uint64_t kCountsItself = uint64_t{1} << 63;
std::atomic<uint64_t> node_layout{0};  // offset of the number | offset of the thread << 32 | kCountsItself
constinit std::mutex ranges_mutex;
std::unordered_map<uint64_t, std::deque<NodeRange>>& ranges() {
  static auto& by_thread = *new std::unordered_map<uint64_t, std::deque<NodeRange>>;
  return by_thread;
}

uint64_t word_at(const void* node, uint64_t offset) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, static_cast<const char*>(node) + offset, sizeof(word));
  return word;
}

}  // namespace

void node_layout_found(uint32_t sequence_offset, uint32_t thread_offset, bool counts_itself) noexcept {
  constexpr uint32_t kMostBytes = 1024;
  if (sequence_offset > kMostBytes || thread_offset > kMostBytes) return;
  node_layout.store(sequence_offset | uint64_t{thread_offset} << 32 | (counts_itself ? kCountsItself : 0),
                    std::memory_order_relaxed);
}

void module_made_nodes(uint64_t module) noexcept {
  const Autograd* functions = autograd();
  if (functions == nullptr) return;
  const uint64_t next = functions->next_number();
  if (next == 0) return;
  // A forked child may find the mutex taken for good: then nothing is known.
  const std::unique_lock lock(ranges_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  try {
    std::deque<NodeRange>& own = ranges()[functions->this_thread()];
    if (!own.empty() && next <= own.back().end) return;
    // An operator's node is numbered before its result is allocated. Nodes before it that allocated nothing belong to
    // this module if the last block's do too; else to one of the two, or to a third.
    if (!own.empty() && own.back().module == module) {
      own.back().end = next;
      return;
    }
    own.push_back({next - 1, next, module});
    if (own.size() > kMostRanges) own.pop_front();
  } catch (...) {
    return;  // out of memory: the nodes have no module
  }
}

bool module_of_running_node(uint64_t& module) noexcept {
  module = 0;
  const uint64_t layout = node_layout.load(std::memory_order_relaxed);
  const Autograd* functions = autograd();
  if (layout == 0 || functions == nullptr) return false;
  uint64_t number = 0;
  uint64_t thread = 0;
  const auto read = [&](const void* node) {
    if (node == nullptr) return false;
    number = word_at(node, layout & 0xffffffff);
    thread = word_at(node, (layout & ~kCountsItself) >> 32);
    return true;
  };
  if ((layout & kCountsItself) != 0) {
    const CountedNode counted = reinterpret_cast<CountedNode (*)()>(functions->running_node)();  // NOLINT
    if (!read(counted.node)) return false;
  } else {
    const auto shared = reinterpret_cast<std::shared_ptr<void> (*)()>(functions->running_node)();  // NOLINT
    if (!read(shared.get())) return false;
  }
  const std::unique_lock lock(ranges_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  const auto found = ranges().find(thread);
  if (found == ranges().end()) return true;
  const std::deque<NodeRange>& made = found->second;
  const auto range = std::upper_bound(made.begin(), made.end(), number,
                                      [](uint64_t one, const NodeRange& other) { return one < other.end; });
  if (range != made.end() && range->first <= number) module = range->module;
  return true;
}

}  // namespace drydock::trace
