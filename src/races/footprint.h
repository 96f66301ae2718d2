#pragma once

#include <array>
#include <cstdint>

#include "base/export.h"

namespace drydock::races {

/// The bytes that a strided view touches: runs of `run_bytes`, repeated along axes. A view whose elements leave no gaps
/// has no axes. Plain data, cheap to copy for dense views.
struct Footprint {
  static constexpr int kMostAxes = 6;
  struct Axis {
    uint64_t count;
    uint64_t stride_bytes;
    bool operator==(const Axis&) const = default;
  };

  uint64_t begin = 0;
  uint64_t end = 0;  ///< behind the last byte
  uint64_t run_bytes = 0;
  int axis_count = 0;
  std::array<Axis, kMostAxes> axes{};  ///< largest stride first

  bool is_dense() const noexcept { return axis_count == 0; }
  bool operator==(const Footprint& other) const noexcept;

  static Footprint dense(uint64_t begin, uint64_t end) noexcept {
    Footprint footprint;
    footprint.begin = begin;
    footprint.end = end;
    footprint.run_bytes = end - begin;
    return footprint;
  }
};

/// Of a view of `rank` axes with `sizes` and `strides` in elements. Axes beyond kMostAxes are taken as filled.
DRYDOCK_API Footprint footprint_of(uint64_t address, uint64_t element_bytes, const int64_t* sizes,
                                   const int64_t* strides, int rank) noexcept;

/// True if the footprints have a byte in common. Exact for up to 2^16 runs of the smaller one; beyond that false: what
/// is not known to overlap is not reported.
DRYDOCK_API bool overlap(const Footprint& left, const Footprint& right) noexcept;

}  // namespace drydock::races
