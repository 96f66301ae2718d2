#include "ops/matmul/gemm.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "ops/matmul/micro_kernel.h"
#include "ops/matmul/scratch.h"

// Blocks after the usual scheme: a block of the result grows over blocks of the depth; for each, both factors are
// packed into panels as wide as the micro kernel's tile, and tiles are computed panel by panel.

namespace drydock::ops::kernels {
namespace {

// A panel of B and the tiles it meets stay in the first cache, the panels of A of one task in the second.
constexpr int64_t kDepthBlock = 256;
constexpr int64_t kRowBlock = 768;
constexpr int64_t kColumnBlock = 2048;
// A task: that many panels of A by that many of B.
constexpr int64_t kTaskRowPanels = 8;
constexpr int64_t kTaskColumnPanels = 8;
// Least multiplications that are worth another thread.
constexpr int64_t kLeastWork = int64_t{1} << 17;
constexpr int64_t kLeastPacked = int64_t{1} << 14;

int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// One block of the result, rows x columns at (row, column), over one block of the depth.
template <class T>
struct Block {
  int64_t row, rows, column, columns, depth_begin, depth;
  bool is_first, is_last;
};

template <class T>
class Multiplication {
 public:
  Multiplication(const Factor<T>& a, const Factor<T>& b, const Product<T>& product, int64_t rows, int64_t columns,
                 int64_t depth)
      : a_(a),
        b_(b),
        product_(product),
        kernel_(micro_kernel<T>()),
        rows_(rows),
        columns_(columns),
        depth_(depth),
        direct_(product.memory(&direct_stride_)),
        row_block_(std::min(kRowBlock, blocks(rows, kernel_.rows) * kernel_.rows)),
        column_block_(std::min(kColumnBlock, blocks(columns, kernel_.columns) * kernel_.columns)),
        packed_a_size_(row_block_ * std::min(depth, kDepthBlock)),
        packed_b_size_(column_block_ * std::min(depth, kDepthBlock)),
        scratch_(packed_a_size_ + packed_b_size_ + 64 + (direct_ == nullptr ? row_block_ * column_block_ : 0)) {}

  void run() {
    for (int64_t column = 0; column < columns_; column += kColumnBlock) {
      // Where the sums stay in the result itself, all rows meet a packed block of B before the next is packed.
      const int64_t row_step = direct_ != nullptr ? rows_ : kRowBlock;
      for (int64_t row = 0; row < rows_; row += row_step) {
        for (int64_t depth_begin = 0; depth_begin < depth_; depth_begin += kDepthBlock) {
          run_rows(row, std::min(rows_, row + row_step), column, depth_begin);
        }
      }
    }
  }

 private:
  T* packed_b() { return scratch_.data(); }
  T* packed_a() { return scratch_.data() + (packed_b_size_ + 15) / 16 * 16; }
  T* sums() { return packed_a() + (packed_a_size_ + 15) / 16 * 16; }

  void run_rows(int64_t row_begin, int64_t row_end, int64_t column, int64_t depth_begin) {
    for (int64_t row = row_begin; row < row_end; row += kRowBlock) {
      const Block<T> block{row,
                           std::min(kRowBlock, rows_ - row),
                           column,
                           std::min(kColumnBlock, columns_ - column),
                           depth_begin,
                           std::min(kDepthBlock, depth_ - depth_begin),
                           depth_begin == 0,
                           depth_begin + kDepthBlock >= depth_};
      pack(block, row == row_begin);
      compute(block);
    }
  }

  void pack(const Block<T>& block, bool with_b) {
    const int64_t a_panels = blocks(block.rows, kernel_.rows);
    const int64_t b_panels = with_b ? blocks(block.columns, kernel_.columns) : 0;
    const int64_t grain = std::max<int64_t>(1, kLeastPacked / (block.depth * kernel_.columns));
    base::parallel_for(a_panels + b_panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        if (panel < b_panels) {
          pack_panel(b_, panel, block.column, block.columns, block, kernel_.columns, packed_b());
        } else {
          pack_panel(a_, panel - b_panels, block.row, block.rows, block, kernel_.rows, packed_a());
        }
      }
    });
  }

  static void pack_panel(const Factor<T>& factor, int64_t panel, int64_t line, int64_t lines, const Block<T>& block,
                         int width, T* packed) {
    const int64_t first = panel * width;
    factor.pack(line + first, std::min<int64_t>(width, lines - first), block.depth_begin, block.depth, width,
                packed + first * block.depth);
  }

