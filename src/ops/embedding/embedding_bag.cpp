#include <vector>

#include "base/thread_pool.h"
#include "ops/index.h"
#include "ops/spatial/planes.h"

// Bags of embeddings: the sum, mean or maximum of the rows whose indices lie between two offsets.

namespace drydock::ops::kernels {
namespace {

enum class BagMode : uint8_t { kSum, kMean, kMaximum };

struct Bags {
  std::vector<int64_t> indices;
  std::vector<int64_t> first;  ///< index of each bag's first index, and one past the last
  int64_t count() const { return static_cast<int64_t>(first.size()) - 1; }
};

Status bags_of(const KernelCall& call, const TensorView& offsets, bool include_last_offset, Bags* bags) {
  const auto total = static_cast<int64_t>(bags->indices.size());
  Status status = Status::ok();
  for_each_value<int64_t>(offsets, [&](int64_t offset) {
    const int64_t least = bags->first.empty() ? 0 : bags->first.back();
    if ((offset < least || offset > total) && status.is_ok()) {
      status =
          device_fault(call, "offset " + std::to_string(offset) + " must not be less than the one before it, " +
                                 std::to_string(least) + ", or exceed the number of indices, " + std::to_string(total));
    }
    bags->first.push_back(offset);
  });
  DRYDOCK_RETURN_IF_ERROR(std::move(status));
  if (!include_last_offset) bags->first.push_back(total);
  if (bags->first.empty()) return invalid(call, "offsets must not be empty with includeLastOffset");
  return Status::ok();
}

template <class C>
struct BagSums {
  const Rows& weight;
  const Bags& bags;
  BagMode mode;
  int64_t padding;
  std::vector<C> sample_weights;  ///< empty: all are one
};

/// One bag into `result` (and `rows`, the rows that held the maxima); returns its indices without the padding.
template <class C>
int64_t reduce_bag(const BagSums<C>& bag_sums, int64_t bag, C* buffer, C* result, int64_t* rows) {
  const int64_t width = bag_sums.weight.length();
  std::fill_n(result, width, C{0});
  std::fill_n(rows, width, int64_t{0});
  int64_t taken = 0;
  for (auto k = static_cast<size_t>(bag_sums.bags.first[static_cast<size_t>(bag)]);
       k < static_cast<size_t>(bag_sums.bags.first[static_cast<size_t>(bag) + 1]); ++k) {
    const int64_t row = bag_sums.bags.indices[k];
    if (row == bag_sums.padding) continue;
    const C* values = bag_sums.weight.template read<C>(row, buffer);
    ++taken;
    if (bag_sums.mode == BagMode::kMaximum) {
      for (int64_t x = 0; x < width; ++x) {
        if (taken > 1 && !(values[x] > result[x])) continue;
        result[x] = values[x];
        rows[x] = row;
      }
      continue;
    }
    const C scale = bag_sums.sample_weights.empty() ? C{1} : bag_sums.sample_weights[k];
    for (int64_t x = 0; x < width; ++x) result[x] += scale * values[x];
  }
  if (bag_sums.mode == BagMode::kMean && taken > 0) {
    for (int64_t x = 0; x < width; ++x) result[x] /= static_cast<C>(taken);
  }
  return taken;
}

/// Writes as many of `values` as the output holds: the device's shapes differ from version to version.
Status write_if_it_fits(const KernelCall& call, int output, const std::vector<int64_t>& values, const char* what) {
  const TensorView& out = call.output(output);
  if (!out.defined || out.numel() == 0) return Status::ok();
  if (!is_real_element(out.dtype) || is_floating(out.dtype) || out.numel() != static_cast<int64_t>(values.size())) {
    return invalid(call, std::string(what) + " must have " + std::to_string(values.size()) + " integers, not " +
                             std::to_string(out.numel()));
  }
  Rows(out, all_axes(out.dims.size())).write<int64_t>(0, values.data());
  return Status::ok();
}

}  // namespace

/// Operands: weight, indices, offsets, perSampleWeights (may be undefined). Outputs: the bags, the bag of each index,
/// the size of each bag, and the rows of the maxima.
Status embedding_bag(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& weight = call.operand(0);
  const TensorView& out = call.output(0);
  if (weight.dims.size() != 2 || call.operand(1).dims.size() > 1 || call.operand(2).dims.size() > 1) {
    return invalid(call, "weight must be a matrix, indices and offsets vectors");
  }
  if (!is_floating(weight.dtype)) return not_computed(call, "bags of integers are not computed");
  Bags bags;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, call.operand(1), weight.dims[0], &bags.indices));
  if (is_floating(call.operand(2).dtype)) return invalid(call, "offsets must be integers");
  DRYDOCK_RETURN_IF_ERROR(bags_of(call, call.operand(2), call.boolean(2), &bags));
  if (out.dims.size() != 2 || out.dims[0] != bags.count() || out.dims[1] != weight.dims[1]) {
    return invalid(call, "the output must have a row for each of " + std::to_string(bags.count()) + " bags");
  }
  const int64_t width = weight.dims[1];
  const int64_t mode_number = call.integer(0);
  const BagMode mode = mode_number == 0 ? BagMode::kSum : mode_number == 1 ? BagMode::kMean : BagMode::kMaximum;
  const TensorView& samples = call.operand(3);
  if (samples.defined && (samples.numel() != static_cast<int64_t>(bags.indices.size()) || mode != BagMode::kSum)) {
    return invalid(call, "perSampleWeights need one number for each index, and the mode sum");
  }
  const Rows rows(weight, 1);
  const Rows to(out, 1);
  std::vector<int64_t> sizes(static_cast<size_t>(bags.count()));
  std::vector<int64_t> maxima(mode == BagMode::kMaximum ? static_cast<size_t>(bags.count() * width) : 0);
  DRYDOCK_RETURN_IF_ERROR(with_floating_type(compute_type_of(weight.dtype), [&]<class C>() {
    BagSums<C> sums{rows, bags, mode, call.integer(1), {}};
    if (samples.defined) {
      for_each_value<C>(samples, [&](C value) { sums.sample_weights.push_back(value); });
    }
    const int64_t per_bag =
        width * (1 + static_cast<int64_t>(bags.indices.size()) / std::max<int64_t>(1, bags.count()));
    base::parallel_for(bags.count(), plane_grain(per_bag), [&](int64_t begin, int64_t end) {
      const auto buffer = scratch<C>(width);
      const auto result = scratch<C>(width);
      const auto places = scratch<int64_t>(width);
      for (int64_t bag = begin; bag < end; ++bag) {
        sizes[static_cast<size_t>(bag)] = reduce_bag(sums, bag, buffer.get(), result.get(), places.get());
        to.write<C>(bag, result.get());
        if (!maxima.empty()) std::copy_n(places.get(), width, maxima.begin() + bag * width);
      }
    });
    return Status::ok();
  }));
  std::vector<int64_t> bag_of_index(bags.indices.size());
  for (int64_t bag = 0; bag < bags.count(); ++bag) {
    std::fill(bag_of_index.begin() + bags.first[static_cast<size_t>(bag)],
              bag_of_index.begin() + bags.first[static_cast<size_t>(bag) + 1], bag);
  }
  DRYDOCK_RETURN_IF_ERROR(write_if_it_fits(call, 1, bag_of_index, "offset2bag"));
  DRYDOCK_RETURN_IF_ERROR(write_if_it_fits(call, 2, sizes, "bagSize"));
  if (mode != BagMode::kMaximum) maxima.assign(sizes.size(), 0);
  return write_if_it_fits(call, 3, maxima, "maxIndices");
}

}  // namespace drydock::ops::kernels
