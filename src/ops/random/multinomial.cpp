#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/random/draw.h"

// Draws of classes by their weights.

namespace drydock::ops::kernels {
namespace {

/// Draws `picks` from the classes again and again: element `first` and following of the stream, looked up in the
/// running sums of the weights.
void draw_with_replacement(const Philox& generator, uint64_t first, const std::vector<double>& weights,
                           std::vector<double>& sums, std::vector<int64_t>& picks) {
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  for (int64_t& pick : picks) {
    const double place = generator.unit(first++) * sums.back();
    auto found = std::upper_bound(sums.begin(), sums.end(), place);
    // Rounding may leave the place at the very end: the last class with a weight.
    if (found == sums.end()) found = std::lower_bound(sums.begin(), sums.end(), sums.back());
    pick = found - sums.begin();
  }
}

/// Draws distinct classes: those of the largest weight / e with e exponentially distributed, which is the order of
/// draws without replacement. Class c takes element first + c.
void draw_without_replacement(const Philox& generator, uint64_t first, const std::vector<double>& weights,
                              std::vector<double>& keys, std::vector<int64_t>& picks) {
  for (size_t c = 0; c < weights.size(); ++c) {
    keys[c] = weights[c] / -std::log(generator.unit(first + c) + 0x1p-54);
  }
  std::vector<int64_t> order(weights.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto before = [&](int64_t a, int64_t b) {
    const double key_a = keys[static_cast<size_t>(a)];
    const double key_b = keys[static_cast<size_t>(b)];
    return key_a > key_b || (key_a == key_b && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(picks.size()), order.end(), before);
  std::copy_n(order.begin(), picks.size(), picks.begin());
}

enum class Fault : int { kNone, kWeight, kSum, kFew };

/// Reads the weights of a row; says what is wrong with them.
Fault read_weights(const Rows& rows, int64_t row, std::vector<double>& weights) {
  const double* read = rows.read<double>(row, weights.data());
  if (read != weights.data()) std::copy_n(read, weights.size(), weights.data());
  for (double weight : weights) {
    if (!(weight >= 0) || std::isinf(weight)) return Fault::kWeight;
  }
  return std::accumulate(weights.begin(), weights.end(), 0.0) > 0 ? Fault::kNone : Fault::kSum;
}

Status draw_multinomial(KernelCall& call, const Philox& generator) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const int64_t samples = call.integer(0);
  const bool replacement = call.boolean(0);
  const int rank = self.dims.size();
  if (rank < 1 || rank > 2 || out.dims.size() != rank || out.dims[rank - 1] != samples) {
    return invalid(call, "self must be a vector or matrix, the output the same with numsamples columns");
  }
  const Rows weights_of(self, rank - 1);
  const Rows drawn(out, rank - 1);
  const int64_t classes = weights_of.length();
  if (drawn.count() != weights_of.count()) return invalid(call, "self and output differ in rows");
  if (!replacement && samples > classes) {
    return invalid(call,
                   std::to_string(samples) + " samples of " + std::to_string(classes) + " classes without replacement");
  }
  if (samples == 0 || drawn.count() == 0) return Status::ok();
  std::atomic<int> fault = static_cast<int>(Fault::kNone);
  const int64_t grain = std::max<int64_t>(1, kDrawGrain / std::max<int64_t>(1, classes));
  base::parallel_for(drawn.count(), grain, [&](int64_t begin, int64_t end) {
    std::vector<double> weights(static_cast<size_t>(classes));
    std::vector<double> scratch(static_cast<size_t>(classes));
    std::vector<int64_t> picks(static_cast<size_t>(samples));
    for (int64_t row = begin; row < end; ++row) {
      Fault found = read_weights(weights_of, row, weights);
      const auto possible = weights.size() - static_cast<size_t>(std::count(weights.begin(), weights.end(), 0.0));
      if (found == Fault::kNone && !replacement && possible < picks.size()) found = Fault::kFew;
      if (found != Fault::kNone) {
        fault = static_cast<int>(found);
        return;
      }
      if (replacement) {
        draw_with_replacement(generator, static_cast<uint64_t>(row * samples), weights, scratch, picks);
      } else {
        draw_without_replacement(generator, static_cast<uint64_t>(row * classes), weights, scratch, picks);
      }
      drawn.write<int64_t>(row, picks.data());
    }
  });
  switch (static_cast<Fault>(fault.load())) {
    case Fault::kWeight: return invalid(call, "a probability is negative, NaN or infinite");
    case Fault::kSum: return invalid(call, "the probabilities of a row add up to nothing");
    case Fault::kFew: return invalid(call, "a row has fewer classes with a weight than samples without replacement");
    case Fault::kNone: break;
  }
  return Status::ok();
}

}  // namespace

Status multinomial(KernelCall& call) { return draw_multinomial(call, generator_of_integers(call, 1)); }

Status multinomial_seeded_by_tensors(KernelCall& call) {
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 1, &generator));
  return draw_multinomial(call, generator);
}

}  // namespace drydock::ops::kernels
