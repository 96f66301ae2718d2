#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/saturating.h"
#include "ops/quant/integer_rows.h"

// The choice of the next token of language models: filters of logits by rank and probability, and a sample.

namespace drydock::ops::kernels {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Places of one row by descending value; equal values keep their order.
std::vector<int64_t> descending_places(const float* values, int64_t count) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [values](int64_t a, int64_t b) { return values[a] > values[b]; });
  return places;
}

void softmax(std::vector<float>* values) {
  if (values->empty()) return;
  const float top = *std::max_element(values->begin(), values->end());
  float total = 0;
  for (float& value : *values) total += value = std::exp(value - top);
  for (float& value : *values) value /= total;
}

/// What is left of one row after the filters: probabilities (or what the caller calls so), and their places in the row.
struct Candidates {
  std::vector<float> probs;
  std::vector<int64_t> places;

  void keep(const std::vector<bool>& kept) {
    size_t next = 0;
    for (size_t k = 0; k < kept.size(); ++k) {
      if (!kept[k]) continue;
      probs[next] = probs[k];
      places[next++] = places[k];
    }
    probs.resize(next);
    places.resize(next);
  }
};

struct Filters {
  int64_t most_k = 1024;  ///< a larger k filters nothing
  bool are_logits = true;
};

/// The candidates of one row, as the vendor's operator finds them: rank, then probability, then a share of the largest.
Candidates filter(const float* logits, int64_t count, int64_t k, float p, float min_p, const Filters& filters) {
  const bool by_rank = k >= 1 && k <= std::min(filters.most_k, count);
  const bool by_prob = p < 1;
  Candidates candidates;
  if (!by_rank && !by_prob && min_p < 1) {
    candidates.probs.assign(logits, logits + count);
    candidates.places.resize(static_cast<size_t>(count));
    std::iota(candidates.places.begin(), candidates.places.end(), 0);
    if (filters.are_logits) softmax(&candidates.probs);
  } else {
    candidates.places = descending_places(logits, count);
    if (by_rank) candidates.places.resize(static_cast<size_t>(k));
    for (int64_t place : candidates.places) candidates.probs.push_back(logits[place]);
    if (filters.are_logits) softmax(&candidates.probs);
  }
  if (by_prob) {
    std::vector<bool> kept(candidates.probs.size());
    float before = 0;
    for (size_t at = 0; at < kept.size(); ++at) {
      kept[at] = p > 0 ? before < p : at == 0;
      before += candidates.probs[at];
    }
    candidates.keep(kept);
    if (p <= 0 && filters.are_logits && !candidates.probs.empty()) candidates.probs[0] = 1;
  }
  if (min_p > 0 && !candidates.probs.empty()) {
    const float least = min_p * *std::max_element(candidates.probs.begin(), candidates.probs.end());
    std::vector<bool> kept(candidates.probs.size());
    for (size_t at = 0; at < kept.size(); ++at) kept[at] = min_p < 1 ? candidates.probs[at] >= least : at == 0;
    candidates.keep(kept);
  }
  return candidates;
}

/// The tensors of one sampling call; undefined where absent.
struct Sampling {
  TensorView logits, k, p, q, min_p;
  TensorView chosen, selected, places, sorted;
  double epsilon = 0;
  bool wants_logits = false;
  bool wants_candidates = false;
  Filters filters;
};

