#pragma once

#include <string>
#include <string_view>

#include "ops/attention/block_math.h"
#include "ops/kernel_access.h"

// Attention tensors come in many layouts; behind a HeadView they are all [batch][head][row][element].

namespace drydock::ops::kernels::attention {

struct HeadView {
  char* data = nullptr;
  DataType dtype = DataType::kUndefined;
  int64_t batches = 0;
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t width = 0;
  // In bytes.
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;
  int64_t element_stride = 0;

  char* at(int64_t batch, int64_t head, int64_t row) const {
    return data + batch * batch_stride + head * head_stride + row * row_stride;
  }
};

/// One of BNSD, BSND, NBSD, BSH, SBH, TND, NTD (T: the batch's sequences one behind the other, seen as one batch).
/// Where heads and elements share a dimension (H), it is divided into `heads`. False if the view does not have this
/// layout.
bool head_view(const TensorView& view, std::string_view layout, int64_t heads, HeadView* result);

/// `count` rows as floats.
void read_rows(const HeadView& view, int64_t batch, int64_t head, int64_t first, int64_t count, Block rows);
void write_rows(const HeadView& view, int64_t batch, int64_t head, int64_t first, int64_t count, ConstBlock rows);

/// Sets all elements to zero, whatever the strides.
void clear_view(const TensorView& view);

}  // namespace drydock::ops::kernels::attention
