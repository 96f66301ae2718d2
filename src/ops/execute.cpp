#include "ops/execute.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/address_space.h"
#include "device/heap.h"
#include "ops/complex/complex.h"
#include "ops/format/plain_views.h"
#include "ops/kernel_call.h"
#include "ops/run_kernel.h"
#include "values/element.h"
#include "values/extents.h"
#include "values/policy.h"
#include "values/view.h"

namespace drydock::ops {
namespace {

using values::Knowledge;

// A shape that depends on ghosts is not worth writing this much made-up memory for.
constexpr uint64_t kMostAssumedBytes = uint64_t{64} << 20;
// Elements that an operator may walk in `auto`: a small result of a huge operand is not worth seconds. Operands with
// ghosts are all alike, so their results are made up without the walk much earlier.
constexpr int64_t kMostKnownElements = int64_t{1} << 27;
constexpr int64_t kMostGhostElements = int64_t{1} << 20;

// What the decision needs to know of a call's tensors.
struct Survey {
  Knowledge inputs = Knowledge::kKnown;
  uint64_t output_bytes = 0;
  int64_t largest_input = 0;  ///< elements, broadcast ones counted
  bool any_private_format = false;
  bool any_misaligned = false;  ///< elements at an address that is no multiple of their size
  bool any_integral_output = false;
  bool any_floating_output = false;
};

template <class Visit>
Status for_each_tensor(Executor& executor, Visit visit) {
  const auto specs = executor.row().args;
  const auto args = executor.args();
  for (size_t index = 0; index < args.size(); ++index) {
    const Arg& arg = args[index];
    if (arg.kind == ArgKind::kTensor && arg.tensor != nullptr) {
      DRYDOCK_RETURN_IF_ERROR(visit(specs[index], *arg.tensor));
    } else if (arg.kind == ArgKind::kTensorList && arg.tensors != nullptr) {
      for (Tensor* tensor : arg.tensors->tensors) {
        if (tensor != nullptr) DRYDOCK_RETURN_IF_ERROR(visit(specs[index], *tensor));
      }
    }
  }
  return Status::ok();
}

bool is_input(const ArgSpec& spec) { return spec.direction != ArgDirection::kOut; }
bool is_output(const ArgSpec& spec) { return spec.direction != ArgDirection::kIn; }

Knowledge knowledge_of(const Tensor& tensor) {
  // With everything computed, memory that nobody wrote holds what it holds, as on hardware.
  if (values::policy().mode == values::Mode::kFull) return Knowledge::kKnown;
  // Without tracking (the null device of the benchmarks) integers pass for known: they decide shapes.
  if (!values::policy().tracked) return is_integral(tensor.dtype) ? Knowledge::kKnown : Knowledge::kGhost;
  return values::knowledge_of_view(tensor);
}

uint64_t alignment_of(DataType dtype) {
  const auto bytes = static_cast<uint64_t>(bits_of(dtype) / 8);
  return kernels::is_complex_type(dtype) ? bytes / 2 : std::max<uint64_t>(bytes, 1);
}

Status survey(Executor& executor, Survey& survey) {
  return for_each_tensor(executor, [&](const ArgSpec& spec, const Tensor& tensor) {
    if (tensor.numel() == 0) return Status::ok();
    survey.any_private_format |= is_private_format(tensor.format);
    const values::Span span = values::span_of(tensor);
    if (!device::is_allocated(reinterpret_cast<const void*>(span.begin), span.size_bytes)) {
      return Status::error(
          code::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
          fmt::format("{}: argument {} reaches memory that is not allocated on the device: {} bytes at {:#x} ({}). "
                      "The call was made at {}.",
                      executor.row().name, spec.name, span.size_bytes, span.begin,
                      device::describe_address(reinterpret_cast<const void*>(span.begin)),
                      trace::describe_line(executor.line())));
    }
    survey.any_misaligned |= span.begin % alignment_of(tensor.dtype) != 0;
    if (is_input(spec) && survey.inputs != Knowledge::kGhost) {
      survey.inputs = std::min(survey.inputs, knowledge_of(tensor));
    }
    if (is_input(spec)) survey.largest_input = std::max(survey.largest_input, tensor.numel());
    if (is_output(spec)) {
      survey.output_bytes += static_cast<uint64_t>(bytes_of(tensor.dtype, tensor.numel()));
      (is_integral(tensor.dtype) ? survey.any_integral_output : survey.any_floating_output) = true;
    }
    return Status::ok();
  });
}

// One element for each ghost operand of a call, read with strides of zero.
class StandIns {
 public:
  void clear() { used_ = 0; }
  /// An element of `dtype`; the last one is shared where a call has more ghost operands than places.
  char* place(DataType dtype, double value) {
    auto& element = elements_[std::min(used_++, elements_.size() - 1)];
    element.fill(0);
    values::put_element(element.data(), dtype, value);
    return reinterpret_cast<char*>(element.data());
  }