  void compute(const Block<T>& block) {
    // Smaller tasks where there would be too few; they change who computes a tile, never its bits.
    int64_t row_panels = kTaskRowPanels, column_panels = kTaskColumnPanels;
    const auto tasks = [&] {
      return blocks(block.rows, row_panels * kernel_.rows) * blocks(block.columns, column_panels * kernel_.columns);
    };
    const int64_t wanted = base::thread_count() == 1 ? 1 : 4 * base::thread_count();
    while (tasks() < wanted && column_panels > 1) column_panels /= 2;
    while (tasks() < wanted && row_panels > 1) row_panels /= 2;
    const int64_t task_rows = row_panels * kernel_.rows;
    const int64_t task_columns = column_panels * kernel_.columns;
    const int64_t row_tasks = blocks(block.rows, task_rows);
    const int64_t column_tasks = blocks(block.columns, task_columns);
    const int64_t work = std::min(task_rows, block.rows) * std::min(task_columns, block.columns) * block.depth;
    base::parallel_for(row_tasks * column_tasks, blocks(kLeastWork, work), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task % row_tasks * task_rows;
        const int64_t column = task / row_tasks * task_columns;
        compute_task(block, row, std::min(task_rows, block.rows - row), column,
                     std::min(task_columns, block.columns - column));
      }
    });
  }

  // `row` and `column` count from the block's first.
  void compute_task(const Block<T>& block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const int64_t stride = direct_ != nullptr ? direct_stride_ : column_block_;
    T* sums_of_block = direct_ != nullptr ? direct_ + block.row * stride + block.column : sums();
    T* corner = sums_of_block + row * stride + column;
    for (int64_t j = 0; j < columns; j += kernel_.columns) {
      const T* b = packed_b() + (column + j) * block.depth;
      for (int64_t i = 0; i < rows; i += kernel_.rows) {
        const T* a = packed_a() + (row + i) * block.depth;
        compute_tile(block, a, b, std::min<int64_t>(kernel_.rows, rows - i),
                     std::min<int64_t>(kernel_.columns, columns - j), corner + i * stride + j, stride);
      }
    }
    if (block.is_last) product_.store(block.row + row, rows, block.column + column, columns, corner, stride);
  }

  void compute_tile(const Block<T>& block, const T* a, const T* b, int64_t rows, int64_t columns, T* to,
                    int64_t stride) {
    if (rows == kernel_.rows && columns == kernel_.columns) {
      kernel_.run(block.depth, a, b, to, stride, !block.is_first);
      return;
    }
    T tile[kMostTileRows * kMostTileColumns];
    kernel_.run(block.depth, a, b, tile, kernel_.columns, false);
    for (int64_t i = 0; i < rows; ++i) {
      const T* from = tile + i * kernel_.columns;
      T* row = to + i * stride;
      for (int64_t j = 0; j < columns; ++j) row[j] = block.is_first ? from[j] : row[j] + from[j];
    }
  }

  const Factor<T>& a_;
  const Factor<T>& b_;
  const Product<T>& product_;
  const MicroKernel<T>& kernel_;
  const int64_t rows_, columns_, depth_;
  int64_t direct_stride_ = 0;
  T* const direct_;
  const int64_t row_block_, column_block_, packed_a_size_, packed_b_size_;
  Scratch<T> scratch_;
};

template <class T>
class DenseProduct final : public Product<T> {
 public:
  DenseProduct(T* c, int64_t stride, T alpha, T beta) : c_(c), stride_(stride), alpha_(alpha), beta_(beta) {}

  T* memory(int64_t* stride) const override {
    *stride = stride_;
    return beta_ == 0 ? c_ : nullptr;
  }
  void store(int64_t row, int64_t rows, int64_t column, int64_t columns, const T* values,
             int64_t stride) const override {
    if (beta_ == 0 && alpha_ == 1 && values == c_ + row * stride_ + column) return;
    for (int64_t i = 0; i < rows; ++i) {
      T* to = c_ + (row + i) * stride_ + column;
      const T* from = values + i * stride;
      if (beta_ == 0) {
        for (int64_t j = 0; j < columns; ++j) to[j] = alpha_ * from[j];
      } else {
        for (int64_t j = 0; j < columns; ++j) to[j] = alpha_ * from[j] + beta_ * to[j];
      }
    }
  }

 private:
  T* c_;
  int64_t stride_;
  T alpha_, beta_;
};

template <class T>
void store_zeros(int64_t rows, int64_t columns, const Product<T>& product) {
  Scratch<T> zeros(columns);
  std::fill_n(zeros.data(), columns, T(0));
  for (int64_t row = 0; row < rows; ++row) product.store(row, 1, 0, columns, zeros.data(), columns);
}

template <class T>
constexpr DataType kTypeOf = sizeof(T) == sizeof(float) ? DataType::kFloat : DataType::kDouble;

}  // namespace

template <class T>
void multiply(int64_t rows, int64_t columns, int64_t depth, const Factor<T>& a, const Factor<T>& b,
              const Product<T>& product) {
  if (rows <= 0 || columns <= 0) return;
  if (depth <= 0) return store_zeros(rows, columns, product);
  Multiplication<T>(a, b, product, rows, columns, depth).run();
}

template <class T>
void gemm(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t a_stride, bool transpose_a, const T* b,
          int64_t b_stride, bool transpose_b, T* c, int64_t c_stride, T alpha, T beta) {
  const MatrixFactor<T> left(reinterpret_cast<const char*>(a), kTypeOf<T>, transpose_a ? 1 : a_stride,
                             transpose_a ? a_stride : 1);
  const MatrixFactor<T> right(reinterpret_cast<const char*>(b), kTypeOf<T>, transpose_b ? b_stride : 1,
                              transpose_b ? 1 : b_stride);
  multiply<T>(rows, columns, depth, left, right, DenseProduct<T>(c, c_stride, alpha, beta));
}

#define DRYDOCK_GEMM(T)                                                                                        \
  template void multiply<T>(int64_t, int64_t, int64_t, const Factor<T>&, const Factor<T>&, const Product<T>&); \
  template void gemm<T>(int64_t, int64_t, int64_t, const T*, int64_t, bool, const T*, int64_t, bool, T*, int64_t, T, T);
DRYDOCK_GEMM(float)
DRYDOCK_GEMM(double)

}  // namespace drydock::ops::kernels
