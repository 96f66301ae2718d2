#include <algorithm>

#include "base/thread_pool.h"
#include "ops/attention/flash_attention.h"
#include "ops/attention/tile_blocks.h"
#include "ops/kernel_call.h"

// aclnnFlashAttentionScore, aclnnFlashAttentionVarLenScore and their gradients, all versions.

namespace drydock::ops::kernels {

namespace attention {

namespace {

void write_statistic(char* to, float value) { std::fill_n(reinterpret_cast<float*>(to), 8, value); }

/// Sets the rows that no sequence covers to zero.
void clear_uncovered(const FlashAttentionCall& flash, const TensorView& view, int64_t covered) {
  if (!flash.is_variable_length() || covered >= view.dims[0]) return;
  clear_view(narrow(view, 0, covered, view.dims[0] - covered));
}

/// Attends and hands on the results; the packed operands live as long as this.
struct PackedForward {
  PackedRows queries, keys, values;

  explicit PackedForward(const FlashAttentionCall& flash)
      : queries(pack_queries(flash.problem(), flash.problem().key_width, flash.reader_of_queries(flash.queries()))),
        keys(pack_keys(flash.problem(), flash.problem().key_width, flash.reader_of_keys(flash.keys()))),
        values(pack_keys(flash.problem(), flash.problem().value_width,
                         flash.reader_of_keys(TwoPartRows{flash.values(), {}}))) {}

  void attend_to(const FlashAttentionCall& flash, const WriteResults& write) const {
    attend(flash.problem(), queries, PackedColumns(flash.problem(), flash.problem().key_width, keys), values, write);
  }
};

Status forward(const KernelCall& call) {
  FlashAttentionCall flash(call);
  DRYDOCK_RETURN_IF_ERROR(flash.parse("key", "keyRope", "realShiftOptional", "sinkOptional"));
  const TensorView& out = flash.arguments().output("attentionOutOut");
  const TensorView& maxima_out = flash.arguments().output("softmaxMaxOut");
  const TensorView& sums_out = flash.arguments().output("softmaxSumOut");
  HeadView results;
  DRYDOCK_RETURN_IF_ERROR(flash.view_like_results(out, "attentionOut", &results));
  DRYDOCK_RETURN_IF_ERROR(flash.check_statistics(maxima_out, "softmaxMaxOut"));
  DRYDOCK_RETURN_IF_ERROR(flash.check_statistics(sums_out, "softmaxSumOut"));
  if (flash.is_variable_length()) {
    clear_uncovered(flash, out, flash.problem().queries);
    // The rows of statistics that belong to no query: those behind all others.
    const int64_t used = flash.problem().queries * flash.problem().heads * 8;
    for (const TensorView* view : {&maxima_out, &sums_out}) {
      float* values = reinterpret_cast<float*>(view->data);
      std::fill(values + used, values + view->numel(), 0.0f);
    }
  }
  if (flash.is_empty()) return Status::ok();
  const WriteResults write = [&](int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows,
                                 const float* maxima, const float* sums) {
    write_rows(results, flash.batch_of(sequence), head, flash.first_query(sequence) + first, count, rows);
    for (int64_t q = 0; q < count; ++q) {
      write_statistic(flash.statistic(maxima_out, sequence, head, first + q), maxima[q]);
      write_statistic(flash.statistic(sums_out, sequence, head, first + q), sums[q]);
    }
  };
  const Problem& problem = flash.problem();
  if (has_few_queries(problem)) {
    attend_few(problem, pack_queries(problem, problem.key_width, flash.reader_of_queries(flash.queries())),
               flash.reader_of_keys(flash.keys()), flash.reader_of_keys(TwoPartRows{flash.values(), {}}), write);
  } else if (runs_on_tiles(problem)) {
    attend_on_tiles(problem, flash.reader_of_queries(flash.queries()), flash.reader_of_keys(flash.keys()),
                    flash.reader_of_keys(TwoPartRows{flash.values(), {}}), write);
  } else {
    PackedForward(flash).attend_to(flash, write);
  }
  return Status::ok();
}

/// The dot product of each result's row with its gradient.
class Deltas {
 public:
  Deltas(const FlashAttentionCall& flash, ForwardState& state) : flash_(flash), state_(state) {
    state.deltas.resize(static_cast<size_t>(flash.problem().queries * flash.problem().heads));
  }
  void add(int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows) {
    const Problem& problem = flash_.problem();
    const Sequence& s = problem.sequences[static_cast<size_t>(sequence)];
    const int64_t start = problem.query_row(s, head, first);
    for (int64_t q = 0; q < count; ++q) {
      state_.deltas[static_cast<size_t>(start + q)] =
          dot(rows.data + q * rows.stride, state_.gradients.row(start + q), problem.value_width);
    }
  }

