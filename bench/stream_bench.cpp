#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <benchmark/benchmark.h>

#include "abi/generated/entries.h"
#include "device/context.h"
#include "device/event.h"
#include "device/stream.h"

// What one call costs on streams and events, in ns and in allocations. The doors add the guard around each handler.

namespace {
std::atomic<uint64_t> allocations{0};
}

void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace drydock {
namespace {

void* make_stream(benchmark::State& state) {
  void* stream = nullptr;
  if (!device::set_device(0).is_ok() || !entries::aclrtCreateStreamWithConfig(&stream, 0, 3).is_ok()) {
    state.SkipWithError("no stream");
  }
  return stream;
}

/// Runs `call` as the benchmark and reports its allocations.
template <class Call>
void measure(benchmark::State& state, Call&& call) {
  const uint64_t before = allocations.load(std::memory_order_relaxed);
  for (auto _ : state) call();
  state.counters["allocations"] = benchmark::Counter(
      static_cast<double>(allocations.load(std::memory_order_relaxed) - before), benchmark::Counter::kAvgIterations);
}

void stream_submit(benchmark::State& state) {
  void* handle = make_stream(state);
  uint64_t ran = 0;
  measure(state, [&] {
    device::Stream* stream = nullptr;
    benchmark::DoNotOptimize(device::find_stream_to_submit("bench", handle, stream).is_ok());
    benchmark::DoNotOptimize(stream
                                 ->submit([&] {
                                   ++ran;
                                   return Status::ok();
                                 })
                                 .is_ok());
  });
  if (ran != static_cast<uint64_t>(state.iterations())) state.SkipWithError("work was not run");
  static_cast<void>(entries::aclrtDestroyStream(handle));
}
BENCHMARK(stream_submit);

void event_record(benchmark::State& state) {
  void* stream = make_stream(state);
  void* event = nullptr;
  if (!entries::aclrtCreateEventExWithFlag(&event, 9).is_ok()) state.SkipWithError("no event");
  measure(state, [&] { benchmark::DoNotOptimize(entries::aclrtRecordEvent(event, stream).is_ok()); });
  static_cast<void>(entries::aclrtDestroyEvent(event));
  static_cast<void>(entries::aclrtDestroyStream(stream));
}
BENCHMARK(event_record);

void event_wait(benchmark::State& state) {
  void* stream = make_stream(state);
  void* event = nullptr;
  if (!entries::aclrtCreateEventExWithFlag(&event, 1).is_ok()) state.SkipWithError("no event");
  static_cast<void>(entries::aclrtRecordEvent(event, stream));
  measure(state, [&] { benchmark::DoNotOptimize(entries::aclrtStreamWaitEvent(stream, event).is_ok()); });
  static_cast<void>(entries::aclrtDestroyEvent(event));
  static_cast<void>(entries::aclrtDestroyStream(stream));
}
BENCHMARK(event_wait);

/// What record_stream costs per freed block: a new event, a record, a query, its end.
void event_life(benchmark::State& state) {
  void* stream = make_stream(state);
  measure(state, [&] {
    void* event = nullptr;
    int32_t status = 0;
    benchmark::DoNotOptimize(entries::aclrtCreateEventExWithFlag(&event, 2).is_ok());
    benchmark::DoNotOptimize(entries::aclrtRecordEvent(event, stream).is_ok());
    benchmark::DoNotOptimize(entries::aclrtQueryEventStatus(event, &status).is_ok());
    benchmark::DoNotOptimize(entries::aclrtDestroyEvent(event).is_ok());
  });
  static_cast<void>(entries::aclrtDestroyStream(stream));
}
BENCHMARK(event_life);

void stream_synchronize(benchmark::State& state) {
  void* stream = make_stream(state);
  measure(state, [&] { benchmark::DoNotOptimize(entries::aclrtSynchronizeStreamWithTimeout(stream, -1).is_ok()); });
  static_cast<void>(entries::aclrtDestroyStream(stream));
}
BENCHMARK(stream_synchronize);

}  // namespace
}  // namespace drydock
