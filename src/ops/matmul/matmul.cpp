#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/saturating.h"
#include "ops/matmul/matrix_call.h"

// Matrix products as operators: shapes, batches, vectors and addends; the work is multiply_views.

namespace drydock::ops::kernels {
namespace {

/// A view with dimensions of size 1 in front until it has `rank`.
TensorView padded(TensorView view, int rank) {
  while (view.dims.size() < rank) view = unsqueeze(view, 0);
  return view;
}

/// `view` [batch..., m, n] with its batch broadcast to the one of `out`.
bool broadcast_batch(TensorView* view, const TensorView& out) {
  const int rank = out.dims.size();
  if (view->dims.size() > rank) return false;
  *view = padded(*view, rank);
  Dims dims = out.dims;
  dims[rank - 2] = view->dims[rank - 2];
  dims[rank - 1] = view->dims[rank - 1];
  return broadcast_view(*view, dims, view);
}

Status expect_rank(const KernelCall& call, const TensorView& view, const char* name, int least, int most) {
  const int rank = view.dims.size();
  if (rank >= least && rank <= most) return Status::ok();
  const std::string wanted =
      least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
  return invalid(call, std::string(name) + " has " + std::to_string(rank) + " dimensions, it must have " + wanted);
}

/// Shape of a @ b by the rules of PyTorch's matmul; false if the batches do not broadcast.
bool product_dims(const Dims& a, const Dims& b, Dims* result) {
  const auto batch_of = [](const Dims& dims) {
    Dims batch;
    for (int axis = 0; axis < dims.size() - 2; ++axis) batch.push_back(dims[axis]);
    return batch;
  };
  if (!broadcast_dims(batch_of(a), batch_of(b), result)) return false;
  if (a.size() > 1) result->push_back(a[a.size() - 2]);
  if (b.size() > 1) result->push_back(b[b.size() - 1]);
  return true;
}

/// a @ b by the rules of PyTorch's matmul, with operands of any rank from 1.
Status multiply_broadcast(const KernelCall& call, const TensorView& a, const TensorView& b, const TensorView& out,
                          int64_t cube_math_type) {
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, a, "self", 1, kMaxRank - 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, b, "mat2", 1, kMaxRank - 1));
  Dims dims;
  if (!product_dims(a.dims, b.dims, &dims) || !(dims == out.dims)) {
    return invalid(call, "the product of " + text_of(a.dims) + " and " + text_of(b.dims) + " does not have the shape " +
                             text_of(out.dims));
  }
  ProductViews views{a, b, out, {}};
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, cube_math_type, a.dtype, b.dtype, &views.rounding));
  if (b.dims.size() == 1) {
    views.b = unsqueeze(b, 1);
    views.out = unsqueeze(views.out, views.out.dims.size());
  }
  if (a.dims.size() == 1) {
    views.a = unsqueeze(a, 0);
    views.out = unsqueeze(views.out, views.out.dims.size() - 1);
  }
  broadcast_batch(&views.a, views.out);
  broadcast_batch(&views.b, views.out);
  return multiply_views(call, views);
}

/// out = beta * self + alpha * (a @ b) with self broadcast to out.
Status multiply_and_add(const KernelCall& call, const TensorView& self, const TensorView& a, const TensorView& b,
                        const TensorView& out, double beta, double alpha, int64_t cube_math_type) {
  ProductViews views{a, b, out, self, alpha, beta};
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, cube_math_type, a.dtype, b.dtype, &views.rounding));
  if (!broadcast_view(self, out.dims, &views.self)) {
    return invalid(call, "self " + text_of(self.dims) + " does not broadcast to " + text_of(out.dims));
  }
  return multiply_views(call, views);
}

/// Reorders the dimensions of a view; false if `order` is no permutation of them.
bool permute(std::span<const int64_t> order, TensorView* view) {
  const int rank = view->dims.size();
  if (order.size() != static_cast<size_t>(rank)) return false;
  const TensorView original = *view;
  uint64_t seen = 0;
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t from = order[static_cast<size_t>(axis)];
    if (from < 0 || from >= rank || (seen >> from & 1U) != 0) return false;
    seen |= uint64_t{1} << from;
    view->dims[axis] = original.dims[static_cast<int>(from)];
    view->strides[axis] = original.strides[static_cast<int>(from)];
  }
  return true;
}