 private:
  const FlashAttentionCall& flash_;
  ForwardState& state_;
};

Status read_state(const FlashAttentionCall& flash, const HeadView& gradients, const TensorView& results,
                  const HeadView& result_rows, ForwardState* state) {
  const Problem& problem = flash.problem();
  PackedForward packed(flash);
  state->gradients = pack_queries(problem, problem.value_width, flash.reader_of_queries(TwoPartRows{gradients, {}}));
  Deltas deltas(flash, *state);
  if (results.defined) {
    const ReadRows read = flash.reader_of_queries(TwoPartRows{result_rows, {}});
    // Packing visits every row once, in parallel.
    pack_queries(problem, problem.value_width,
                 [&](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
                   read(sequence, head, first, count, rows);
                   deltas.add(sequence, head, first, count, rows);
                 });
  } else {
    packed.attend_to(flash, [&](int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows,
                                const float*, const float*) { deltas.add(sequence, head, first, count, rows); });
  }
  const TensorView& maxima = flash.arguments().tensor("softmaxMaxOptional");
  const TensorView& sums = flash.arguments().tensor("softmaxSumOptional");
  const size_t rows = state->deltas.size();
  state->maxima.resize(rows);
  state->sums.resize(rows);
  for (size_t k = 0; k < problem.sequences.size(); ++k) {
    const Sequence& s = problem.sequences[k];
    for (int64_t head = 0; head < problem.heads; ++head) {
      for (int64_t query = 0; query < s.queries; ++query) {
        const size_t row = static_cast<size_t>(problem.query_row(s, head, query));
        const int64_t sequence = static_cast<int64_t>(k);
        state->maxima[row] = *reinterpret_cast<const float*>(flash.statistic(maxima, sequence, head, query));
        state->sums[row] = *reinterpret_cast<const float*>(flash.statistic(sums, sequence, head, query));
      }
    }
  }
  state->queries = std::move(packed.queries);
  state->keys = std::move(packed.keys);
  state->values = std::move(packed.values);
  return Status::ok();
}

/// Where the gradients of queries, keys and values go.
struct GradientViews {
  TwoPartRows queries, keys;
  HeadView values;
};

Status gradient_views(const FlashAttentionCall& flash, GradientViews* views) {
  const CallArguments& arguments = flash.arguments();
  DRYDOCK_RETURN_IF_ERROR(flash.view_like(arguments.output("dqOut"), flash.queries().main, "dq", &views->queries.main));
  DRYDOCK_RETURN_IF_ERROR(flash.view_like(arguments.output("dkOut"), flash.keys().main, "dk", &views->keys.main));
  DRYDOCK_RETURN_IF_ERROR(flash.view_like(arguments.output("dvOut"), flash.values(), "dv", &views->values));
  if (flash.queries().rope.width == 0) return Status::ok();
  DRYDOCK_RETURN_IF_ERROR(
      flash.view_like(arguments.output("dqRopeOut"), flash.queries().rope, "dqRope", &views->queries.rope));
  return flash.view_like(arguments.output("dkRopeOut"), flash.keys().rope, "dkRope", &views->keys.rope);
}

void write_two_parts(const TwoPartRows& view, int64_t batch, int64_t head, int64_t first, int64_t count,
                     ConstBlock rows) {
  write_rows(view.main, batch, head, first, count, rows);
  if (view.rope.width > 0) {
    write_rows(view.rope, batch, head, first, count, {rows.data + view.main.width, rows.stride});
  }
}

void write_gradients(const FlashAttentionCall& flash, const Gradients& gradients, const GradientViews& views) {
  const Problem& problem = flash.problem();
  const int64_t sequences = static_cast<int64_t>(problem.sequences.size());
  base::parallel_for(sequences * problem.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t sequence = task / problem.heads;
      const int64_t head = task % problem.heads;
      const Sequence& s = problem.sequences[static_cast<size_t>(sequence)];
      write_two_parts(views.queries, flash.batch_of(sequence), head, flash.first_query(sequence), s.queries,
                      gradients.queries.block(problem.query_row(s, head, 0)));
    }
  });
  const int64_t key_heads = flash.keys().main.heads;
  base::parallel_for(sequences * key_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t sequence = task / key_heads;
      const int64_t head = task % key_heads;
      const Sequence& s = problem.sequences[static_cast<size_t>(sequence)];
      const int64_t row = problem.key_row(s, head, 0);
      const int64_t batch = flash.batch_of(sequence);
      write_two_parts(views.keys, batch, head, flash.first_key(sequence), s.keys, gradients.keys.block(row));
      write_rows(views.values, batch, head, flash.first_key(sequence), s.keys, gradients.values.block(row));
    }
  });
}

