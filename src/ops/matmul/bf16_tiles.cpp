#include "ops/matmul/bf16_tiles.h"

#include <algorithm>
#include <cstring>

#include "base/instruction_set.h"
#include "base/thread_pool.h"
#include "ops/matmul/scratch.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <unistd.h>

#include <sys/syscall.h>
#endif

namespace drydock::ops::kernels {
namespace {

using bf16_tiles::kBlock;
using bf16_tiles::kDepth;
using bf16_tiles::kLines;
using bf16_tiles::kTile;

// Packed elements of one side that are kept at once; lines of a block and of a task.
constexpr int64_t kMostPacked = int64_t{1} << 21;
constexpr int64_t kMostBlock = 1024;
constexpr int64_t kTask = 128;
// Lines that one thread packs together.
constexpr int64_t kGroup = 64;
// Steps of the depth whose panels of the right side stay in the first cache.
constexpr int64_t kStepsAtOnce = 16;

#ifdef __x86_64__
bool ask_for_tiles() noexcept {
  // The kernel grants the registers' state to processes that ask (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  constexpr uint32_t kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(0), "c"(0));
  if (a < 7) return false;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace

bool has_bf16_tiles() noexcept {
#ifdef __x86_64__
  static const bool granted = ask_for_tiles();
  return granted && base::instruction_set() == base::InstructionSet::kAvx512;
#else
  return false;
#endif
}

namespace bf16_tiles {
namespace {

// The two forms of a tile. Lines: kLines rows of kDepth elements. Pairs: kDepth / 2 rows with, for each line, the two
// elements of that depth side by side. As 32-bit words one is the other transposed.
using Words = uint32_t[kLines * kLines];

void transpose_words(const uint32_t* from, uint32_t* to) {
  using Four [[gnu::vector_size(16)]] = uint32_t;
  const auto load = [from](int64_t row, int64_t column) {
    Four words;
    std::memcpy(&words, from + row * kLines + column, sizeof words);
    return words;
  };
  for (int64_t row = 0; row < kLines; row += 4) {
    for (int64_t column = 0; column < kLines; column += 4) {
      const Four r0 = load(row, column), r1 = load(row + 1, column), r2 = load(row + 2, column),
                 r3 = load(row + 3, column);
      const Four low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
      const Four high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
      const Four low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
      const Four high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
      const Four columns[4] = {
          __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
          __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (int64_t k = 0; k < 4; ++k) std::memcpy(to + (column + k) * kLines + row, &columns[k], sizeof(Four));
    }
  }
}

/// Whole lines of dense depth as tiles of lines: each line is read to its end before the next.
void copy_lines(const Bf16Lines& from, int64_t first, int64_t lines, int64_t depth, uint16_t* to) {
  const int64_t whole = depth / kDepth;
  for (int64_t i = 0; i < kLines; ++i) {
    const char* line = from.data + (first + i) * from.line_stride;
    constexpr size_t kBytes = kDepth * sizeof(uint16_t);
    for (int64_t step = 0; step < steps_of(depth); ++step) {
      uint16_t* row = to + step * kTile + i * kDepth;
      if (i < lines && step < whole) {
        std::memcpy(row, line + step * static_cast<int64_t>(kBytes), kBytes);
        continue;
      }
      std::memset(row, 0, kBytes);
      if (i < lines) {
        std::memcpy(row, line + step * static_cast<int64_t>(kBytes), static_cast<size_t>(depth - step * kDepth) * 2);
      }
    }
  }
}

/// `lines` lines along `depth` elements of dense depth, as words of lines.
void read_lines(const char* from, int64_t line_stride, int64_t lines, int64_t depth, uint32_t* words) {
  if (lines < kLines || depth < kDepth) std::memset(words, 0, sizeof(Words));
  for (int64_t i = 0; i < lines; ++i) {
    std::memcpy(words + i * kLines, from + i * line_stride, static_cast<size_t>(depth) * sizeof(uint16_t));
  }
}

/// The same of dense lines, as words of pairs.
void read_pairs(const char* from, int64_t depth_stride, int64_t lines, int64_t depth, uint32_t* words) {
  uint16_t rows[kDepth][kLines];
  if (lines < kLines || depth < kDepth) std::memset(rows, 0, sizeof rows);
  for (int64_t p = 0; p < depth; ++p) {
    std::memcpy(rows[p], from + p * depth_stride, static_cast<size_t>(lines) * sizeof(uint16_t));
  }
  const uint16_t* const first = rows[0];
  base::vectorized([first, words] {
    for (int64_t pair = 0; pair < kDepth / 2; ++pair) {
      const uint16_t* low = first + 2 * pair * kLines;
      for (int64_t i = 0; i < kLines; ++i) {
        words[pair * kLines + i] = low[i] | static_cast<uint32_t>(low[kLines + i]) << 16;
      }
    }
  });
}

void pack_tile(const char* data, const Bf16Lines& from, int64_t lines, int64_t depth, Side side, uint16_t* to) {
  alignas(64) Words words;
  bool as_lines = true;
  if (from.depth_stride == sizeof(uint16_t)) {
    read_lines(data, from.line_stride, lines, depth, words);
  } else if (from.line_stride == sizeof(uint16_t)) {
    read_pairs(data, from.depth_stride, lines, depth, words);
    as_lines = false;
  } else {
    std::memset(words, 0, sizeof words);
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t p = 0; p < depth; ++p) {
        std::memcpy(reinterpret_cast<char*>(words + i * kLines) + p * 2,
                    data + i * from.line_stride + p * from.depth_stride, 2);
      }
    }
  }
  if (as_lines == (side == Side::kLeft)) {
    std::memcpy(to, words, sizeof words);
  } else {
    alignas(64) Words turned;
    transpose_words(words, turned);
    std::memcpy(to, turned, sizeof turned);
  }
}

}  // namespace

void pack(const Bf16Lines& from, int64_t first, int64_t panels, int64_t depth, Side side, uint16_t* to) {
  const int64_t panel_size = steps_of(depth) * kTile;
  const auto lines_of = [&](int64_t panel) {
    return std::clamp<int64_t>(from.lines - first - panel * kLines, 0, kLines);
  };
  if (side == Side::kLeft && from.depth_stride == sizeof(uint16_t)) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      copy_lines(from, first + panel * kLines, lines_of(panel), depth, to + panel * panel_size);
    }
    return;
  }
  // Neighbouring panels share lines of the cache where lines lie side by side.
  for (int64_t done = 0; done < depth; done += kDepth, to += kTile) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      const char* data = from.data + (first + panel * kLines) * from.line_stride + done * from.depth_stride;
      pack_tile(data, from, lines_of(panel), std::min(kDepth, depth - done), side, to + panel * panel_size);
    }
  }
}

