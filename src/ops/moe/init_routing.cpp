#include <algorithm>
#include <string>

#include "base/saturating.h"
#include "ops/moe/rows.h"
#include "ops/quant/dynamic_rows.h"
#include "ops/shapes.h"

// Tokens laid out by expert: sorted, optionally cut to a capacity for each expert, optionally quantised on the way.

namespace drydock::ops::kernels {
namespace {

// A table of counts is made for all experts; the vendor's manuals allow some ten thousand.
constexpr int64_t kMostExperts = int64_t{1} << 20;

/// Which token lies in which row of the expanded tokens.
struct Layout {
  static constexpr int64_t kEmpty = -1;

  int64_t choices = 1;          ///< experts of a token
  std::vector<int64_t> source;  ///< flat choice (token * choices + place) of each row, or kEmpty
  std::vector<int64_t> expert;  ///< of each row, counted from the first active one
  std::vector<int64_t> row_of;  ///< row of each flat choice, or kEmpty
};

/// What all versions of the operator read from their arguments.
struct Request {
  int64_t active = 0;    ///< most rows of the dropless form, 0: all
  int64_t capacity = 0;  ///< rows of each expert in the padded form
  int64_t experts = 0;
  int64_t first_expert = 0;
  int64_t end_expert = 0;
  bool pads = false;
};

Status check_tokens(const KernelCall& call) {
  const TensorView& x = call.operand(0);
  const TensorView& experts = call.operand(1);
  if (x.dims.size() != 2) return invalid(call, "x must be (tokens, hidden)");
  if (experts.dims.empty() || experts.dims.size() > 2 || experts.dims[0] != x.dims[0]) {
    return invalid(call, "expertIdx must have one row for each token");
  }
  return Status::ok();
}

/// The leading dimensions of `out` count its rows.
Status expect_rows(const KernelCall& call, const TensorView& out, int64_t rows) {
  int64_t there = out.defined && !out.dims.empty() ? 1 : 0;
  for (int axis = 0; axis < out.dims.size() - 1; ++axis) there = saturating_product(there, out.dims[axis]);
  if (there >= rows) return Status::ok();
  return invalid(call,
                 "expandedXOut has " + std::to_string(there) + " rows for " + std::to_string(rows) + " chosen tokens");
}

/// Sorts the choices of active experts and lays them out.
Status lay_out(const KernelCall& call, const Request& request, std::vector<int64_t> experts, Layout* layout,
               std::vector<int64_t>* sorted) {
  const TensorView& view = call.operand(1);
  layout->choices = view.dims.size() == 2 ? view.dims[1] : 1;
  // Experts outside the range come last.
  const int64_t behind = std::numeric_limits<int64_t>::max();
  for (int64_t& expert : experts) {
    if (expert < request.first_expert || expert >= request.end_expert) expert = behind;
  }
  *sorted = stable_order(experts);
  const auto chosen = static_cast<size_t>(
      std::count_if(experts.begin(), experts.end(), [behind](int64_t expert) { return expert != behind; }));
  layout->row_of.assign(experts.size(), Layout::kEmpty);
  if (!request.pads) {
    const size_t rows = request.active > 0 ? std::min(chosen, static_cast<size_t>(request.active)) : chosen;
    for (size_t row = 0; row < chosen; ++row)
      layout->row_of[static_cast<size_t>((*sorted)[row])] = static_cast<int64_t>(row);
    layout->source.assign(sorted->begin(), sorted->begin() + static_cast<int64_t>(rows));
    for (int64_t choice : layout->source) {
      layout->expert.push_back(experts[static_cast<size_t>(choice)] - request.first_expert);
    }
    return Status::ok();
  }
  if (request.experts <= 0 || request.capacity <= 0) {
    return invalid(call, "the drop and pad form needs expertNum and expertCapacity");
  }
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.output(0), saturating_product(request.experts, request.capacity)));
  layout->source.assign(static_cast<size_t>(request.experts * request.capacity), Layout::kEmpty);
  layout->expert.resize(layout->source.size());
  for (size_t row = 0; row < layout->expert.size(); ++row) {
    layout->expert[row] = static_cast<int64_t>(row) / request.capacity;
  }
  std::vector<int64_t> taken(static_cast<size_t>(request.experts));
  for (size_t at = 0; at < chosen; ++at) {
    const int64_t choice = (*sorted)[at];
    const int64_t expert = experts[static_cast<size_t>(choice)];
    int64_t& used = taken[static_cast<size_t>(expert)];
    if (used == request.capacity) continue;
    const int64_t row = expert * request.capacity + used++;
    layout->source[static_cast<size_t>(row)] = choice;
    layout->row_of[static_cast<size_t>(choice)] = row;
  }
  return Status::ok();
}

