#pragma once

#include <cstdint>
#include <string_view>

#include "device/profile.h"
#include "trace/call_encoding.h"

// What an operator call would take on a device that did nothing but move its tensors once, or multiply, at the peak
// rates of its profile: the roofline. Real kernels take longer; nothing is fitted here.

namespace drydock::cost {

enum class Unit : uint8_t { kVector, kCube };

struct Roofline {
  /// False where the call's tensors or the size of its matrix product are not known, or the profile lacks a rate.
  bool is_known = false;
  Unit unit = Unit::kVector;
  uint64_t bytes = 0;       ///< of the tensors read and written, once each; elements that a view repeats count once
  uint64_t cube_flops = 0;  ///< multiplications and additions of matrix products; 0 where nothing tells them
  double memory_ns = 0;
  double cube_ns = 0;
  double device_ns() const { return memory_ns > cube_ns ? memory_ns : cube_ns; }
};

/// Pure: the same call and profile give the same numbers. `signature`: of the operator (trace::parse_signature).
/// Matrix products are told by the operator's name: products of two matrices or batches of them, grouped ones,
/// convolutions, and attention whose layout is known; others (sparse, quantised with packed weights) are not known.
Roofline roofline_of(const trace::Call& call, const trace::Signature& signature, const device::Profile& profile);

}  // namespace drydock::cost
