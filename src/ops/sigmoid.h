#pragma once

#include <cmath>

// The sigmoid by the library's exponential, for kernels whose loops are not bound by it; base/vector_math.h has the
// vectorised one.

namespace drydock::ops::kernels {

inline float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace drydock::ops::kernels