/// Tokens of each expert of [first, end).
std::vector<int64_t> histogram(const std::vector<int64_t>& experts, int64_t first, int64_t end) {
  std::vector<int64_t> counts(static_cast<size_t>(std::max<int64_t>(end - first, 0)));
  for (int64_t expert : experts) {
    if (expert >= first && expert < end) ++counts[static_cast<size_t>(expert - first)];
  }
  return counts;
}

std::vector<int64_t> running_sum(std::vector<int64_t> counts) {
  for (size_t k = 1; k < counts.size(); ++k) counts[k] += counts[k - 1];
  return counts;
}

/// The rows of `out` seen as a matrix. The leading dimensions must be dense, as the outputs of routing are.
Status matrix_of_rows(const KernelCall& call, const TensorView& out, int64_t length, TensorView* matrix) {
  if (!out.defined || out.dims.size() < 2 || out.dims[out.dims.size() - 1] != length) {
    return invalid(call, "expandedXOut must end in the hidden size of x");
  }
  const int64_t rows = length > 0 ? out.numel() / length : 0;
  *matrix = out;
  if (out.dims.size() == 2) return Status::ok();
  if (!is_contiguous(out)) return not_computed(call, "an expandedXOut that is not contiguous");
  *matrix = contiguous_view(out.data, out.dtype, Dims{rows, length});
  return Status::ok();
}

Status copy_tokens(const KernelCall& call, const Layout& layout, const TensorView& out) {
  const TensorView& x = call.operand(0);
  TensorView matrix;
  DRYDOCK_RETURN_IF_ERROR(matrix_of_rows(call, out, x.dims[1], &matrix));
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, x, matrix));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, matrix, static_cast<int64_t>(layout.source.size())));
  const TokenRows from(x);
  const TokenRows to(matrix);
  base::parallel_for(static_cast<int64_t>(layout.source.size()), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t choice = layout.source[static_cast<size_t>(row)];
      if (choice == Layout::kEmpty) {
        to.clear(row);
      } else {
        to.copy(row, from, choice / layout.choices);
      }
    }
  });
  return Status::ok();
}

