#include "values/view.h"

#include <algorithm>
#include <array>

namespace drydock::values {
namespace {

constexpr int64_t kMostRuns = 4096;

struct Axis {
  int64_t size;
  int64_t stride;
};

// The view as nested loops over dense runs: innermost axes that lie densely are folded into the run.
struct Runs {
  int64_t run_elements = 1;
  int64_t run_count = 1;
  int axis_count = 0;
  std::array<Axis, ops::kMaxRank> axes;  ///< outer axes, largest stride first
};

Runs runs_of(const ops::Tensor& tensor) {
  Runs runs;
  std::array<Axis, ops::kMaxRank> axes;
  int count = 0;
  for (int axis = 0; axis < tensor.dims.size(); ++axis) {
    if (tensor.dims[axis] == 1 || tensor.strides[axis] == 0) continue;  // a broadcast axis repeats the same bytes
    axes[static_cast<size_t>(count++)] = {tensor.dims[axis], tensor.strides[axis]};
  }
  std::sort(axes.begin(), axes.begin() + count,
            [](const Axis& left, const Axis& right) { return left.stride < right.stride; });
  int folded = 0;
  while (folded < count && axes[static_cast<size_t>(folded)].stride == runs.run_elements) {
    runs.run_elements *= axes[static_cast<size_t>(folded++)].size;
  }
  for (int axis = count - 1; axis >= folded; --axis) {
    runs.axes[static_cast<size_t>(runs.axis_count++)] = axes[static_cast<size_t>(axis)];
    runs.run_count *= axes[static_cast<size_t>(axis)].size;
  }
  return runs;
}

template <class Visit>
void for_each_run(const ops::Tensor& tensor, const Runs& runs, Visit visit) {
  std::array<int64_t, ops::kMaxRank> index{};
  const auto begin = reinterpret_cast<uint64_t>(tensor.data());
  const int64_t run_bytes = bytes_of(tensor.dtype, runs.run_elements);
  int64_t offset = 0;
  for (int64_t run = 0; run < runs.run_count; ++run) {
    if (!visit(begin + static_cast<uint64_t>(bytes_of(tensor.dtype, offset)), static_cast<uint64_t>(run_bytes))) return;
    for (int axis = runs.axis_count - 1; axis >= 0; --axis) {
      const auto at = static_cast<size_t>(axis);
      offset += runs.axes[at].stride;
      if (++index[at] < runs.axes[at].size) break;
      offset -= runs.axes[at].stride * runs.axes[at].size;
      index[at] = 0;
    }
  }
}

}  // namespace

Span span_of(const ops::Tensor& tensor) noexcept {
  const int64_t numel = tensor.numel();
  if (numel == 0) return {reinterpret_cast<uint64_t>(tensor.data()), 0, true};
  if (ops::is_private_format(tensor.format)) {
    // Its elements and their padding are spread over the whole storage.
    return {reinterpret_cast<uint64_t>(tensor.storage), static_cast<uint64_t>(tensor.storage_bytes()), true};
  }
  int64_t last = 0;
  for (int axis = 0; axis < tensor.dims.size(); ++axis) last += (tensor.dims[axis] - 1) * tensor.strides[axis];
  return {reinterpret_cast<uint64_t>(tensor.data()), static_cast<uint64_t>(bytes_of(tensor.dtype, last + 1)),
          last + 1 == numel};
}

Knowledge knowledge_of_view(const ops::Tensor& tensor) noexcept {
  const Span span = span_of(tensor);
  if (span.size_bytes == 0) return Knowledge::kKnown;
  const Knowledge worst = knowledge_of(span.begin, span.size_bytes);
  if (span.dense || worst == Knowledge::kKnown) return worst;
  const Runs runs = runs_of(tensor);
  if (runs.run_count > kMostRuns) return worst;
  Knowledge worst_run = Knowledge::kKnown;
  for_each_run(tensor, runs, [&worst_run](uint64_t begin, uint64_t size_bytes) {
    worst_run = std::min(worst_run, knowledge_of(begin, size_bytes));
    return worst_run != Knowledge::kGhost;
  });
  return worst_run;
}

void set_knowledge_of_view(const ops::Tensor& tensor, Knowledge knowledge) noexcept {
  const Span span = span_of(tensor);
  if (span.size_bytes == 0) return;
  if (span.dense) {
    set_knowledge(span.begin, span.size_bytes, knowledge);
    return;
  }
  const Runs runs = runs_of(tensor);
  if (knowledge == Knowledge::kGhost && runs.run_count > kMostRuns) {
    set_knowledge(span.begin, span.size_bytes, knowledge);
    return;
  }
  for_each_run(tensor, runs, [knowledge](uint64_t begin, uint64_t size_bytes) {
    set_knowledge(begin, size_bytes, knowledge);
    return true;
  });
}

}  // namespace drydock::values