#ifdef __x86_64__

struct alignas(64) Configuration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kLines, kLines, kLines, kLines, kLines, kLines, kLines, kLines};
};
// Not on the stack: to the compiler the instruction reads its first bytes alone.
static constexpr Configuration kConfiguration;

[[gnu::target("amx-tile")]] static void configure() { _tile_loadconfig(&kConfiguration); }
[[gnu::target("amx-tile")]] static void release() { _tile_release(); }

Session::Session() { configure(); }
Session::~Session() { release(); }

[[gnu::target("amx-tile,amx-bf16")]] void multiply(const uint16_t* left0, const uint16_t* left1, const uint16_t* right0,
                                                   const uint16_t* right1, int64_t steps, float* sums, int64_t stride,
                                                   bool add) {
  // The intrinsics do not tell the compiler that they read memory.
  __asm__ volatile("" ::: "memory");
  const int64_t row = stride * static_cast<int64_t>(sizeof(float));
  float* const lower = sums + kLines * stride;
  if (add) {
    _tile_loadd(0, sums, row);
    _tile_loadd(1, sums + kLines, row);
    _tile_loadd(2, lower, row);
    _tile_loadd(3, lower + kLines, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  constexpr int64_t kRow = kDepth * static_cast<int64_t>(sizeof(uint16_t));
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t at = step * kTile;
    _tile_loadd(4, left0 + at, kRow);
    _tile_loadd(6, right0 + at, kRow);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right1 + at, kRow);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left1 + at, kRow);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, row);
  _tile_stored(1, sums + kLines, row);
  _tile_stored(2, lower, row);
  _tile_stored(3, lower + kLines, row);
}

#else

Session::Session() = default;
Session::~Session() = default;
void multiply(const uint16_t*, const uint16_t*, const uint16_t*, const uint16_t*, int64_t, float*, int64_t, bool) {}

#endif

}  // namespace bf16_tiles