Status sample(const KernelCall& call, const Sampling& args) {
  if (!args.logits.defined || args.logits.dims.size() != 2 || !is_floating(args.logits.dtype)) {
    return invalid(call, "logits must be (batch, vocabulary)");
  }
  const int64_t batch = args.logits.dims[0];
  const int64_t count = args.logits.dims[1];
  std::vector<int64_t> ks;
  std::vector<float> ps;
  std::vector<float> min_ps;
  if (!args.k.defined || !read_integers(args.k, &ks) || args.k.numel() != batch || !args.p.defined ||
      !read_floats(args.p, &ps) || args.p.numel() != batch) {
    return invalid(call, "topK and topP must have one element for each batch");
  }
  if (is_present(args.min_p) && (!read_floats(args.min_p, &min_ps) || args.min_p.numel() != batch)) {
    return invalid(call, "minPs must have one element for each batch");
  }
  const bool draws = is_present(args.q);
  if (draws && (!(args.q.dims == args.logits.dims) || !is_floating(args.q.dtype))) {
    return invalid(call, "q must have the shape of logits");
  }
  const auto shaped = [&](const TensorView& view) {
    return view.defined && is_real_element(view.dtype) && view.dims == args.logits.dims;
  };
  if (args.wants_logits && !shaped(args.selected)) return invalid(call, "logitsTopKPSelect must be shaped as logits");
  if (args.wants_candidates && (!shaped(args.places) || !shaped(args.sorted))) {
    return invalid(call, "logitsIdx and logitsSortMasked must be shaped as logits");
  }
  if (!args.wants_candidates &&
      (!args.chosen.defined || !is_real_element(args.chosen.dtype) || args.chosen.numel() != batch)) {
    return invalid(call, "logitsSelectIdx must have one element for each batch");
  }
  if (count == 0) return batch == 0 ? Status::ok() : invalid(call, "a vocabulary of no words");
  const Rows logits(args.logits, 1), randoms(draws ? args.q : args.logits, 1);
  const Rows selected(args.wants_logits ? args.selected : args.logits, 1);
  const Rows places(args.wants_candidates ? args.places : args.logits, 1);
  const Rows sorted(args.wants_candidates ? args.sorted : args.logits, 1);
  std::vector<int64_t> chosen(static_cast<size_t>(batch));
  for_each_row(batch, 3 * count, [&](int64_t row, float* buffer) {
    const auto at = static_cast<size_t>(row);
    const float* own = logits.read<float>(row, buffer);
    const float min_p = min_ps.empty() ? -1.0f : min_ps[at];
    const Candidates left = filter(own, count, ks[at], ps[at], min_p, args.filters);
    if (args.wants_logits) {
      float* out = buffer + count;
      std::fill_n(out, count, args.filters.are_logits ? kMinusInfinity : 0.0f);
      for (int64_t place : left.places) out[place] = own[place];
      selected.write<float>(row, out);
    }
    if (args.wants_candidates) {
      std::vector<float> probs = left.probs;
      std::vector<int64_t> own_places = left.places;
      probs.resize(static_cast<size_t>(count));
      own_places.resize(static_cast<size_t>(count));
      sorted.write<float>(row, probs.data());
      places.write<int64_t>(row, own_places.data());
      return;
    }
    size_t best = 0;
    float best_weight = kMinusInfinity;
    const float* drawn = draws ? randoms.read<float>(row, buffer + 2 * count) : nullptr;
    for (size_t k = 0; k < left.probs.size(); ++k) {
      const float weight =
          drawn != nullptr ? left.probs[k] / (std::abs(drawn[k]) + static_cast<float>(args.epsilon)) : left.probs[k];
      if (weight > best_weight) {
        best_weight = weight;
        best = k;
      }
    }
    chosen[at] = left.places.empty() ? 0 : left.places[best];
  });
  if (!args.wants_candidates && batch > 0) {
    Rows(args.chosen, all_axes(args.chosen.dims.size())).write<int64_t>(0, chosen.data());
  }
  return Status::ok();
}

}  // namespace

