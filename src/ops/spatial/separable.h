#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "ops/spatial/planes.h"

// Linear maps of planes that treat each axis on its own: averages over windows, interpolation, padding, and all of
// their gradients, which are the transposed maps. An axis is a sparse matrix; an output is a sum of few inputs.

namespace drydock::ops::kernels {

/// output i = sum of weight[k] * input[index[k]] for first[i] <= k < first[i + 1].
template <class C>
struct AxisMap {
  int64_t inputs = 0;
  std::vector<int64_t> first{0};
  std::vector<int64_t> index;
  std::vector<C> weight;  ///< empty: all are one

  int64_t outputs() const { return static_cast<int64_t>(first.size()) - 1; }
  void end_output() { first.push_back(static_cast<int64_t>(index.size())); }
  bool is_identity() const {
    if (inputs != outputs() || index.size() != static_cast<size_t>(inputs) || !weight.empty()) return false;
    for (size_t k = 0; k < index.size(); ++k) {
      if (index[k] != static_cast<int64_t>(k) || first[k] != static_cast<int64_t>(k)) return false;
    }
    return true;
  }
};

template <class C>
AxisMap<C> identity_map(int64_t size) {
  AxisMap<C> map;
  map.inputs = size;
  for (int64_t k = 0; k < size; ++k) {
    map.index.push_back(k);
    map.end_output();
  }
  return map;
}

template <class C>
AxisMap<C> transposed(const AxisMap<C>& map) {
  AxisMap<C> result;
  result.inputs = map.outputs();
  result.first.assign(static_cast<size_t>(map.inputs) + 1, 0);
  for (int64_t index : map.index) ++result.first[static_cast<size_t>(index) + 1];
  for (size_t k = 1; k < result.first.size(); ++k) result.first[k] += result.first[k - 1];
  result.index.resize(map.index.size());
  result.weight.resize(map.weight.size());
  std::vector<int64_t> next(result.first.begin(), result.first.end() - 1);
  for (int64_t output = 0; output < map.outputs(); ++output) {
    for (auto k = static_cast<size_t>(map.first[static_cast<size_t>(output)]);
         k < static_cast<size_t>(map.first[static_cast<size_t>(output) + 1]); ++k) {
      const auto place = static_cast<size_t>(next[static_cast<size_t>(map.index[k])]++);
      result.index[place] = output;
      if (!map.weight.empty()) result.weight[place] = map.weight[k];
    }
  }
  return result;
}

/// A map of whole planes. Divisors are those of an average: products of one number of each axis (an empty list counts
/// as ones), applied to what comes in or to what goes out.
template <class C>
struct PlaneMap {
  std::array<AxisMap<C>, 3> axes;
  std::array<std::vector<C>, 3> divide_inputs;
  std::array<std::vector<C>, 3> divide_outputs;
};

/// The gradient of a map.
template <class C>
PlaneMap<C> transposed(const PlaneMap<C>& map) {
  PlaneMap<C> result;
  for (size_t axis = 0; axis < 3; ++axis) result.axes[axis] = transposed(map.axes[axis]);
  result.divide_inputs = map.divide_outputs;
  result.divide_outputs = map.divide_inputs;
  return result;
}

/// Applies `map` to every plane. The sizes must agree: they are the caller's to check.
template <class C>
void apply_plane_map(const PlaneMap<C>& map, const Planes& in, const Planes& out);

extern template void apply_plane_map(const PlaneMap<float>&, const Planes&, const Planes&);
extern template void apply_plane_map(const PlaneMap<double>&, const Planes&, const Planes&);

}  // namespace drydock::ops::kernels
