#include "ops/spatial/gather_planes.h"

#include <cstring>

#include "base/thread_pool.h"
#include "ops/spatial/planes.h"

namespace drydock::ops::kernels {
namespace {

struct alignas(8) Bytes16 {
  std::array<uint64_t, 2> words;
};

/// Strides of the three axes of a plane in bytes.
std::array<int64_t, 3> plane_strides(const TensorView& view, int rank) {
  std::array<int64_t, 3> strides{};
  const Dims bytes = strides_bytes(view);
  for (int axis = 0; axis < rank; ++axis) {
    strides[static_cast<size_t>(3 - rank + axis)] = bytes[view.dims.size() - rank + axis];
  }
  return strides;
}

/// The longest stretch of outputs that come from consecutive inputs.
struct Stretch {
  int64_t begin = 0;
  int64_t end = 0;
};
Stretch longest_stretch(const std::vector<int64_t>& index) {
  Stretch best;
  int64_t begin = 0;
  for (int64_t k = 1; k <= static_cast<int64_t>(index.size()); ++k) {
    const auto at = static_cast<size_t>(k);
    if (at < index.size() && index[at] == index[at - 1] + 1) continue;
    if (k - begin > best.end - best.begin) best = {begin, k};
    begin = k;
  }
  return best;
}

template <class Element>
void gather_rows(const Planes& from, const Planes& to, const std::array<int64_t, 3>& from_strides,
                 const std::array<int64_t, 3>& to_strides, const PlaneIndex& index) {
  constexpr int64_t kSize = sizeof(Element);
  const std::vector<int64_t>& columns = index[2];
  std::vector<int64_t> offsets(columns.size());
  for (size_t x = 0; x < offsets.size(); ++x) offsets[x] = columns[x] * from_strides[2];
  const auto width = static_cast<int64_t>(columns.size());
  // What lies densely on both sides is copied in one piece.
  Stretch stretch = longest_stretch(columns);
  if (from_strides[2] != kSize || to_strides[2] != kSize || stretch.end - stretch.begin < 8) stretch = {0, 0};
  const auto copy_elements_of_row = [&](const char* source, char* target, int64_t begin, int64_t end) {
    for (int64_t x = begin; x < end; ++x) {
      Element element;
      std::memcpy(&element, source + offsets[static_cast<size_t>(x)], sizeof element);
      std::memcpy(target + x * to_strides[2], &element, sizeof element);
    }
  };
  base::parallel_for(to.count(), plane_grain(to.length()), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const char* in = from.start_of(plane);
      char* out = to.start_of(plane);
      for (size_t z = 0; z < index[0].size(); ++z) {
        for (size_t y = 0; y < index[1].size(); ++y) {
          const char* source = in + index[0][z] * from_strides[0] + index[1][y] * from_strides[1];
          char* target = out + static_cast<int64_t>(z) * to_strides[0] + static_cast<int64_t>(y) * to_strides[1];
          if (y > 0 && index[1][y] == index[1][y - 1] && to_strides[2] == kSize) {
            std::memcpy(target, target - to_strides[1], static_cast<size_t>(width * kSize));
            continue;
          }
          copy_elements_of_row(source, target, 0, stretch.begin);
          if (stretch.end > stretch.begin) {
            std::memcpy(target + stretch.begin * kSize, source + offsets[static_cast<size_t>(stretch.begin)],
                        static_cast<size_t>((stretch.end - stretch.begin) * kSize));
          }
          copy_elements_of_row(source, target, stretch.end, width);
        }
      }
    }
  });
}

}  // namespace

void gather_planes(const TensorView& in, const TensorView& out, int rank, const PlaneIndex& index) {
  if (out.numel() == 0) return;
  const Planes from(in, rank);
  const Planes to(out, rank);
  const auto from_strides = plane_strides(in, rank);
  const auto to_strides = plane_strides(out, rank);
  switch (bytes_of(out.dtype, 1)) {
    case 1: return gather_rows<uint8_t>(from, to, from_strides, to_strides, index);
    case 2: return gather_rows<uint16_t>(from, to, from_strides, to_strides, index);
    case 4: return gather_rows<uint32_t>(from, to, from_strides, to_strides, index);
    case 8: return gather_rows<uint64_t>(from, to, from_strides, to_strides, index);
    default: return gather_rows<Bytes16>(from, to, from_strides, to_strides, index);
  }
}

}  // namespace drydock::ops::kernels
