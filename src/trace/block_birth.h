#pragma once

#include <cstdint>
#include <string_view>

#include "base/export.h"
#include "trace/recorder.h"

// What the trace is told about what blocks are for, beside recorder.h; the same promises hold.

namespace drydock::trace {

/// Where a thread is in the program's model when it asks for memory.
struct Birth {
  /// Address of the innermost torch.nn.Module whose forward runs, or, in a backward pass, of the one whose forward made
  /// the autograd node that runs; 0 = none, or not known.
  uint64_t module_object = 0;
  bool gradients_are_recorded = false;  ///< autograd keeps what a backward pass will need
};
/// Of the calling thread. Takes no lock of the interpreter's; modules are unknown where lines are.
DRYDOCK_API Birth current_birth() noexcept;

/// What the program does, as its own events tell: backward() and optimizer steps. Forward passes have no mark of their
/// own: they are where modules run and neither of the others does.
/// kExit: the interpreter ends; what is freed from here on was held to the end.
enum class Phase : uint8_t { kOther = 0, kBackward = 1, kOptimizer = 2, kExit = 3 };
DRYDOCK_API void phase_began(Phase phase) noexcept;
/// `object` is the address of a torch.nn.Module, `name` its path in the model.
DRYDOCK_API void module_named(uint64_t object, std::string_view name) noexcept;
/// A process that records nothing else has no trace, and what it says of phases and modules begins none.
DRYDOCK_API bool has_begun() noexcept;
/// Objects that blocks were born under and that have no name yet.
DRYDOCK_API uint32_t modules_without_name() noexcept;

/// What torch's own objects say that a block is.
enum class Label : uint8_t { kParameter = 0, kGradient = 1, kOptimizerState = 2, kBuffer = 3 };
/// The block at `address` is the storage, of `storage_bytes`, of the object `name`. Nothing happens for host memory.
DRYDOCK_API void block_labelled(Label label, uint64_t address, uint64_t storage_bytes, StringId name) noexcept;

}  // namespace drydock::trace
