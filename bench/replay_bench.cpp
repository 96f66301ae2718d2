#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "replay/caching_allocator.h"
#include "replay/driver.h"
#include "replay/repeats.h"
#include "replay/simulate.h"
#include "replay/trace_history.h"
#include "replay/workload.h"
#include "replay_set_allocator.h"

// Speed of the allocator's model. DRYDOCK_BENCH_RUN names the run whose trace is replayed (the demo's: drydock run
// --out RUN -- python examples/dpo_7b.py). The trace is repeated, with whatever is still held at its end freed in
// between. An event is an allocation or a free.

namespace drydock::replay {
namespace {

constexpr size_t kEvents = 10'000'000;
constexpr size_t kEventsEach = 1'000'000;
constexpr int kSettings = 256;

Workload repeated(const Workload& once, size_t events) {
  Workload load = once;
  load.total_bytes *= 4;  // the run may have died of its settings
  load.operations.clear();
  load.events.clear();
  std::vector<Operation> pass;
  std::vector<bool> is_held(once.slots, false);
  for (const Operation& operation : once.operations) {
    if (operation.kind != OperationKind::kAllocate && operation.kind != OperationKind::kFree) continue;
    is_held[operation.slot] = operation.kind == OperationKind::kAllocate;
    pass.push_back(operation);
  }
  for (uint32_t slot = 0; slot < once.slots; ++slot)
    if (is_held[slot]) pass.push_back({0, slot, 0, OperationKind::kFree, 0});
  load.steps.clear();
  load.repeats.clear();
  while (load.operations.size() < events) {
    load.steps.push_back(static_cast<uint32_t>(load.operations.size()));
    for (size_t index = 0; index < pass.size() && load.operations.size() < events; ++index)
      load.operations.push_back(pass[index]);
  }
  return load;
}

// Empty where there is no run.
const Workload& demo(size_t events) {
  static const Workload once = [] {
    const char* run = std::getenv("DRYDOCK_BENCH_RUN");
    std::vector<std::string> paths;
    History history;
    if (run == nullptr || !traces_of(run, paths).is_ok() || !read_trace(paths.front(), history).is_ok())
      return Workload{};
    const std::vector<uint8_t> devices = devices_of(history);
    return devices.empty() ? Workload{} : workload_of(history, devices.front());
  }();
  static const Workload many = once.operations.empty() ? Workload{} : repeated(once, kEvents);
  static const Workload few = once.operations.empty() ? Workload{} : repeated(once, kEventsEach);
  return events == kEvents ? many : few;
}

Settings settings_of(const std::string& text) {
  Settings settings;
  if (!parse_settings(text, Policy::kNpu, settings).is_ok()) std::abort();
  return settings;
}

void ReplayDemo(benchmark::State& state) {
  const Workload& load = demo(kEvents);
  if (load.operations.empty()) return state.SkipWithError("DRYDOCK_BENCH_RUN names no run with blocks");
  const Settings settings = settings_of(state.range(0) == 0 ? "" : "expandable_segments:True");
  for (auto _ : state) {
    const Outcome outcome = simulate(load, settings);
    if (!outcome.fits) return state.SkipWithError("the run does not fit under these settings");
    benchmark::DoNotOptimize(outcome);
  }
  state.SetItemsProcessed(static_cast<int64_t>(load.operations.size()) * state.iterations());
}
BENCHMARK(ReplayDemo)->Arg(0)->ArgName("expandable")->Unit(benchmark::kMillisecond);
BENCHMARK(ReplayDemo)->Arg(1)->ArgName("expandable")->Unit(benchmark::kMillisecond);

// The same where passes that provably come to the same as one before them are not replayed: no speed of the replay, but
// what a search over settings gains where a program's steps are all alike.
void ReplayDemoSkippingRepeats(benchmark::State& state) {
  Workload load = demo(kEvents);
  if (load.operations.empty()) return state.SkipWithError("DRYDOCK_BENCH_RUN names no run with blocks");
  const auto begin = std::chrono::steady_clock::now();
  load.repeats = find_repeats(load);
  const std::chrono::duration<double> finding = std::chrono::steady_clock::now() - begin;
  const Settings settings = settings_of(state.range(0) == 0 ? "" : "expandable_segments:True");
  uint64_t skipped = 0;
  Outcome outcome;
  for (auto _ : state) {
    outcome = simulate(load, settings, &skipped);
    benchmark::DoNotOptimize(outcome);
  }
  if (outcome != simulate(demo(kEvents), settings)) return state.SkipWithError("not the outcome of all operations");
  state.SetItemsProcessed(static_cast<int64_t>(load.operations.size()) * state.iterations());
  state.counters["skipped"] = static_cast<double>(skipped);
  state.counters["finding_ms"] = finding.count() * 1000;  // once for a workload
}
BENCHMARK(ReplayDemoSkippingRepeats)->Arg(0)->ArgName("expandable")->Unit(benchmark::kMillisecond);
BENCHMARK(ReplayDemoSkippingRepeats)->Arg(1)->ArgName("expandable")->Unit(benchmark::kMillisecond);

// The same with the plain allocator of the tests.
void ReplayDemoWithSets(benchmark::State& state) {
  const Workload& load = demo(kEvents);
  if (load.operations.empty()) return state.SkipWithError("DRYDOCK_BENCH_RUN names no run with blocks");
  const Settings settings = settings_of(state.range(0) == 0 ? "" : "expandable_segments:True");
  for (auto _ : state) {
    SimulatedDriver driver(load.total_bytes, load.external_bytes);
    SetAllocator allocator(settings, driver);
    std::vector<SetAllocator::Block*> blocks(load.slots, nullptr);
    for (const Operation& operation : load.operations) {
      if (operation.kind == OperationKind::kAllocate) {
        blocks[operation.slot] = allocator.allocate(operation.bytes, operation.stream);
        if (blocks[operation.slot] == nullptr) return state.SkipWithError("the run does not fit under these settings");
      } else {
        allocator.free(blocks[operation.slot]);
      }
    }
    benchmark::DoNotOptimize(allocator.reserved());
  }
  state.SetItemsProcessed(static_cast<int64_t>(load.operations.size()) * state.iterations());
}
BENCHMARK(ReplayDemoWithSets)->Arg(0)->ArgName("expandable")->Unit(benchmark::kMillisecond);
BENCHMARK(ReplayDemoWithSets)->Arg(1)->ArgName("expandable")->Unit(benchmark::kMillisecond);

// What a search over settings does: many settings, one workload, a thread for each core. Shared: what provably comes to
// the same is replayed once.
void ReplayManySettings(benchmark::State& state) {
  const Workload& load = demo(kEventsEach);
  if (load.operations.empty()) return state.SkipWithError("DRYDOCK_BENCH_RUN names no run with blocks");
  std::vector<Settings> all;
  for (int index = 0; index < kSettings; ++index) {
    const int size = 20 + index / 4 * 8;
    switch (index % 4) {
      case 0: all.push_back(settings_of("max_split_size_mb:" + std::to_string(size))); break;
      case 1:
        all.push_back(settings_of("expandable_segments:True,segment_size_mb:" + std::to_string(std::min(size, 512))));
        break;
      case 2: all.push_back(settings_of("large_segment_size_mb:" + std::to_string(size))); break;
      default:
        all.push_back(settings_of("garbage_collection_threshold:0." + std::to_string(10 + index / 4) +
                                  ",per_process_memory_fraction:0.99"));
        break;
    }
  }
  const bool shares = state.range(0) != 0;
  for (auto _ : state) {
    Outcomes outcomes(load);
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    constexpr size_t kThreads = 2;
    for (size_t thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        bool was_replayed = false;
        for (size_t index = next++; index < all.size(); index = next++)
          benchmark::DoNotOptimize(shares ? outcomes.of(all[index], was_replayed) : simulate(load, all[index]));
      });
    for (std::thread& thread : threads) thread.join();
    state.counters["replays"] = static_cast<double>(shares ? outcomes.replays() : all.size());
  }
  state.SetItemsProcessed(static_cast<int64_t>(load.operations.size()) * kSettings * state.iterations());
}
BENCHMARK(ReplayManySettings)
    ->Arg(0)
    ->Arg(1)
    ->ArgName("shared")
    ->Unit(benchmark::kSecond)
    ->UseRealTime()
    ->Iterations(1);

}  // namespace
}  // namespace drydock::replay
