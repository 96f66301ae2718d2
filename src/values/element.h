#pragma once

#include "base/data_type.h"

namespace drydock::values {

/// Writes `value` as one element of `dtype` to `element` (at least 16 bytes): rounded to nearest even for the 16-bit
/// floats, truncated for integers, the real part of complex types. The 8-bit floats take 0 and 1 only (else 1); types
/// of less than a byte are left alone.
void put_element(unsigned char* element, DataType dtype, double value) noexcept;

}  // namespace drydock::values
