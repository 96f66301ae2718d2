#include "tune/search.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <tuple>

namespace drydock::tune {
namespace {

constexpr uint64_t kPageBytes = 2 * replay::kMib;
constexpr uint64_t kPadding = 32;  // torch_npu adds them to a request before it rounds

uint64_t in_pages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

uint64_t room_of(const replay::Workload& workload) {
  return workload.total_bytes > workload.external_bytes ? workload.total_bytes - workload.external_bytes : 0;
}

Trial try_one(const std::vector<replay::Workload>& workloads, std::deque<replay::Outcomes>& outcomes, const Grid& grid,
              size_t index) {
  Trial trial{.candidate = index, .margin_bytes = std::numeric_limits<int64_t>::max()};
  for (size_t each = 0; each < workloads.size(); ++each) {
    const replay::Workload& workload = workloads[each];
    bool was_replayed = false;
    const replay::Outcome outcome = outcomes[each].of(grid.candidates[index].settings, was_replayed);
    trial.was_replayed = trial.was_replayed || was_replayed;
    trial.fits = trial.fits && outcome.fits;
    trial.operations += outcome.operations;
    if (outcome.peak_reserved_bytes >= trial.peak_reserved_bytes) trial.fragmentation = outcome.fragmentation();
    trial.peak_reserved_bytes = std::max(trial.peak_reserved_bytes, outcome.peak_reserved_bytes);
    trial.peak_allocated_bytes = std::max(trial.peak_allocated_bytes, outcome.peak_allocated_bytes);
    trial.retries += outcome.retries;
    trial.driver_calls += outcome.driver_calls;
    trial.margin_bytes = std::min(trial.margin_bytes, static_cast<int64_t>(room_of(workload)) -
                                                          static_cast<int64_t>(outcome.peak_reserved_bytes));
  }
  return trial;
}

// Most bytes that were live at a time. Requests that the program coped without are not needed, and what the workspace
// allocator holds is not told apart from what it gave back: neither counts, so that this stays a lower bound.
uint64_t most_live(const replay::Workload& workload) {
  uint64_t live = 0;
  uint64_t most = 0;
  std::vector<uint64_t> sizes(workload.slots, 0);
  const replay::Settings defaults;
  for (const replay::Operation& operation : workload.operations) {
    switch (operation.kind) {
      case replay::OperationKind::kAllocate:
        live += sizes[operation.slot] = replay::round_request(defaults, operation.bytes);
        most = std::max(most, live);
        break;
      case replay::OperationKind::kFree:
      case replay::OperationKind::kFreeLater:
        live -= sizes[operation.slot];
        sizes[operation.slot] = 0;
        break;
      default: break;
    }
  }
  return most;
}

}  // namespace

void demand_last_request(replay::Workload& workload) {
  const auto refused = std::find_if(workload.operations.rbegin(), workload.operations.rend(),
                                    [](const auto& each) { return each.kind == replay::OperationKind::kRefuse; });
  if (refused == workload.operations.rend()) return;
  const auto place = refused.base() - 1;
  place->kind = replay::OperationKind::kAllocate;
  place->bytes -= std::min(place->bytes, kPadding);
  place->slot = workload.slots++;
  const auto kept = static_cast<size_t>(refused.base() - workload.operations.begin());
  workload.operations.resize(kept);
  workload.events.resize(kept);
}

Bound lower_bound_of(const std::vector<replay::Workload>& workloads) {
  Bound tightest;
  for (const replay::Workload& workload : workloads) {
    Bound bound{.needed_bytes = std::max(workload.lower_bound_bytes, in_pages(most_live(workload))),
                .room_bytes = room_of(workload),
                .device = workload.device};
    bound.is_impossible = bound.room_bytes > 0 && bound.needed_bytes > bound.room_bytes;
    const auto left = [](const Bound& each) {
      return static_cast<int64_t>(each.room_bytes) - static_cast<int64_t>(each.needed_bytes);
    };
    if (tightest.needed_bytes == 0 || left(bound) < left(tightest)) tightest = bound;
  }
  return tightest;
}

std::vector<Trial> try_all(const std::vector<replay::Workload>& workloads, const Grid& grid, unsigned threads,
                           const std::atomic<bool>& stop,
                           const std::function<void(size_t done, size_t all)>& progress) {
  const size_t all = grid.candidates.size();
  std::deque<replay::Outcomes> outcomes;
  for (const replay::Workload& workload : workloads) outcomes.emplace_back(workload);
  std::vector<Trial> trials(all);
  std::vector<char> is_done(all, 0);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0;
  std::exception_ptr failure;
  unsigned working = std::max(1U, threads);
  std::vector<std::thread> workers;
  for (unsigned worker = 0; worker < std::max(1U, threads); ++worker) {
    workers.emplace_back([&] {
      try {
        for (size_t index = next++; index < all && !stop.load(std::memory_order_relaxed); index = next++) {
          Trial trial = try_one(workloads, outcomes, grid, index);
          std::lock_guard lock(mutex);
          trials[index] = trial;
          is_done[index] = 1;
          ++done;
        }
      } catch (...) {  // no room, most likely: an exception that leaves a thread would end the process
        std::lock_guard lock(mutex);
        failure = std::current_exception();
        next = all;
      }
      std::lock_guard lock(mutex);
      --working;
      changed.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    while (working > 0) {
      changed.wait_for(lock, std::chrono::milliseconds(100));
      const size_t so_far = done;
      lock.unlock();
      progress(so_far, all);
      lock.lock();
    }
  }
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
  std::vector<Trial> finished;
  for (size_t index = 0; index < all; ++index)
    if (is_done[index] != 0) finished.push_back(trials[index]);
  return finished;
}

void mark_front(std::vector<Trial>& trials) {
  std::vector<Trial*> fitting;
  for (Trial& trial : trials) {
    trial.is_on_front = false;
    if (trial.fits) fitting.push_back(&trial);
  }
  std::stable_sort(fitting.begin(), fitting.end(), [](const Trial* a, const Trial* b) {
    return std::tie(a->peak_reserved_bytes, a->driver_calls) < std::tie(b->peak_reserved_bytes, b->driver_calls);
  });
  uint64_t fewest = std::numeric_limits<uint64_t>::max();
  for (Trial* trial : fitting) {
    if (trial->driver_calls >= fewest) continue;
    fewest = trial->driver_calls;
    trial->is_on_front = true;
  }
}

void rank(std::vector<Trial>& trials, const Grid& grid) {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  for (const Trial& trial : trials)
    if (trial.fits) lowest = std::min(lowest, trial.peak_reserved_bytes);
  const auto key = [&](const Trial& trial) {
    const bool is_near = trial.fits && trial.peak_reserved_bytes <= lowest + lowest / 100;
    const size_t keys = grid.candidates[trial.candidate].keys;
    // What fits: near ones by simplicity; others by peak. What does not: by how far it came.
    return std::tuple(!trial.fits, !is_near, trial.fits ? 0 : std::numeric_limits<uint64_t>::max() - trial.operations,
                      is_near ? 0 : trial.peak_reserved_bytes, keys, trial.driver_calls, trial.candidate);
  };
  std::stable_sort(trials.begin(), trials.end(), [&](const Trial& a, const Trial& b) { return key(a) < key(b); });
}

}  // namespace drydock::tune
