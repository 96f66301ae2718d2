#include "ops/attention/call_arguments.h"

namespace drydock::ops::kernels::attention {

namespace {

const TensorView kAbsent{};

/// Position of a tensor among the operands (or the outputs); -1 if there is none.
int position_of(const KernelCall& call, std::string_view name, bool among_outputs) {
  int position = 0;
  for (const ArgSpec& spec : call.row().args) {
    const bool tensor = spec.kind == ArgKind::kTensor;
    const bool counted = among_outputs
                             ? tensor && spec.direction != ArgDirection::kIn
                             : spec.kind == ArgKind::kScalar || (tensor && spec.direction != ArgDirection::kOut);
    if (!counted) continue;
    if (spec.name == name) return position;
    ++position;
  }
  return -1;
}

}  // namespace

int CallArguments::index_of(std::string_view name, ArgKind kind) const {
  int index = 0;
  for (const ArgSpec& spec : call_.row().args) {
    if (spec.kind != kind) continue;
    if (spec.name == name) return index;
    ++index;
  }
  return -1;
}

const TensorView& CallArguments::tensor_or_empty(std::string_view name) const {
  const int position = position_of(call_, name, false);
  return position < 0 ? kAbsent : call_.operand(position);
}

const TensorView& CallArguments::tensor(std::string_view name) const {
  const TensorView& view = tensor_or_empty(name);
  return view.defined && view.numel() > 0 ? view : kAbsent;
}

const TensorView& CallArguments::output(std::string_view name) const {
  const int position = position_of(call_, name, true);
  return position < 0 ? kAbsent : call_.output(position);
}

std::span<const TensorView> CallArguments::list(std::string_view name) const {
  const int index = index_of(name, ArgKind::kTensorList);
  return index < 0 ? std::span<const TensorView>() : std::span<const TensorView>(call_.operand_list(index));
}

std::span<const int64_t> CallArguments::ints(std::string_view name) const {
  const int index = index_of(name, ArgKind::kIntArray);
  return index < 0 ? std::span<const int64_t>() : call_.ints(index);
}

int64_t CallArguments::integer(std::string_view name, int64_t otherwise) const {
  const int index = index_of(name, ArgKind::kInt);
  return index < 0 ? otherwise : call_.integer(index);
}

double CallArguments::number(std::string_view name, double otherwise) const {
  const int index = index_of(name, ArgKind::kDouble);
  return index < 0 ? otherwise : call_.number(index);
}

bool CallArguments::boolean(std::string_view name) const {
  const int index = index_of(name, ArgKind::kBool);
  return index >= 0 && call_.boolean(index);
}

std::string_view CallArguments::text(std::string_view name) const {
  const int index = index_of(name, ArgKind::kString);
  return index < 0 ? std::string_view() : call_.text(index);
}

}  // namespace drydock::ops::kernels::attention