/// Quantises with one scale and offset (static), or each row by its magnitude after a factor for each expert.
Status quantise_tokens(const KernelCall& call, const Layout& layout, bool is_dynamic, int64_t experts,
                       const TensorView& out, const TensorView& row_scales) {
  const TensorView& x = call.operand(0);
  const int64_t length = x.dims[1];
  TensorView matrix;
  DRYDOCK_RETURN_IF_ERROR(matrix_of_rows(call, out, length, &matrix));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, matrix, static_cast<int64_t>(layout.source.size())));
  IntegerRows rows;
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, matrix, matrix.dims, false, &rows));
  std::vector<float> factors;
  if (is_present(call.operand(2)) && !read_floats(call.operand(2), &factors)) {
    return not_computed(call, "a scale of this type");
  }
  float offset = 0;
  if (is_dynamic) {
    const auto count = static_cast<int64_t>(factors.size());
    if (count != 0 && count != length && count != experts * length) {
      return invalid(call, "scale must have one row, or one for each expert");
    }
    if (!row_scales.defined || row_scales.dtype != DataType::kFloat ||
        row_scales.numel() < static_cast<int64_t>(layout.source.size())) {
      return invalid(call, "the scales of the rows need a place of fp32 for each row");
    }
  } else {
    if (factors.size() != 1 || !is_present(call.operand(3))) {
      return invalid(call, "the static quantisation needs a scale and an offset of one element");
    }
    if (!is_real_element(call.operand(3).dtype)) return not_computed(call, "an offset of this type");
    offset = as_value<float>(call.operand(3));
  }
  const TokenRows from(x);
  const bool by_expert = static_cast<int64_t>(factors.size()) > length;
  for_each_row(static_cast<int64_t>(layout.source.size()), length, [&](int64_t row, float* buffer) {
    const int64_t choice = layout.source[static_cast<size_t>(row)];
    float scale = 0;
    if (choice == Layout::kEmpty) {
      rows.clear(row);
    } else {
      const float* token = from.read(choice / layout.choices, buffer);
      const float* own = factors.data() + (by_expert ? layout.expert[static_cast<size_t>(row)] * length : 0);
      for (int64_t k = 0; k < length; ++k) {
        if (is_dynamic) {
          buffer[k] = factors.empty() ? token[k] : token[k] * own[k];
        } else {
          buffer[k] = token[k] * factors[0] + offset;
        }
      }
      if (is_dynamic) {
        scale = symmetric_scale(buffer, length, rows.highest());
        for (int64_t k = 0; k < length; ++k) buffer[k] /= scale;
      }
      rows.write(row, buffer);
    }
    if (is_dynamic) *reinterpret_cast<float*>(flat_element(row_scales, row)) = scale;
  });
  return Status::ok();
}

/// The arguments that V2 and its quantising form share: activeNum, expertCapacity, expertNum, dropPadMode.
Status read_request(const KernelCall& call, Request* request) {
  request->active = call.integer(0);
  request->capacity = call.integer(1);
  request->experts = call.integer(2);
  request->first_expert = 0;
  request->pads = call.integer(3) == 1;
  request->end_expert = std::numeric_limits<int64_t>::max();
  if (call.integer(3) != 0 && call.integer(3) != 1) return invalid(call, "dropPadMode must be 0 or 1");
  if (request->active < 0 || request->experts < 0) {
    return invalid(call, "activeNum and expertNum must not be negative");
  }
  if (request->experts > kMostExperts) return not_computed(call, "more than a million experts are not computed");
  return Status::ok();
}

Status check_experts(const KernelCall& call, const std::vector<int64_t>& experts, int64_t count) {
  for (int64_t expert : experts) {
    if (expert < 0 || expert >= count) {
      return device_fault(call, "expert " + std::to_string(expert) + " of " + std::to_string(count));
    }
  }
  return Status::ok();
}

/// `flags`: number of the integer that asks for counts. Outputs 1, 2, 3: rows, counts, counts before the cut.
Status route(KernelCall& call, int flags, Layout* layout, Request* request) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 0));
  DRYDOCK_RETURN_IF_ERROR(check_tokens(call));
  DRYDOCK_RETURN_IF_ERROR(read_request(call, request));
  std::vector<int64_t> experts;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "expertIdx", &experts));
  const int64_t counted = call.integer(flags);
  if (counted < 0 || counted > 2) return invalid(call, "expertTokensCountOrCumsumFlag must be from 0 to 2");
  const bool counts = !request->pads && counted > 0;
  if (request->pads || counts) DRYDOCK_RETURN_IF_ERROR(check_experts(call, experts, request->experts));
  std::vector<int64_t> sorted;
  DRYDOCK_RETURN_IF_ERROR(lay_out(call, *request, experts, layout, &sorted));
  DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(1), "expandedRowIdxOut", layout->row_of));
  const std::vector<int64_t> tokens = histogram(experts, 0, request->experts);
  if (counts) {
    DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(2), "expertTokensCountOrCumsumOut",
                                           counted == 1 ? running_sum(tokens) : tokens));
  }
  if (request->pads && call.boolean(0)) {
    DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(3), "expertTokensBeforeCapacityOut", tokens));
  }
  return Status::ok();
}

}  // namespace

