#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include <benchmark/benchmark.h>

#include "abi/generated/entries.h"
#include "abi/operator_args.h"
#include "ops/operator_row.h"
#include "ops/phases.h"

// What a door costs on the hot path, beside one call of malloc + free as the yardstick of this machine.
// Each line carries `allocs`: calls of operator new per iteration.

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace drydock;  // the file is about nothing else

class CountedAllocations {
 public:
  explicit CountedAllocations(benchmark::State& state) : state_(state), before_(allocations.load()) {}
  ~CountedAllocations() {
    state_.counters["allocs"] = benchmark::Counter(static_cast<double>(allocations.load() - before_) /
                                                   static_cast<double>(state_.iterations()));
  }

 private:
  benchmark::State& state_;
  uint64_t before_;
};

void open_device() {
  static const bool opened = [] {
    static_cast<void>(entries::aclInit(nullptr));
    return entries::aclrtSetDevice(0).is_ok();
  }();
  if (!opened) std::abort();
}

void* make_tensor(void* memory, DataType dtype, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  const int64_t strides[] = {columns, 1};
  const int64_t storage = rows * columns;
  return entries::aclCreateTensor(dims, 2, static_cast<int32_t>(dtype), strides, 0, 2, &storage, 1, memory);
}

uint32_t index_of(std::string_view name) {
  const auto rows = ops::operator_rows();
  return static_cast<uint32_t>(
      std::find_if(rows.begin(), rows.end(), [name](const auto& row) { return row.name == name; }) - rows.begin());
}

void malloc_and_free(benchmark::State& state) {
  for (auto _ : state) {
    void* memory = std::malloc(256);
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}
BENCHMARK(malloc_and_free);

void tensor_create_and_destroy(benchmark::State& state) {
  open_device();
  CountedAllocations counted(state);
  for (auto _ : state) {
    void* tensor = make_tensor(nullptr, DataType::kBFloat16, 512, 4096);
    benchmark::DoNotOptimize(tensor);
    static_cast<void>(entries::aclDestroyTensor(tensor));
  }
}
BENCHMARK(tensor_create_and_destroy);

// A ghost matmul of a 7B model: both phases, values policy, and the record when DRYDOCK_RUN_DIR is set.
void operator_phase_1_and_2(benchmark::State& state) {
  open_device();
  void* memory = nullptr;
  if (!entries::aclrtMalloc(&memory, size_t{256} << 20, 0).is_ok()) std::abort();
  void* self = make_tensor(memory, DataType::kBFloat16, 512, 4096);
  void* mat2 = make_tensor(static_cast<char*>(memory) + (64 << 20), DataType::kBFloat16, 4096, 4096);
  void* out = make_tensor(static_cast<char*>(memory) + (128 << 20), DataType::kBFloat16, 512, 4096);
  const uint32_t matmul = index_of("aclnnMatmul");
  CountedAllocations counted(state);
  for (auto _ : state) {
    ops::Arg args[] = {abi::pack_tensor(self), abi::pack_tensor(mat2), abi::pack_tensor(out), abi::pack_int(1)};
    uint64_t workspace_size = 0;
    void* executor = nullptr;
    ops::phase1(matmul, args, 4, &workspace_size, &executor);
    ops::phase2(matmul, memory, workspace_size, executor, nullptr);
  }
}
BENCHMARK(operator_phase_1_and_2);

void computed_operator_of_64_integers(benchmark::State& state) {
  open_device();
  void* memory = nullptr;
  if (!entries::aclrtMalloc(&memory, size_t{1} << 20, 0).is_ok()) std::abort();
  static_cast<void>(entries::aclrtMemset(memory, size_t{1} << 20, 0, size_t{1} << 20));
  void* self = make_tensor(memory, DataType::kInt64, 1, 64);
  void* other = make_tensor(static_cast<char*>(memory) + 4096, DataType::kInt64, 1, 64);
  void* out = make_tensor(static_cast<char*>(memory) + 8192, DataType::kBool, 1, 64);
  const uint32_t compare = index_of("aclnnLtTensor");
  CountedAllocations counted(state);
  for (auto _ : state) {
    ops::Arg args[] = {abi::pack_tensor(self), abi::pack_tensor(other), abi::pack_tensor(out)};
    uint64_t workspace_size = 0;
    void* executor = nullptr;
    ops::phase1(compare, args, 3, &workspace_size, &executor);
    ops::phase2(compare, nullptr, workspace_size, executor, nullptr);
  }
}
BENCHMARK(computed_operator_of_64_integers);

void memcpy_of_1_kib(benchmark::State& state, int32_t kind) {
  open_device();
  void* memory = nullptr;
  if (!entries::aclrtMalloc(&memory, 1024, 0).is_ok()) std::abort();
  std::array<char, 1024> host{};
  const bool to_device = kind == 1;
  CountedAllocations counted(state);
  for (auto _ : state) {
    static_cast<void>(to_device ? entries::aclrtMemcpy(memory, 1024, host.data(), 1024, kind)
                                : entries::aclrtMemcpy(host.data(), 1024, memory, 1024, kind));
  }
}
BENCHMARK_CAPTURE(memcpy_of_1_kib, host_to_device, 1);
BENCHMARK_CAPTURE(memcpy_of_1_kib, device_to_host, 2);

}  // namespace
