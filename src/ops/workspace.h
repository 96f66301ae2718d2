#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/export.h"
#include "ops/operator_row.h"
#include "trace/workspace_basis.h"

// How much workspace a call asks for: the rows of spec/workspace.csv, compiled by tools/generate into functions of the
// call's shapes, element types and attributes, and the composition that the vendor's host code makes of the parts.

namespace drydock::ops {

class WorkspaceCall;

/// How an operator's host code adds its parts up.
enum class WorkspacePath : uint8_t {
  /// Hand-written host code around several kernels: every part is padded (WorkspaceCall::align), and they lie side by
  /// side.
  kComposite,
  /// Generated host code around one kernel: the kernel's own size as it is, copies padded.
  kIndividual,
};

/// Which views have to be copied to lie densely before a kernel can take them.
enum class WorkspaceCopies : uint8_t {
  kNone,
  kInputs,            ///< every input that is not contiguous
  kInputsAndOutputs,  ///< and every output: the result is kept until it is written through the view
  kMatrices,          ///< as kInputsAndOutputs, but a transposed matrix is taken as it is
};

/// One row of spec/workspace.csv for one operator.
struct WorkspaceRule {
  bool (*applies)(const WorkspaceCall& call);  ///< null: always
  bool has_kernel_part;                        ///< false: the kernel has no workspace at all, not even one of 0 bytes
  int64_t kernel_constant;
  int64_t (*kernel)(const WorkspaceCall& call);       ///< null: nothing beyond the constant
  int64_t (*temporaries)(const WorkspaceCall& call);  ///< tensors between kernels, padding included; null: none
  int64_t (*upper)(const WorkspaceCall& call);        ///< the whole size in mode upper; null: the same as the rule
  WorkspacePath path;
  WorkspaceCopies copies;
  trace::WorkspaceBasis basis;
  std::string_view text;  ///< "16MiB + 256 bytes", for people
};

/// The rows of an operator in order: the first that applies counts. By index into operator_rows().
DRYDOCK_API std::span<const WorkspaceRule> workspace_rules(uint32_t operator_index) noexcept;

/// What sizes depend on besides the call.
struct WorkspaceMachine {
  int64_t cube_cores = 24;
  int64_t vector_cores = 48;
  int64_t system_bytes = int64_t{16} << 20;  ///< of every AscendC kernel on 910B and 910C
};

enum class WorkspaceMode : uint8_t { kNone, kRules, kUpper };

struct WorkspaceNeed {
  uint64_t bytes = 0;         ///< what GetWorkspaceSize answers
  uint64_t kernel_bytes = 0;  ///< the kernel's own part, before padding
  trace::WorkspaceBasis basis = trace::WorkspaceBasis::kAssumed;
};

/// `args` in signature order, of live objects. Thread-safe.
DRYDOCK_API WorkspaceNeed workspace_of(uint32_t operator_index, std::span<const Arg> args, WorkspaceMode mode,
                                       const WorkspaceMachine& machine) noexcept;

/// The same, with the mode that DRYDOCK_WORKSPACE asks for (rules where it does not) and the profile's machine, both
/// read at the first call.
WorkspaceNeed workspace_of(uint32_t operator_index, std::span<const Arg> args) noexcept;

}  // namespace drydock::ops
