#include "ops/matmul/matrix_call.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "ops/elementwise.h"
#include "ops/matmul/bf16_tiles.h"
#include "ops/matmul/thin_product.h"

namespace drydock::ops::kernels {
namespace {

// Up to this many multiplications a matrix of a batch is not worth being split among threads.
constexpr int64_t kSmallProduct = int64_t{1} << 21;

int64_t element_stride(const TensorView& view, int from_end) { return view.strides[view.strides.size() - from_end]; }

char* address_of(const TensorView& view, const Dims& position) {
  int64_t offset = 0;
  for (int axis = 0; axis < position.size(); ++axis) offset += position[axis] * view.strides[axis];
  return view.data + bytes_of(view.dtype, offset);
}

/// Bytes that a view touches.
struct Span {
  const char* begin;
  const char* end;
};

Span span_of(const TensorView& view) {
  const int64_t size = bytes_of(view.dtype, 1);
  Span span{view.data, view.data + size};
  for (int axis = 0; axis < view.dims.size(); ++axis) {
    if (view.dims[axis] == 0) return {view.data, view.data};
    const int64_t reach = (view.dims[axis] - 1) * view.strides[axis] * size;
    (reach < 0 ? span.begin : span.end) += reach;
  }
  return span;
}

bool overlap(const TensorView& a, const TensorView& b) {
  const Span one = span_of(a);
  const Span other = span_of(b);
  return one.begin < other.end && other.begin < one.end;
}

/// Replaces `view` by a copy if writing `out` could change it.
void detach(TensorView* view, const TensorView& out, std::vector<std::unique_ptr<char[]>>* copies) {
  if (!overlap(*view, out)) return;
  auto& copy = copies->emplace_back(new char[static_cast<size_t>(bytes_of(view->dtype, view->numel()))]);
  const TensorView dense = contiguous_view(copy.get(), view->dtype, view->dims);
  copy_view(dense, *view);
  *view = dense;
}

/// One matrix of the result.
template <class T>
class MatrixProduct final : public Product<T> {
 public:
  MatrixProduct(const ProductViews& views, const Dims& batch)
      : out_(address_of(views.out, batch)),
        self_(views.self.defined ? address_of(views.self, batch) : nullptr),
        alpha_(static_cast<T>(views.alpha)),
        beta_(static_cast<T>(views.beta)),
        out_type_(views.out.dtype),
        store_(storer_of<T>(views.out.dtype)),
        load_(self_ != nullptr ? loader_of<T>(views.self.dtype) : nullptr),
        row_stride_(bytes_of(out_type_, element_stride(views.out, 2))),
        column_stride_(bytes_of(out_type_, element_stride(views.out, 1))) {
    if (self_ == nullptr) return;
    self_row_stride_ = bytes_of(views.self.dtype, element_stride(views.self, 2));
    self_column_stride_ = bytes_of(views.self.dtype, element_stride(views.self, 1));
  }

  T* memory(int64_t* stride) const override {
    constexpr DataType kSame = sizeof(T) == sizeof(float) ? DataType::kFloat : DataType::kDouble;
    *stride = row_stride_ / static_cast<int64_t>(sizeof(T));
    const bool dense = out_type_ == kSame && column_stride_ == static_cast<int64_t>(sizeof(T));
    return dense && self_ == nullptr ? reinterpret_cast<T*>(out_) : nullptr;
  }

  void store(int64_t row, int64_t rows, int64_t column, int64_t columns, const T* values,
             int64_t stride) const override {
    T results[kChunk];
    T added[kChunk];
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t done = 0; done < columns; done += kChunk) {
        const int64_t length = std::min(kChunk, columns - done);
        const T* from = values + i * stride + done;
        char* to = out_ + (row + i) * row_stride_ + (column + done) * column_stride_;
        if (reinterpret_cast<const char*>(from) == to && alpha_ == 1) continue;
        if (alpha_ == 1 && self_ == nullptr) {
          store_(to, column_stride_, length, from);
          continue;
        }
        for (int64_t j = 0; j < length; ++j) results[j] = alpha_ * from[j];
        if (self_ != nullptr) {
          const char* self = self_ + (row + i) * self_row_stride_ + (column + done) * self_column_stride_;
          const T* addend = load_(self, self_column_stride_, length, added);
          for (int64_t j = 0; j < length; ++j) results[j] += beta_ * addend[j];
        }
        store_(to, column_stride_, length, results);
      }
    }
  }

 private:
  char* out_;
  const char* self_;
  T alpha_, beta_;
  DataType out_type_;
  Storer<T> store_;
  Loader<T> load_;
  int64_t row_stride_, column_stride_;
  int64_t self_row_stride_ = 0, self_column_stride_ = 0;
};