namespace {

/// One block of the result: all panels of both sides are packed, then tasks of kTask x kTask sums.
class TileBlock {
 public:
  TileBlock(const Bf16Lines& a, const Bf16Lines& b, int64_t depth, const Product<float>& product)
      : a_(a),
        b_(b),
        depth_(depth),
        panel_(bf16_tiles::steps_of(depth) * kTile),
        product_(product),
        rows_(lines_of_block(a.lines)),
        columns_(lines_of_block(b.lines)),
        packed_((rows_ + columns_) / kLines * panel_) {}

  void run() {
    for (int64_t column = 0; column < b_.lines; column += columns_) {
      for (int64_t row = 0; row < a_.lines; row += rows_) {
        pack(row, column, row == 0);
        compute(row, column);
      }
    }
  }

 private:
  int64_t lines_of_block(int64_t lines) const {
    const int64_t most = std::clamp<int64_t>(kMostPacked / (panel_ / kLines), kTask, kMostBlock) / kTask * kTask;
    return std::min(most, (lines + kBlock - 1) / kBlock * kBlock);
  }
  uint16_t* left(int64_t line) { return packed_.data() + line / kLines * panel_; }
  uint16_t* right(int64_t line) { return packed_.data() + (rows_ + line) / kLines * panel_; }

  void pack(int64_t row, int64_t column, bool with_right) {
    const auto groups_of = [](int64_t lines) { return (lines + kGroup - 1) / kGroup; };
    const int64_t left_groups = groups_of(rows_);
    const int64_t groups = left_groups + (with_right ? groups_of(columns_) : 0);
    base::parallel_for(groups, std::max<int64_t>(1, 32768 / (panel_ * kGroup / kLines)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t group = begin; group < end; ++group) {
                           const bool is_left = group < left_groups;
                           const int64_t line = (is_left ? group : group - left_groups) * kGroup;
                           const int64_t panels = std::min(kGroup, (is_left ? rows_ : columns_) - line) / kLines;
                           if (is_left) {
                             bf16_tiles::pack(a_, row + line, panels, depth_, bf16_tiles::Side::kLeft, left(line));
                           } else {
                             bf16_tiles::pack(b_, column + line, panels, depth_, bf16_tiles::Side::kRight, right(line));
                           }
                         }
                       });
  }

  void compute(int64_t row, int64_t column) {
    const int64_t rows = std::min(rows_, a_.lines - row), columns = std::min(columns_, b_.lines - column);
    const int64_t row_tasks = (rows + kTask - 1) / kTask, column_tasks = (columns + kTask - 1) / kTask;
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 21) / (kTask * kTask * std::max<int64_t>(depth_, 1)));
    base::parallel_for(row_tasks * column_tasks, grain, [&](int64_t begin, int64_t end) {
      const bf16_tiles::Session session;
      alignas(64) float sums[kTask * kTask];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task % row_tasks * kTask, j = task / row_tasks * kTask;
        const int64_t task_rows = std::min(kTask, rows - i), task_columns = std::min(kTask, columns - j);
        compute_task(i, task_rows, j, task_columns, sums);
        product_.store(row + i, task_rows, column + j, task_columns, sums, kTask);
      }
    });
  }

  void compute_task(int64_t row, int64_t rows, int64_t column, int64_t columns, float* sums) {
    const int64_t steps = panel_ / kTile;
    for (int64_t step = 0; step < steps; step += kStepsAtOnce) {
      const int64_t count = std::min(kStepsAtOnce, steps - step);
      for (int64_t j = 0; j < columns; j += kBlock) {
        const uint16_t* b = right(column + j) + step * kTile;
        for (int64_t i = 0; i < rows; i += kBlock) {
          const uint16_t* a = left(row + i) + step * kTile;
          bf16_tiles::multiply(a, a + panel_, b, b + panel_, count, sums + i * kTask + j, kTask, step > 0);
        }
      }
    }
  }

  const Bf16Lines &a_, &b_;
  const int64_t depth_, panel_;
  const Product<float>& product_;
  const int64_t rows_, columns_;
  Scratch<uint16_t> packed_;
};

}  // namespace

void multiply_bf16(int64_t depth, const Bf16Lines& a, const Bf16Lines& b, const Product<float>& product) {
  if (a.lines <= 0 || b.lines <= 0) return;
  TileBlock(a, b, depth, product).run();
}

}  // namespace drydock::ops::kernels