/// aclnnApplyTopKTopP(logits, p, k, out): minus infinity for all but the k largest logits, and for those whose
/// probabilities, counted from the smallest on, stay within 1 - p.
Status apply_top_k_top_p(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& logits = call.operand(0);
  const TensorView& out = call.output(0);
  if (logits.dims.size() != 2 || !(out.dims == logits.dims) || !is_floating(logits.dtype)) {
    return invalid(call, "logits and out must be (batch, vocabulary)");
  }
  const int64_t batch = logits.dims[0];
  const int64_t count = logits.dims[1];
  std::vector<float> ps;
  std::vector<int64_t> ks;
  if (is_present(call.operand(1)) && (!read_floats(call.operand(1), &ps) || call.operand(1).numel() != batch)) {
    return invalid(call, "p must have one element for each batch");
  }
  if (is_present(call.operand(2)) && (!read_integers(call.operand(2), &ks) || call.operand(2).numel() != batch)) {
    return invalid(call, "k must have one element for each batch");
  }
  const Rows from(logits, 1), to(out, 1);
  for_each_row(count > 0 ? batch : 0, 2 * count, [&](int64_t row, float* buffer) {
    const float* own = from.read<float>(row, buffer);
    float* result = buffer + count;
    // Ascending and stable: equal logits keep their order, so the later of them is the larger.
    std::vector<int64_t> places(static_cast<size_t>(count));
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [own](int64_t a, int64_t b) { return own[a] < own[b]; });
    std::vector<float> sorted;
    for (int64_t place : places) sorted.push_back(own[place]);
    const int64_t k = ks.empty() ? 0 : ks[static_cast<size_t>(row)];
    if (k > 0 && k < count) {
      const float least = sorted[static_cast<size_t>(count - k)];
      for (float& value : sorted) value = value < least ? kMinusInfinity : value;
    }
    if (!ps.empty()) {
      std::vector<float> probs = sorted;
      softmax(&probs);
      const float dropped = 1 - ps[static_cast<size_t>(row)];
      float sum = 0;
      for (size_t at = 0; at + 1 < probs.size(); ++at) {
        sum += probs[at];
        if (sum <= dropped) sorted[at] = kMinusInfinity;
      }
    }
    for (size_t at = 0; at < sorted.size(); ++at) result[places[at]] = sorted[at];
    to.write<float>(row, result);
  });
  return Status::ok();
}

/// aclnnTopKTopPSample(logits, topK, topP, q, eps, isNeedLogits, topKGuess, logitsSelectIdx, logitsTopKPSelect).
Status top_k_top_p_sample(KernelCall& call) {
  Sampling args;
  args.logits = call.operand(0);
  args.k = call.operand(1);
  args.p = call.operand(2);
  args.q = call.operand(3);
  args.epsilon = call.number(0);
  args.wants_logits = call.boolean(0);
  args.chosen = call.output(0);
  args.selected = call.output(1);
  return sample(call, args);
}

/// V2 with minPs behind q, ksMax, inputIsLogits and isNeedSampleResult behind topKGuess, and the candidates as outputs.
Status top_k_top_p_sample_candidates(KernelCall& call) {
  Sampling args;
  args.logits = call.operand(0);
  args.k = call.operand(1);
  args.p = call.operand(2);
  args.q = call.operand(3);
  args.min_p = call.operand(4);
  args.epsilon = call.number(0);
  args.wants_logits = call.boolean(0);
  args.filters.are_logits = call.boolean(1);
  args.wants_candidates = call.boolean(2);
  const int64_t most = call.integer(1);
  if (most < 1 || most > 1024) return invalid(call, "ksMax must be from 1 to 1024");
  args.filters.most_k = most;
  args.chosen = call.output(0);
  args.selected = call.output(1);
  args.places = call.output(2);
  args.sorted = call.output(3);
  return sample(call, args);
}

namespace {

Status expect_int64_vector(const KernelCall& call, const TensorView& view, int64_t count, const char* name) {
  if (view.defined && view.dtype == DataType::kInt64 && view.numel() >= count) return Status::ok();
  return invalid(call, std::string(name) + " must be int64 with " + std::to_string(count) + " elements or more");
}

int64_t& element(const TensorView& view, int64_t number) {
  return *reinterpret_cast<int64_t*>(flat_element(view, number));
}

}  // namespace