StridedLines lines_of(const TensorView& view, const Dims& batch, int lines_from_end) {
  const int64_t size = bytes_of(view.dtype, 1);
  return {address_of(view, batch), view.dtype, view.dims[view.dims.size() - lines_from_end],
          size * element_stride(view, lines_from_end), size * element_stride(view, 3 - lines_from_end)};
}

/// Products with a vector, or nearly: false if this is none.
bool multiply_if_thin(const ProductViews& views, const Dims& batch) {
  const StridedLines a = lines_of(views.a, batch, 2), b = lines_of(views.b, batch, 1);
  const int64_t depth = views.a.dims[views.a.dims.size() - 1];
  const bool thin_is_right = b.lines < a.lines;
  const StridedLines &thin = thin_is_right ? b : a, &wide = thin_is_right ? a : b;
  if (!is_thin(thin, wide, depth)) return false;
  multiply_thin(thin, wide, depth, views.rounding, thin_is_right, MatrixProduct<float>(views, batch));
  return true;
}

/// Products of bf16 on the processor's tiles: false if it has none, or this is no such product.
bool multiply_on_tiles(const ProductViews& views, const Dims& batch) {
  const int64_t depth = views.a.dims[views.a.dims.size() - 1];
  if (views.a.dtype != DataType::kBFloat16 || views.b.dtype != DataType::kBFloat16 || depth == 0) return false;
  if (!has_bf16_tiles()) return false;
  const auto tiles_of = [&](const TensorView& view, int lines_from_end) {
    const StridedLines lines = lines_of(view, batch, lines_from_end);
    return Bf16Lines{lines.data, lines.lines, lines.line_stride, lines.depth_stride};
  };
  multiply_bf16(depth, tiles_of(views.a, 2), tiles_of(views.b, 1), MatrixProduct<float>(views, batch));
  return true;
}

template <class T>
void multiply_matrix(const ProductViews& views, const Dims& batch) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (multiply_if_thin(views, batch) || multiply_on_tiles(views, batch)) return;
  }
  const int rank = views.out.dims.size();
  const MatrixFactor<T> a(address_of(views.a, batch), views.a.dtype, element_stride(views.a, 2),
                          element_stride(views.a, 1), views.rounding);
  const MatrixFactor<T> b(address_of(views.b, batch), views.b.dtype, element_stride(views.b, 1),
                          element_stride(views.b, 2), views.rounding);
  multiply<T>(views.out.dims[rank - 2], views.out.dims[rank - 1], views.a.dims[rank - 1], a, b,
              MatrixProduct<T>(views, batch));
}

/// Integers, exact modulo 2^64; not worth an engine.
void multiply_integers(const ProductViews& views, const Dims& batch) {
  const int rank = views.out.dims.size();
  const int64_t depth = views.a.dims[rank - 1];
  const int64_t columns = views.out.dims[rank - 1];
  const auto load_a = loader_of<int64_t>(views.a.dtype);
  const auto load_b = loader_of<int64_t>(views.b.dtype);
  const auto store = storer_of<int64_t>(views.out.dtype);
  const auto stride = [](const TensorView& view, int from_end) {
    return bytes_of(view.dtype, element_stride(view, from_end));
  };
  base::parallel_for(views.out.dims[rank - 2], 1, [&](int64_t begin, int64_t end) {
    int64_t buffer = 0;
    for (int64_t i = begin; i < end; ++i) {
      const char* a = address_of(views.a, batch) + i * stride(views.a, 2);
      for (int64_t j = 0; j < columns; ++j) {
        const char* b = address_of(views.b, batch) + j * stride(views.b, 1);
        int64_t sum = 0;
        for (int64_t p = 0; p < depth; ++p) {
          const int64_t left = *load_a(a + p * stride(views.a, 1), 0, 1, &buffer);
          sum = wrapping_add(sum, wrapping_multiply(left, *load_b(b + p * stride(views.b, 2), 0, 1, &buffer)));
        }
        sum = wrapping_multiply(sum, static_cast<int64_t>(views.alpha));
        if (views.self.defined) {
          const char* self = address_of(views.self, batch) + i * stride(views.self, 2) + j * stride(views.self, 1);
          const auto load = loader_of<int64_t>(views.self.dtype);
          sum = wrapping_add(sum, wrapping_multiply(*load(self, 0, 1, &buffer), static_cast<int64_t>(views.beta)));
        }
        store(address_of(views.out, batch) + i * stride(views.out, 2) + j * stride(views.out, 1), 0, 1, &sum);
      }
    }
  });
}

TensorView without_axis(TensorView view, int axis) {
  Dims dims, strides;
  for (int k = 0; k < view.dims.size(); ++k) {
    if (k == axis) continue;
    dims.push_back(view.dims[k]);
    strides.push_back(view.strides[k]);
  }
  view.dims = dims;
  view.strides = strides;
  return view;
}