double scalar_or(const TensorView& view, double absent) { return view.defined ? as_double(view) : absent; }

}  // namespace

/// (self, mat2) of 1 to 6 dimensions.
Status matmul(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  return multiply_broadcast(call, call.operand(0), call.operand(1), call.output(0), call.integer(0));
}

/// (x1, x2) of 2 to 6 dimensions, for the legacy operators: booleans 0 and 1 say which of them is transposed first.
Status matmul_of_transposes(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  std::array<TensorView, 2> factors{call.operand(0), call.operand(1)};
  for (int index = 0; index < 2; ++index) {
    TensorView& factor = factors[static_cast<size_t>(index)];
    DRYDOCK_RETURN_IF_ERROR(expect_rank(call, factor, index == 0 ? "x1" : "x2", 2, kMaxRank - 1));
    if (!call.boolean(index)) continue;
    const int rank = factor.dims.size();
    std::swap(factor.dims[rank - 2], factor.dims[rank - 1]);
    std::swap(factor.strides[rank - 2], factor.strides[rank - 1]);
  }
  return multiply_broadcast(call, factors[0], factors[1], call.output(0), 0);
}

/// (self, mat2) of two dimensions.
Status mm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(0), "self", 2, 2));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(1), "mat2", 2, 2));
  return matmul(call);
}

/// (self, mat2) of three dimensions; a batch of 1 is broadcast.
Status bmm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(0), "self", 3, 3));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(1), "mat2", 3, 3));
  return matmul(call);
}

/// (self, mat1, mat2, beta, alpha), also in place.
Status addmm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(1), "mat1", 2, 2));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(2), "mat2", 2, 2));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.output(0), "out", 2, 2));
  return multiply_and_add(call, call.operand(0), call.operand(1), call.operand(2), call.output(0),
                          scalar_or(call.operand(3), 1), scalar_or(call.operand(4), 1), call.integer(0));
}

/// (self, batch1, batch2, beta, alpha): one result for each batch.
Status baddbmm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  TensorView a = call.operand(1);
  TensorView b = call.operand(2);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, a, "batch1", 3, 3));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, b, "batch2", 3, 3));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, out, "out", 3, 3));
  if (!broadcast_batch(&a, out) || !broadcast_batch(&b, out)) {
    return invalid(
        call, "the batches of " + text_of(a.dims) + " and " + text_of(b.dims) + " do not fit " + text_of(out.dims));
  }
  return multiply_and_add(call, call.operand(0), a, b, out, scalar_or(call.operand(3), 1),
                          scalar_or(call.operand(4), 1), call.integer(0));
}