/// aclnnAdvanceStep(inputTokens, sampledTokenIds, inputPositions, seqLens, slotMapping, blockTables, numSeqs,
/// numQueries, blockSize). The slot is what the device's kernel computes: the block of the first row of the tables,
/// moved by the rows' stride for each sequence.
Status advance_step(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 6, 4));
  const TensorView& sampled = call.operand(1);
  const TensorView& tables = call.operand(5);
  const int64_t sequences = call.integer(0);
  const int64_t queries = call.integer(1);
  const int64_t block = call.integer(2);
  if (queries <= 0 || sequences < queries || block <= 0) {
    return invalid(call, "numSeqs must reach numQueries, blockSize must be positive");
  }
  const std::array<std::pair<int, const char*>, 4> vectors{
      {{0, "inputTokens"}, {1, "inputPositions"}, {2, "seqLens"}, {3, "slotMapping"}}};
  for (const auto& [index, name] : vectors) {
    DRYDOCK_RETURN_IF_ERROR(expect_int64_vector(call, call.output(index), sequences, name));
  }
  DRYDOCK_RETURN_IF_ERROR(expect_int64_vector(call, sampled, queries, "sampledTokenIds"));
  if (tables.dims.size() != 2 || tables.dtype != DataType::kInt64) return invalid(call, "blockTables must be int64");
  for (int64_t sequence = queries; sequence < sequences; ++sequence) {
    element(call.output(0), sequence) = 0;
    element(call.output(1), sequence) = 0;
    element(call.output(3), sequence) = -1;
  }
  for (int64_t query = 0; query < queries; ++query) {
    element(call.output(0), query) = element(sampled, query);
    int64_t& length = element(call.output(2), query);
    const int64_t position = length;
    length = saturating_sum(length, 1);
    element(call.output(1), query) = position;
    const int64_t column = position / block;
    if (position < 0 || column >= tables.numel()) return device_fault(call, "a position is not in the block tables");
    const int64_t first = saturating_sum(element(tables, column), tables.strides[0] * query);
    element(call.output(3), query) = saturating_sum(saturating_product(first, block), position % block);
  }
  return Status::ok();
}

/// aclnnAdvanceStepV2(inputTokens, sampledTokenIds, inputPositions, seqLens, slotMapping, blockTables, specToken,
/// acceptedNum, numSeqs, numQueries, blockSize): the step behind one with speculative tokens.
Status advance_step_speculative(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 8, 4));
  const TensorView& sampled = call.operand(1);
  const TensorView& tables = call.operand(5);
  const TensorView& speculative = call.operand(6);
  const TensorView& accepted = call.operand(7);
  const int64_t sequences = call.integer(0);
  const int64_t block = call.integer(2);
  if (sequences < 0 || block <= 0 || speculative.dims.size() != 2 || sampled.dims.size() != 2 ||
      tables.dims.size() != 2 || tables.dims[0] < sequences || sampled.dims[0] < sequences ||
      speculative.dims[0] < sequences || accepted.numel() < sequences) {
    return invalid(call, "all tables must have one row for each sequence, blockSize must be positive");
  }
  const int64_t each = speculative.dims[1] + 1;
  const int64_t tokens = saturating_product(sequences, each);
  DRYDOCK_RETURN_IF_ERROR(expect_int64_vector(call, call.output(0), tokens, "inputTokens"));
  DRYDOCK_RETURN_IF_ERROR(expect_int64_vector(call, call.output(1), tokens, "inputPositions"));
  DRYDOCK_RETURN_IF_ERROR(expect_int64_vector(call, call.output(2), tokens, "seqLens"));
  DRYDOCK_RETURN_IF_ERROR(expect_int64_vector(call, call.output(3), tokens, "slotMapping"));
  for (const TensorView* view : {&sampled, &tables, &speculative, &accepted}) {
    if (view->dtype != DataType::kInt64) return invalid(call, "all tensors must be int64");
  }
  const int64_t width = sampled.dims[1];
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    // The last sampled token stands before the first of the smallest ids, -1 where it is not in the row.
    int64_t end = width;
    int64_t smallest = -1;
    for (int64_t k = 0; k < width; ++k) {
      const int64_t id = element(sampled, sequence * width + k);
      if (id < smallest || (id == smallest && end == width)) {
        smallest = id;
        end = k;
      }
    }
    if (end == 0) return device_fault(call, "a sequence without a sampled token");
    element(call.output(0), sequence * each) = element(sampled, sequence * width + end - 1);
    for (int64_t k = 1; k < each; ++k) {
      element(call.output(0), sequence * each + k) = element(speculative, sequence * (each - 1) + k - 1);
    }
    for (int64_t k = 0; k < each; ++k) {
      const int64_t at = sequence * each + k;
      int64_t& position = element(call.output(1), at);
      position = saturating_sum(position, element(accepted, sequence), 1);
      element(call.output(2), at) = saturating_sum(position, 1);
      const int64_t column = position / block;
      if (position < 0 || column >= tables.dims[1]) return device_fault(call, "a position is not in the block tables");
      const int64_t first = element(tables, sequence * tables.dims[1] + column);
      element(call.output(3), at) = saturating_sum(saturating_product(first, block), position % block);
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
