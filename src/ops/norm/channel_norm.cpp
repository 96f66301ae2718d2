#include "ops/norm/channel_norm.h"

namespace drydock::ops::kernels {

Status planes_of(const KernelCall& call, const TensorView& x, ChannelPlanes* planes) {
  const int rank = x.dims.size();
  if (rank < 2) return invalid(call, "the input must have at least two dimensions, not " + std::to_string(rank));
  planes->samples = x.dims[0];
  planes->channels = x.dims[1];
  planes->size = trailing_dims(x.dims, rank - 2).product();
  planes->axes.clear();
  for (int axis = 1; axis < rank; ++axis) planes->axes.push_back(axis);
  return Status::ok();
}

Status channel_values(const KernelCall& call, const TensorView& view, int64_t count, double otherwise,
                      std::vector<double>* values) {
  values->assign(static_cast<size_t>(count), otherwise);
  if (!view.defined) return Status::ok();
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, view, count, "a vector of channels"));
  *values = values_of<double>(view);
  return Status::ok();
}

Status expect_vector(const KernelCall& call, const TensorView& view, int64_t count, const char* what) {
  if (!view.defined) return Status::ok();
  if (!is_real_element(view.dtype)) return not_computed(call, std::string(what) + " is not real");
  if (view.numel() == count) return Status::ok();
  return invalid(call, std::string(what) + " must have " + std::to_string(count) + " elements, not " +
                           std::to_string(view.numel()));
}

}  // namespace drydock::ops::kernels
