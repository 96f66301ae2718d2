#include <algorithm>
#include <atomic>

#include "base/element_types.h"
#include "base/instruction_set.h"
#include "ops/kernel_access.h"
#include "ops/run_kernel.h"

// Conversion of runs of elements to compute values and back.

namespace drydock::ops::kernels {
namespace {

// Counts conversions that were asked for elements without a compute type.
std::atomic<uint64_t> unconverted{0};

template <class C, class S>
const C* load_elements(const char* from, int64_t stride_bytes, int64_t count, C* buffer) {
  if (stride_bytes == static_cast<int64_t>(sizeof(S))) {
    const S* elements = reinterpret_cast<const S*>(from);
    if constexpr (std::is_same_v<C, S>) {
      return elements;
    } else {
      base::vectorized([buffer, elements, count] {
#pragma GCC ivdep
        for (int64_t k = 0; k < count; ++k) buffer[k] = to_compute<C>(elements[k]);
      });
      return buffer;
    }
  }
  if (stride_bytes == 0 && count > 0) {
    std::fill_n(buffer, count, to_compute<C>(*reinterpret_cast<const S*>(from)));
    return buffer;
  }
  for (int64_t k = 0; k < count; ++k, from += stride_bytes) {
    buffer[k] = to_compute<C>(*reinterpret_cast<const S*>(from));
  }
  return buffer;
}

template <class C, class S>
void store_elements(char* to, int64_t stride_bytes, int64_t count, const C* values) {
  if (stride_bytes == static_cast<int64_t>(sizeof(S))) {
    S* elements = reinterpret_cast<S*>(to);
    base::vectorized([elements, values, count] {
#pragma GCC ivdep
      for (int64_t k = 0; k < count; ++k) elements[k] = to_element<S>(values[k]);
    });
    return;
  }
  for (int64_t k = 0; k < count; ++k, to += stride_bytes) *reinterpret_cast<S*>(to) = to_element<S>(values[k]);
}

}  // namespace

void note_unconverted() noexcept { unconverted.fetch_add(1, std::memory_order_relaxed); }

Status run_kernel(Kernel kernel, KernelCall& call) {
  const uint64_t before = unconverted.load(std::memory_order_relaxed);
  DRYDOCK_RETURN_IF_ERROR(kernel(call));
  if (unconverted.load(std::memory_order_relaxed) == before) return Status::ok();
  // Another thread's call may have counted: only a call that has such elements can be meant.
  const auto is_meant = [](const TensorView& view) { return view.defined && !is_real_element(view.dtype); };
  for (int index = 0; index < call.operand_count() + call.output_count(); ++index) {
    const bool is_operand = index < call.operand_count();
    const TensorView& view = is_operand ? call.operand(index) : call.output(index - call.operand_count());
    if (is_meant(view)) {
      return not_computed(call, "elements of type " + std::string(name_of(view.dtype)) + " are not computed");
    }
  }
  return Status::ok();
}

template <class C>
Loader<C> loader_of(DataType type) noexcept {
  switch (type) {
    case DataType::kBool: return load_elements<C, Bool>;
    case DataType::kInt8: return load_elements<C, int8_t>;
    case DataType::kInt16: return load_elements<C, int16_t>;
    case DataType::kInt32: return load_elements<C, int32_t>;
    case DataType::kInt64: return load_elements<C, int64_t>;
    case DataType::kUInt8: return load_elements<C, uint8_t>;
    case DataType::kUInt16: return load_elements<C, uint16_t>;
    case DataType::kUInt32: return load_elements<C, uint32_t>;
    case DataType::kUInt64: return load_elements<C, uint64_t>;
    case DataType::kFloat16: return load_elements<C, Float16>;
    case DataType::kBFloat16: return load_elements<C, BFloat16>;
    case DataType::kFloat: return load_elements<C, float>;
    case DataType::kDouble: return load_elements<C, double>;
    default: return load_nothing<C>;
  }
}

template <class C>
Storer<C> storer_of(DataType type) noexcept {
  switch (type) {
    case DataType::kBool: return store_elements<C, Bool>;
    case DataType::kInt8: return store_elements<C, int8_t>;
    case DataType::kInt16: return store_elements<C, int16_t>;
    case DataType::kInt32: return store_elements<C, int32_t>;
    case DataType::kInt64: return store_elements<C, int64_t>;
    case DataType::kUInt8: return store_elements<C, uint8_t>;
    case DataType::kUInt16: return store_elements<C, uint16_t>;
    case DataType::kUInt32: return store_elements<C, uint32_t>;
    case DataType::kUInt64: return store_elements<C, uint64_t>;
    case DataType::kFloat16: return store_elements<C, Float16>;
    case DataType::kBFloat16: return store_elements<C, BFloat16>;
    case DataType::kFloat: return store_elements<C, float>;
    case DataType::kDouble: return store_elements<C, double>;
    default: return store_nothing<C>;
  }
}

template <class C>
void round_through(DataType type, C* values, int64_t count) noexcept {
  std::array<uint64_t, kChunk> elements;  // room for kChunk elements of any type, aligned for all
  const int64_t size = bytes_of(type, 1);
  char* bytes = reinterpret_cast<char*>(elements.data());
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t length = std::min(kChunk, count - done);
    storer_of<C>(type)(bytes, size, length, values + done);
    const C* rounded = loader_of<C>(type)(bytes, size, length, values + done);
    if (rounded != values + done) std::copy_n(rounded, length, values + done);
  }
}

template Loader<int64_t> loader_of<int64_t>(DataType type) noexcept;
template Storer<int64_t> storer_of<int64_t>(DataType type) noexcept;
template void round_through<int64_t>(DataType type, int64_t* values, int64_t count) noexcept;
template Loader<uint64_t> loader_of<uint64_t>(DataType type) noexcept;
template Storer<uint64_t> storer_of<uint64_t>(DataType type) noexcept;
template void round_through<uint64_t>(DataType type, uint64_t* values, int64_t count) noexcept;
template Loader<float> loader_of<float>(DataType type) noexcept;
template Storer<float> storer_of<float>(DataType type) noexcept;
template void round_through<float>(DataType type, float* values, int64_t count) noexcept;
template Loader<double> loader_of<double>(DataType type) noexcept;
template Storer<double> storer_of<double>(DataType type) noexcept;
template void round_through<double>(DataType type, double* values, int64_t count) noexcept;

}  // namespace drydock::ops::kernels