Status backward(const KernelCall& call) {
  FlashAttentionCall flash(call);
  DRYDOCK_RETURN_IF_ERROR(flash.parse("keyIn", "keyInRope", "pseShiftOptional", "sinkInOptional"));
  const CallArguments& arguments = flash.arguments();
  HeadView gradients_in, result_rows;
  DRYDOCK_RETURN_IF_ERROR(flash.view_like_results(arguments.tensor_or_empty("dy"), "dy", &gradients_in));
  const TensorView& results = arguments.tensor("attentionInOptional");
  if (results.defined) DRYDOCK_RETURN_IF_ERROR(flash.view_like_results(results, "attentionIn", &result_rows));
  GradientViews views;
  DRYDOCK_RETURN_IF_ERROR(gradient_views(flash, &views));
  const TensorView& sinks_out = arguments.output("dsinkOut");
  const bool has_sinks = flash.problem().sinks != nullptr;
  if (has_sinks && (!sinks_out.defined || sinks_out.dims.size() != 1 || sinks_out.dims[0] != flash.problem().heads)) {
    return invalid(call, "dsink must hold one value for each head, not " + sizes_of(sinks_out));
  }
  for (const char* name : {"dqOut", "dqRopeOut"}) {
    const TensorView& view = arguments.output(name);
    if (view.defined && view.numel() > 0) clear_uncovered(flash, view, flash.problem().queries);
  }
  for (const char* name : {"dkOut", "dkRopeOut", "dvOut"}) {
    const TensorView& view = arguments.output(name);
    if (view.defined && view.numel() > 0) clear_uncovered(flash, view, flash.problem().keys);
  }
  // Reserved on the device, which leaves it alone; zeros make a gradient of it do nothing.
  clear_view(arguments.output("dpseOut"));
  if (flash.is_empty()) {
    clear_view(arguments.output("dkOut"));
    clear_view(arguments.output("dvOut"));
    return Status::ok();
  }
  DRYDOCK_RETURN_IF_ERROR(flash.check_statistics(arguments.tensor("softmaxMaxOptional"), "softmaxMax"));
  DRYDOCK_RETURN_IF_ERROR(flash.check_statistics(arguments.tensor("softmaxSumOptional"), "softmaxSum"));
  ForwardState state;
  DRYDOCK_RETURN_IF_ERROR(read_state(flash, gradients_in, results, result_rows, &state));
  const Gradients gradients = attend_backward(flash.problem(), state);
  write_gradients(flash, gradients, views);
  if (has_sinks) Rows(sinks_out, 0).write<float>(0, gradients.sinks.data());
  return Status::ok();
}

}  // namespace

}  // namespace attention

Status flash_attention(KernelCall& call) { return attention::forward(call); }
Status flash_attention_grad(KernelCall& call) { return attention::backward(call); }

}  // namespace drydock::ops::kernels
