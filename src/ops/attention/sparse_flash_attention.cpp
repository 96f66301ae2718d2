#include <algorithm>
#include <limits>

#include "base/thread_pool.h"
#include "ops/attention/sparse_attention.h"
#include "ops/kernel_call.h"
#include "ops/shapes.h"

// aclnnSparseFlashAttention, its gradient, and aclnnLightningIndexer, which chooses the keys.

namespace drydock::ops::kernels {

namespace attention {

namespace {

/// The blocks of keys that sparseIndices names for each query: numbers up to the first negative one.
class ChosenBlocks {
 public:
  Status parse(const KernelCall& call, const SparseAttentionCall& sparse, int64_t block_size) {
    const TensorView& indices = sparse.arguments().tensor("sparseIndices");
    const Problem& problem = sparse.problem();
    HeadView view;
    if (block_size <= 0 || !head_view(indices, sparse.layout(), 0, &view)) {
      return invalid(call, "sparseIndices " + sizes_of(indices) + " or the size of blocks is wrong");
    }
    DRYDOCK_RETURN_IF_ERROR(sparse.query_like(indices, problem.key_heads, view.width, "sparseIndices", &view_));
    block_size_ = block_size;
    sparse_ = &sparse;
    return Status::ok();
  }

  void keys_of(int64_t sequence, int64_t key_head, int64_t query, std::vector<int64_t>* keys) const {
    const int64_t visible = sparse_->visible(sequence, query);
    const char* row = view_.at(sparse_->batch_of(sequence), key_head, sparse_->first_query(sequence) + query);
    std::vector<int64_t> numbers(static_cast<size_t>(view_.width));
    const int64_t* values = loader_of<int64_t>(view_.dtype)(row, view_.element_stride, view_.width, numbers.data());
    for (int64_t k = 0; k < view_.width && values[k] >= 0; ++k) {
      const int64_t end = std::min(visible, (values[k] + 1) * block_size_);
      for (int64_t key = values[k] * block_size_; key < end; ++key) keys->push_back(key);
    }
  }

 private:
  HeadView view_;
  int64_t block_size_ = 1;
  const SparseAttentionCall* sparse_ = nullptr;
};

/// Place of a query's statistics in [batch, key heads, queries, group] or [key heads, tokens, group].
struct Statistics {
  float* maxima = nullptr;
  float* sums = nullptr;

