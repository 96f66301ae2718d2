#include "ops/stream_uses.h"

#include <vector>

#include "races/stream_check.h"
#include "values/view.h"

namespace drydock::ops {
namespace {

races::Footprint footprint_of(const Tensor& tensor) {
  const values::Span span = values::span_of(tensor);
  if (span.dense || bits_of(tensor.dtype) < 8) return races::Footprint::dense(span.begin, span.begin + span.size_bytes);
  return races::footprint_of(span.begin, static_cast<uint64_t>(bytes_of(tensor.dtype, 1)), tensor.dims.data(),
                             tensor.strides.data(), tensor.dims.size());
}

}  // namespace

void tell_stream_uses(const Executor& executor, const void* workspace, uint64_t workspace_bytes,
                      const device::Stream& stream) {
  thread_local std::vector<races::Use> uses;
  uses.clear();
  const auto add = [&](size_t index, ArgDirection direction, const Tensor* tensor) {
    if (tensor == nullptr || tensor->storage == nullptr || tensor->numel() == 0) return;
    uses.push_back({footprint_of(*tensor), static_cast<uint16_t>(index), direction != ArgDirection::kIn});
  };
  const auto specs = executor.row().args;
  const auto args = executor.args();
  for (size_t index = 0; index < args.size(); ++index) {
    const Arg& arg = args[index];
    if (arg.kind == ArgKind::kTensor) add(index, specs[index].direction, arg.tensor);
    if (arg.kind != ArgKind::kTensorList || arg.tensors == nullptr) continue;
    for (const Tensor* tensor : arg.tensors->tensors) add(index, specs[index].direction, tensor);
  }
  const auto address = reinterpret_cast<uint64_t>(workspace);
  // Behind the last argument: no argument of the call is named.
  if (workspace_bytes > 0)
    uses.push_back(
        {races::Footprint::dense(address, address + workspace_bytes), static_cast<uint16_t>(args.size()), true});
  races::submitted(stream.id(), {.device = stream.device(), .line = executor.line(), .call = executor.call()}, uses);
}

}  // namespace drydock::ops
