#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ops/attention/call_arguments.h"
#include "ops/attention/layout.h"
#include "ops/kernel_call.h"
#include "ops/shapes.h"

// aclnnFusedFloydAttention and its gradient: a query [n, m] sees the keys k by their rows [n, k] and [k, m] together.
//   score = scale (q[n, m] . key1[n, k] + q[n, m] . key2[k, m]);  out = sum over k of weight (value1[n, k] + value2[k,
//   m])

namespace drydock::ops::kernels {

namespace attention {

namespace {

/// Elements of one batch and head of a tensor [batch, heads, rows, columns, width], as floats.
std::vector<float> load(const TensorView& view, int64_t batch, int64_t head) {
  const TensorView own = select(select(view, 0, batch), 0, head);
  std::vector<float> values(static_cast<size_t>(own.numel()));
  const Rows rows(own, all_axes(3));
  const float* from = rows.read<float>(0, values.data());
  if (from != values.data()) std::copy_n(from, values.size(), values.data());
  return values;
}

void store(const TensorView& view, int64_t batch, int64_t head, const std::vector<float>& values) {
  Rows(select(select(view, 0, batch), 0, head), all_axes(3)).write<float>(0, values.data());
}

struct Floyd {
  const TensorView *query, *key1, *value1, *key2, *value2, *mask;
  int64_t batches = 0, heads = 0, rows = 0, columns = 0, keys = 0, width = 0;
  float scale = 1;

  Status parse(const KernelCall& call, const CallArguments& arguments, const char* scale_name) {
    query = &arguments.tensor("query");
    key1 = &arguments.tensor("key1");
    value1 = &arguments.tensor("value1");
    key2 = &arguments.tensor("key2");
    value2 = &arguments.tensor("value2");
    mask = &arguments.tensor("attenMaskOptional");
    const std::string sizes = ": query " + sizes_of(*query) + ", key1 " + sizes_of(*key1) + ", key2 " + sizes_of(*key2);
    if (query->dims.size() != 5 || key1->dims.size() != 5) {
      return invalid(call, "query and keys must have five dimensions" + sizes);
    }
    batches = query->dims[0];
    heads = query->dims[1];
    rows = query->dims[2];
    columns = query->dims[3];
    width = query->dims[4];
    keys = key1->dims[3];
    const Dims first{batches, heads, rows, keys, width};
    const Dims second{batches, heads, keys, columns, width};
    if (!(key1->dims == first) || !(value1->dims == first) || !(key2->dims == second) || !(value2->dims == second)) {
      return invalid(call, "keys and values do not fit the query" + sizes);
    }
    if (mask->defined && (!(mask->dims == Dims{batches, 1, rows, 1, keys}) || bytes_of(mask->dtype, 1) != 1)) {
      return invalid(call, "attenMask must be [B, 1, N, 1, K] of bool or uint8, not " + sizes_of(*mask));
    }
    scale = static_cast<float>(arguments.number(scale_name, 1));
    return Status::ok();
  }
  Status check_statistics(const KernelCall& call, const TensorView& view) const {
    if (view.defined && view.dtype == DataType::kFloat && view.dims == Dims{batches, heads, rows, columns, 8} &&
        is_contiguous(view)) {
      return Status::ok();
    }
    return invalid(call, "softmaxMax and softmaxSum must be dense fp32 [B, H, N, M, 8], not " + sizes_of(view));
  }
  float* statistic(const TensorView& view, int64_t batch, int64_t head, int64_t row, int64_t column) const {
    return reinterpret_cast<float*>(view.data) + (((batch * heads + head) * rows + row) * columns + column) * 8;
  }
};

/// One batch and head, loaded.
struct FloydHead {
  const Floyd& floyd;
  int64_t batch;
  std::vector<float> query, key1, value1, key2, value2;

  FloydHead(const Floyd& whole, int64_t batch_index, int64_t head)
      : floyd(whole),
        batch(batch_index),
        query(load(*whole.query, batch_index, head)),
        key1(load(*whole.key1, batch_index, head)),
        value1(load(*whole.value1, batch_index, head)),
        key2(load(*whole.key2, batch_index, head)),
        value2(load(*whole.value2, batch_index, head)) {}

