#pragma once

#include <cstdint>

namespace drydock::ops::kernels {

/// to[p * width + i] = line_at(i)[p], four by four through registers. `line_at` gives the start of a line.
template <class T, class LineAt>
void transpose(LineAt line_at, int64_t lines, int64_t depth, int width, T* to) {
  using Four [[gnu::vector_size(4 * sizeof(T)), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
  int64_t line = 0;
  for (; line + 4 <= lines; line += 4) {
    const T* r0 = line_at(line);
    const T* r1 = line_at(line + 1);
    const T* r2 = line_at(line + 2);
    const T* r3 = line_at(line + 3);
    T* out = to + line;
    int64_t p = 0;
    for (; p + 4 <= depth; p += 4) {
      const Four v0 = *reinterpret_cast<const Four*>(r0 + p);
      const Four v1 = *reinterpret_cast<const Four*>(r1 + p);
      const Four v2 = *reinterpret_cast<const Four*>(r2 + p);
      const Four v3 = *reinterpret_cast<const Four*>(r3 + p);
      const Four low01 = __builtin_shufflevector(v0, v1, 0, 4, 1, 5);
      const Four high01 = __builtin_shufflevector(v0, v1, 2, 6, 3, 7);
      const Four low23 = __builtin_shufflevector(v2, v3, 0, 4, 1, 5);
      const Four high23 = __builtin_shufflevector(v2, v3, 2, 6, 3, 7);
      *reinterpret_cast<Four*>(out + p * width) = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(out + (p + 1) * width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      *reinterpret_cast<Four*>(out + (p + 2) * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(out + (p + 3) * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
    for (; p < depth; ++p) {
      out[p * width] = r0[p];
      out[p * width + 1] = r1[p];
      out[p * width + 2] = r2[p];
      out[p * width + 3] = r3[p];
    }
  }
  for (; line < lines; ++line) {
    const T* from = line_at(line);
    for (int64_t p = 0; p < depth; ++p) to[p * width + line] = from[p];
  }
}

/// Lines that lie `stride` elements apart.
template <class T>
auto strided_lines(const T* from, int64_t stride) {
  return [from, stride](int64_t line) { return from + line * stride; };
}

}  // namespace drydock::ops::kernels
