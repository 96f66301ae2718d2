#include "ops/random/draw.h"

namespace drydock::ops::kernels {

Philox generator_of_integers(const KernelCall& call, int first) {
  return Philox(static_cast<uint64_t>(call.integer(first)), static_cast<uint64_t>(call.integer(first + 1)));
}

Status generator_of_tensors(const KernelCall& call, int offset_argument, Philox* generator) {
  const int count = call.operand_count();
  if (count < 2 || call.operand(count - 1).numel() < 1 || call.operand(count - 2).numel() < 1) {
    return not_computed(call, "the seed and offset tensors are missing");
  }
  DRYDOCK_RETURN_IF_ERROR(expect(call, count, 1));
  *generator = Philox(
      static_cast<uint64_t>(as_int64(call.operand(count - 2))),
      static_cast<uint64_t>(as_int64(call.operand(count - 1))) + static_cast<uint64_t>(call.integer(offset_argument)));
  return Status::ok();
}

}  // namespace drydock::ops::kernels
