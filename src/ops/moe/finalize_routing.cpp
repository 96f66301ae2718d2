#include <string>

#include "ops/moe/rows.h"
#include "ops/shapes.h"

// The results of a token's experts, weighted and summed.

namespace drydock::ops::kernels {
namespace {

/// The tensors of one call, by role; undefined where absent.
struct Finalize {
  TensorView expanded, shared1, shared2, bias, scales, rows, experts;
  TensorView x, alpha1, alpha2, constant;  ///< of experts that compute nothing
  std::span<const int64_t> zero_range, copy_range, constant_range;
  bool by_columns = false;  ///< choice j of token i is number i + j * tokens, else i * K + j
  bool may_drop = false;    ///< row -1: the token was dropped
  int64_t choices = 1;
};

bool in_range(std::span<const int64_t> range, int64_t expert) {
  return range.size() == 2 && expert >= range[0] && expert < range[1];
}

Status check_optional(const KernelCall& call, const TensorView& view, const TensorView& out, const char* name) {
  if (!is_present(view)) return Status::ok();
  if (!(view.dims == out.dims) || !is_real_element(view.dtype)) {
    return invalid(call, std::string(name) + " must have the shape of out");
  }
  return Status::ok();
}

Status finalise(const KernelCall& call, Finalize how) {
  const TensorView& out = call.output(0);
  if (out.dims.size() != 2) return invalid(call, "out must be (tokens, hidden)");
  const int64_t tokens = out.dims[0];
  const int64_t length = out.dims[1];
  const int64_t expanded_rows = length > 0 ? how.expanded.numel() / length : 0;
  if (how.expanded.dims.size() == 3) {
    if (!is_contiguous(how.expanded)) {
      return not_computed(call, "an expandedX of three dimensions that is not contiguous");
    }
    how.expanded = contiguous_view(how.expanded.data, how.expanded.dtype, Dims{expanded_rows, how.expanded.dims[2]});
  }
  if (how.expanded.dims.size() != 2 || how.expanded.dims[1] != length) {
    return invalid(call, "expandedX must end in the hidden size");
  }
  if (is_present(how.scales)) {
    if (how.scales.dims.size() != 2 || how.scales.dims[0] != tokens) {
      return invalid(call, "scales must be (tokens, K)");
    }
    how.choices = how.scales.dims[1];
  }
  const auto choices = static_cast<size_t>(tokens * how.choices);
  DRYDOCK_RETURN_IF_ERROR(check_optional(call, how.shared1, out, "x1"));
  DRYDOCK_RETURN_IF_ERROR(check_optional(call, how.shared2, out, "x2"));
  std::vector<int64_t> rows;
  std::vector<int64_t> experts;
  std::vector<float> scales;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, how.rows, "expandedRowIdx", &rows));
  if (rows.size() != choices) return invalid(call, "expandedRowIdx must have one element for each choice of a token");
  if (is_present(how.scales) && !read_floats(how.scales, &scales)) return not_computed(call, "scales of this type");
  const bool special = how.zero_range.size() + how.copy_range.size() + how.constant_range.size() > 0;
  const bool needs_experts = is_present(how.bias) || special;
  if (needs_experts) {
    DRYDOCK_RETURN_IF_ERROR(integers_of(call, how.experts, "expertIdx", &experts));
    if (experts.size() != choices) return invalid(call, "expertIdx must have one element for each choice of a token");
  }
  if (is_present(how.bias)) {
    if (how.bias.dims.size() != 2 || how.bias.dims[1] != length) return invalid(call, "bias must be (experts, hidden)");
    for (int64_t expert : experts) {
      if (expert < 0 || expert >= how.bias.dims[0]) return device_fault(call, "expertIdx is out of range");
    }
  }
  for (int64_t row : rows) {
    if (row >= expanded_rows || row < (how.may_drop ? -1 : 0)) {
      return device_fault(call, "expandedRowIdx " + std::to_string(row) + " of " + std::to_string(expanded_rows));
    }
  }
  if (is_present(how.x)) DRYDOCK_RETURN_IF_ERROR(check_optional(call, how.x, out, "x"));
  if (how.copy_range.size() + how.constant_range.size() > 0 && !is_present(how.x)) {
    return invalid(call, "copied and constant experts need x");
  }
  if (!how.constant_range.empty()) {
    const Dims expected{how.constant_range[1] - how.constant_range[0], length};
    for (const TensorView* view : {&how.alpha1, &how.alpha2, &how.constant}) {
      if (!is_present(*view) || !(view->dims == expected)) {
        return invalid(call, "constant experts need alpha1, alpha2 and v of their own row each");
      }
    }
  }
  const TokenRows expanded(how.expanded), results(out);
  const auto rows_or_out = [&](const TensorView& view) { return TokenRows(is_present(view) ? view : out); };
  const TokenRows shared1 = rows_or_out(how.shared1), shared2 = rows_or_out(how.shared2), bias = rows_or_out(how.bias);
  const TokenRows x = rows_or_out(how.x), alpha1 = rows_or_out(how.alpha1), alpha2 = rows_or_out(how.alpha2);
  const TokenRows constant = rows_or_out(how.constant);

