#pragma once

#include "base/status.h"

// The kernels that rows of spec/operators.csv name (spec/kernels.csv says which). A kernel computes one call on host
// memory; it finds its operands by position, so that it serves every operator with the same meaning: tensor, scalar and
// in-place forms. It answers kNotComputed (kernel_access.h) before it wrote anything if it does not know the element
// types, and kParameterInvalid if shapes or index values are wrong; it never reads or writes outside a view.
// Kernels have no state and may run in any thread.

namespace drydock::ops {
class KernelCall;
}

namespace drydock::ops::kernels {

// Arithmetic of tensors and scalars, broadcast. Sums take alpha as a third operand. (elementwise_arithmetic.cpp)
Status add(KernelCall& call);
Status subtract(KernelCall& call);
Status reverse_subtract(KernelCall& call);
Status add_relu(KernelCall& call);
Status multiply(KernelCall& call);
Status divide(KernelCall& call);
Status divide_with_mode(KernelCall& call);
Status floor_divide(KernelCall& call);
Status remainder(KernelCall& call);
Status fmod(KernelCall& call);
Status pow(KernelCall& call);
Status atan2(KernelCall& call);
Status xlogy(KernelCall& call);
Status logaddexp(KernelCall& call);
Status logaddexp2(KernelCall& call);
Status gcd(KernelCall& call);
Status maximum(KernelCall& call);
Status minimum(KernelCall& call);
Status addcmul(KernelCall& call);
Status addcdiv(KernelCall& call);
Status lerp(KernelCall& call);

// Comparisons, logic, bits, classification. (elementwise_compare.cpp)
Status equal_to(KernelCall& call);
Status not_equal_to(KernelCall& call);
Status less(KernelCall& call);
Status less_equal(KernelCall& call);
Status greater(KernelCall& call);
Status greater_equal(KernelCall& call);
Status logical_and(KernelCall& call);
Status logical_or(KernelCall& call);
Status logical_xor(KernelCall& call);
Status logical_not(KernelCall& call);
Status bitwise_and(KernelCall& call);
Status bitwise_or(KernelCall& call);
Status bitwise_xor(KernelCall& call);
Status bitwise_not(KernelCall& call);
Status shift_left(KernelCall& call);
Status shift_right(KernelCall& call);
Status is_finite(KernelCall& call);
Status is_positive_infinity(KernelCall& call);
Status is_negative_infinity(KernelCall& call);
Status signbit(KernelCall& call);
Status is_close(KernelCall& call);
Status all_equal(KernelCall& call);

// Functions of one element. (elementwise_unary.cpp)
Status negate(KernelCall& call);
Status absolute(KernelCall& call);
Status sign(KernelCall& call);
Status relu(KernelCall& call);
Status ceil(KernelCall& call);
Status floor(KernelCall& call);
Status trunc(KernelCall& call);
Status round(KernelCall& call);
Status frac(KernelCall& call);
Status round_decimals(KernelCall& call);
Status nan_to_num(KernelCall& call);
Status sqrt(KernelCall& call);
Status rsqrt(KernelCall& call);
Status reciprocal(KernelCall& call);
Status exp(KernelCall& call);
Status exp2(KernelCall& call);
Status expm1(KernelCall& call);
Status log(KernelCall& call);
Status log2(KernelCall& call);
Status log10(KernelCall& call);
Status log1p(KernelCall& call);
Status sin(KernelCall& call);
Status cos(KernelCall& call);
Status tan(KernelCall& call);
Status asin(KernelCall& call);
Status acos(KernelCall& call);
Status atan(KernelCall& call);
Status sinh(KernelCall& call);
Status cosh(KernelCall& call);
Status tanh(KernelCall& call);
Status asinh(KernelCall& call);
Status acosh(KernelCall& call);
Status atanh(KernelCall& call);
Status erf(KernelCall& call);
Status erfc(KernelCall& call);
Status sinc(KernelCall& call);

// Activation functions; scalar parameters are further operands. (elementwise_activation.cpp)
Status sigmoid(KernelCall& call);
Status silu(KernelCall& call);
Status mish(KernelCall& call);
Status log_sigmoid(KernelCall& call);
Status hardsigmoid(KernelCall& call);
Status hardswish(KernelCall& call);
Status log_sigmoid_forward(KernelCall& call);
Status gelu(KernelCall& call);
Status gelu_with_approximation(KernelCall& call);
Status leaky_relu(KernelCall& call);
Status elu(KernelCall& call);
Status celu(KernelCall& call);
Status softplus(KernelCall& call);
Status softshrink(KernelCall& call);
Status hardshrink(KernelCall& call);
Status threshold(KernelCall& call);

// Choices between elements. (elementwise_select.cpp)
Status clamp(KernelCall& call);
Status clamp_min(KernelCall& call);
Status clamp_max(KernelCall& call);
Status where(KernelCall& call);
Status masked_fill(KernelCall& call);
Status masked_scale(KernelCall& call);

// Copies, conversions, joining, splitting. (copy.cpp)
Status copy(KernelCall& call);
Status concatenate(KernelCall& call);
Status stack(KernelCall& call);
Status split_with_size(KernelCall& call);
Status chunk_cat(KernelCall& call);

// Rearrangements. (copy_layout.cpp)
Status flip(KernelCall& call);
Status roll(KernelCall& call);
Status repeat(KernelCall& call);
Status constant_pad(KernelCall& call);
Status confusion_transpose(KernelCall& call);
Status strided_slice(KernelCall& call);
Status repeat_interleave(KernelCall& call);
Status repeat_interleave_with_dim(KernelCall& call);
Status repeat_interleave_int(KernelCall& call);
Status repeat_interleave_int_with_dim(KernelCall& call);
Status repeat_interleave_indices(KernelCall& call);

// Tensors made from numbers. (fill.cpp)
Status fill_zero(KernelCall& call);
Status fill_one(KernelCall& call);
Status fill(KernelCall& call);
Status fill_diagonal(KernelCall& call);
Status arange(KernelCall& call);
Status linspace(KernelCall& call);
Status logspace(KernelCall& call);
Status eye(KernelCall& call);
Status tril(KernelCall& call);
Status triu(KernelCall& call);
Status one_hot(KernelCall& call);

// Random integers, permutations, draws (Philox; not the values of a real device). (random.cpp)
Status random_between(KernelCall& call);
Status random_between_seeded_by_tensors(KernelCall& call);
Status random_natural(KernelCall& call);
Status random_natural_seeded_by_tensors(KernelCall& call);
Status randperm(KernelCall& call);
Status bernoulli(KernelCall& call);
Status multinomial(KernelCall& call);
Status multinomial_seeded_by_tensors(KernelCall& call);

// Reductions over the dims of the first int array (none or empty: all), over one dim, or over everything. (reduce.cpp)
Status reduce_sum(KernelCall& call);
Status reduce_nansum(KernelCall& call);
Status mean(KernelCall& call);
Status product(KernelCall& call);
Status product_dim(KernelCall& call);
Status reduce_all(KernelCall& call);
Status reduce_any(KernelCall& call);
Status norm(KernelCall& call);
Status logsumexp(KernelCall& call);
Status softmax(KernelCall& call);
Status log_softmax(KernelCall& call);
Status standard_deviation(KernelCall& call);
Status variance(KernelCall& call);
Status trace(KernelCall& call);

// Extrema, and where they are. (reduce_extremum.cpp)
Status max_all(KernelCall& call);
Status min_all(KernelCall& call);
Status amax(KernelCall& call);
Status amin(KernelCall& call);
Status max_dim(KernelCall& call);
Status min_dim(KernelCall& call);
Status argmax(KernelCall& call);
Status argmin(KernelCall& call);
Status aminmax_all(KernelCall& call);
Status aminmax(KernelCall& call);
Status aminmax_dim(KernelCall& call);

// Running results along one dimension. (scan.cpp)
Status cumsum(KernelCall& call);
Status cumprod(KernelCall& call);
Status cummax(KernelCall& call);
Status cummin(KernelCall& call);

// Sorting and selection by rank. (sort.cpp)
Status sort(KernelCall& call);
Status topk(KernelCall& call);
Status kthvalue(KernelCall& call);
Status median(KernelCall& call);
Status nanmedian(KernelCall& call);
Status median_dim(KernelCall& call);
Status nanmedian_dim(KernelCall& call);

// Places in sequences, sets and bins. (search.cpp)
Status searchsorted(KernelCall& call);
Status bucketize(KernelCall& call);
Status is_in(KernelCall& call);
Status bincount(KernelCall& call);
Status histc(KernelCall& call);

// Operators whose output shape depends on values. (unique.cpp)
Status unique(KernelCall& call);
Status unique2(KernelCall& call);
Status unique_consecutive(KernelCall& call);
Status unique_dim(KernelCall& call);
Status nonzero_rows(KernelCall& call);
Status nonzero_columns(KernelCall& call);
Status masked_select(KernelCall& call);

// Reads at given places. (index.cpp)
Status index_select(KernelCall& call);
Status gather_slices(KernelCall& call);
Status embedding(KernelCall& call);
Status gather(KernelCall& call);
Status take(KernelCall& call);

// Writes at given places along one dimension. (index_scatter.cpp)
Status scatter(KernelCall& call);
Status scatter_add(KernelCall& call);
Status scatter_reduce(KernelCall& call);
Status scatter_value(KernelCall& call);
Status index_add(KernelCall& call);
Status index_fill(KernelCall& call);
Status index_fill_array(KernelCall& call);
Status index_copy(KernelCall& call);

// Indexing by several tensors, masks, flat numbers or tuples. (index_tensors.cpp)
Status index(KernelCall& call);
Status index_put(KernelCall& call);
Status put(KernelCall& call);
Status masked_scatter(KernelCall& call);
Status scatter_nd_update(KernelCall& call);
Status scatter_update(KernelCall& call);

// Lists of tensors, and mixed-precision training. (foreach.cpp)
Status foreach_add_scalar(KernelCall& call);
Status foreach_sub_scalar(KernelCall& call);
Status foreach_mul_scalar(KernelCall& call);
Status foreach_div_scalar(KernelCall& call);
Status foreach_maximum_scalar(KernelCall& call);
Status foreach_minimum_scalar(KernelCall& call);
Status foreach_add_scalar_list(KernelCall& call);
Status foreach_sub_scalar_list(KernelCall& call);
Status foreach_mul_scalar_list(KernelCall& call);
Status foreach_div_scalar_list(KernelCall& call);
Status foreach_add_list(KernelCall& call);
Status foreach_sub_list(KernelCall& call);
Status foreach_mul_list(KernelCall& call);
Status foreach_div_list(KernelCall& call);
Status foreach_copy(KernelCall& call);
Status foreach_neg(KernelCall& call);
Status foreach_abs(KernelCall& call);
Status foreach_sqrt(KernelCall& call);
Status foreach_zero(KernelCall& call);
Status foreach_non_finite_check_and_unscale(KernelCall& call);
Status amp_update_scale(KernelCall& call);

}  // namespace drydock::ops::kernels
