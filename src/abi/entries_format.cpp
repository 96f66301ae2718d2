#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "abi/door_guard.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "ops/format/private_format.h"
#include "ops/objects.h"

// Which sizes a tensor has in a private format.

namespace drydock::entries {
namespace {

using ops::Format;

Status refuse(int32_t status, const std::string& why) {
  return Status::error(status, "aclnnNpuFormatCastCalculateSizeAndFormat: " + why);
}

/// The pairs of formats that the vendor's manual lists for Atlas A3, with ND standing for all plain formats where the
/// matrix format is concerned.
bool converts(Format from, Format to, int rank) {
  if (to == Format::kFractalNz) return (from == Format::kNd || from == Format::kNcl) && rank >= 2;
  if (from == Format::kFractalNz) return to == Format::kNd || to == Format::kNcl;
  const auto pair = [&](Format plain, Format blocked) {
    return (from == plain && to == blocked) || (from == blocked && to == plain);
  };
  if (rank == 4 && (pair(Format::kNchw, Format::kNc1hwc0) || pair(Format::kNchw, Format::kFractalZ))) return true;
  return rank == 5 && (pair(Format::kNcdhw, Format::kNdc1hwc0) || pair(Format::kNcdhw, Format::kFractalZ3d));
}

}  // namespace

Status aclnnNpuFormatCastCalculateSizeAndFormat(const void* srcTensor, int dstFormat, int additionalDtype,
                                                int64_t** dstShape, uint64_t* dstShapeSize, int* actualFormat) {
  if (srcTensor == nullptr || dstShape == nullptr || dstShapeSize == nullptr || actualFormat == nullptr) {
    return refuse(code::ACLNN_ERR_PARAM_NULLPTR, "the tensor or an out-parameter is null.");
  }
  const ops::Tensor* tensor = ops::objects().tensors.find(srcTensor);
  if (tensor == nullptr) {
    return refuse(code::ACLNN_ERR_PARAM_INVALID, fmt::format("{} is not a live aclTensor.", srcTensor));
  }
  const int rank = tensor->dims.size();
  if (rank < 2 || rank > 6 || tensor->numel() == 0) {
    return refuse(
        code::ACLNN_ERR_PARAM_INVALID,
        fmt::format("the tensor has rank {} and {} elements; it must have 2 to 6 dimensions and not be empty.", rank,
                    tensor->numel()));
  }
  const auto wanted = static_cast<DataType>(additionalDtype);
  const int64_t bits = bits_of(additionalDtype == -1 ? tensor->dtype : wanted);
  if (bits < 8 || bits > 32) {
    return refuse(
        code::ACLNN_ERR_PARAM_INVALID,
        fmt::format("additionalDtype {} is not listed; it is -1 or a type of 1, 2 or 4 bytes.", additionalDtype));
  }
  const auto to = static_cast<Format>(dstFormat);
  if (!converts(static_cast<Format>(tensor->format), to, rank)) {
    return refuse(
        code::ACLNN_ERR_RUNTIME_ERROR,
        fmt::format("tensors of rank {} do not convert from format {} to format {}.", rank, tensor->format, dstFormat));
  }
  ops::BlockedLayout layout;
  ops::Dims dims = tensor->dims;
  if (ops::blocked_layout(to, tensor->dims, 256 / bits, &layout)) dims = layout.storage_dims;
  // The caller frees it with delete[], as the vendor's manual has it.
  *dstShape = new int64_t[static_cast<size_t>(dims.size())];
  std::memcpy(*dstShape, dims.data(), static_cast<size_t>(dims.size()) * sizeof(int64_t));
  *dstShapeSize = static_cast<uint64_t>(dims.size());
  *actualFormat = dstFormat;
  return Status::ok();
}

}  // namespace drydock::entries