/// aclnnMoeInitRouting(x, rowIdx, expertIdx, activeNum, expandedX, expandedRowIdx, expandedExpertIdx): rows are
/// numbered by columns of expertIdx, row number modulo tokens is the token.
Status moe_init_routing(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& x = call.operand(0);
  const TensorView& out = call.output(0);
  if (x.dims.size() != 2 || call.operand(2).dims.size() != 2 || call.operand(2).dims[0] != x.dims[0] ||
      !(call.operand(1).dims == call.operand(2).dims)) {
    return invalid(call, "x must be (tokens, hidden), rowIdx and expertIdx (tokens, K)");
  }
  const int64_t tokens = x.dims[0];
  const int64_t active = call.integer(0);
  if (active < 0) return invalid(call, "activeNum must not be negative");
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, x, out));
  const int64_t rows = std::min(tokens, active) * call.operand(2).dims[1];
  if (out.dims[0] != rows) return invalid(call, "expandedXOut must have min(tokens, activeNum) * K rows");
  std::vector<int64_t> numbers;
  std::vector<int64_t> experts;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "rowIdx", &numbers));
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(2), "expertIdx", &experts));
  const std::vector<int64_t> order = stable_order(experts);
  std::vector<int64_t> row_of(order.size());
  std::vector<int64_t> sorted_experts(order.size());
  std::vector<int64_t> sorted_numbers(order.size());
  for (size_t at = 0; at < order.size(); ++at) {
    const int64_t number = numbers[static_cast<size_t>(order[at])];
    if (number < 0 || number >= static_cast<int64_t>(order.size())) return device_fault(call, "rowIdx is out of range");
    row_of[static_cast<size_t>(number)] = static_cast<int64_t>(at);
    sorted_numbers[at] = number;
    sorted_experts[at] = experts[static_cast<size_t>(order[at])];
  }
  DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(1), "expandedRowIdxOut", row_of));
  DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(2), "expandedExpertIdxOut", sorted_experts));
  const TokenRows from(x);
  const TokenRows to(out);
  for (int64_t row = 0; row < rows; ++row) to.copy(row, from, sorted_numbers[static_cast<size_t>(row)] % tokens);
  return Status::ok();
}

/// aclnnMoeInitRoutingV2(x, expertIdx, activeNum, expertCapacity, expertNum, dropPadMode, countOrCumsumFlag,
/// beforeCapacityFlag, expandedX, expandedRowIdx, countOrCumsum, beforeCapacity).
Status moe_init_routing_capacity(KernelCall& call) {
  Layout layout;
  Request request;
  DRYDOCK_RETURN_IF_ERROR(route(call, 4, &layout, &request));
  return copy_tokens(call, layout, call.output(0));
}

/// aclnnMoeInitRoutingQuantV2(x, expertIdx, scale, offset, ..., beforeCapacityFlag, quantMode, expandedX,
/// expandedRowIdx, countOrCumsum, beforeCapacity, dynamicQuantScale).
Status moe_init_routing_quant(KernelCall& call) {
  Layout layout;
  Request request;
  const int64_t mode = call.integer(5);
  if (mode != 0 && mode != 1) return invalid(call, "quantMode must be 0 or 1");
  DRYDOCK_RETURN_IF_ERROR(route(call, 4, &layout, &request));
  return quantise_tokens(call, layout, mode == 1, request.experts, call.output(0), call.output(4));
}