/// (self, batch1, batch2, beta, alpha): the sum of the products of all batches, which is one product along batch and
/// depth.
Status addbmm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView &a = call.operand(1), &b = call.operand(2), &out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, a, "batch1", 3, 3));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, b, "batch2", 3, 3));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, out, "out", 2, 2));
  if (a.dims[0] != b.dims[0] || a.dims[2] != b.dims[1]) {
    return invalid(call, "batches of " + text_of(a.dims) + " and " + text_of(b.dims) + " do not multiply");
  }
  // Batch beside depth, as the rows of one matrix and the columns of the other.
  std::vector<char> left_bytes(static_cast<size_t>(bytes_of(a.dtype, a.numel())));
  std::vector<char> right_bytes(static_cast<size_t>(bytes_of(b.dtype, b.numel())));
  TensorView left = contiguous_view(left_bytes.data(), a.dtype, Dims{a.dims[1], a.dims[0], a.dims[2]});
  TensorView right = contiguous_view(right_bytes.data(), b.dtype, b.dims);
  TensorView turned = a;
  std::swap(turned.dims[0], turned.dims[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  copy_view(left, turned);
  copy_view(right, b);
  const int64_t depth = a.dims[0] * a.dims[2];
  left = contiguous_view(left_bytes.data(), a.dtype, Dims{a.dims[1], depth});
  right = contiguous_view(right_bytes.data(), b.dtype, Dims{depth, b.dims[2]});
  return multiply_and_add(call, call.operand(0), left, right, out, scalar_or(call.operand(3), 1),
                          scalar_or(call.operand(4), 1), call.integer(0));
}

/// (x1, x2, bias, scale, permX1, permX2, permY, cubeMathType, batchSplitFactor): x1 and x2 [batch, m, k] and [batch, k,
/// n] after their permutations, the result [m, batch, n], or its columns in `batchSplitFactor` parts.
Status transposed_bmm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& out = call.output(0);
  if (call.operand(2).defined || call.operand(3).defined) {
    return not_computed(call, "a bias is reserved, and a scale (requantisation to int8) is not modelled");
  }
  std::array<TensorView, 2> factors{call.operand(0), call.operand(1)};
  for (int number = 0; number < 2; ++number) {
    TensorView& factor = factors[static_cast<size_t>(number)];
    DRYDOCK_RETURN_IF_ERROR(expect_rank(call, factor, number == 0 ? "x1" : "x2", 3, 3));
    if (!permute(call.ints(number), &factor)) return invalid(call, "permX1 and permX2 must be permutations of 0, 1, 2");
  }
  const auto& [a, b] = factors;
  const Dims result{a.dims[1], a.dims[0], b.dims[2]};
  const int64_t parts = std::max<int64_t>(1, call.integer(1));
  const int64_t columns = saturating_product(result[1], result[2]);
  const Dims split{parts, result[0], columns / parts};
  if (a.dims[0] != b.dims[0] || columns % parts != 0 || !(out.dims == (parts > 1 ? split : result))) {
    return invalid(call, "x1 " + text_of(a.dims) + " and x2 " + text_of(b.dims) + " in " + std::to_string(parts) +
                             " parts do not give " + text_of(out.dims));
  }
  ProductViews views{a, b, out, {}};
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, call.integer(0), a.dtype, b.dtype, &views.rounding));
  std::vector<char> bytes(parts > 1 ? static_cast<size_t>(bytes_of(out.dtype, out.numel())) : 0);
  if (parts > 1) views.out = contiguous_view(bytes.data(), out.dtype, result);
  std::swap(views.out.dims[0], views.out.dims[1]);
  std::swap(views.out.strides[0], views.out.strides[1]);
  DRYDOCK_RETURN_IF_ERROR(multiply_views(call, views));
  if (parts == 1) return Status::ok();
  // [m, batch * n] as [parts, m, batch * n / parts]
  TensorView parted = contiguous_view(bytes.data(), out.dtype, split);
  parted.strides = Dims{split[2], columns, 1};
  copy_view(out, parted);
  return Status::ok();
}

/// (self, mat, vec, alpha, beta)
Status addmv(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(1), "mat", 2, 2));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(2), "vec", 1, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.output(0), "out", 1, 1));
  TensorView self;
  if (!broadcast_view(call.operand(0), call.output(0).dims, &self)) {
    return invalid(call,
                   "self " + text_of(call.operand(0).dims) + " does not broadcast to " + text_of(call.output(0).dims));
  }
  return multiply_and_add(call, unsqueeze(self, 1), call.operand(1), unsqueeze(call.operand(2), 1),
                          unsqueeze(call.output(0), 1), scalar_or(call.operand(4), 1), scalar_or(call.operand(3), 1),
                          call.integer(0));
}

/// (self, vec1, vec2, beta, alpha): the outer product, added. Also in place.
Status addr(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(1), "vec1", 1, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(2), "vec2", 1, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.output(0), "out", 2, 2));
  return multiply_and_add(call, call.operand(0), unsqueeze(call.operand(1), 1), unsqueeze(call.operand(2), 0),
                          call.output(0), scalar_or(call.operand(3), 1), scalar_or(call.operand(4), 1), 0);
}

/// (self, vec)
Status mv(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(0), "self", 2, 2));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(1), "vec", 1, 1));
  return matmul(call);
}

/// (self, tensor) of one dimension each.
Status dot(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(0), "self", 1, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rank(call, call.operand(1), "tensor", 1, 1));
  return multiply_broadcast(call, call.operand(0), call.operand(1), call.output(0), 0);
}

}  // namespace drydock::ops::kernels
