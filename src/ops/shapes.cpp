#include "ops/shapes.h"

namespace drydock::ops::kernels {

namespace {

/// Of a list as many as a line of a message can hold.
std::string sizes_of_list(const std::vector<TensorView>& list) {
  constexpr size_t kShown = 8;
  std::string text = "{";
  for (size_t i = 0; i < list.size() && i < kShown; ++i) text += (i > 0 ? ", " : "") + sizes_of(list[i]);
  if (list.size() > kShown) text += ", ... " + std::to_string(list.size()) + " in all";
  return text + "}";
}

}  // namespace

bool is_contiguous(const TensorView& view) noexcept {
  if (view.numel() == 0) return true;
  int64_t stride = 1;
  for (int axis = view.dims.size() - 1; axis >= 0; --axis) {
    if (view.dims[axis] == 1) continue;
    if (view.strides[axis] != stride) return false;
    stride *= view.dims[axis];
  }
  return true;
}

std::string shapes_of(const KernelCall& call) {
  std::string text;
  int operand = 0, output = 0, operand_list = 0, output_list = 0;
  for (const ArgSpec& spec : call.row().args) {
    const bool read = spec.direction != ArgDirection::kOut;
    const bool written = spec.direction != ArgDirection::kIn;
    std::string sizes;
    if (spec.kind == ArgKind::kTensor) {
      sizes = sizes_of(read ? call.operand(operand) : call.output(output));
      operand += read ? 1 : 0;
      output += written ? 1 : 0;
    } else if (spec.kind == ArgKind::kTensorList) {
      sizes = sizes_of_list(read ? call.operand_list(operand_list) : call.output_list(output_list));
      operand_list += read ? 1 : 0;
      output_list += written ? 1 : 0;
    } else {
      operand += spec.kind == ArgKind::kScalar ? 1 : 0;
      continue;
    }
    if (sizes == "none") continue;
    text += (text.empty() ? "" : ", ") + std::string(spec.name) + " " + sizes;
  }
  return text;
}

}  // namespace drydock::ops::kernels