  Status parse(const KernelCall& call, const SparseAttentionCall& sparse, const TensorView& max_view,
               const TensorView& sum_view) {
    const int64_t count = sparse.queries().batches * sparse.queries().heads * sparse.queries().rows;
    for (const TensorView* view : {&max_view, &sum_view}) {
      if (!view->defined || view->dtype != DataType::kFloat || view->numel() != count || !is_contiguous(*view)) {
        return invalid(call, "softmaxMax and softmaxSum must hold " + std::to_string(count) +
                                 " dense fp32 values, not " + sizes_of(*view));
      }
    }
    maxima = reinterpret_cast<float*>(max_view.data);
    sums = reinterpret_cast<float*>(sum_view.data);
    return Status::ok();
  }
  static int64_t row(const SparseAttentionCall& sparse, int64_t sequence, int64_t key_head, int64_t query) {
    const Problem& problem = sparse.problem();
    return ((sparse.batch_of(sequence) * problem.key_heads + key_head) * sparse.queries().rows +
            sparse.first_query(sequence) + query) *
           problem.group();
  }
};

}  // namespace

}  // namespace attention

Status sparse_flash_attention(KernelCall& call) {
  using namespace attention;
  SparseAttentionCall sparse(call);
  const CallArguments& arguments = sparse.arguments();
  DRYDOCK_RETURN_IF_ERROR(sparse.parse("actualSeqLengthsKvOptional", "layoutQueryOptional", "layoutKvOptional"));
  DRYDOCK_RETURN_IF_ERROR(sparse.parse_values(arguments.tensor("value")));
  DRYDOCK_RETURN_IF_ERROR(sparse.parse_rope());
  Problem& problem = sparse.problem();
  ChosenBlocks chosen;
  DRYDOCK_RETURN_IF_ERROR(chosen.parse(call, sparse, arguments.integer("sparseBlockSizeOptional", 1)));
  HeadView results;
  const TensorView& out = arguments.output("attentionOut");
  DRYDOCK_RETURN_IF_ERROR(sparse.query_like(out, problem.heads, problem.value_width, "attentionOut", &results));
  std::vector<float> sinks;
  const TensorView& given = arguments.tensor("sinksOptional");
  if (given.defined) {
    if (given.numel() != problem.heads) return invalid(call, "sinks must hold one value for each head");
    for_each_value<float>(given, [&](float value) { sinks.push_back(value); });
    problem.sinks = sinks.data();
  }
  const bool gives_statistics = arguments.boolean("returnSoftmaxLse");
  Statistics statistics;
  if (gives_statistics) {
    DRYDOCK_RETURN_IF_ERROR(
        statistics.parse(call, sparse, arguments.output("softmaxMax"), arguments.output("softmaxSum")));
  }
  if (problem.queries != results.batches * results.rows) clear_view(out);
  attend_selected(
      problem, sparse.pack_query_rows(), sparse.pack_key_rows(), sparse.pack_value_rows(),
      [&](int64_t sequence, int64_t key_head, int64_t query, std::vector<int64_t>* keys) {
        chosen.keys_of(sequence, key_head, query, keys);
      },
      [&](int64_t sequence, int64_t first_head, int64_t query, ConstBlock rows, const float* maxima,
          const float* sums) {
        for (int64_t head = 0; head < problem.group(); ++head) {
          write_rows(results, sparse.batch_of(sequence), first_head + head, sparse.first_query(sequence) + query, 1,
                     {rows.data + head * rows.stride, rows.stride});
        }
        if (!gives_statistics) return;
        const int64_t row = Statistics::row(sparse, sequence, first_head / problem.group(), query);
        std::copy_n(maxima, problem.group(), statistics.maxima + row);
        std::copy_n(sums, problem.group(), statistics.sums + row);
      });
  return Status::ok();
}

Status sparse_flash_attention_grad(KernelCall& call) {
  using namespace attention;
  SparseAttentionCall sparse(call);
  const CallArguments& arguments = sparse.arguments();
  DRYDOCK_RETURN_IF_ERROR(sparse.parse("actualSeqLengthsKvOptional", "layoutOptional", "layoutOptional"));
  const TensorView& value = arguments.tensor("value");
  // Without values, keys are the values too, and have the sum of both gradients.
  DRYDOCK_RETURN_IF_ERROR(sparse.parse_values(value.defined ? value : arguments.tensor("key")));
  DRYDOCK_RETURN_IF_ERROR(sparse.parse_rope());
  const Problem& problem = sparse.problem();
  ChosenBlocks chosen;
  DRYDOCK_RETURN_IF_ERROR(chosen.parse(call, sparse, arguments.integer("sparseBlockSize", 1)));
  Statistics statistics;
  DRYDOCK_RETURN_IF_ERROR(
      statistics.parse(call, sparse, arguments.tensor("softmaxMax"), arguments.tensor("softmaxSum")));
  HeadView seeds, results, d_query, d_query_rope, d_key, d_value, d_key_rope;
  const int64_t heads = problem.heads;
  DRYDOCK_RETURN_IF_ERROR(sparse.query_like(arguments.tensor("dOut"), heads, problem.value_width, "dOut", &seeds));
  DRYDOCK_RETURN_IF_ERROR(sparse.query_like(arguments.tensor("out"), heads, problem.value_width, "out", &results));
  DRYDOCK_RETURN_IF_ERROR(
      sparse.query_like(arguments.output("dQueryOut"), heads, sparse.queries().width, "dQuery", &d_query));
  const auto key_like = [&](const char* name, int64_t width, HeadView* view) {
    const TensorView& output = arguments.output(name);
    HeadView key;
    head_view(arguments.tensor("key"), sparse.layout(), 0, &key);
    if (head_view(output, sparse.layout(), 0, view) && view->batches == key.batches && view->rows == key.rows &&
        view->heads == key.heads && view->width == width) {
      clear_view(output);
      return Status::ok();
    }
    return invalid(call, std::string(name) + " " + sizes_of(output) + " does not fit key");
  };
  DRYDOCK_RETURN_IF_ERROR(key_like("dKeyOut", sparse.keys().width(), &d_key));
  if (value.defined) DRYDOCK_RETURN_IF_ERROR(key_like("dValueOut", problem.value_width, &d_value));
  const int64_t rope = sparse.query_rope().width;
  if (rope > 0) {
    DRYDOCK_RETURN_IF_ERROR(
        sparse.query_like(arguments.output("dQueryRopeOutOptional"), heads, rope, "dQueryRope", &d_query_rope));
    DRYDOCK_RETURN_IF_ERROR(key_like("dKeyRopeOutOptional", rope, &d_key_rope));
  }
  clear_view(arguments.output("dQueryOut"));
  ForwardState state;
  state.queries = sparse.pack_query_rows();
  state.keys = sparse.pack_key_rows();
  state.values = sparse.pack_value_rows();
  state.gradients = pack_queries(problem, problem.value_width, sparse.reader_like_queries(seeds));
  const PackedRows out_rows = pack_queries(problem, problem.value_width, sparse.reader_like_queries(results));
  for (size_t k = 0; k < problem.sequences.size(); ++k) {
    const Sequence& s = problem.sequences[k];
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t query = 0; query < s.queries; ++query) {
        const int64_t row = problem.query_row(s, head, query);
        const int64_t at =
            Statistics::row(sparse, static_cast<int64_t>(k), head / problem.group(), query) + head % problem.group();
        state.maxima.push_back(statistics.maxima[at]);
        state.sums.push_back(statistics.sums[at]);
        state.deltas.push_back(dot(out_rows.row(row), state.gradients.row(row), problem.value_width));
      }
    }
  }
  const Gradients gradients = attend_selected_backward(
      problem, state, [&](int64_t sequence, int64_t key_head, int64_t query, std::vector<int64_t>* keys) {
        chosen.keys_of(sequence, key_head, query, keys);
      });
  const int64_t width = sparse.keys().width();
  for (size_t k = 0; k < problem.sequences.size(); ++k) {
    const Sequence& s = problem.sequences[k];
    const int64_t sequence = static_cast<int64_t>(k);
    for (int64_t head = 0; head < heads; ++head) {
      const Block rows = gradients.queries.block(problem.query_row(s, head, 0));
      write_rows(d_query, sparse.batch_of(sequence), head, sparse.first_query(sequence), s.queries, rows);
      if (rope == 0) continue;
      write_rows(d_query_rope, sparse.batch_of(sequence), head, sparse.first_query(sequence), s.queries,
                 {rows.data + width, rows.stride});
    }
    for (int64_t head = 0; head < problem.key_heads; ++head) {
      const int64_t row = problem.key_row(s, head, 0);
      const Block rows = gradients.keys.block(row);
      const int64_t batch = sparse.key_batch_of(sequence);
      const int64_t first = sparse.first_key(sequence);
      if (value.defined) {
        write_rows(d_value, batch, head, first, s.keys, gradients.values.block(row));
      } else {
        for (int64_t key = 0; key < s.keys; ++key) {
          const float* more = gradients.values.row(row + key);
          for (int64_t i = 0; i < width; ++i) rows.data[key * rows.stride + i] += more[i];
        }
      }
      write_rows(d_key, batch, head, first, s.keys, rows);
      if (rope > 0) write_rows(d_key_rope, batch, head, first, s.keys, {rows.data + width, rows.stride});
    }
  }
  return Status::ok();
}