  for_each_row(tokens, 6 * length, [&](int64_t token, float* sum) {
    float* buffer = sum + length;
    std::fill_n(sum, length, 0.0f);
    const auto add = [&](const float* values) {
      for (int64_t k = 0; k < length; ++k) sum[k] += values[k];
    };
    if (is_present(how.shared1)) add(shared1.read(token, buffer));
    if (is_present(how.shared2)) add(shared2.read(token, buffer));
    for (int64_t choice = 0; choice < how.choices; ++choice) {
      const auto at = static_cast<size_t>(token * how.choices + choice);
      const int64_t expert = needs_experts ? experts[at] : -1;
      if (in_range(how.zero_range, expert)) continue;
      const float scale = scales.empty() ? 1.0f : scales[at];
      const int64_t row = rows[how.by_columns ? static_cast<size_t>(token + choice * tokens) : at];
      const float* values = nullptr;
      if (in_range(how.copy_range, expert)) {
        values = x.read(token, buffer);
      } else if (in_range(how.constant_range, expert)) {
        const int64_t own = expert - how.constant_range[0];
        const float* token_x = x.read(token, buffer);
        const float* first = alpha1.read(own, buffer + length);
        const float* second = alpha2.read(own, buffer + 2 * length);
        const float* fixed = constant.read(own, buffer + 3 * length);
        for (int64_t k = 0; k < length; ++k) buffer[k] = first[k] * token_x[k] + second[k] * fixed[k];
        values = buffer;
      } else if (row >= 0) {
        values = expanded.read(row, buffer);
      }
      const float* shift = is_present(how.bias) ? bias.read(expert, buffer + 4 * length) : nullptr;
      for (int64_t k = 0; k < length; ++k) {
        const float value = values != nullptr ? values[k] : 0.0f;
        sum[k] += scale * (shift != nullptr ? value + shift[k] : value);
      }
    }
    results.write(token, sum);
  });
  return Status::ok();
}

Status set_mode(const KernelCall& call, int64_t mode, Finalize* how) {
  if (mode < 0 || mode > 3) return invalid(call, "dropPadMode must be from 0 to 3");
  how->by_columns = mode < 2;
  how->may_drop = mode % 2 == 1;
  return Status::ok();
}

}  // namespace

/// aclnnMoeFinalizeRouting(expandedX, x1, x2, bias, scales, expandedRowIdx, expandedExpertIdx, out).
Status moe_finalize_routing(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  Finalize how;
  how.expanded = call.operand(0);
  how.shared1 = call.operand(1);
  how.shared2 = call.operand(2);
  how.bias = call.operand(3);
  how.scales = call.operand(4);
  how.rows = call.operand(5);
  how.experts = call.operand(6);
  how.by_columns = true;
  return finalise(call, how);
}

/// aclnnMoeFinalizeRoutingV2(expandedX, expandedRowIdx, x1, x2, bias, scales, expertIdx, dropPadMode, out).
Status moe_finalize_routing_modes(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  Finalize how;
  how.expanded = call.operand(0);
  how.rows = call.operand(1);
  how.shared1 = call.operand(2);
  how.shared2 = call.operand(3);
  how.bias = call.operand(4);
  how.scales = call.operand(5);
  how.experts = call.operand(6);
  DRYDOCK_RETURN_IF_ERROR(set_mode(call, call.integer(0), &how));
  return finalise(call, how);
}

/// V4: ..., expertIdx, x, alpha1, alpha2, v, dropPadMode, zeroExpertRange, copyExpertRange, constantExpertRange, k,
/// out).
Status moe_finalize_routing_ranges(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  Finalize how;
  how.expanded = call.operand(0);
  how.rows = call.operand(1);
  how.shared1 = call.operand(2);
  how.shared2 = call.operand(3);
  how.bias = call.operand(4);
  how.scales = call.operand(5);
  how.experts = call.operand(6);
  how.x = call.operand(7);
  how.alpha1 = call.operand(8);
  how.alpha2 = call.operand(9);
  how.constant = call.operand(10);
  how.zero_range = call.ints(0);
  how.copy_range = call.ints(1);
  how.constant_range = call.ints(2);
  for (const auto& range : {how.zero_range, how.copy_range, how.constant_range}) {
    if (!range.empty() && (range.size() != 2 || range[1] < range[0])) {
      return invalid(call, "a range of experts must be two ascending numbers");
    }
  }
  how.choices = std::max<int64_t>(call.integer(1), 1);
  DRYDOCK_RETURN_IF_ERROR(set_mode(call, call.integer(0), &how));
  return finalise(call, how);
}

}  // namespace drydock::ops::kernels
