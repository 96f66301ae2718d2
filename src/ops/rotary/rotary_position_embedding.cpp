#include <algorithm>

#include "base/thread_pool.h"
#include "ops/kernel_call.h"
#include "ops/rotary/rotary.h"

// aclnnRotaryPositionEmbedding and its gradient, aclnnApplyRotaryPosEmb, aclnnInterleaveRope.

namespace drydock::ops::kernels {

namespace rotary {

namespace {

constexpr int64_t kRowsAtOnce = 64;

/// cos and sin as they lie beside the rows of x.
struct Angles {
  TensorView cos;
  TensorView sin;
};

/// Checks x against cos and sin, which broadcast to it but in the last dimension, where they may be narrower.
Status angles_for(const KernelCall& call, const TensorView& x, const TensorView& cos, const TensorView& sin, Mode mode,
                  Angles* angles) {
  const std::string sizes = ": x " + sizes_of(x) + ", cos " + sizes_of(cos) + ", sin " + sizes_of(sin);
  const int rank = x.dims.size();
  if (rank == 0 || cos.dims.size() != rank || !(cos.dims == sin.dims)) {
    return invalid(call, "cos and sin must have the rank of x" + sizes);
  }
  const int64_t width = cos.dims[rank - 1];
  if (width > x.dims[rank - 1] || width % divisor_of(mode) != 0) {
    return invalid(call, "the last dimension of cos and sin must be a multiple of " + std::to_string(divisor_of(mode)) +
                             " and not exceed that of x" + sizes);
  }
  Dims dims = x.dims;
  dims[rank - 1] = width;
  if (!broadcast_view(cos, dims, &angles->cos) || !broadcast_view(sin, dims, &angles->sin)) {
    return invalid(call, "cos and sin must broadcast to x" + sizes);
  }
  return Status::ok();
}

/// out = x, rotated; elements beyond the width of the angles are copied. Both may be one tensor.
void rotate_rows(const TensorView& x, const Angles& angles, Mode mode, const TensorView& out) {
  const int last = x.dims.size() - 1;
  const Rows x_rows(x, last), cos_rows(angles.cos, last), sin_rows(angles.sin, last), out_rows(out, last);
  if (x.numel() == 0) return;
  const Rotation rotation(mode, cos_rows.length());
  base::parallel_for(x_rows.count(), kRowsAtOnce, [&](int64_t begin, int64_t end) {
    const size_t width = static_cast<size_t>(x_rows.length());
    std::vector<float> x_buffer(width), cos_buffer(width), sin_buffer(width), y(width);
    for (int64_t row = begin; row < end; ++row) {
      const float* values = x_rows.read<float>(row, x_buffer.data());
      std::copy(values + rotation.width(), values + width, y.begin() + rotation.width());
      rotation.apply(values, cos_rows.read<float>(row, cos_buffer.data()), sin_rows.read<float>(row, sin_buffer.data()),
                     y.data());
      out_rows.write<float>(row, y.data());
    }
  });
}

/// y = x * cos + (x times a matrix) * sin.
Status rotate_by_matrix(const KernelCall& call, const TensorView& x, const Angles& angles, const TensorView& matrix,
                        const TensorView& out) {
  const int last = x.dims.size() - 1;
  const int64_t width = x.dims[last];
  if (matrix.dims.size() != 2 || matrix.dims[0] != width || matrix.dims[1] != width || angles.cos.dims[last] != width) {
    return invalid(call, "rotate must be a square matrix of the width of x, not " + sizes_of(matrix));
  }
  std::vector<float> weights(static_cast<size_t>(width * width));
  const Rows matrix_rows(matrix, Dims{0, 1});
  const float* values = matrix_rows.read<float>(0, weights.data());
  const Rows x_rows(x, last), cos_rows(angles.cos, last), sin_rows(angles.sin, last), out_rows(out, last);
  base::parallel_for(x_rows.count(), kRowsAtOnce, [&](int64_t begin, int64_t end) {
    const size_t size = static_cast<size_t>(width);
    std::vector<float> x_buffer(size), cos_buffer(size), sin_buffer(size), y(size);
    for (int64_t row = begin; row < end; ++row) {
      const float* x_row = x_rows.read<float>(row, x_buffer.data());
      std::fill(y.begin(), y.end(), 0.0f);
      for (size_t k = 0; k < size; ++k) {
        // Such matrices hold mostly zeros.
        if (x_row[k] == 0) continue;
        for (size_t i = 0; i < size; ++i) y[i] += x_row[k] * values[k * size + i];
      }
      const float* cos = cos_rows.read<float>(row, cos_buffer.data());
      const float* sin = sin_rows.read<float>(row, sin_buffer.data());
      for (size_t i = 0; i < size; ++i) y[i] = x_row[i] * cos[i] + y[i] * sin[i];
      out_rows.write<float>(row, y.data());
    }
  });
  return Status::ok();
}

Status embed(KernelCall& call, Mode mode, const TensorView* matrix) {
  const TensorView& x = call.operand(0);
  const TensorView& out = call.output(0);
  if (!(out.dims == x.dims)) return invalid(call, "the output must have the shape of x");
  Angles angles;
  DRYDOCK_RETURN_IF_ERROR(angles_for(call, x, call.operand(1), call.operand(2), mode, &angles));
  if (x.numel() == 0) return Status::ok();
  if (matrix != nullptr) return rotate_by_matrix(call, x, angles, *matrix, out);
  rotate_rows(x, angles, mode, out);
  return Status::ok();
}

/// For each row of x the row of cos that goes with it.
std::vector<int64_t> angle_rows(const Dims& x, const Dims& cos) {
  const int last = x.size() - 1;
  std::vector<int64_t> rows{0};
  for (int axis = 0; axis < last; ++axis) {
    std::vector<int64_t> finer;
    finer.reserve(rows.size() * static_cast<size_t>(x[axis]));
    for (int64_t row : rows) {
      for (int64_t k = 0; k < x[axis]; ++k) finer.push_back(row * cos[axis] + (cos[axis] == 1 ? 0 : k));
    }
    rows = std::move(finer);
  }
  return rows;
}

Status angle_gradients(const KernelCall& call, const TensorView& dy, const TensorView& x, const Rotation& rotation,
                       const TensorView& dcos, const TensorView& dsin) {
  const TensorView& cos = call.operand(1);
  if (!(x.dims == dy.dims) || !(dcos.dims == cos.dims) || !(dsin.dims == cos.dims)) {
    return invalid(call, "x must have the shape of dy, the gradients those of cos and sin");
  }
  const int last = dy.dims.size() - 1;
  const size_t width = static_cast<size_t>(rotation.width());
  std::vector<double> cos_sums(static_cast<size_t>(cos.numel()), 0.0), sin_sums(cos_sums.size(), 0.0);
  const Rows dy_rows(dy, last), x_rows(x, last);
  const std::vector<int64_t> rows = angle_rows(dy.dims, cos.dims);
  std::vector<float> dy_buffer(width), x_buffer(width);
  for (size_t row = 0; row < rows.size(); ++row) {
    const int64_t number = static_cast<int64_t>(row);
    const int64_t start = rows[row] * rotation.width();
    rotation.add_angle_gradients(dy_rows.read<float>(number, dy_buffer.data()),
                                 x_rows.read<float>(number, x_buffer.data()), cos_sums.data() + start,
                                 sin_sums.data() + start);
  }
  Rows(dcos, all_axes(dcos.dims.size())).write<double>(0, cos_sums.data());
  Rows(dsin, all_axes(dsin.dims.size())).write<double>(0, sin_sums.data());
  return Status::ok();
}

Status rotate_in_place(KernelCall& call, Mode mode) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 2));
  Angles angles[2];
  for (int which = 0; which < 2; ++which) {
    DRYDOCK_RETURN_IF_ERROR(
        angles_for(call, call.operand(which), call.operand(2), call.operand(3), mode, &angles[which]));
  }
  for (int which = 0; which < 2; ++which) {
    rotate_rows(call.operand(which), angles[which], mode, call.output(which));
  }
  return Status::ok();
}

}  // namespace

}  // namespace rotary