 private:
  struct alignas(16) Element : std::array<unsigned char, 16> {};
  std::array<Element, 256> elements_;
  size_t used_ = 0;
};

// Plain copies of the call's tensors in private formats; empty for most calls.
PlainViews& plain_views() {
  thread_local PlainViews views;
  return views;
}

Status prepare_plain_views(Executor& executor) {
  // Inputs first: what is read and written is copied out of its blocks.
  for (const bool reads : {true, false}) {
    DRYDOCK_RETURN_IF_ERROR(for_each_tensor(executor, [&](const ArgSpec& spec, const Tensor& tensor) {
      if (is_input(spec) != reads || !is_private_format(tensor.format) || tensor.numel() == 0) return Status::ok();
      const Status added = plain_views().add(tensor, device::host_address(tensor.storage), reads);
      if (added.is_ok()) return Status::ok();
      return Status::error(added.code(),
                           fmt::format("{}: argument {}: {}", executor.row().name, spec.name, added.message()));
    }));
  }
  return Status::ok();
}

Status write_back_plain_views(Executor& executor) {
  return for_each_tensor(executor, [&](const ArgSpec& spec, const Tensor& tensor) {
    if (is_output(spec)) plain_views().write_back(tensor);
    return Status::ok();
  });
}

TensorView real_view(const Tensor& tensor) {
  if (const TensorView* plain = plain_views().find(tensor)) return *plain;
  TensorView view;
  view.dtype = tensor.dtype;
  view.dims = tensor.dims;
  view.strides = tensor.strides;
  view.data = tensor.storage == nullptr ? nullptr : device::host_address(tensor.data());
  view.defined = true;
  return view;
}

double reading_of(const Tensor& ghost) {
  const values::GhostReading reading = values::ghost_reading(reinterpret_cast<uint64_t>(ghost.data()));
  return reading.dtype == ghost.dtype ? reading.value : values::default_reading(ghost.dtype);
}

TensorView operand_view(const Tensor* tensor, bool allow_stand_in, bool shape_decides, StandIns& stand_ins) {
  if (tensor == nullptr) return {};
  TensorView view = real_view(*tensor);
  if (!allow_stand_in || tensor->numel() == 0 || knowledge_of(*tensor) != Knowledge::kGhost) return view;
  // A ghost mask that decides a shape selects everything: the largest shape, and never an empty one.
  const bool selects = shape_decides && tensor->dtype == DataType::kBool;
  view.data = stand_ins.place(tensor->dtype, selects ? 1 : reading_of(*tensor));
  for (int axis = 0; axis < view.strides.size(); ++axis) view.strides[axis] = 0;
  return view;
}

void build(Executor& executor, bool allow_stand_ins, bool shape_decides, KernelCall& call) {
  thread_local StandIns stand_ins;
  stand_ins.clear();
  KernelCallBuilder builder(call);
  builder.begin(executor.row(), executor.args());
  const auto specs = executor.row().args;
  const auto args = executor.args();
  for (size_t index = 0; index < args.size(); ++index) {
    const Arg& arg = args[index];
    const ArgSpec& spec = specs[index];
    if (arg.kind == ArgKind::kTensor) {
      if (is_input(spec)) builder.add_operand(operand_view(arg.tensor, allow_stand_ins, shape_decides, stand_ins));
      if (is_output(spec)) builder.add_output(arg.tensor ? real_view(*arg.tensor) : TensorView{}, arg.tensor);
    } else if (arg.kind == ArgKind::kScalar) {
      builder.add_scalar_operand(arg.scalar);
    } else if (arg.kind == ArgKind::kTensorList) {
      static const std::vector<Tensor*>& none = *new std::vector<Tensor*>;
      const auto& tensors = arg.tensors ? arg.tensors->tensors : none;
      if (is_input(spec)) {
        auto& list = builder.add_operand_list();
        for (Tensor* tensor : tensors) list.push_back(operand_view(tensor, allow_stand_ins, shape_decides, stand_ins));
      }
      if (is_output(spec)) {
        auto& list = builder.add_output_list();
        for (Tensor* tensor : tensors) list.push_back(tensor ? real_view(*tensor) : TensorView{});
      }
    }
  }
}

// Half way between the first two numbers of a call.
double middle_of_range(const Executor& executor) {
  double sum = 0;
  int bounds = 0;
  for (const Arg& arg : executor.args()) {
    if (arg.kind == ArgKind::kDouble && bounds++ < 2) sum += arg.number;
  }
  return sum / 2;
}

// The kernel's part of a call whose tensors are ready.
Status call_kernel(Executor& executor, bool any_private_format, bool allow_stand_ins, bool shape_decides,
                   KernelCall& call) {
  plain_views().clear();
  if (any_private_format) DRYDOCK_RETURN_IF_ERROR(prepare_plain_views(executor));
  build(executor, allow_stand_ins, shape_decides, call);
  DRYDOCK_RETURN_IF_ERROR(kernels::run_kernel(executor.row().kernel, call));
  return any_private_format ? write_back_plain_views(executor) : Status::ok();
}

// What the ghost results of a call read as.
double reading_of_results(const Executor& executor, DataType dtype) {
  const OperatorRow& row = executor.row();
  if (row.assumed == AssumedValue::kZero) return 0;
  if (row.assumed == AssumedValue::kOne) return 1;
  if (row.assumed == AssumedValue::kMiddleOfRange && is_floating(dtype)) return middle_of_range(executor);
  return values::default_reading(dtype);
}

// Marks the outputs after the call; returns the bytes that were made up.
uint64_t mark_outputs(Executor& executor, Knowledge integral, Knowledge floating) {
  uint64_t assumed_bytes = 0;
  const Status ignored = for_each_tensor(executor, [&](const ArgSpec& spec, const Tensor& tensor) {
    if (!is_output(spec) || tensor.numel() == 0) return Status::ok();
    const Knowledge knowledge = is_integral(tensor.dtype) ? integral : floating;
    values::set_knowledge_of_view(tensor, knowledge);
    if (knowledge == Knowledge::kAssumed)
      assumed_bytes += static_cast<uint64_t>(bytes_of(tensor.dtype, tensor.numel()));
    if (knowledge == Knowledge::kGhost) {
      const values::Span span = values::span_of(tensor);
      values::note_ghost(span.begin, span.size_bytes, {tensor.dtype, reading_of_results(executor, tensor.dtype)});
    }
    return Status::ok();
  });
  static_cast<void>(ignored);  // the visitor never fails
  return assumed_bytes;
}

// The made-up value of element `element` of an integral output.
int64_t assumed_integer(const KernelCall& call, const TensorView& view, int64_t element, int64_t default_value) {
  switch (call.row().assumed) {
    case AssumedValue::kOne: return 1;
    case AssumedValue::kBalancedIndex: {
      // Rows of k indices take turns over all choices, so that routing is balanced.
      const TensorView* scores = call.operand_count() > 0 ? &call.operand(0) : &view;
      const int64_t choices = scores->dims.empty() ? 0 : scores->dims[scores->dims.size() - 1];
      return choices > 0 ? element % choices : 0;
    }
    case AssumedValue::kDefault:
    case AssumedValue::kMiddleOfRange: return default_value;
    case AssumedValue::kZero: return 0;
  }
  return 0;
}

// Without a walk over operands that are all alike, all() and any() of them are what one of them is; other integers
// are zero.
int64_t default_integer(const KernelCall& call, const TensorView& output) {
  if (output.dtype != DataType::kBool || call.operand_count() == 0) return 0;
  const TensorView& first = call.operand(0);
  if (!first.defined || first.data == nullptr || first.numel() == 0) return 0;
  const auto element_bytes = static_cast<size_t>(bits_of(first.dtype) / 8);
  return std::any_of(first.data, first.data + element_bytes, [](char byte) { return byte != 0; }) ? 1 : 0;
}

void write_assumed_integers(KernelCall& call) {
  for (int index = 0; index < call.output_count(); ++index) {
    const TensorView& view = call.output(index);
    if (!view.defined || !is_integral(view.dtype) || bits_of(view.dtype) < 8) continue;
    const auto element_bytes = bits_of(view.dtype) / 8;
    const int64_t numel = view.numel();
    const int64_t default_value = default_integer(call, view);
    std::array<int64_t, kMaxRank> position{};
    int64_t offset = 0;
    for (int64_t element = 0; element < numel; ++element) {
      const int64_t value = assumed_integer(call, view, element, default_value);
      std::memcpy(view.data + offset * element_bytes, &value, static_cast<size_t>(element_bytes));
      for (int axis = view.dims.size() - 1; axis >= 0; --axis) {
        offset += view.strides[axis];
        if (++position[static_cast<size_t>(axis)] < view.dims[axis]) break;
        offset -= view.strides[axis] * view.dims[axis];
        position[static_cast<size_t>(axis)] = 0;
      }
    }
  }
}

// With `--values full` results are computed or the call fails: there is nothing between.
Status cannot_compute(const Executor& executor, std::string_view why) {
  return Status::error(code::ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
                       fmt::format("{} {} The call was made at {}. With --values auto its results would be ghosts and "
                                   "the program would go on.",
                                   executor.row().name, why, trace::describe_line(executor.line())));
}

// Integers and booleans were made up: marks and counts them.
Status settle_assumed(Executor& executor, const Survey& found, bool shape_assumed, trace::Outcome& outcome) {
  const uint64_t assumed_bytes = mark_outputs(executor, Knowledge::kAssumed, Knowledge::kGhost);
  outcome = assumed_bytes > 0 ? trace::Outcome::kAssumed : trace::Outcome::kGhost;
  if (assumed_bytes > 0) trace::assumed(trace::Assumption::kOperatorResult, assumed_bytes, executor.line());
  if (shape_assumed && found.any_integral_output) {
    trace::assumed(trace::Assumption::kOutputShape, found.output_bytes, executor.line());
  }
  return Status::ok();
}

}  // namespace

Status execute(Executor& executor, trace::Outcome& outcome) {
  const device::MemoryInUse in_use;  // from the check of the ranges to the last touch, nothing is given back
  Survey found;
  DRYDOCK_RETURN_IF_ERROR(survey(executor, found));
  const OperatorRow& row = executor.row();
  const values::Policy& policy = values::policy();
  const bool shape_decides = row.kernel != nullptr && row.shape_from_values;
  const bool affordable = policy.mode == values::Mode::kFull || found.output_bytes <= policy.budget_bytes;
  const bool wanted = policy.mode != values::Mode::kGhost || !found.any_floating_output;
  const bool all_known = found.inputs == Knowledge::kKnown;

  // Floats never rest on assumptions: what would be computed from made-up values could be infinite or no number,
  // and programs guard against those. Integers and booleans do: a shape or a branch needs something.
  const int64_t most_elements = all_known ? kMostKnownElements : kMostGhostElements;
  const bool quick = policy.mode == values::Mode::kFull || found.largest_input <= most_elements;
  const bool compute = row.kernel != nullptr && !found.any_misaligned &&
                       ((all_known && shape_decides) || (shape_decides && found.output_bytes <= kMostAssumedBytes) ||
                        (quick && affordable && ((all_known && wanted) || found.any_integral_output)));
  thread_local KernelCall call;
  const bool must_compute = policy.mode == values::Mode::kFull;
  if (must_compute && row.kernel == nullptr) {
    outcome = trace::Outcome::kGhost;
    return cannot_compute(executor, "has no kernel on the virtual device.");
  }
  if (must_compute && found.any_misaligned) {
    outcome = trace::Outcome::kGhost;
    return cannot_compute(executor,
                          "has an argument at an address that is no multiple of its element size, which is "
                          "not computed here.");
  }
  if (!compute) {
    if (found.any_integral_output && affordable && (row.kernel == nullptr || !quick || found.any_misaligned)) {
      plain_views().clear();
      if (found.any_private_format) DRYDOCK_RETURN_IF_ERROR(prepare_plain_views(executor));
      build(executor, true, false, call);
      write_assumed_integers(call);
      if (found.any_private_format) DRYDOCK_RETURN_IF_ERROR(write_back_plain_views(executor));
      return settle_assumed(executor, found, false, outcome);
    }
    mark_outputs(executor, Knowledge::kGhost, Knowledge::kGhost);
    outcome = trace::Outcome::kGhost;
    return Status::ok();
  }

  Status status = call_kernel(executor, found.any_private_format, !all_known, shape_decides, call);
  if (!status.is_ok()) {
    if (must_compute && status.code() == code::ACLNN_ERR_INNER_FIND_KERNEL_ERROR) {
      return cannot_compute(executor, fmt::format("is not computed in this form: {}", status.message()));
    }
    // Wrong shapes and wrong known values are the program's fault; a dtype the kernel lacks, or made-up values, make
    // ghosts.
    if (all_known && status.code() == code::ACLNN_ERR_PARAM_INVALID) return status;
    if (all_known && status.code() == code::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION) {
      return Status::error(status.code(), fmt::format("{}. {}", status.message(), executor.describe()));
    }
    mark_outputs(executor, Knowledge::kGhost, Knowledge::kGhost);
    outcome = trace::Outcome::kGhost;
    return Status::ok();
  }
  if (all_known) {
    mark_outputs(executor, Knowledge::kKnown, Knowledge::kKnown);
    outcome = trace::Outcome::kComputed;
    return Status::ok();
  }
  if (row.assumed != AssumedValue::kDefault) {
    write_assumed_integers(call);
    if (found.any_private_format) DRYDOCK_RETURN_IF_ERROR(write_back_plain_views(executor));
  }
  return settle_assumed(executor, found, shape_decides, outcome);
}

void record_fault(const Executor& executor, const Status& fault) noexcept {
  trace::failed(trace::kFirstOperatorEntry + executor.operator_index(), fault.code(), fault.message(), executor.line());
}

}  // namespace drydock::ops
