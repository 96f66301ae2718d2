#include "base/thread_pool.h"
#include "ops/complex/complex.h"
#include "ops/kernel_access.h"

// The walk under map_elements: ranges of elements on many threads; in each, runs of elements are loaded as compute
// values, worked on, and stored. Runs that are compute values already are worked on in place.

namespace drydock::ops::kernels {
namespace {

// Elements of a range for one thread: less would cost more to hand over than to compute.
constexpr int64_t kGrain = 32768;
// Values worked on at once; the buffers of all operands fit a first-level cache.
constexpr int64_t kMapChunk = 1024;
// Runs below this length are collected, to be worked on together.
constexpr int64_t kShortRun = 64;
constexpr size_t kMostInputs = StridedWalk::kMaxViews - 1;

template <class C>
struct Operation {
  std::array<Loader<C>, kMostInputs> loaders{};
  std::array<bool, kMostInputs> is_compute_type{};  ///< and needs no rounding
  std::span<const DataType> rounds;
  size_t input_count = 0;
  Storer<C> store = nullptr;
  bool stores_compute_type = false;
  MapLoop<C> loop = nullptr;
  const void* op = nullptr;
};

template <class C>
constexpr DataType kDataTypeOf = std::is_same_v<C, int64_t>    ? DataType::kInt64
                                 : std::is_same_v<C, uint64_t> ? DataType::kUInt64
                                 : std::is_same_v<C, float>    ? DataType::kFloat
                                 : std::is_same_v<C, double>   ? DataType::kDouble
                                                               : DataType::kComplex128;

template <class C>
struct Buffers {
  std::array<std::array<C, kMapChunk>, kMostInputs> inputs;
  std::array<C, kMapChunk> results;
};

template <class C>
const C* load(const Operation<C>& operation, size_t input, const char* from, int64_t stride, int64_t count, C* buffer) {
  const C* values = operation.loaders[input](from, stride, count, buffer);
  if (operation.rounds[input] == DataType::kUndefined) return values;
  if (values != buffer) std::copy_n(values, count, buffer);
  round_through<C>(operation.rounds[input], buffer, count);
  return buffer;
}

template <class C>
void work_on_run(const Operation<C>& operation, Buffers<C>& buffers, char* const* pointers, const int64_t* strides,
                 int64_t count) {
  constexpr int64_t kSize = sizeof(C);
  const bool direct_result = operation.stores_compute_type && strides[0] == kSize;
  bool all_direct = direct_result;
  for (size_t i = 0; i < operation.input_count; ++i) {
    all_direct = all_direct && operation.is_compute_type[i] && strides[i + 1] == kSize;
  }
  const int64_t chunk = all_direct ? count : kMapChunk;
  std::array<const C*, kMostInputs> values{};
  for (int64_t done = 0; done < count; done += chunk) {
    const int64_t length = std::min(chunk, count - done);
    for (size_t i = 0; i < operation.input_count; ++i) {
      if (strides[i + 1] == 0 && done > 0) continue;  // the same value again
      values[i] =
          load(operation, i, pointers[i + 1] + done * strides[i + 1], strides[i + 1], length, buffers.inputs[i].data());
    }
    char* to = pointers[0] + done * strides[0];
    if (direct_result) {
      operation.loop(operation.op, reinterpret_cast<C*>(to), values.data(), length);
    } else {
      operation.loop(operation.op, buffers.results.data(), values.data(), length);
      operation.store(to, strides[0], length, buffers.results.data());
    }
  }
}

/// Runs shorter than a chunk, worked on by the chunk.
template <class C>
class ShortRuns {
 public:
  ShortRuns(const Operation<C>& operation, Buffers<C>& buffers) : operation_(operation), buffers_(buffers) {}

