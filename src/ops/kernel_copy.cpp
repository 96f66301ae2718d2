#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "ops/complex/complex.h"
#include "ops/kernel_access.h"

// Copies between views.

namespace drydock::ops::kernels {
namespace {

template <class C>
void copy_strided(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count) {
  // A complex number is aligned to its parts, not to its size.
  if (to_stride == static_cast<int64_t>(sizeof(C)) && from_stride == 0 &&
      reinterpret_cast<uintptr_t>(to) % alignof(C) == 0) {
    C value;
    std::memcpy(&value, from, sizeof(C));
    std::fill_n(reinterpret_cast<C*>(to), count, value);
    return;
  }
  for (int64_t k = 0; k < count; ++k) std::memcpy(to + k * to_stride, from + k * from_stride, sizeof(C));
}

// Elements of a range for one thread.
constexpr int64_t kGrain = 65536;
// Side of the tiles in which a transposition is copied: both a tile's rows and its columns fit a first-level cache.
constexpr int64_t kTile = 32;

/// A matrix whose columns are dense in the source and whose rows are dense in the destination, rows [begin, end).
template <class E>
void copy_transposed(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t begin, int64_t end,
                     int64_t columns) {
  for (int64_t row_tile = begin; row_tile < end; row_tile += kTile) {
    const int64_t row_end = std::min(row_tile + kTile, end);
    for (int64_t column_tile = 0; column_tile < columns; column_tile += kTile) {
      const int64_t column_end = std::min(column_tile + kTile, columns);
      for (int64_t row = row_tile; row < row_end; ++row) {
        char* result = to + row * to_row + column_tile * static_cast<int64_t>(sizeof(E));
        const char* column = from + row * static_cast<int64_t>(sizeof(E)) + column_tile * from_column;
        for (int64_t k = column_tile; k < column_end; ++k, column += from_column, result += sizeof(E)) {
          std::memcpy(result, column, sizeof(E));
        }
      }
    }
  }
}

using TransposedCopy = void (*)(char*, int64_t, const char*, int64_t, int64_t, int64_t, int64_t);

TransposedCopy transposed_copy_of(int64_t size) {
  switch (size) {
    case 1: return copy_transposed<uint8_t>;
    case 2: return copy_transposed<uint16_t>;
    case 4: return copy_transposed<uint32_t>;
    case 8: return copy_transposed<uint64_t>;
    default: return nullptr;
  }
}

/// Copies by tiles if the walk of (destination, source) is a batch of transpositions; false if not.
bool copied_by_tiles(const StridedWalk& walk, int64_t size) {
  const Dims& dims = walk.merged_dims();
  const int last = dims.size() - 1;
  const TransposedCopy copy = transposed_copy_of(size);
  if (last < 1 || copy == nullptr) return false;
  const Dims& to = walk.merged_strides(0);
  const Dims& from = walk.merged_strides(1);
  int row_axis = 0;
  while (row_axis < last && from[row_axis] != size) ++row_axis;
  const int64_t rows = dims[row_axis];
  const int64_t columns = dims[last];
  if (row_axis == last || to[last] != size || from[last] == size || rows < 4 || columns < 4) return false;
  StridedWalk outer([&] {
    Dims others;
    for (int axis = 0; axis < last; ++axis) others.push_back(axis == row_axis ? 1 : dims[axis]);
    return others;
  }());
  const auto strides_but_last = [&](const Dims& strides) {
    Dims result;
    for (int axis = 0; axis < last; ++axis) result.push_back(strides[axis]);
    return result;
  };
  outer.add(walk.start(0), strides_but_last(to));
  outer.add(walk.start(1), strides_but_last(from));
  outer.merge();
  // Whole tiles of rows go to one thread, so that no two write to one line of the cache.
  const int64_t tiles = (rows + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, kGrain / (kTile * columns));
  base::parallel_for(outer.numel() * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end;) {
      const int64_t matrix = tile / tiles;
      const int64_t next = std::min(end, (matrix + 1) * tiles);
      const int64_t first_row = (tile - matrix * tiles) * kTile;
      const int64_t end_row = std::min(rows, (next - matrix * tiles) * kTile);
      outer.for_each_run_in(matrix, matrix + 1, [&](char* const* pointers, const int64_t*, int64_t) {
        copy(pointers[0], to[row_axis], pointers[1], from[last], first_row, end_row, columns);
      });
      tile = next;
    }
  });
  return true;
}

}  // namespace

void copy_elements(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count,
                   int64_t size) noexcept {
  if (to_stride == size && from_stride == size) {
    std::memmove(to, from, static_cast<size_t>(count * size));
    return;
  }
  switch (size) {
    case 1: return copy_strided<uint8_t>(to, to_stride, from, from_stride, count);
    case 2: return copy_strided<uint16_t>(to, to_stride, from, from_stride, count);
    case 4: return copy_strided<uint32_t>(to, to_stride, from, from_stride, count);
    case 8: return copy_strided<uint64_t>(to, to_stride, from, from_stride, count);
    default:
      for (int64_t k = 0; k < count; ++k) {
        std::memcpy(to + k * to_stride, from + k * from_stride, static_cast<size_t>(size));
      }
  }
}

void copy_element(char* to, const char* from, int64_t size) noexcept { copy_elements(to, 0, from, 0, 1, size); }

bool copy_view(const TensorView& out, const TensorView& in) {
  if (out.dtype == in.dtype) {
    const int64_t size = bytes_of(out.dtype, 1);
    if (bits_of(out.dtype) != size * 8) return false;
    StridedWalk walk(out.dims);
    if (!walk.add(out) || !walk.add(in)) return false;
    walk.follow_first_view();
    walk.merge();
    const int64_t count = walk.numel();
    if (count > kTile * kTile && copied_by_tiles(walk, size)) return true;
    const auto copy_range = [&](int64_t begin, int64_t end) {
      walk.for_each_run_in(begin, end, [&](char* const* pointers, const int64_t* strides, int64_t length) {
        copy_elements(pointers[0], strides[0], pointers[1], strides[1], length, size);
      });
    };
    base::parallel_for(count, kGrain, copy_range);
    return true;
  }
  if (is_complex_type(out.dtype) || is_complex_type(in.dtype)) {
    if (!is_complex_or_real(out.dtype) || !is_complex_or_real(in.dtype)) return false;
    return map_elements<Complex, 1>(out, {&in}, {DataType::kUndefined}, [](Complex value) { return value; });
  }
  if (!is_real_element(out.dtype) || !is_real_element(in.dtype)) return false;
  bool fits = false;
  const auto convert = [&]<class C>() {
    fits = map_elements<C, 1>(out, {&in}, {DataType::kUndefined}, [](C value) { return value; });
    return Status::ok();
  };
  return with_compute_type(compute_type_of(in.dtype), convert).is_ok() && fits;
}

bool fill_view(const TensorView& out, const TensorView& value) {
  TensorView one = value;
  one.dims.clear();
  one.strides.clear();
  alignas(16) std::array<char, 16> converted;
  TensorView cell = contiguous_view(converted.data(), out.dtype, Dims());
  return copy_view(cell, one) && copy_view(out, cell);
}

}  // namespace drydock::ops::kernels
