#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_type.h"
#include "base/export.h"
#include "ops/operator_row.h"

// An operator call as bytes: operator, data types, shapes, layouts and scalar values, without addresses. Equal calls
// have equal bytes, so a trace holds each distinct call once (trace::intern_call).

namespace drydock::trace {

/// Encodes into `buffer`, of at least 16 bytes; no allocation. Arguments that no longer fit are left out and the call
/// is marked truncated. Returns the used part of `buffer`.
DRYDOCK_API std::span<const std::byte> encode_call(uint32_t operator_id, std::span<const ops::Arg> args,
                                                   std::span<std::byte> buffer) noexcept;

/// Encodes into a buffer of the calling thread (8 KiB: lists of about 500 tensors). Valid until the thread's next call.
DRYDOCK_API std::span<const std::byte> encode_call(uint32_t operator_id, std::span<const ops::Arg> args) noexcept;

struct CallTensor {
  bool defined = false;  ///< false for an absent optional tensor
  DataType dtype = DataType::kUndefined;
  int32_t format = 2;  ///< vendor's aclFormat; 2 = ND
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  ///< in elements; empty if the tensor is contiguous
  int64_t offset = 0;            ///< first element, in elements of the storage
};

struct CallScalar {
  bool defined = false;
  DataType dtype = DataType::kUndefined;
  std::complex<double> value;  ///< of floating and complex types
  int64_t integer = 0;         ///< of integral types; the bits of a complex32
};

struct CallArgument {
  ops::ArgKind kind = ops::ArgKind::kPointer;
  bool present = false;             ///< false for a null handle
  std::vector<CallTensor> tensors;  ///< one for kTensor
  std::vector<CallScalar> scalars;  ///< one for kScalar
  std::vector<int64_t> integers;    ///< kIntArray, kBoolArray; one for kInt, kBool, kDataType
  std::vector<double> numbers;      ///< kFloatArray; one for kDouble
  std::string text;                 ///< kString, cut at 255 bytes
};

struct Call {
  uint32_t operator_id = 0;
  bool truncated = false;  ///< arguments are missing at the end
  std::vector<CallArgument> arguments;
};

/// False if `encoded` is not an encoded call; `call` then holds what could be read.
DRYDOCK_API bool decode_call(std::span<const std::byte> encoded, Call& call);

/// The operator of an encoded call; 0xffffffff if `encoded` is too short to name one.
DRYDOCK_API uint32_t operator_of(std::span<const std::byte> encoded) noexcept;

struct SignatureArgument {
  std::string name;
  ops::ArgDirection direction = ops::ArgDirection::kIn;
};

/// Name and arguments of an operator, as the trace defines them.
struct Signature {
  std::string name;
  std::vector<SignatureArgument> arguments;
};

/// Text form of a row's signature: "aclnnAdd(self, other, alpha, >out)"; '>' marks outputs, '<>' what is read and
/// written.
DRYDOCK_API std::string signature_of(const ops::OperatorRow& row);
/// Inverse of signature_of. A text without parentheses is a name without arguments.
DRYDOCK_API Signature parse_signature(std::string_view text);

/// "bf16[2,3]", "{1, 2}".
DRYDOCK_API std::string print_argument(const CallArgument& argument);
/// "aclnnAdd(self=bf16[2,3], other=bf16[3], alpha=1, >out=bf16[2,3])". Strides as "bf16[2,3;1,2]", offsets "+8".
DRYDOCK_API std::string print_call(const Call& call, const Signature& signature);

}  // namespace drydock::trace
