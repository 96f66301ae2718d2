#include "ops/spatial/separable.h"

namespace drydock::ops::kernels {
namespace {

/// One axis: in is [before][inputs][after], out is [before][outputs][after].
template <class C, bool kWeighted>
void apply_axis(const AxisMap<C>& map, const C* in, C* out, int64_t before, int64_t after) {
  const int64_t outputs = map.outputs();
  const int64_t* first = map.first.data();
  const int64_t* index = map.index.data();
  const C* weight = map.weight.data();
  if (after == 1) {
    for (int64_t b = 0; b < before; ++b, in += map.inputs, out += outputs) {
      for (int64_t o = 0; o < outputs; ++o) {
        C sum{};
        for (int64_t k = first[o]; k < first[o + 1]; ++k) {
          if constexpr (kWeighted) {
            sum += weight[k] * in[index[k]];
          } else {
            sum += in[index[k]];
          }
        }
        out[o] = sum;
      }
    }
    return;
  }
  for (int64_t b = 0; b < before; ++b, in += map.inputs * after) {
    for (int64_t o = 0; o < outputs; ++o, out += after) {
      int64_t k = first[o];
      const int64_t end = first[o + 1];
      if (k == end) {
        std::fill_n(out, after, C{});
        continue;
      }
      const C* row = in + index[k] * after;
      if constexpr (kWeighted) {
        const C scale = weight[k];
        for (int64_t x = 0; x < after; ++x) out[x] = scale * row[x];
      } else {
        std::copy_n(row, after, out);
      }
      while (++k < end) {
        row = in + index[k] * after;
        if constexpr (kWeighted) {
          const C scale = weight[k];
          for (int64_t x = 0; x < after; ++x) out[x] += scale * row[x];
        } else {
          for (int64_t x = 0; x < after; ++x) out[x] += row[x];
        }
      }
    }
  }
}

template <class C>
void divide(const std::array<std::vector<C>, 3>& divisors, const Extent& extent, const C* from, C* to) {
  const auto along = [&](size_t axis, int64_t at) {
    return divisors[axis].empty() ? C{1} : divisors[axis][static_cast<size_t>(at)];
  };
  for (int64_t z = 0; z < extent[0]; ++z) {
    for (int64_t y = 0; y < extent[1]; ++y) {
      const C outer = along(0, z) * along(1, y);
      for (int64_t x = 0; x < extent[2]; ++x) {
        const C divisor = outer * along(2, x);
        to[x] = divisor == C{0} ? C{0} : from[x] / divisor;
      }
      from += extent[2];
      to += extent[2];
    }
  }
}

template <class C>
bool divides(const std::array<std::vector<C>, 3>& divisors) {
  return !divisors[0].empty() || !divisors[1].empty() || !divisors[2].empty();
}

/// The axes that do something, those that shrink first: they leave less to do. Among axes that shrink the outer ones
/// come first, among those that grow the inner ones, because rows are quicker than single elements.
template <class C>
std::vector<size_t> order_of(const PlaneMap<C>& map) {
  std::vector<size_t> order;
  const auto shrinks = [&](size_t axis) { return map.axes[axis].outputs() < map.axes[axis].inputs; };
  for (size_t axis : {0, 1, 2}) {
    if (shrinks(axis)) order.push_back(axis);
  }
  for (size_t axis : {2, 1, 0}) {
    if (!shrinks(axis) && !map.axes[axis].is_identity()) order.push_back(axis);
  }
  return order;
}

}  // namespace

template <class C>
void apply_plane_map(const PlaneMap<C>& map, const Planes& in, const Planes& out) {
  if (out.length() == 0 || out.count() == 0) return;
  const std::vector<size_t> order = order_of(map);
  // The largest of the planes between the steps.
  int64_t most = std::max(in.length(), out.length());
  Extent extent = in.extent();
  for (size_t axis : order) {
    extent[axis] = map.axes[axis].outputs();
    most = std::max(most, volume(extent));
  }
  const bool divides_inputs = divides(map.divide_inputs);
  const bool divides_outputs = divides(map.divide_outputs);
  base::parallel_for(out.count(), plane_grain(most), [&](int64_t begin, int64_t end) {
    const auto buffer = scratch<C>(most * 3);
    C* const spare[2] = {buffer.get(), buffer.get() + most};
    for (int64_t plane = begin; plane < end; ++plane) {
      C* const target = out.target<C>(plane, buffer.get() + 2 * most);
      const C* from = in.read<C>(plane, spare[0]);
      int next = 1;
      if (divides_inputs) {
        divide(map.divide_inputs, in.extent(), from, spare[1]);
        from = spare[1];
        next = 0;
      }
      Extent now = in.extent();
      for (size_t step = 0; step < order.size(); ++step) {
        const size_t axis = order[step];
        const AxisMap<C>& axis_map = map.axes[axis];
        int64_t before = 1;
        int64_t after = 1;
        for (size_t other = 0; other < axis; ++other) before *= now[other];
        for (size_t other = axis + 1; other < 3; ++other) after *= now[other];
        C* to = step + 1 == order.size() ? target : spare[next];
        if (axis_map.weight.empty()) {
          apply_axis<C, false>(axis_map, from, to, before, after);
        } else {
          apply_axis<C, true>(axis_map, from, to, before, after);
        }
        now[axis] = axis_map.outputs();
        from = to;
        next = 1 - next;
      }
      if (order.empty()) {
        if (from != target) std::copy_n(from, out.length(), target);
      }
      if (divides_outputs) divide(map.divide_outputs, out.extent(), target, target);
      out.write_back<C>(plane, target);
    }
  });
}

template void apply_plane_map(const PlaneMap<float>&, const Planes&, const Planes&);
template void apply_plane_map(const PlaneMap<double>&, const Planes&, const Planes&);

}  // namespace drydock::ops::kernels