/// Makes rows of batches wherever the right factor is the same for the whole batch: [batch, rows, depth] @ [depth,
/// columns] is one product of batch * rows rows.
void merge_batches_into_rows(ProductViews* views) {
  while (views->out.dims.size() > 2) {
    const int axis = views->out.dims.size() - 3;
    const int64_t batch = views->out.dims[axis];
    const int64_t rows = views->out.dims[axis + 1];
    const auto merges = [&](const TensorView& view) {
      return !view.defined || batch == 1 || rows == 1 || view.strides[axis] == rows * view.strides[axis + 1];
    };
    if (batch != 1 && views->b.strides[axis] != 0) return;
    if (!merges(views->a) || !merges(views->out) || !merges(views->self)) return;
    for (TensorView* view : {&views->a, &views->out, &views->self}) {
      if (!view->defined) continue;
      if (rows == 1) view->strides[axis + 1] = view->strides[axis];
      view->dims[axis + 1] = batch * rows;
      *view = without_axis(*view, axis);
    }
    views->b = without_axis(views->b, axis);
  }
}

template <class Multiply>
void for_each_matrix(const ProductViews& views, Multiply multiply_one) {
  const int rank = views.out.dims.size();
  Dims batch_dims;
  for (int axis = 0; axis < rank - 2; ++axis) batch_dims.push_back(views.out.dims[axis]);
  const int64_t work =
      views.out.dims[rank - 2] * views.out.dims[rank - 1] * std::max<int64_t>(1, views.a.dims[rank - 1]);
  const int64_t batches = batch_dims.product();
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      Dims position = batch_dims;
      int64_t rest = number;
      for (int axis = rank - 3; axis >= 0; --axis) {
        position[axis] = rest % batch_dims[axis];
        rest /= batch_dims[axis];
      }
      multiply_one(views, position);
    }
  };
  // A few large matrices are split inside, many or small ones go to a thread each.
  if (work > kSmallProduct && batches < 2 * base::thread_count()) return run(0, batches);
  base::parallel_for(batches, std::max<int64_t>(1, (int64_t{1} << 17) / std::max<int64_t>(work, 1)), run);
}

bool is_integer(const TensorView& view) { return !view.defined || !is_floating(view.dtype); }

}  // namespace

Status rounding_of(const KernelCall& call, int64_t cube_math_type, DataType a, DataType b, InputRounding* rounding) {
  *rounding = InputRounding::kNone;
  if (cube_math_type < 0 || cube_math_type > 4) {
    return invalid(call,
                   "cubeMathType " + std::to_string(cube_math_type) +
                       " does not exist; it is 0 (keep the type), 1 (HF32 for fp32 inputs), 2 (fp16), 3 (HF32) or "
                       "4 (grouped accumulation of fp32)");
  }
  if (a != DataType::kFloat || b != DataType::kFloat) return Status::ok();
  if (cube_math_type == 1 || cube_math_type == 3) *rounding = InputRounding::kTwelveBits;
  if (cube_math_type == 2) *rounding = InputRounding::kHalf;
  return Status::ok();
}

Status multiply_views(const KernelCall& call, ProductViews views) {
  const int rank = views.out.dims.size();
  const Dims &a = views.a.dims, &b = views.b.dims;
  if (a[rank - 1] != b[rank - 2] || a[rank - 2] != views.out.dims[rank - 2] ||
      b[rank - 1] != views.out.dims[rank - 1]) {
    return invalid(
        call, "matrices of " + text_of(a) + " and " + text_of(b) + " do not multiply to " + text_of(views.out.dims));
  }
  if (views.out.numel() == 0) return Status::ok();
  if (views.beta == 0) views.self = {};
  std::vector<std::unique_ptr<char[]>> copies;
  detach(&views.a, views.out, &copies);
  detach(&views.b, views.out, &copies);
  const bool in_place = views.self.defined && views.self.data == views.out.data &&
                        views.self.dtype == views.out.dtype && views.self.strides == views.out.strides;
  if (views.self.defined && !in_place) detach(&views.self, views.out, &copies);
  merge_batches_into_rows(&views);
  if (is_integer(views.a) && is_integer(views.b) && is_integer(views.self)) {
    for_each_matrix(views, multiply_integers);
    return Status::ok();
  }
  const auto is_double = [](const TensorView& view) { return view.defined && view.dtype == DataType::kDouble; };
  if (is_double(views.a) || is_double(views.b) || is_double(views.self)) {
    for_each_matrix(views, multiply_matrix<double>);
  } else {
    for_each_matrix(views, multiply_matrix<float>);
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
