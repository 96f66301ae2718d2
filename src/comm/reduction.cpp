#include "comm/reduction.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/element_types.h"

namespace drydock::comm {
namespace {

template <class Element>
using Accumulator =
    std::conditional_t<std::is_same_v<Element, Float16> || std::is_same_v<Element, BFloat16>, float, Element>;

template <class Element, class Visit>
void as(Visit&& visit) {
  visit(Element{});
}

/// Calls `visit` with a value of the element type. `check_reduction` let no other type through.
template <class Visit>
void with_element(HcclType type, Visit&& visit) noexcept {
  switch (type) {
    case HcclType::kInt8: return as<int8_t>(visit);
    case HcclType::kInt16: return as<int16_t>(visit);
    case HcclType::kInt32: return as<int32_t>(visit);
    case HcclType::kInt64: return as<int64_t>(visit);
    case HcclType::kFloat16: return as<Float16>(visit);
    case HcclType::kBFloat16: return as<BFloat16>(visit);
    case HcclType::kFloat32: return as<float>(visit);
    default: return;
  }
}

template <class Element>
Accumulator<Element> loaded(Element element) {
  if constexpr (std::is_same_v<Element, Accumulator<Element>>) {
    return element;
  } else {
    return float_of(element);
  }
}

template <class T>
T sum(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wrapping>(static_cast<Wrapping>(left) + static_cast<Wrapping>(right)));
  } else {
    return left + right;
  }
}

template <class T>
T product(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    // In 64 bits, because two 16-bit factors would be multiplied as int and overflow.
    return static_cast<T>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
  } else {
    return left * right;
  }
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

template <class T>
T largest(T left, T right) {
  return is_nan(left) || left > right ? left : right;
}

template <class T>
T smallest(T left, T right) {
  return is_nan(left) || left < right ? left : right;
}

// The code generator makes a variant for each level of x86-64. None of them contracts a sum: results are the same.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DRYDOCK_PER_HOST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DRYDOCK_PER_HOST
#endif

// What training adds up most of all.
DRYDOCK_PER_HOST void add_floats(float* into, const float* elements, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) into[i] += elements[i];
}
DRYDOCK_PER_HOST void add_bfloats(float* into, const BFloat16* elements, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) into[i] += float_of(elements[i]);
}

template <class Element, class Combine>
void fold(Accumulator<Element>* into, const Element* elements, uint64_t count, Combine combine) {
  for (uint64_t i = 0; i < count; ++i) into[i] = combine(into[i], loaded(elements[i]));
}

}  // namespace

void Reduction::begin(const void* elements, uint64_t count) noexcept {
  with_element(type_, [&](auto element) {
    using Element = decltype(element);
    auto* into = static_cast<Accumulator<Element>*>(accumulator_);
    const auto* from = static_cast<const Element*>(elements);
    if constexpr (std::is_same_v<Element, Accumulator<Element>>) {
      std::memcpy(into, from, count * sizeof(Element));
    } else {
      for (uint64_t i = 0; i < count; ++i) into[i] = loaded(from[i]);
    }
  });
}

void Reduction::add(const void* elements, uint64_t count) noexcept {
  with_element(type_, [&](auto element) {
    using Element = decltype(element);
    using Value = Accumulator<Element>;
    auto* into = static_cast<Value*>(accumulator_);
    const auto* from = static_cast<const Element*>(elements);
    if constexpr (std::is_same_v<Element, float>) {
      if (op_ == ReduceOp::kSum) return add_floats(into, from, count);
    } else if constexpr (std::is_same_v<Element, BFloat16>) {
      if (op_ == ReduceOp::kSum) return add_bfloats(into, from, count);
    }
    switch (op_) {
      case ReduceOp::kSum: return fold(into, from, count, [](Value a, Value b) { return sum(a, b); });
      case ReduceOp::kProd: return fold(into, from, count, [](Value a, Value b) { return product(a, b); });
      case ReduceOp::kMax: return fold(into, from, count, [](Value a, Value b) { return largest(a, b); });
      case ReduceOp::kMin: return fold(into, from, count, [](Value a, Value b) { return smallest(a, b); });
    }
  });
}

void Reduction::end(void* result, uint64_t count) const noexcept {
  with_element(type_, [&](auto element) {
    using Element = decltype(element);
    const auto* from = static_cast<const Accumulator<Element>*>(accumulator_);
    auto* to = static_cast<Element*>(result);
    if constexpr (std::is_same_v<Element, Accumulator<Element>>) {
      std::memcpy(to, from, count * sizeof(Element));
    } else {
      for (uint64_t i = 0; i < count; ++i) to[i] = to_element<Element>(from[i]);
    }
  });
}

}  // namespace drydock::comm
