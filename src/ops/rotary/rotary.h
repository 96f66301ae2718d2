#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/kernel_access.h"

// Rotation of pairs of elements, by which attention knows positions.

namespace drydock::ops::kernels::rotary {

enum class Mode : int64_t { kHalf = 0, kInterleave = 1, kQuarter = 2, kInterleaveHalf = 3 };

/// Which elements make up each result: y[i] = x[own[i]] * cos[i] + sign[i] * x[other[i]] * sin[i].
class Rotation {
 public:
  Rotation(Mode mode, int64_t width);

  int64_t width() const { return static_cast<int64_t>(own_.size()); }
  void apply(const float* x, const float* cos, const float* sin, float* y) const;
  /// The gradient of x, from that of y.
  void backward(const float* dy, const float* cos, const float* sin, float* dx) const;
  /// Adds to the gradients of cos and sin.
  void add_angle_gradients(const float* dy, const float* x, double* dcos, double* dsin) const;

 private:
  std::vector<int32_t> own_, other_;
  std::vector<float> sign_;
};

/// False if there is no such mode; the name is that of the operators' text arguments, empty for half.
bool mode_of(int64_t number, Mode* mode);
bool mode_of(std::string_view name, Mode* mode);
/// Elements that a mode needs a multiple of.
int64_t divisor_of(Mode mode);

}  // namespace drydock::ops::kernels::rotary
