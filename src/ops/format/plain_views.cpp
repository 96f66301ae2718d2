#include "ops/format/plain_views.h"

#include <utility>

#include "base/generated/error_codes.h"
#include "ops/kernel_access.h"

namespace drydock::ops {
namespace {

/// The sizes of the stored tensor, from a view of it: the tensor itself, or its last two dimensions swapped.
bool stored_dims(const Tensor& tensor, Dims* dims, bool* swapped) {
  *dims = tensor.dims;
  *swapped = false;
  if (tensor.offset != 0) return false;
  if (tensor.is_contiguous()) return true;
  const int rank = tensor.dims.size();
  if (rank < 2) return false;
  Tensor turned = tensor;
  std::swap(turned.dims[rank - 2], turned.dims[rank - 1]);
  std::swap(turned.strides[rank - 2], turned.strides[rank - 1]);
  *dims = turned.dims;
  *swapped = true;
  return turned.is_contiguous();
}

}  // namespace

const TensorView* PlainViews::find(const Tensor& tensor) const {
  for (const Plain& plain : tensors_) {
    if (plain.tensor == &tensor) return &plain.view;
  }
  return nullptr;
}

Status PlainViews::add(const Tensor& tensor, char* storage, bool reads) {
  if (find(tensor) != nullptr) return Status::ok();
  FormattedElements elements{storage, tensor.dtype, tensor.format, {}, tensor.storage_dims};
  bool swapped = false;
  if (!stored_dims(tensor, &elements.dims, &swapped)) {
    return Status::error(code::ACLNN_ERR_PARAM_INVALID,
                         "a tensor in a private format may only be seen as it is stored or with its last two "
                         "dimensions swapped");
  }
  Plain plain{&tensor, storage, {}, {}, {}};
  DRYDOCK_RETURN_IF_ERROR(layout_of(elements, &plain.layout));
  // Zeros: a kernel may leave an optional output alone.
  plain.bytes = std::make_unique<char[]>(static_cast<size_t>(bytes_of(tensor.dtype, elements.dims.product())) + 1);
  if (reads) out_of_blocks(plain.layout, tensor.dtype, storage, plain.bytes.get());
  plain.view = kernels::contiguous_view(plain.bytes.get(), tensor.dtype, elements.dims);
  if (swapped) {
    const int rank = tensor.dims.size();
    std::swap(plain.view.dims[rank - 2], plain.view.dims[rank - 1]);
    std::swap(plain.view.strides[rank - 2], plain.view.strides[rank - 1]);
  }
  tensors_.push_back(std::move(plain));
  return Status::ok();
}

void PlainViews::write_back(const Tensor& tensor) {
  for (const Plain& plain : tensors_) {
    if (plain.tensor == &tensor) into_blocks(plain.layout, tensor.dtype, plain.bytes.get(), plain.storage);
  }
}

}  // namespace drydock::ops
