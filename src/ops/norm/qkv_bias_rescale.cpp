#include "ops/kernel_call.h"
#include "ops/norm/row_access.h"

namespace drydock::ops::kernels {

/// Projections (batch, tokens, 3 * heads * size) plus their bias, as query (divided by the root of the size), key and
/// value (batch, heads, tokens, size) each.
Status transform_bias_rescale_qkv(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 3));
  const TensorView& qkv = call.operand(0);
  const TensorView& bias = call.operand(1);
  const int64_t heads = call.integer(0);
  if (qkv.dims.size() != 3 || heads <= 0 || heads > qkv.dims[2] || qkv.dims[2] % (3 * heads) != 0) {
    return invalid(call, "qkv must be (batch, tokens, 3 * heads * size)");
  }
  const int64_t width = qkv.dims[2] / 3;
  const int64_t size = width / heads;
  if (bias.dims.size() != 1 || bias.dims[0] != 3 * width) return invalid(call, "the bias must be (3 * heads * size)");
  const Dims dims = {qkv.dims[0], heads, qkv.dims[1], size};
  for (int part = 0; part < 3; ++part) {
    if (!(call.output(part).dims == dims)) {
      return invalid(call, "query, key and value must be (batch, heads, tokens, size)");
    }
  }
  for (int part = 0; part < 3; ++part) {
    // The projection with heads before tokens.
    TensorView from = narrow(qkv, 2, part * width, width);
    from.dims = dims;
    from.strides = {qkv.strides[0], qkv.strides[2] * size, qkv.strides[1], qkv.strides[2]};
    TensorView shift = narrow(bias, 0, part * width, width);
    shift.dims = dims;
    shift.strides = {0, bias.strides[0] * size, 0, bias.strides[0]};
    const float scale = part == 0 ? 1 / std::sqrt(static_cast<float>(size)) : 1;
    map_elements<float, 2>(call.output(part), {&from, &shift}, {DataType::kUndefined, DataType::kUndefined},
                           [scale](float x, float b) { return (x + b) * scale; });
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
