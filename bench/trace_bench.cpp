#include <array>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "device/address_space.h"
#include "device/heap.h"
#include "trace/call_encoding.h"
#include "trace/recorder.h"

// Costs of the recorder. current_line runs inside a Python interpreter that is loaded where one can be found
// (libpython3.11.so.1.0 or what DRYDOCK_BENCH_PYTHON names), under a stack of the given depth.

namespace drydock::trace {
namespace {

ops::Tensor tensor_of(std::initializer_list<int64_t> dims) {
  ops::Tensor tensor;
  tensor.dtype = DataType::kBFloat16;
  tensor.dims = ops::Dims(dims);
  std::vector<int64_t> strides(dims.size(), 1);
  for (int axis = tensor.dims.size() - 2; axis >= 0; --axis)
    strides[static_cast<size_t>(axis)] = strides[static_cast<size_t>(axis) + 1] * tensor.dims[axis + 1];
  tensor.strides = ops::Dims(std::span<const int64_t>(strides));
  return tensor;
}

std::array<ops::Arg, 4> four_tensors() {
  static std::array<ops::Tensor, 4> tensors = {tensor_of({4, 512, 4096}), tensor_of({4096, 4096}), tensor_of({4096}),
                                               tensor_of({4, 512, 4096})};
  std::array<ops::Arg, 4> args;
  for (size_t index = 0; index < args.size(); ++index) {
    args[index].kind = ops::ArgKind::kTensor;
    args[index].tensor = &tensors[index];
  }
  return args;
}

void EncodeFourTensors(benchmark::State& state) {
  const std::array<ops::Arg, 4> args = four_tensors();
  for (auto _ : state) benchmark::DoNotOptimize(encode_call(0, args).data());
}
BENCHMARK(EncodeFourTensors);

void InternKnownCall(benchmark::State& state) {
  // As many distinct calls as a fine-tune makes, so that the table does not sit in the first cache.
  std::vector<std::array<std::byte, 100>> calls(1000);
  for (size_t index = 0; index < calls.size(); ++index) {
    calls[index].fill(std::byte{0xff});
    calls[index][20] = static_cast<std::byte>(index);
    calls[index][70] = static_cast<std::byte>(index >> 8);
    intern_call(calls[index]);
  }
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(intern_call(calls[next]));
    next = next + 1 == calls.size() ? 0 : next + 1;
  }
}
BENCHMARK(InternKnownCall);

void OperatorLaunched(benchmark::State& state) {
  for (auto _ : state) operator_launched(0, 1, 1, 1, Outcome::kGhost);
}
// Few enough to leave the disk alone: 16 bytes each.
BENCHMARK(OperatorLaunched)->Iterations(4'000'000);

void BlockAllocatedRequestedFreed(benchmark::State& state) {
  const uint64_t address = device::arena_base(0) + 4096;
  for (auto _ : state) {
    block_allocated(0, address, 1024, false, 1);
    block_requested(0, address, 1000);
    block_freed(0, address);
  }
}
BENCHMARK(BlockAllocatedRequestedFreed)->Iterations(1'000'000);

// The interpreter calls back through a C function that runs the loop of the benchmark.
benchmark::State* running = nullptr;
void time_current_line() {
  for (auto _ : *running) benchmark::DoNotOptimize(current_line());
}

void CurrentLine(benchmark::State& state) {
  const char* name = std::getenv("DRYDOCK_BENCH_PYTHON");
  void* python = dlopen(name != nullptr ? name : "libpython3.11.so.1.0", RTLD_NOW | RTLD_GLOBAL);
  if (python == nullptr) {
    state.SkipWithError("no Python library: name one in DRYDOCK_BENCH_PYTHON");
    return;
  }
  using Initialize = void (*)(int);
  using Run = int (*)(const char*, void*);
  static const bool initialized = [&] {
    reinterpret_cast<Initialize>(dlsym(python, "Py_InitializeEx"))(0);
    return true;
  }();
  benchmark::DoNotOptimize(initialized);
  running = &state;
  // Library frames all the way up to one frame of the user's: the whole stack is walked.
  std::array<char, 1024> program{};
  std::snprintf(program.data(), program.size(),
                "import ctypes\n"
                "call = ctypes.CFUNCTYPE(None)(%llu)\n"
                "library = {'call': call}\n"
                "for i in range(40):\n"
                "    exec(compile(f'def f{i}(n): return f{(i + 1) %% 40}(n - 1) if n else call()',\n"
                "                 f'/venv/lib/python3/site-packages/a{i}.py', 'exec'), library)\n"
                "library['f0'](%d)\n",
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&time_current_line)),
                static_cast<int>(state.range(0)));
  const auto run = reinterpret_cast<Run>(dlsym(python, "PyRun_SimpleStringFlags"));
  if (run(program.data(), nullptr) != 0) state.SkipWithError("the Python program failed");
  if (current_line() == 0) state.SkipWithError("lines are unknown");
}
BENCHMARK(CurrentLine)->Arg(1)->Arg(20)->Arg(60);

}  // namespace
}  // namespace drydock::trace

int main(int argc, char** argv) {
  std::string folder = std::filesystem::temp_directory_path() / "drydock-trace-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  setenv("DRYDOCK_RUN_DIR", folder.c_str(), 1);
  auto& space = *new drydock::device::AddressSpace(0, false);
  if (!space.open().is_ok()) return 1;
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  const drydock::trace::Counters written = drydock::trace::counters();
  std::printf("%llu records, %llu bytes, %llu lost\n", static_cast<unsigned long long>(written.records),
              static_cast<unsigned long long>(written.bytes), static_cast<unsigned long long>(written.lost_records));
  std::filesystem::remove_all(folder);
  return 0;
}