/// aclnnMoeInitRoutingV3(x, expertIdx, scale, offset, activeNum, expertCapacity, expertNum, dropPadMode,
/// expertTokensNumType, expertTokensNumFlag, quantMode, activeExpertRange, rowIdxType, expandedX, expandedRowIdx,
/// expertTokens, expandedScale).
Status moe_init_routing_range(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 0));
  DRYDOCK_RETURN_IF_ERROR(check_tokens(call));
  Request request;
  DRYDOCK_RETURN_IF_ERROR(read_request(call, &request));
  request.end_expert = request.experts;
  if (call.has_ints(0) && !call.ints(0).empty()) {
    const auto range = call.ints(0);
    if (range.size() != 2 || range[0] < 0 || range[1] <= range[0] || range[1] > request.experts) {
      return invalid(call, "activeExpertRange must be two numbers from 0 to expertNum, the first the smaller");
    }
    request.first_expert = range[0];
    request.end_expert = range[1];
  }
  if (request.pads && (request.first_expert != 0 || request.end_expert != request.experts)) {
    return invalid(call, "the drop and pad form needs all experts to be active");
  }
  const int64_t count_type = call.integer(4);
  const int64_t mode = call.integer(5);
  const int64_t index_type = call.integer(6);
  if (count_type < 0 || count_type > 2) return invalid(call, "expertTokensNumType must be from 0 to 2");
  if (index_type != 0 && index_type != 1) return invalid(call, "rowIdxType must be 0 or 1");
  std::vector<int64_t> experts;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "expertIdx", &experts));
  Layout layout;
  std::vector<int64_t> sorted;
  DRYDOCK_RETURN_IF_ERROR(lay_out(call, request, experts, &layout, &sorted));
  const bool scatters = index_type == 1 && !request.pads;
  DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(1), "expandedRowIdxOut", scatters ? sorted : layout.row_of));
  if (call.boolean(0)) {
    std::vector<int64_t> tokens = histogram(experts, request.first_expert, request.end_expert);
    if (count_type == 0) tokens = running_sum(tokens);
    if (count_type == 2) {
      // Pairs of an expert that has tokens and their number, then zeros.
      std::vector<int64_t> pairs(static_cast<size_t>(2 * request.experts));
      size_t next = 0;
      for (size_t expert = 0; expert < tokens.size(); ++expert) {
        if (tokens[expert] == 0) continue;
        pairs[next++] = request.first_expert + static_cast<int64_t>(expert);
        pairs[next++] = tokens[expert];
      }
      tokens = pairs;
    }
    DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(2), "expertTokensCountOrCumsumOut", tokens));
  }
  if (mode == 0 || mode == 1 || mode == 13) {
    return quantise_tokens(call, layout, mode != 0, request.end_expert - request.first_expert, call.output(0),
                           call.output(3));
  }
  if (mode != -1) return invalid(call, "quantMode must be -1, 0, 1 or 13 on this device");
  DRYDOCK_RETURN_IF_ERROR(copy_tokens(call, layout, call.output(0)));
  const TensorView& scale = call.operand(2);
  const TensorView& scale_out = call.output(3);
  if (!is_present(scale) || !is_present(scale_out)) return Status::ok();
  std::vector<float> scales;
  if (!read_floats(scale, &scales) || scale.numel() != call.operand(0).dims[0]) {
    return invalid(call, "without quantisation scale must have one element for each token");
  }
  if (scale_out.dtype != DataType::kFloat || scale_out.numel() < static_cast<int64_t>(layout.source.size())) {
    return invalid(call, "expandedScaleOut must be fp32 with one element for each row");
  }
  for (size_t row = 0; row < layout.source.size(); ++row) {
    const int64_t choice = layout.source[row];
    const float value = choice == Layout::kEmpty ? 0 : scales[static_cast<size_t>(choice / layout.choices)];
    *reinterpret_cast<float*>(flat_element(scale_out, static_cast<int64_t>(row))) = value;
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
