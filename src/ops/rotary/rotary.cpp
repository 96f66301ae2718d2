#include "ops/rotary/rotary.h"

namespace drydock::ops::kernels::rotary {

Rotation::Rotation(Mode mode, int64_t width)
    : own_(static_cast<size_t>(width)), other_(own_.size()), sign_(own_.size()) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < width; ++i) {
    const size_t at = static_cast<size_t>(i);
    int64_t own = i;
    int64_t other = 0;
    bool first = true;  // of its pair
    switch (mode) {
      case Mode::kHalf:
        first = i < half;
        other = first ? i + half : i - half;
        break;
      case Mode::kInterleave:
        first = i % 2 == 0;
        other = first ? i + 1 : i - 1;
        break;
      case Mode::kQuarter: {
        const int64_t quarter = width / 4;
        first = (i / quarter) % 2 == 0;
        other = first ? i + quarter : i - quarter;
        break;
      }
      case Mode::kInterleaveHalf:
        first = i < half;
        own = first ? 2 * i : 2 * (i - half) + 1;
        other = first ? own + 1 : own - 1;
        break;
    }
    own_[at] = static_cast<int32_t>(own);
    other_[at] = static_cast<int32_t>(other);
    sign_[at] = first ? -1.0f : 1.0f;
  }
}

void Rotation::apply(const float* x, const float* cos, const float* sin, float* y) const {
  for (size_t i = 0; i < own_.size(); ++i) y[i] = x[own_[i]] * cos[i] + sign_[i] * x[other_[i]] * sin[i];
}

void Rotation::backward(const float* dy, const float* cos, const float* sin, float* dx) const {
  for (size_t i = 0; i < own_.size(); ++i) dx[own_[i]] = dy[i] * cos[i];
  for (size_t i = 0; i < own_.size(); ++i) dx[other_[i]] += sign_[i] * dy[i] * sin[i];
}

void Rotation::add_angle_gradients(const float* dy, const float* x, double* dcos, double* dsin) const {
  for (size_t i = 0; i < own_.size(); ++i) {
    dcos[i] += static_cast<double>(dy[i]) * x[own_[i]];
    dsin[i] += static_cast<double>(dy[i]) * sign_[i] * x[other_[i]];
  }
}

bool mode_of(int64_t number, Mode* mode) {
  if (number < 0 || number > static_cast<int64_t>(Mode::kInterleaveHalf)) return false;
  *mode = static_cast<Mode>(number);
  return true;
}

bool mode_of(std::string_view name, Mode* mode) {
  if (name.empty() || name == "half") {
    *mode = Mode::kHalf;
  } else if (name == "interleave") {
    *mode = Mode::kInterleave;
  } else if (name == "quarter") {
    *mode = Mode::kQuarter;
  } else {
    return false;
  }
  return true;
}

int64_t divisor_of(Mode mode) { return mode == Mode::kQuarter ? 4 : 2; }

}  // namespace drydock::ops::kernels::rotary