  void add(char* const* pointers, const int64_t* strides, int64_t count) {
    if (filled_ + count > kMapChunk || run_count_ == runs_.size()) flush();
    for (size_t i = 0; i < operation_.input_count; ++i) {
      C* place = buffers_.inputs[i].data() + filled_;
      const C* values = load(operation_, i, pointers[i + 1], strides[i + 1], count, place);
      if (values != place) std::copy_n(values, count, place);
    }
    runs_[run_count_++] = {pointers[0], count};
    stride_ = strides[0];
    filled_ += count;
  }

  void flush() {
    if (filled_ == 0) return;
    std::array<const C*, kMostInputs> values{};
    for (size_t i = 0; i < operation_.input_count; ++i) values[i] = buffers_.inputs[i].data();
    operation_.loop(operation_.op, buffers_.results.data(), values.data(), filled_);
    const C* result = buffers_.results.data();
    for (size_t run = 0; run < run_count_; ++run) {
      operation_.store(runs_[run].to, stride_, runs_[run].count, result);
      result += runs_[run].count;
    }
    run_count_ = 0;
    filled_ = 0;
  }

 private:
  struct Run {
    char* to;
    int64_t count;
  };
  const Operation<C>& operation_;
  Buffers<C>& buffers_;
  std::array<Run, 256> runs_;
  size_t run_count_ = 0;
  int64_t stride_ = 0;
  int64_t filled_ = 0;
};

template <class C>
void work_on_range(const Operation<C>& operation, const StridedWalk& walk, int64_t begin, int64_t end) {
  Buffers<C> buffers;
  const Dims& dims = walk.merged_dims();
  if (dims.size() > 1 && dims[dims.size() - 1] < kShortRun) {
    ShortRuns<C> runs(operation, buffers);
    walk.for_each_run_in(begin, end, [&](char* const* pointers, const int64_t* strides, int64_t count) {
      runs.add(pointers, strides, count);
    });
    runs.flush();
    return;
  }
  walk.for_each_run_in(begin, end, [&](char* const* pointers, const int64_t* strides, int64_t count) {
    work_on_run(operation, buffers, pointers, strides, count);
  });
}

}  // namespace

template <class C>
bool map_views(const TensorView& out, std::span<const TensorView* const> inputs, std::span<const DataType> rounds,
               MapOrder order, MapLoop<C> loop, const void* op) {
  StridedWalk walk(out.dims);
  if (!walk.add(out)) return false;
  Operation<C> operation;
  for (const TensorView* input : inputs) {
    if (!walk.add(*input)) return false;
    const size_t index = operation.input_count++;
    operation.loaders[index] = loader_of<C>(input->dtype);
    operation.is_compute_type[index] = input->dtype == kDataTypeOf<C> && rounds[index] == DataType::kUndefined;
  }
  operation.rounds = rounds;
  operation.store = storer_of<C>(out.dtype);
  operation.stores_compute_type = out.dtype == kDataTypeOf<C>;
  operation.loop = loop;
  operation.op = op;
  if (order == MapOrder::kAny) walk.follow_first_view();
  walk.merge();
  const int64_t count = walk.numel();
  if (order == MapOrder::kRowMajor || count <= kGrain) {
    work_on_range(operation, walk, 0, count);
  } else {
    base::parallel_for(count, kGrain, [&](int64_t begin, int64_t end) { work_on_range(operation, walk, begin, end); });
  }
  return true;
}

#define DRYDOCK_INSTANTIATE_MAP(C)                                                             \
  template bool map_views<C>(const TensorView& out, std::span<const TensorView* const> inputs, \
                             std::span<const DataType> rounds, MapOrder order, MapLoop<C> loop, const void* op);
DRYDOCK_INSTANTIATE_MAP(int64_t)
DRYDOCK_INSTANTIATE_MAP(uint64_t)
DRYDOCK_INSTANTIATE_MAP(float)
DRYDOCK_INSTANTIATE_MAP(double)
DRYDOCK_INSTANTIATE_MAP(Complex)
#undef DRYDOCK_INSTANTIATE_MAP

}  // namespace drydock::ops::kernels
