#include <cmath>

#include "ops/complex/complex.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Comparisons, logic, bits and classification of elements.

namespace drydock::ops::kernels {
namespace {

/// Comparisons take any operands, logic takes each as true or false.
template <class Op>
Status compare(KernelCall& call, Op op) {
  return apply<2>(call, Domain::kCompared, [op]<class C>(C a, C b) { return static_cast<C>(op(a, b)); });
}

template <class Op>
Status logic(KernelCall& call, Op op) {
  return apply<2>(call, Domain::kAny, [op]<class C>(C a, C b) { return static_cast<C>(op(a != C(0), b != C(0))); });
}

/// Bit operations on integers; bool computes on 0 and 1. Floating operands are refused.
template <class Op>
Status bits(KernelCall& call, Op op) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const std::array<Operand, 2> operands = {operand_of(call, 0), operand_of(call, 1)};
  if (is_floating(result_type(operands))) return invalid(call, "bit operations need integer or bool arguments");
  return apply<2>(call, Domain::kAny, [op]<class C>(C a, C b) -> C {
    if constexpr (std::is_integral_v<C>)
      return op(a, b);
    else
      return C(0);
  });
}

template <class Op>
Status classify(KernelCall& call, Op op) {
  return apply<1>(call, Domain::kAny, [op]<class C>(C value) -> C {
    if constexpr (std::is_floating_point_v<C>)
      return op(value) ? C(1) : C(0);
    else
      return op(0.0) ? C(1) : C(0);  // every integer is finite, no integer is NaN or infinite
  });
}

}  // namespace

Status equal_to(KernelCall& call) {
  if (has_complex(call)) return complex_equal(call);
  return compare(call, [](auto a, auto b) { return a == b; });
}
Status not_equal_to(KernelCall& call) {
  if (has_complex(call)) return complex_not_equal(call);
  return compare(call, [](auto a, auto b) { return a != b; });
}
Status less(KernelCall& call) {
  return compare(call, [](auto a, auto b) { return a < b; });
}
Status less_equal(KernelCall& call) {
  return compare(call, [](auto a, auto b) { return a <= b; });
}
Status greater(KernelCall& call) {
  return compare(call, [](auto a, auto b) { return a > b; });
}
Status greater_equal(KernelCall& call) {
  return compare(call, [](auto a, auto b) { return a >= b; });
}

Status logical_and(KernelCall& call) {
  if (has_complex(call)) return complex_logical_and(call);
  return logic(call, [](bool a, bool b) { return a && b; });
}
Status logical_or(KernelCall& call) {
  if (has_complex(call)) return complex_logical_or(call);
  return logic(call, [](bool a, bool b) { return a || b; });
}
Status logical_xor(KernelCall& call) {
  if (has_complex(call)) return complex_logical_xor(call);
  return logic(call, [](bool a, bool b) { return a != b; });
}
Status logical_not(KernelCall& call) {
  if (has_complex(call)) return complex_logical_not(call);
  return apply<1>(call, Domain::kAny, []<class C>(C value) { return value == C(0) ? C(1) : C(0); });
}

Status bitwise_and(KernelCall& call) {
  return bits(call, [](auto a, auto b) { return a & b; });
}
Status bitwise_or(KernelCall& call) {
  return bits(call, [](auto a, auto b) { return a | b; });
}
Status bitwise_xor(KernelCall& call) {
  return bits(call, [](auto a, auto b) { return a ^ b; });
}

Status bitwise_not(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const DataType type = call.operand(0).dtype;
  if (is_floating(type)) return invalid(call, "bit operations need integer or bool arguments");
  if (type == DataType::kBool) return logical_not(call);
  return apply<1>(call, Domain::kAny, []<class C>(C value) -> C {
    if constexpr (std::is_integral_v<C>)
      return static_cast<C>(~value);
    else
      return value;
  });
}

Status shift_left(KernelCall& call) {
  return apply<2>(call, Domain::kAny, []<class C>(C value, C count) -> C {
    if constexpr (std::is_integral_v<C>) {
      if (count < 0 || count >= 64) return 0;
      return static_cast<C>(static_cast<uint64_t>(value) << count);
    } else {
      return std::ldexp(value, static_cast<int>(count));
    }
  });
}

Status shift_right(KernelCall& call) {
  return apply<2>(call, Domain::kAny, []<class C>(C value, C count) -> C {
    if constexpr (std::is_integral_v<C>) {
      if (count < 0 || count >= 64) return value < 0 ? static_cast<C>(-1) : C(0);
      return static_cast<C>(value >> count);
    } else {
      return std::ldexp(value, -static_cast<int>(count));
    }
  });
}

Status is_finite(KernelCall& call) {
  return classify(call, [](auto value) { return std::isfinite(value); });
}
Status is_positive_infinity(KernelCall& call) {
  return classify(call, [](auto value) { return std::isinf(value) && value > 0; });
}
Status is_negative_infinity(KernelCall& call) {
  return classify(call, [](auto value) { return std::isinf(value) && value < 0; });
}

Status signbit(KernelCall& call) {
  return apply<1>(call, Domain::kAny, []<class C>(C value) -> C {
    if constexpr (std::is_floating_point_v<C>)
      return std::signbit(value) ? C(1) : C(0);
    else
      return value < 0 ? C(1) : C(0);
  });
}

Status is_close(KernelCall& call) {
  const double relative = call.number(0);
  const double absolute = call.number(1);
  const bool equal_nan = call.boolean(0);
  return apply<2>(call, Domain::kCompared, [=]<class C>(C a, C b) -> C {
    if (a == b) return C(1);
    if (is_nan(a) || is_nan(b)) return equal_nan && is_nan(a) && is_nan(b) ? C(1) : C(0);
    const double allowed = absolute + std::abs(relative * static_cast<double>(b));
    const double difference = std::abs(static_cast<double>(a) - static_cast<double>(b));
    return std::isfinite(difference) && difference <= allowed ? C(1) : C(0);
  });
}

Status all_equal(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& a = call.operand(0);
  const TensorView& b = call.operand(1);
  bool equal = a.dims == b.dims;
  if (equal) {
    const std::array<Operand, 2> operands = {operand_of(call, 0), operand_of(call, 1)};
    const ComputeType compute = compute_type_of(result_type(operands));
    DRYDOCK_RETURN_IF_ERROR(with_compute_type(compute, [&]<class C>() {
      StridedWalk walk(a.dims);
      walk.add(a);
      walk.add(b);
      const Loader<C> load_a = loader_of<C>(a.dtype);
      const Loader<C> load_b = loader_of<C>(b.dtype);
      walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
        C buffer_a[kChunk];
        C buffer_b[kChunk];
        for (int64_t done = 0; done < count && equal; done += kChunk) {
          const int64_t length = std::min(kChunk, count - done);
          const C* values_a = load_a(pointers[0] + done * strides[0], strides[0], length, buffer_a);
          const C* values_b = load_b(pointers[1] + done * strides[1], strides[1], length, buffer_b);
          equal = std::equal(values_a, values_a + length, values_b);
        }
      });
      return Status::ok();
    }));
  }
  const int64_t answer = equal ? 1 : 0;
  TensorView truth = contiguous_view(const_cast<int64_t*>(&answer), DataType::kInt64, Dims());
  return fill_view(call.output(0), truth) ? Status::ok() : shapes_do_not_fit(call);
}

}  // namespace drydock::ops::kernels
