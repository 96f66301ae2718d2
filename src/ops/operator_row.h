#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "ops/tensor.h"

// What one row of spec/operators.csv is at run time, and how a call of it is packed.

namespace drydock::ops {

enum class ArgKind : uint8_t {
  kTensor,
  kTensorList,
  kScalar,
  kScalarList,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kInt,     ///< any integer type, widened to int64
  kDouble,  ///< float or double
  kBool,
  kString,
  kDataType,  ///< aclDataType by value
  kPointer,   ///< anything else; kept, never read
};

enum class ArgDirection : uint8_t { kIn, kOut, kInOut };

struct ArgSpec {
  std::string_view name;  ///< as the vendor's manual names it
  ArgKind kind;
  ArgDirection direction;  ///< of tensors and tensor lists; kIn for the rest
  /// Of tensors: a bit for each DataType that the vendor's table for Atlas A3 lists (spec/dtypes.csv); 0 where it says
  /// nothing. The same for the number of dimensions.
  uint64_t dtypes = 0;
  uint8_t max_rank = 255;
};

/// One packed argument. Pointers are handles that the door has validated (or null where optional).
struct Arg {
  ArgKind kind = ArgKind::kPointer;
  union {
    Tensor* tensor;
    TensorList* tensors;
    const Scalar* scalar;
    const ScalarList* scalars;
    const IntArray* ints;
    const FloatArray* floats;
    const BoolArray* bools;
    int64_t integer;
    double number;
    bool boolean;
    const char* text;
    const void* pointer = nullptr;
  };
};

class KernelCall;

/// Computes one call on host memory. Inputs are readable, outputs writable, no thread rules.
using Kernel = Status (*)(KernelCall& call);

enum class OperatorClass : uint8_t {
  kModelled,  ///< has a kernel
  kGhost,     ///< shapes and record only; outputs hold no values
  kRefused,   ///< exported, but answers with the vendor's code and `reason`
  kAbsent,    ///< not exported
};

/// What a ghost result of this operator reads as, where ones (floating) and zeros (integral) would mislead.
enum class AssumedValue : uint8_t {
  kDefault,
  kZero,
  kOne,
  kBalancedIndex,
  kMiddleOfRange,  ///< of the call's first two numbers: a draw from a range
};

struct OperatorRow {
  std::string_view name;  ///< "aclnnAdd"
  OperatorClass operator_class;
  std::span<const ArgSpec> args;  ///< without workspaceSize and executor
  Kernel kernel;                  ///< null unless kModelled
  AssumedValue assumed;
  uint64_t workspace_bytes;  ///< constant part; 0 where no rule is known
  std::string_view reason;   ///< empty for kModelled
  /// The shape of an output depends on values: it is computed whatever it costs, else no shape is true. torch_npu then
  /// asks aclGetViewShape.
  bool shape_from_values = false;
};

/// All rows with a door, in the order of spec/operators.csv, and behind them the operators of the legacy route
/// (legacy_operator.h); a row's index is the operator's id in traces.
DRYDOCK_API std::span<const OperatorRow> operator_rows() noexcept;

}  // namespace drydock::ops