  size_t at_query(int64_t row, int64_t column) const {
    return static_cast<size_t>((row * floyd.columns + column) * floyd.width);
  }
  size_t at_first(int64_t row, int64_t key) const {
    return static_cast<size_t>((row * floyd.keys + key) * floyd.width);
  }
  size_t at_second(int64_t key, int64_t column) const {
    return static_cast<size_t>((key * floyd.columns + column) * floyd.width);
  }
  bool is_masked(int64_t row, int64_t key) const {
    return floyd.mask->defined && *(floyd.mask->data + batch * floyd.mask->strides[0] + row * floyd.mask->strides[2] +
                                    key * floyd.mask->strides[4]) != 0;
  }
  /// Scores of one query, in multiples of kLanes.
  void scores(int64_t row, int64_t column, std::vector<float>* scores) const {
    const float* own = query.data() + at_query(row, column);
    scores->assign(static_cast<size_t>(padded_to_lanes(floyd.keys)), -std::numeric_limits<float>::infinity());
    for (int64_t key = 0; key < floyd.keys; ++key) {
      if (is_masked(row, key)) continue;
      (*scores)[static_cast<size_t>(key)] = floyd.scale * (dot(own, key1.data() + at_first(row, key), floyd.width) +
                                                           dot(own, key2.data() + at_second(key, column), floyd.width));
    }
  }
};

void add_scaled(std::vector<float>& to, size_t to_at, const std::vector<float>& from, size_t from_at, float factor,
                int64_t count) {
  for (int64_t k = 0; k < count; ++k)
    to[to_at + static_cast<size_t>(k)] += factor * from[from_at + static_cast<size_t>(k)];
}

}  // namespace

}  // namespace attention

Status floyd_attention(KernelCall& call) {
  using namespace attention;
  const CallArguments arguments(call);
  Floyd floyd;
  DRYDOCK_RETURN_IF_ERROR(floyd.parse(call, arguments, "scaleValueOptional"));
  const TensorView& maxima = arguments.output("softmaxMaxOut");
  const TensorView& sums = arguments.output("softmaxSumOut");
  const TensorView& out = arguments.output("attentionOutOut");
  DRYDOCK_RETURN_IF_ERROR(floyd.check_statistics(call, maxima));
  DRYDOCK_RETURN_IF_ERROR(floyd.check_statistics(call, sums));
  if (!out.defined || !(out.dims == floyd.query->dims)) return invalid(call, "the output must have the query's shape");
  base::parallel_for(floyd.batches * floyd.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / floyd.heads;
      const int64_t head = task % floyd.heads;
      const FloydHead own(floyd, batch, head);
      std::vector<float> results(own.query.size(), 0.0f);
      for (int64_t row = 0; row < floyd.rows; ++row) {
        for (int64_t column = 0; column < floyd.columns; ++column) {
          own.scores(row, column, &scores);
          const int64_t count = static_cast<int64_t>(scores.size());
          float top = maximum(scores.data(), count);
          float sum = std::numeric_limits<float>::max();
          if (std::isinf(top)) {
            top = -sum;
          } else {
            sum = exponentials(scores.data(), count, top);
            scale(scores.data(), count, 1.0f / sum);
            for (int64_t key = 0; key < floyd.keys; ++key) {
              const float weight = scores[static_cast<size_t>(key)];
              add_scaled(results, own.at_query(row, column), own.value1, own.at_first(row, key), weight, floyd.width);
              add_scaled(results, own.at_query(row, column), own.value2, own.at_second(key, column), weight,
                         floyd.width);
            }
          }
          std::fill_n(floyd.statistic(maxima, batch, head, row, column), 8, top);
          std::fill_n(floyd.statistic(sums, batch, head, row, column), 8, sum);
        }
      }
      store(out, batch, head, results);
    }
  });
  return Status::ok();
}

Status floyd_attention_grad(KernelCall& call) {
  using namespace attention;
  const CallArguments arguments(call);
  Floyd floyd;
  DRYDOCK_RETURN_IF_ERROR(floyd.parse(call, arguments, "scaleValue"));
  const TensorView& maxima = arguments.tensor("softmaxMax");
  const TensorView& sums = arguments.tensor("softmaxSum");
  const TensorView& dy = arguments.tensor("dy");
  const TensorView& out = arguments.tensor("attentionIn");
  DRYDOCK_RETURN_IF_ERROR(floyd.check_statistics(call, maxima));
  DRYDOCK_RETURN_IF_ERROR(floyd.check_statistics(call, sums));
  const char* names[] = {"dqOut", "dk1Out", "dv1Out", "dk2Out", "dv2Out"};
  const TensorView* models[] = {floyd.query, floyd.key1, floyd.value1, floyd.key2, floyd.value2};
  bool fits = dy.dims == floyd.query->dims && out.dims == floyd.query->dims;
  for (size_t k = 0; k < 5; ++k) {
    const TensorView& output = arguments.output(names[k]);
    fits = fits && output.defined && output.dims == models[k]->dims;
  }
  if (!fits) return invalid(call, "dy, attentionIn and the gradients must have the shapes of what they belong to");
  base::parallel_for(floyd.batches * floyd.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> weights;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / floyd.heads;
      const int64_t head = task % floyd.heads;
      const FloydHead own(floyd, batch, head);
      const std::vector<float> seeds = load(dy, batch, head);
      const std::vector<float> results = load(out, batch, head);
      std::vector<float> gradients[5];
      const std::vector<float>* sizes[] = {&own.query, &own.key1, &own.value1, &own.key2, &own.value2};
      for (size_t k = 0; k < 5; ++k) gradients[k].assign(sizes[k]->size(), 0.0f);
      for (int64_t row = 0; row < floyd.rows; ++row) {
        for (int64_t column = 0; column < floyd.columns; ++column) {
          own.scores(row, column, &weights);
          exponentials(weights.data(), static_cast<int64_t>(weights.size()),
                       *floyd.statistic(maxima, batch, head, row, column));
          const float divisor = *floyd.statistic(sums, batch, head, row, column);
          const size_t query_at = own.at_query(row, column);
          const float* seed = seeds.data() + query_at;
          const float delta = dot(seed, results.data() + query_at, floyd.width);
          for (int64_t key = 0; key < floyd.keys; ++key) {
            const float weight = weights[static_cast<size_t>(key)] / divisor;
            const size_t first = own.at_first(row, key);
            const size_t second = own.at_second(key, column);
            const float toward =
                dot(seed, own.value1.data() + first, floyd.width) + dot(seed, own.value2.data() + second, floyd.width);
            const float score = weight * (toward - delta) * floyd.scale;
            add_scaled(gradients[0], query_at, own.key1, first, score, floyd.width);
            add_scaled(gradients[0], query_at, own.key2, second, score, floyd.width);
            add_scaled(gradients[1], first, own.query, query_at, score, floyd.width);
            add_scaled(gradients[2], first, seeds, query_at, weight, floyd.width);
            add_scaled(gradients[3], second, own.query, query_at, score, floyd.width);
            add_scaled(gradients[4], second, seeds, query_at, weight, floyd.width);
          }
        }
      }
      for (size_t k = 0; k < 5; ++k) store(arguments.output(names[k]), batch, head, gradients[k]);
    }
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
