#include "ops/workspace.h"

#include <cstdlib>
#include <string_view>

#include "device/profile.h"
#include "ops/workspace_call.h"

namespace drydock::ops {
namespace {

constexpr uint64_t any_of(std::initializer_list<DataType> types) {
  uint64_t mask = 0;
  for (const DataType type : types) mask |= uint64_t{1} << static_cast<unsigned>(type);
  return mask;
}
constexpr uint64_t kTwoByteFloats = any_of({DataType::kFloat16, DataType::kBFloat16});

/// Copies of views of one call, padded, and what else its tensors say.
struct TensorFacts {
  int64_t copies = 0;
  int64_t wide_copies = 0;  ///< fp32 copies of all inputs that are half types, for bounds
  bool has_output = false;
  bool writes_something = false;  ///< an output with elements
};

void look_at(const Tensor& tensor, ArgDirection direction, WorkspaceCopies copies, bool for_upper, TensorFacts& facts) {
  const bool is_output = direction != ArgDirection::kIn;
  if (is_output) {
    facts.has_output = true;
    if (WorkspaceCall::elements(tensor) > 0) facts.writes_something = true;
  }
  if (for_upper && direction != ArgDirection::kOut && tensor.dtype != DataType::kUndefined &&
      (kTwoByteFloats >> static_cast<unsigned>(tensor.dtype) & 1) != 0)
    facts.wide_copies =
        saturating_sum(facts.wide_copies, WorkspaceCall::align(saturating_product(WorkspaceCall::elements(tensor), 4)));
  if (copies == WorkspaceCopies::kNone || (is_output && copies == WorkspaceCopies::kInputs)) return;
  if (is_private_format(tensor.format) || tensor.is_contiguous()) return;
  if (copies == WorkspaceCopies::kMatrices && !is_output && WorkspaceCall::is_transposed(tensor)) return;
  const int64_t copy = WorkspaceCall::align(WorkspaceCall::bytes_of(tensor));
  // What is read and written through a view is copied out of it and back into it.
  facts.copies = saturating_sum(facts.copies, copy);
  if (direction == ArgDirection::kInOut && copies != WorkspaceCopies::kInputs)
    facts.copies = saturating_sum(facts.copies, copy);
}

TensorFacts facts_of(const OperatorRow& row, std::span<const Arg> args, WorkspaceCopies copies, bool for_upper) {
  TensorFacts facts;
  for (size_t index = 0; index < args.size(); ++index) {
    const Arg& arg = args[index];
    if (arg.kind > ArgKind::kTensorList || arg.pointer == nullptr) continue;
    const ArgDirection direction = row.args[index].direction;
    if (arg.kind == ArgKind::kTensor) {
      look_at(*arg.tensor, direction, copies, for_upper, facts);
      continue;
    }
    for (const Tensor* tensor : arg.tensors->tensors)
      if (tensor != nullptr) look_at(*tensor, direction, copies, for_upper, facts);
  }
  return facts;
}

// What kernels of an unknown kind ask at most, short of attention and convolution: the system part, every half-type
// input once more as fp32, and the copies.
int64_t bound_of_unknown(const TensorFacts& facts, const WorkspaceMachine& machine) {
  return saturating_sum(WorkspaceCall::align(machine.system_bytes), facts.wide_copies, facts.copies);
}

const WorkspaceRule* rule_of(uint32_t operator_index, const WorkspaceCall& call) {
  for (const WorkspaceRule& rule : workspace_rules(operator_index))
    if (rule.applies == nullptr || rule.applies(call)) return &rule;
  return nullptr;
}

WorkspaceMode mode_from_environment() {
  const char* text = std::getenv("DRYDOCK_WORKSPACE");
  const std::string_view mode = text == nullptr ? "" : text;
  if (mode == "none") return WorkspaceMode::kNone;
  return mode == "upper" ? WorkspaceMode::kUpper : WorkspaceMode::kRules;
}

}  // namespace

WorkspaceNeed workspace_of(uint32_t operator_index, std::span<const Arg> args, WorkspaceMode mode,
                           const WorkspaceMachine& machine) noexcept {
  if (mode == WorkspaceMode::kNone) return {};
  const WorkspaceCall call(args, machine);
  const WorkspaceRule* rule = rule_of(operator_index, call);
  const bool wants_bound = mode == WorkspaceMode::kUpper;
  const WorkspaceCopies copies = rule == nullptr ? WorkspaceCopies::kInputsAndOutputs : rule->copies;
  const TensorFacts facts = facts_of(operator_rows()[operator_index], args, copies, wants_bound);
  // Nothing to compute: the vendor's host code returns before it plans a kernel.
  if (facts.has_output && !facts.writes_something) return {.basis = trace::WorkspaceBasis::kHigh};

  int64_t total = facts.copies;
  if (rule == nullptr) {
    if (wants_bound) total = bound_of_unknown(facts, machine);
    return {.bytes = static_cast<uint64_t>(total),
            .basis = wants_bound ? trace::WorkspaceBasis::kUpper : trace::WorkspaceBasis::kAssumed};
  }
  WorkspaceNeed need{.basis = rule->basis};
  if (rule->has_kernel_part) {
    int64_t kernel = rule->kernel_constant;
    if (rule->kernel != nullptr) kernel = std::max<int64_t>(0, saturating_sum(kernel, rule->kernel(call)));
    need.kernel_bytes = static_cast<uint64_t>(kernel);
    total = saturating_sum(total, rule->path == WorkspacePath::kComposite ? WorkspaceCall::align(kernel) : kernel);
  }
  if (rule->temporaries != nullptr) total = saturating_sum(total, rule->temporaries(call));
  if (wants_bound && rule->upper != nullptr) {
    total = std::max(total, saturating_sum(facts.copies, rule->upper(call)));
    need.basis = trace::WorkspaceBasis::kUpper;
  } else if (wants_bound && rule->basis == trace::WorkspaceBasis::kLow) {
    total = std::max(total, bound_of_unknown(facts, machine));
    need.basis = trace::WorkspaceBasis::kUpper;
  }
  need.bytes = static_cast<uint64_t>(std::max<int64_t>(0, total));
  return need;
}

WorkspaceNeed workspace_of(uint32_t operator_index, std::span<const Arg> args) noexcept {
  static const WorkspaceMode mode = mode_from_environment();
  static const WorkspaceMachine machine = {.cube_cores = device::profile().cube_cores,
                                           .vector_cores = device::profile().vector_cores};
  return workspace_of(operator_index, args, mode, machine);
}

}  // namespace drydock::ops
