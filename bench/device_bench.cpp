#include <cstdint>
#include <cstdlib>
#include <vector>

#include <benchmark/benchmark.h>

#include "abi/generated/entries.h"
#include "device/address_space.h"
#include "device/heap.h"

// What device memory costs the host: allocation, copies, and the questions every operator asks.

namespace drydock {
namespace {

constexpr size_t kMib = size_t{1} << 20;
constexpr int32_t kHostToDevice = 1;
constexpr int32_t kDeviceToHost = 2;
constexpr int32_t kDeviceToDevice = 3;

void require(const Status& status) {
  if (!status.is_ok()) std::abort();
}

char* allocate(size_t size) {
  require(entries::aclrtSetDevice(0));
  void* address = nullptr;
  require(entries::aclrtMallocAlign32(&address, size, 0));
  return static_cast<char*>(address);
}

void allocate_and_free(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  require(entries::aclrtSetDevice(0));
  for (auto _ : state) {
    void* address = nullptr;
    require(entries::aclrtMallocAlign32(&address, size, 0));
    require(entries::aclrtFree(address));
  }
}
BENCHMARK(allocate_and_free)->Arg(2 * kMib)->Arg(20 * kMib)->Arg(64L * 1024 * kMib / 2);

void is_allocated_in_a_segment(benchmark::State& state) {
  char* const address = allocate(20 * kMib);
  for (auto _ : state) benchmark::DoNotOptimize(device::is_allocated(address + 5 * kMib, kMib));
  require(entries::aclrtFree(address));
}
BENCHMARK(is_allocated_in_a_segment);

void is_allocated_over_mappings(benchmark::State& state) {
  require(entries::aclrtSetDevice(0));
  struct {
    int32_t handle_type = 0, allocation_type = 0, attribute = 4;
    uint32_t id = 0;
    int32_t location = 1;
    uint64_t reserved = 0;
  } properties;
  const auto chunks = static_cast<size_t>(state.range(0));
  void* base = nullptr;
  require(entries::aclrtReserveMemAddress(&base, chunks * 20 * kMib, 0, nullptr, 1));
  std::vector<void*> handles(chunks);
  for (size_t i = 0; i < chunks; ++i) {
    require(entries::aclrtMallocPhysical(&handles[i], 20 * kMib, &properties, 0));
    require(entries::aclrtMapMem(static_cast<char*>(base) + i * 20 * kMib, 20 * kMib, 0, handles[i], 0));
  }
  for (auto _ : state) benchmark::DoNotOptimize(device::is_allocated(base, chunks * 20 * kMib));
  for (size_t i = 0; i < chunks; ++i) {
    require(entries::aclrtUnmapMem(static_cast<char*>(base) + i * 20 * kMib));
    require(entries::aclrtFreePhysical(handles[i]));
  }
  require(entries::aclrtReleaseMemAddress(base));
}
BENCHMARK(is_allocated_over_mappings)->Arg(1)->Arg(10)->Arg(50);

void is_allocated_of_a_foreign_pointer(benchmark::State& state) {
  char* const address = allocate(kMib);
  int local = 0;
  for (auto _ : state) benchmark::DoNotOptimize(device::is_allocated(&local, sizeof(local)));
  require(entries::aclrtFree(address));
}
BENCHMARK(is_allocated_of_a_foreign_pointer);

void memory_in_use(benchmark::State& state) {
  for (auto _ : state) {
    const device::MemoryInUse in_use;
    benchmark::ClobberMemory();
  }
}
BENCHMARK(memory_in_use);

void copy_between(benchmark::State& state, int32_t kind) {
  const auto size = static_cast<size_t>(state.range(0));
  char* const one = allocate(2 * kMib);
  char* const two = allocate(2 * kMib);
  std::vector<char> host(size);
  require(entries::aclrtMemcpy(one, size, host.data(), size, kHostToDevice));
  void* const to = kind == kDeviceToHost ? static_cast<void*>(host.data()) : two;
  const void* const from = kind == kHostToDevice ? static_cast<const void*>(host.data()) : one;
  for (auto _ : state) require(entries::aclrtMemcpy(to, size, from, size, kind));
  require(entries::aclrtFree(one));
  require(entries::aclrtFree(two));
}
BENCHMARK_CAPTURE(copy_between, host_to_device, kHostToDevice)->Arg(1024);
BENCHMARK_CAPTURE(copy_between, device_to_host, kDeviceToHost)->Arg(1024);
BENCHMARK_CAPTURE(copy_between, device_to_device, kDeviceToDevice)->Arg(1024);

void copy_of_ghosts(benchmark::State& state) {
  char* const one = allocate(1024 * kMib);
  char* const two = allocate(1024 * kMib);
  for (auto _ : state) require(entries::aclrtMemcpy(two, 1024 * kMib, one, 1024 * kMib, kDeviceToDevice));
  require(entries::aclrtFree(one));
  require(entries::aclrtFree(two));
}
BENCHMARK(copy_of_ghosts);

}  // namespace
}  // namespace drydock
