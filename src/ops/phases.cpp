#include "ops/phases.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "device/blocks.h"
#include "device/context.h"
#include "device/heap.h"
#include "device/stream.h"
#include "ops/deferred_call.h"
#include "ops/execute.h"
#include "ops/executor.h"
#include "ops/gate.h"
#include "ops/objects.h"
#include "ops/stream_uses.h"
#include "ops/workspace.h"
#include "races/stream_check.h"
#include "trace/call_encoding.h"
#include "trace/recorder.h"

namespace drydock::ops {
namespace {

Status missing(const OperatorRow& row, std::string_view what, std::string_view cure) {
  return Status::error(code::ACLNN_ERR_PARAM_NULLPTR, fmt::format("{}: {} is null. {}", row.name, what, cure));
}

bool is_live(const Arg& arg) {
  switch (arg.kind) {
    case ArgKind::kTensor: return objects().tensors.find(arg.tensor) != nullptr;
    case ArgKind::kTensorList: return objects().tensor_lists.find(arg.tensors) != nullptr;
    case ArgKind::kScalar: return objects().scalars.find(arg.scalar) != nullptr;
    case ArgKind::kScalarList: return objects().scalar_lists.find(arg.scalars) != nullptr;
    case ArgKind::kIntArray: return objects().int_arrays.find(arg.ints) != nullptr;
    case ArgKind::kFloatArray: return objects().float_arrays.find(arg.floats) != nullptr;
    case ArgKind::kBoolArray: return objects().bool_arrays.find(arg.bools) != nullptr;
    default: return true;
  }
}

// A list is as dead as its first dead element.
bool has_dead_element(const Arg& arg) {
  const auto any_dead = [](const auto& pool, const auto& elements) {
    return std::any_of(elements.begin(), elements.end(),
                       [&pool](const auto* element) { return element != nullptr && pool.find(element) == nullptr; });
  };
  if (arg.kind == ArgKind::kTensorList) return any_dead(objects().tensors, arg.tensors->tensors);
  if (arg.kind == ArgKind::kScalarList) return any_dead(objects().scalars, arg.scalars->scalars);
  return false;
}

bool is_handle(ArgKind kind) { return kind <= ArgKind::kBoolArray; }

// Optional arguments may be null (contract H9), and an empty list is passed as null; the manuals do not mark all of
// them. These names are never optional.
bool must_be_given(const ArgSpec& spec) {
  static constexpr std::array<std::string_view, 19> kRequired = {
      "self", "selfRef", "out",   "other",    "alpha",   "index",    "src",   "mat2",   "start",  "end",
      "step", "values",  "input", "exponent", "divisor", "dividend", "query", "source", "tensors"};
  if (spec.kind > ArgKind::kScalar) return false;
  return std::find(kRequired.begin(), kRequired.end(), spec.name) != kRequired.end();
}

Status check(const OperatorRow& row, std::span<const Arg> args) {
  for (size_t index = 0; index < args.size(); ++index) {
    const Arg& arg = args[index];
    if (!is_handle(arg.kind)) continue;
    if (arg.pointer == nullptr) {
      if (must_be_given(row.args[index])) {
        return missing(row, fmt::format("argument {}", row.args[index].name), "The operator can't work without it.");
      }
      continue;
    }
    if (!is_live(arg) || has_dead_element(arg)) {
      return Status::error(
          code::ACLNN_ERR_PARAM_INVALID,
          fmt::format(
              "{}: argument {} is not a live object of its kind, or holds one that is not (foreign or destroyed). "
              "Pass what aclCreate... returned, before aclDestroy... .",
              row.name, row.args[index].name));
    }
  }
  return Status::ok();
}

// torch_npu's own storage sizes are the sizes that were asked of its caching allocator: the first operator that sees
// a block tells how many bytes were requested for it.
void tell_requested(std::span<const Arg> args) {
  const auto tell = [](const Tensor* tensor) {
    if (tensor == nullptr || tensor->storage == nullptr) return;
    const auto address = reinterpret_cast<uint64_t>(tensor->storage);
    if (!device::take_unsized_block(address)) return;
    trace::block_requested(device::device_of(tensor->storage), address, static_cast<uint64_t>(tensor->storage_bytes()));
  };
  for (const Arg& arg : args) {
    if (arg.kind == ArgKind::kTensor) tell(arg.tensor);
    if (arg.kind == ArgKind::kTensorList && arg.tensors != nullptr) {
      for (const Tensor* tensor : arg.tensors->tensors) tell(tensor);
    }
  }
}

void tell_workspace(const Executor& executor, const void* workspace, uint64_t size_bytes, uint32_t stream) {
  const auto address = reinterpret_cast<uint64_t>(workspace);
  const int32_t owner = device::device_of(workspace);
  trace::workspace_given(owner, address,
                         {.size_bytes = size_bytes,
                          .call = executor.call(),
                          .line = executor.line(),
                          .stream = stream,
                          .basis = executor.workspace_basis()});
  if (device::take_unsized_block(address)) trace::block_requested(owner, address, size_bytes);
}

Status prepare(uint32_t operator_index, std::span<const Arg> args, uint64_t& workspace_size, void*& handle) {
  const OperatorRow& row = operator_rows()[operator_index];
  if (row.operator_class == OperatorClass::kRefused) {
    return Status::error(code::ACLNN_ERR_PARAM_INVALID, fmt::format("{} is refused: {}", row.name, row.reason));
  }
  DRYDOCK_RETURN_IF_ERROR(check(row, args));
  DRYDOCK_RETURN_IF_ERROR(check_gates(row, args));
  trace::CallId call = 0;
  trace::LineId line = 0;
  if (trace::enabled()) {
    call = trace::intern_call(trace::encode_call(operator_index, args));
    line = trace::current_line();
    tell_requested(args);
  }
  Executor* executor = executors().create(operator_index, args, call, line);
  if (executor == nullptr) {
    return Status::error(
        code::ACLNN_ERR_RUNTIME_ERROR,
        fmt::format("{}: more than a million executors are waiting for their second phase.", row.name));
  }
  const WorkspaceNeed need = workspace_of(operator_index, args);
  workspace_size = need.bytes;
  executor->set_workspace_basis(need.basis);
  trace::workspace_wanted({.size_bytes = need.bytes, .call = call, .line = line, .stream = 0, .basis = need.basis});
  handle = executor;
  return Status::ok();
}

Status submit(uint32_t operator_index, void* workspace, uint64_t workspace_size, void* handle, void* stream_handle) {
  const OperatorRow& row = operator_rows()[operator_index];
  Executor* executor = executors().find(handle);
  if (handle == nullptr) return missing(row, "the executor", "Call the first phase and use the executor it gives.");
  if (executor == nullptr || executor->operator_index() != operator_index) {
    return Status::error(
        code::ACLNN_ERR_PARAM_NULLPTR,
        fmt::format("{}: the executor is not one of this operator's first phase, or was used up by an earlier second "
                    "phase. Make it repeatable (aclSetAclOpExecutorRepeatable) to use it again.",
                    row.name));
  }
  struct Consume {
    Executor* executor;
    ~Consume() {
      if (!executor->repeatable()) executors().destroy(executor);
    }
  } consume{executor};
  if (workspace == nullptr && workspace_size > 0) {
    return missing(row, "the workspace", fmt::format("{} bytes were promised.", workspace_size));
  }
  if (!executor->objects_are_the_same()) {
    return Status::error(
        code::ACLNN_ERR_PARAM_INVALID,
        fmt::format("{}: an argument of the first phase (called at {}) was destroyed before the second. "
                    "Destroy tensors, scalars and lists after the second phase returned.",
                    row.name, trace::describe_line(executor->line())));
  }
  if (workspace_size > 0 && !device::is_allocated(workspace, workspace_size)) {
    return Status::error(code::ACLNN_ERR_PARAM_INVALID,
                         fmt::format("{}: the workspace of {} bytes is not device memory: {}.", row.name,
                                     workspace_size, device::describe_address(workspace)));
  }
  device::Stream* stream = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(row.name, stream_handle, stream));
  if (workspace_size > 0) tell_workspace(*executor, workspace, workspace_size, stream->id());
  if (races::is_on()) [[unlikely]]
    tell_stream_uses(*executor, workspace, workspace_size, *stream);
  // Wrong shapes and missing kernels are found while a call is computed, but the vendor finds them before it is
  // launched: they are this call's failure and no fault of the stream, which goes on.
  Status refused = Status::ok();
  DRYDOCK_RETURN_IF_ERROR(stream->submit_or_defer(
      [executor, stream, &refused]() -> Status {
        trace::Outcome outcome = trace::Outcome::kGhost;
        Status status = execute(*executor, outcome);
        if (status.code() == code::ACLNN_ERR_PARAM_INVALID ||
            status.code() == code::ACLNN_ERR_INNER_FIND_KERNEL_ERROR) {
          refused = std::move(status);
          return Status::ok();
        }
        trace::operator_launched(stream->device(), stream->id(), executor->call(), executor->line(), outcome);
        if (!status.is_ok()) record_fault(*executor, status);
        return status;
      },
      [executor, stream] { return std::make_unique<DeferredCall>(*executor, *stream); }));
  return refused;
}

int32_t report(uint32_t operator_index, const Status& failure) {
  trace::failed(trace::kFirstOperatorEntry + operator_index, failure.code(), failure.message(), trace::current_line());
  set_recent_error(failure.message());
  return failure.code();
}

// No exception leaves a phase: the doors are extern "C".
template <class Phase>
int32_t run_phase(uint32_t operator_index, Phase&& phase) noexcept {
  try {
    const Status status = phase();
    return status.is_ok() ? 0 : report(operator_index, status);
  } catch (const std::bad_alloc&) {
    set_recent_error("");
    return code::ACL_ERROR_BAD_ALLOC;
  } catch (const std::exception& error) {
    try {
      return report(operator_index, Status::error(code::ACLNN_ERR_INNER, error.what()));
    } catch (...) {
      return code::ACLNN_ERR_INNER;
    }
  }
}

}  // namespace

int32_t phase1(uint32_t operator_index, Arg* args, uint32_t count, uint64_t* workspace_size, void** executor) noexcept {
  return run_phase(operator_index, [&]() -> Status {
    const OperatorRow& row = operator_rows()[operator_index];
    if (workspace_size != nullptr) *workspace_size = 0;
    if (executor != nullptr) *executor = nullptr;
    if (workspace_size == nullptr) return missing(row, "workspaceSize", "Pass the address of a uint64_t.");
    if (executor == nullptr) return missing(row, "executor", "Pass the address of an aclOpExecutor pointer.");
    return prepare(operator_index, std::span<const Arg>(args, count), *workspace_size, *executor);
  });
}

int32_t phase2(uint32_t operator_index, void* workspace, uint64_t workspace_size, void* executor,
               void* stream) noexcept {
  return run_phase(operator_index,
                   [&]() -> Status { return submit(operator_index, workspace, workspace_size, executor, stream); });
}

}  // namespace drydock::ops