Status rotary_position_embedding(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  rotary::Mode mode;
  if (!rotary::mode_of(call.integer(0), &mode)) return invalid(call, "mode must be 0, 1, 2 or 3");
  const bool by_matrix = call.operand_count() > 3 && call.operand(3).defined;
  return rotary::embed(call, mode, by_matrix ? &call.operand(3) : nullptr);
}

Status interleave_rope(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  return rotary::embed(call, rotary::Mode::kInterleaveHalf, nullptr);
}

Status rotary_position_embedding_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  rotary::Mode mode;
  if (!rotary::mode_of(call.integer(0), &mode)) return invalid(call, "mode must be 0, 1, 2 or 3");
  const TensorView& dy = call.operand(0);
  const TensorView& x = call.operand(3);
  const TensorView& dx = call.output(0);
  rotary::Angles angles;
  DRYDOCK_RETURN_IF_ERROR(rotary::angles_for(call, dy, call.operand(1), call.operand(2), mode, &angles));
  const int last = dy.dims.size() - 1;
  if (!(dx.dims == dy.dims) || angles.cos.dims[last] != dy.dims[last]) {
    return invalid(call, "dy, cos, sin and dx must have one width, dx the shape of dy");
  }
  const rotary::Rotation rotation(mode, dy.dims[last]);
  if (dy.numel() > 0) {
    const Rows dy_rows(dy, last), cos_rows(angles.cos, last), sin_rows(angles.sin, last), dx_rows(dx, last);
    base::parallel_for(dy_rows.count(), rotary::kRowsAtOnce, [&](int64_t begin, int64_t end) {
      const size_t width = static_cast<size_t>(rotation.width());
      std::vector<float> dy_buffer(width), cos_buffer(width), sin_buffer(width), result(width);
      for (int64_t row = begin; row < end; ++row) {
        rotation.backward(dy_rows.read<float>(row, dy_buffer.data()), cos_rows.read<float>(row, cos_buffer.data()),
                          sin_rows.read<float>(row, sin_buffer.data()), result.data());
        dx_rows.write<float>(row, result.data());
      }
    });
  }
  if (!x.defined || !call.output(1).defined || !call.output(2).defined) return Status::ok();  // nobody asks for them
  return rotary::angle_gradients(call, dy, x, rotation, call.output(1), call.output(2));
}

Status apply_rotary_pos_emb(KernelCall& call) {
  rotary::Mode mode;
  if (!rotary::mode_of(call.text(0), &mode)) {
    return invalid(call, "rotaryMode must be half, interleave or quarter, not " + std::string(call.text(0)));
  }
  return rotary::rotate_in_place(call, mode);
}

}  // namespace drydock::ops::kernels
