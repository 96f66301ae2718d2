#pragma once

#include <cstdint>

#include "base/status.h"
#include "ops/kernel_call.h"
#include "ops/tensor.h"

// The device's private tensor formats. All of them are the plain (row-major) tensor with one dimension cut into blocks
// of C0 elements, of which the last is padded: C0 elements of that dimension lie side by side.

namespace drydock::ops {

/// Vendor's aclFormat.
enum class Format : int32_t {
  kNchw = 0,
  kNd = 2,
  kNc1hwc0 = 3,
  kFractalZ = 4,
  kFractalNz = 29,
  kNcdhw = 30,
  kNdc1hwc0 = 32,
  kFractalZ3d = 33,
  kNcl = 47,
  kFractalNzC016 = 50,
  kFractalNzC032 = 51,
};

/// How the elements of a plain tensor lie in a private format.
struct BlockedLayout {
  Dims dims;                 ///< the plain sizes, with the dimensions that the format supposes
  Dims strides;              ///< of the plain dimensions; of `axis` inside a block
  int axis = 0;              ///< the dimension that is cut
  int64_t block = 0;         ///< C0
  int64_t block_stride = 0;  ///< elements from block to block
  Dims storage_dims;         ///< sizes of the storage, padding included
};

/// C0 of an element type: a block has 32 bytes, but types of more than two bytes are blocked like those of two.
int64_t block_of(DataType dtype) noexcept;

/// False if `format` is not private or tensors of these sizes cannot have it. `dims`: plain sizes.
bool blocked_layout(Format format, const Dims& dims, int64_t block, BlockedLayout* layout);

/// A tensor in memory that the host may touch, in any format.
struct FormattedElements {
  char* storage = nullptr;
  DataType dtype = DataType::kUndefined;
  int32_t format = 2;
  Dims dims;          ///< plain sizes
  Dims storage_dims;  ///< of a private format; gives C0 and must have room for all elements
};

/// Layout of elements in a private format; fails with the vendor's parameter error if the sizes do not belong together.
Status layout_of(const FormattedElements& elements, BlockedLayout* layout);

/// out = in, from format to format, padding set to zero. The plain sizes and element types must be the same.
Status trans_data(const FormattedElements& in, const FormattedElements& out);

/// Between a dense row-major buffer and a storage of the layout.
void into_blocks(const BlockedLayout& layout, DataType dtype, const char* plain, char* storage);
void out_of_blocks(const BlockedLayout& layout, DataType dtype, const char* storage, char* plain);

}  // namespace drydock::ops
