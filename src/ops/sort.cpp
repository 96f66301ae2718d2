#include "ops/sort.h"

#include <algorithm>
#include <cmath>

#include "ops/kernel_call.h"
#include "ops/reduce.h"

// Sorting and selection by rank along one dimension.

namespace drydock::ops::kernels {
namespace {

/// The first `kept` of each sorted row go to output 0 (values) and 1 (places).
Status write_sorted(KernelCall& call, int64_t dim, bool descending, int64_t kept) {
  const TensorView& self = call.operand(0);
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(single_axis(call, dim, &axes));
  const Rows rows(self, axes);
  const Rows values_out(call.output(0), axes);
  const Rows places_out(call.output(1), axes);
  if (kept < 0 || kept > rows.length()) {
    return invalid(call,
                   "k is " + std::to_string(kept) + " but the dimension has size " + std::to_string(rows.length()));
  }
  for (const Rows* out : {&values_out, &places_out}) {
    if (out->length() != kept || out->count() != rows.count()) {
      return invalid(call, "the outputs must have the input's shape, with k elements along the dimension");
    }
  }
  if (kept == 0) return Status::ok();
  return with_compute_type(compute_type_of(self.dtype), [&]<class C>() {
    for_each_row<C>(rows, [&](int64_t row, const C* read) {
      const auto items = smallest_items(read, rows.length(), descending, kept);
      std::vector<C> values(items.size());
      std::vector<int64_t> places(items.size());
      for (size_t k = 0; k < items.size(); ++k) {
        places[k] = items[k].place();
        values[k] = read[places[k]];
      }
      values_out.write<C>(row, values.data());
      places_out.write<int64_t>(row, places.data());
    });
    return Status::ok();
  });
}

/// One element of each row by its rank among the row's values: `rank_of(values, count)` from 0, or -1 for the first
/// NaN.
template <class RankOf>
Status write_ranked(KernelCall& call, const Dims& axes, bool with_places, RankOf rank_of) {
  const Rows rows(call.operand(0), axes);
  DRYDOCK_RETURN_IF_ERROR(expect_rows_not_empty(call, rows));
  return with_compute_type(compute_type_of(call.operand(0).dtype), [&]<class C>() {
    std::vector<C> values(static_cast<size_t>(rows.count()));
    std::vector<int64_t> places(values.size());
    for_each_row<C>(rows, [&](int64_t row, const C* read) {
      const int64_t rank = rank_of(read, rows.length());
      int64_t place = 0;
      if (rank >= 0) {
        auto items = sort_items(read, rows.length(), false);
        std::nth_element(items.begin(), items.begin() + rank, items.end());
        place = items[static_cast<size_t>(rank)].place();
      } else {
        while (place + 1 < rows.length() && !is_nan(read[place])) ++place;
      }
      values[static_cast<size_t>(row)] = read[place];
      places[static_cast<size_t>(row)] = place;
    });
    DRYDOCK_RETURN_IF_ERROR(write_all(call, call.output(0), values));
    return with_places ? write_all(call, call.output(1), places) : Status::ok();
  });
}

template <class C>
int64_t count_of_nan(const C* values, int64_t count) {
  return std::count_if(values, values + count, [](C value) { return is_nan(value); });
}

/// The lower of the two middle elements; a NaN if there is one.
constexpr auto kMedianRank = []<class C>(const C* values, int64_t count) -> int64_t {
  return count_of_nan(values, count) > 0 ? -1 : (count - 1) / 2;
};

/// The same among the elements that are not NaN.
constexpr auto kNanMedianRank = []<class C>(const C* values, int64_t count) -> int64_t {
  const int64_t numbers = count - count_of_nan(values, count);
  return numbers == 0 ? -1 : (numbers - 1) / 2;
};

template <class RankOf>
Status median_of_all(KernelCall& call, RankOf rank_of) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  return write_ranked(call, all_axes(call.operand(0).dims.size()), false, rank_of);
}

template <class RankOf>
Status median_of_dim(KernelCall& call, RankOf rank_of) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(single_axis(call, call.integer(0), &axes));
  return write_ranked(call, axes, true, rank_of);
}

}  // namespace

Status sort(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(single_axis(call, call.integer(0), &axes));
  return write_sorted(call, call.integer(0), call.boolean(1), Rows(call.operand(0), axes).length());
}

/// Always in order, whether the caller asks for it or not.
Status topk(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  return write_sorted(call, call.integer(1), call.boolean(0), call.integer(0));
}

Status kthvalue(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(single_axis(call, call.integer(1), &axes));
  const int64_t k = call.integer(0);
  const int64_t length = Rows(call.operand(0), axes).length();
  if (k < 1 || k > length) {
    return invalid(call, "k is " + std::to_string(k) + " but must be in [1, " + std::to_string(length) + "]");
  }
  return write_ranked(call, axes, true, [k](const auto*, int64_t) { return k - 1; });
}

Status median(KernelCall& call) { return median_of_all(call, kMedianRank); }
Status nanmedian(KernelCall& call) { return median_of_all(call, kNanMedianRank); }
Status median_dim(KernelCall& call) { return median_of_dim(call, kMedianRank); }
Status nanmedian_dim(KernelCall& call) { return median_of_dim(call, kNanMedianRank); }

}  // namespace drydock::ops::kernels
