#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ops/elementwise.h"
#include "ops/kernel_call.h"
#include "ops/reduce.h"
#include "ops/sort.h"

// Where values belong: sorted sequences, bins, sets.

namespace drydock::ops::kernels {
namespace {

/// Where `value` belongs in the ascending `sequence`: before its equals, or after them if `right`.
template <class C>
int64_t insertion_point(const C* sequence, int64_t count, C value, bool right) {
  const C* end = sequence + count;
  const C* place = right ? std::upper_bound(sequence, end, value, sorts_before<C>)
                         : std::lower_bound(sequence, end, value, sorts_before<C>);
  return place - sequence;
}

/// Sequences along the last dimension; a sequence of rank 1 serves all values. `sorter` may be null.
Status search(KernelCall& call, const TensorView& sequence, const TensorView& values, bool right,
              const TensorView* sorter) {
  const TensorView& out = call.output(0);
  const std::array<Operand, 2> types = {Operand{&sequence, false}, Operand{&values, false}};
  // The place of a scalar is a scalar, or the one element of the vendor's example.
  const bool scalar = values.dims.empty() && out.dims.size() == 1 && out.numel() == 1;
  if (!scalar && !(out.dims == values.dims)) return invalid(call, "the output must have the shape of the values");
  if (sequence.dims.empty()) return invalid(call, "the sorted sequence must have at least one dimension");
  const bool shared = sequence.dims.size() == 1;
  const Rows sequences(sequence, sequence.dims.size() - 1);
  const Dims value_axes = shared ? all_axes(values.dims.size()) : Dims{values.dims.size() - 1};
  const Rows searched(values, value_axes);
  const Rows found(out, scalar ? all_axes(1) : value_axes);
  if (!shared && !(sequences.outer() == searched.outer())) {
    return invalid(call, "sequences and values must have the same dimensions but for the last");
  }
  if (sorter != nullptr && !(sorter->dims == sequence.dims)) return invalid(call, "sorter must look like the sequence");
  if (values.numel() == 0) return Status::ok();
  return with_compute_type(compute_type_of(result_type(types)), [&]<class C>() {
    std::vector<C> sequence_buffer(static_cast<size_t>(sequences.length()) + 1);
    std::vector<C> sorted_buffer(sequence_buffer.size());
    std::vector<C> value_buffer(static_cast<size_t>(searched.length()));
    std::vector<int64_t> order(sequence_buffer.size());
    std::vector<int64_t> places(value_buffer.size());
    for (int64_t row = 0; row < searched.count(); ++row) {
      const int64_t length = sequences.length();
      const C* ascending = sequences.read<C>(shared ? 0 : row, sequence_buffer.data());
      if (sorter != nullptr) {
        const Rows orders(*sorter, sorter->dims.size() - 1);
        const int64_t* places_in_order = orders.read<int64_t>(shared ? 0 : row, order.data());
        for (int64_t k = 0; k < length; ++k) {
          int64_t place = 0;
          DRYDOCK_RETURN_IF_ERROR(checked_index(call, places_in_order[k], length, &place));
          sorted_buffer[static_cast<size_t>(k)] = ascending[place];
        }
        ascending = sorted_buffer.data();
      }
      const C* wanted = searched.read<C>(row, value_buffer.data());
      for (size_t k = 0; k < places.size(); ++k) {
        places[k] = insertion_point(ascending, length, wanted[k], right);
      }
      found.write<int64_t>(row, places.data());
    }
    return Status::ok();
  });
}

/// All elements, loaded as C.
template <class C>
std::vector<C> elements_of(const TensorView& view) {
  std::vector<C> elements;
  elements.reserve(static_cast<size_t>(view.numel()));
  for_each_value<C>(view, [&](C value) { elements.push_back(value); });
  return elements;
}

}  // namespace

/// Operands: sorted sequence, values (tensor or scalar), and perhaps a sorter.
Status searchsorted(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView* sorter = nullptr;
  if (call.operand_count() > 2 && call.operand(2).defined) {
    DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
    sorter = &call.operand(2);
  }
  return search(call, call.operand(0), call.operand(1), call.boolean(1), sorter);
}

Status bucketize(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  return search(call, call.operand(1), call.operand(0), call.boolean(1), nullptr);
}

/// Operand 0 is what is looked for, operand 1 the set; either may be a scalar.
Status is_in(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& out = call.output(0);
  const std::array<Operand, 2> operands = {operand_of(call, 0), operand_of(call, 1)};
  const Evaluation<2> evaluation = evaluation_of<2>(operands, out.dtype, Domain::kCompared);
  const bool invert = call.boolean(1);
  return with_compute_type(evaluation.compute, [&]<class C>() {
    std::vector<C> members = elements_of<C>(call.operand(1));
    if (evaluation.rounds[1] != DataType::kUndefined) {
      round_through<C>(evaluation.rounds[1], members.data(), static_cast<int64_t>(members.size()));
    }
    const std::unordered_set<C> set(members.begin(), members.end());
    const bool fits = map_elements<C, 1>(out, {&call.operand(0)}, {evaluation.rounds[0]},
                                         [&](C value) { return set.contains(value) != invert ? C(1) : C(0); });
    return fits ? Status::ok() : shapes_do_not_fit(call);
  });
}

Status bincount(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const bool weighted = call.operand_count() > 1 && call.operand(1).defined && call.operand(1).numel() > 0;
  std::vector<double> weights;
  if (weighted) {
    DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
    weights = elements_of<double>(call.operand(1));
    if (static_cast<int64_t>(weights.size()) != self.numel()) {
      return invalid(call, "self and weights must have as many elements");
    }
  }
  std::vector<double> bins(static_cast<size_t>(out.numel()));
  size_t at = 0;
  for (int64_t value : elements_of<int64_t>(self)) {
    if (value < 0 || value >= out.numel()) {
      return invalid(call, "value " + std::to_string(value) + " has no bin among " + std::to_string(out.numel()));
    }
    bins[static_cast<size_t>(value)] += weighted ? weights[at] : 1.0;
    ++at;
  }
  return write_all(call, out, bins);
}

Status histc(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const int64_t bin_count = call.output(0).numel();
  const std::vector<double> values = elements_of<double>(call.operand(0));
  double low = scalar_or(call, 1, 0.0);
  double high = scalar_or(call, 2, 0.0);
  if (low == high && !values.empty()) {
    low = *std::min_element(values.begin(), values.end());
    high = *std::max_element(values.begin(), values.end());
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high) || bin_count < 1) {
    return invalid(call, "the range of the histogram must be finite, min below max, with at least one bin");
  }
  std::vector<double> bins(static_cast<size_t>(bin_count));
  for (double value : values) {
    if (!(value >= low && value <= high)) continue;
    const auto bin = static_cast<int64_t>((value - low) / (high - low) * static_cast<double>(bin_count));
    bins[static_cast<size_t>(std::min(bin, bin_count - 1))] += 1;
  }
  return write_all(call, call.output(0), bins);
}

}  // namespace drydock::ops::kernels