/// The keys with the largest sums over the heads of weight * max(0, query . key), largest first.
Status lightning_indexer(KernelCall& call) {
  using namespace attention;
  SparseAttentionCall sparse(call);
  const CallArguments& arguments = sparse.arguments();
  DRYDOCK_RETURN_IF_ERROR(sparse.parse("actualSeqLengthsKeyOptional", "layoutQueryOptional", "layoutKeyOptional"));
  Problem& problem = sparse.problem();
  const int64_t count = arguments.integer("sparseCount");
  HeadView indices, values, weights;
  const TensorView& indices_out = arguments.output("sparseIndicesOut");
  const TensorView& values_out = arguments.output("sparseValuesOut");
  const bool gives_values = arguments.boolean("returnValues");
  DRYDOCK_RETURN_IF_ERROR(sparse.query_like(indices_out, problem.key_heads, count, "sparseIndices", &indices));
  if (gives_values) {
    DRYDOCK_RETURN_IF_ERROR(sparse.query_like(values_out, problem.key_heads, count, "sparseValues", &values));
  }
  const TensorView& given = arguments.tensor("weights");
  if (!given.defined || given.dims.size() != (sparse.is_packed() ? 2 : 3)) {
    return invalid(call, "weights must have one value for each query and head, not " + sizes_of(given));
  }
  DRYDOCK_RETURN_IF_ERROR(
      sparse.query_like(unsqueeze(given, given.dims.size()), problem.heads, 1, "weights", &weights));
  const int64_t none = -1;
  fill_view(indices_out, contiguous_view(const_cast<int64_t*>(&none), DataType::kInt64, Dims{}));
  const float lowest = -std::numeric_limits<float>::infinity();
  if (gives_values) fill_view(values_out, contiguous_view(const_cast<float*>(&lowest), DataType::kFloat, Dims{}));
  problem.value_width = problem.key_width;
  const PackedRows query_rows = sparse.pack_query_rows();
  const PackedRows key_rows = sparse.pack_key_rows();
  const int64_t group = problem.group();
  for (size_t number = 0; number < problem.sequences.size(); ++number) {
    const Sequence& s = problem.sequences[number];
    const int64_t sequence = static_cast<int64_t>(number);
    const int64_t batch = sparse.batch_of(sequence);
    base::parallel_for(problem.key_heads * s.queries, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> sums(static_cast<size_t>(s.keys)), chosen_values(static_cast<size_t>(count));
      std::vector<int64_t> order;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t key_head = task / s.queries;
        const int64_t query = task % s.queries;
        const int64_t visible = sparse.visible(sequence, query);
        const int64_t row = sparse.first_query(sequence) + query;
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (int64_t member = 0; member < group; ++member) {
          const int64_t head = key_head * group + member;
          float weight = 0;
          read_rows(weights, batch, head, row, 1, {&weight, 1});
          const float* own = query_rows.row(problem.query_row(s, head, query));
          for (int64_t key = 0; key < visible; ++key) {
            const float product = dot(own, key_rows.row(problem.key_row(s, key_head, key)), problem.key_width);
            sums[static_cast<size_t>(key)] += weight * std::max(0.0f, product);
          }
        }
        order.clear();
        for (int64_t key = 0; key < visible; ++key) order.push_back(key);
        const int64_t found = std::min(count, visible);
        std::partial_sort(order.begin(), order.begin() + found, order.end(), [&](int64_t a, int64_t b) {
          const float left = sums[static_cast<size_t>(a)];
          const float right = sums[static_cast<size_t>(b)];
          return left != right ? left > right : a < b;
        });
        storer_of<int64_t>(indices.dtype)(indices.at(batch, key_head, row), indices.element_stride, found,
                                          order.data());
        if (!gives_values) continue;
        for (int64_t k = 0; k < found; ++k) {
          chosen_values[static_cast<size_t>(k)] = sums[static_cast<size_t>(order[static_cast<size_t>(k)])];
        }
        storer_of<float>(values.dtype)(values.at(batch, key_head, row), values.element_stride, found,
                                       chosen_values.data());
      }
    });
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
