#include "ops/execute.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/address_space.h"
#include "device/heap.h"
#include "ops/kernel_call.h"
#include "ops/value_rules.h"
#include "values/extents.h"
#include "values/policy.h"
#include "values/view.h"

namespace drydock::ops {
namespace {

using values::Knowledge;

// A shape that depends on ghosts is not worth writing this much made-up memory for.
constexpr uint64_t kMostAssumedBytes = uint64_t{64} << 20;

// What the decision needs to know of a call's tensors.
struct Survey {
  Knowledge inputs = Knowledge::kKnown;
  uint64_t output_bytes = 0;
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
  // Without tracking (the null device of the benchmarks) integers pass for known: they decide shapes.
  if (!values::policy().tracked) return is_integral(tensor.dtype) ? Knowledge::kKnown : Knowledge::kGhost;
  return values::knowledge_of_view(tensor);
}

Status survey(Executor& executor, Survey& survey) {
  return for_each_tensor(executor, [&](const ArgSpec& spec, const Tensor& tensor) {
    if (tensor.numel() == 0) return Status::ok();
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
    if (is_input(spec) && survey.inputs != Knowledge::kGhost) {
      survey.inputs = std::min(survey.inputs, knowledge_of(tensor));
    }
    if (is_output(spec)) {
      survey.output_bytes += static_cast<uint64_t>(bytes_of(tensor.dtype, tensor.numel()));
      (is_integral(tensor.dtype) ? survey.any_integral_output : survey.any_floating_output) = true;
    }
    return Status::ok();
  });
}

// What a ghost operand reads as while integers and booleans are made up: one element with strides of zero.
struct StandInValues {
  alignas(16) std::array<unsigned char, 16> zero{};
  alignas(16) std::array<unsigned char, 16> one_fp32{};
  alignas(16) std::array<unsigned char, 16> one_fp64{};
  alignas(16) std::array<unsigned char, 16> one_fp16{};
  alignas(16) std::array<unsigned char, 16> one_bf16{};
  alignas(16) std::array<unsigned char, 16> one_integer{};

  StandInValues() {
    const auto put = [](std::array<unsigned char, 16>& bytes, auto value) {
      std::memcpy(bytes.data(), &value, sizeof value);
    };
    put(one_fp32, 1.0F);
    put(one_fp64, 1.0);
    put(one_fp16, uint16_t{0x3C00});
    put(one_bf16, uint16_t{0x3F80});
    put(one_integer, uint8_t{1});
  }

  const unsigned char* of(DataType dtype, bool shape_decides) const {
    switch (dtype) {
      case DataType::kFloat: return one_fp32.data();
      case DataType::kDouble: return one_fp64.data();
      case DataType::kFloat16: return one_fp16.data();
      case DataType::kBFloat16: return one_bf16.data();
      // A ghost mask selects everything: the largest shape, and never an empty one.
      case DataType::kBool: return shape_decides ? one_integer.data() : zero.data();
      default: return zero.data();
    }
  }
};

TensorView real_view(const Tensor& tensor) {
  TensorView view;
  view.dtype = tensor.dtype;
  view.dims = tensor.dims;
  view.strides = tensor.strides;
  view.data = tensor.storage == nullptr ? nullptr : device::host_address(tensor.data());
  view.defined = true;
  return view;
}

TensorView operand_view(const Tensor* tensor, bool allow_stand_in, bool shape_decides) {
  if (tensor == nullptr) return {};
  TensorView view = real_view(*tensor);
  if (!allow_stand_in || tensor->numel() == 0 || knowledge_of(*tensor) != Knowledge::kGhost) return view;
  static const StandInValues& stand_ins = *new StandInValues;
  view.data = reinterpret_cast<char*>(const_cast<unsigned char*>(stand_ins.of(tensor->dtype, shape_decides)));
  for (int axis = 0; axis < view.strides.size(); ++axis) view.strides[axis] = 0;
  return view;
}

void build(Executor& executor, bool allow_stand_ins, bool shape_decides, KernelCall& call) {
  KernelCallBuilder builder(call);
  builder.begin(executor.row(), executor.args());
  const auto specs = executor.row().args;
  const auto args = executor.args();
  for (size_t index = 0; index < args.size(); ++index) {
    const Arg& arg = args[index];
    const ArgSpec& spec = specs[index];
    if (arg.kind == ArgKind::kTensor) {
      if (is_input(spec)) builder.add_operand(operand_view(arg.tensor, allow_stand_ins, shape_decides));
      if (is_output(spec)) builder.add_output(arg.tensor ? real_view(*arg.tensor) : TensorView{}, arg.tensor);
    } else if (arg.kind == ArgKind::kScalar) {
      builder.add_scalar_operand(arg.scalar);
    } else if (arg.kind == ArgKind::kTensorList) {
      static const std::vector<Tensor*>& none = *new std::vector<Tensor*>;
      const auto& tensors = arg.tensors ? arg.tensors->tensors : none;
      if (is_input(spec)) {
        auto& list = builder.add_operand_list();
        for (Tensor* tensor : tensors) list.push_back(operand_view(tensor, allow_stand_ins, shape_decides));
      }
      if (is_output(spec)) {
        auto& list = builder.add_output_list();
        for (Tensor* tensor : tensors) list.push_back(tensor ? real_view(*tensor) : TensorView{});
      }
    }
  }
}

values::StandIn stand_in_of(AssumedValue assumed) {
  if (assumed == AssumedValue::kZero) return values::StandIn::kZero;
  if (assumed == AssumedValue::kOne) return values::StandIn::kOne;
  return values::StandIn::kDefault;
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
      values::note_ghost(reinterpret_cast<uint64_t>(tensor.data()), tensor.dtype, stand_in_of(executor.row().assumed));
    }
    return Status::ok();
  });
  static_cast<void>(ignored);  // the visitor never fails
  return assumed_bytes;
}

// The made-up value of element `element` of an integral output.
int64_t assumed_integer(const KernelCall& call, const TensorView& view, int64_t element) {
  switch (call.row().assumed) {
    case AssumedValue::kOne: return 1;
    case AssumedValue::kBalancedIndex: {
      // Rows of k indices take turns over all choices, so that routing is balanced.
      const TensorView* scores = call.operand_count() > 0 ? &call.operand(0) : &view;
      const int64_t choices = scores->dims.empty() ? 0 : scores->dims[scores->dims.size() - 1];
      return choices > 0 ? element % choices : 0;
    }
    case AssumedValue::kDefault:
    case AssumedValue::kZero: return 0;
  }
  return 0;
}

void write_assumed_integers(KernelCall& call) {
  for (int index = 0; index < call.output_count(); ++index) {
    const TensorView& view = call.output(index);
    if (!view.defined || !is_integral(view.dtype) || bits_of(view.dtype) < 8) continue;
    const auto element_bytes = bits_of(view.dtype) / 8;
    const int64_t numel = view.numel();
    std::array<int64_t, kMaxRank> position{};
    int64_t offset = 0;
    for (int64_t element = 0; element < numel; ++element) {
      const int64_t value = assumed_integer(call, view, element);
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
  const bool shape_decides = row.kernel != nullptr && has_data_dependent_shape(row);
  const bool affordable = policy.mode == values::Mode::kFull || found.output_bytes <= policy.budget_bytes;
  const bool wanted = policy.mode != values::Mode::kGhost || !found.any_floating_output;
  const bool all_known = found.inputs == Knowledge::kKnown;

  // Floats never rest on assumptions: what would be computed from made-up values could be infinite or no number,
  // and programs guard against those. Integers and booleans do: a shape or a branch needs something.
  const bool compute = row.kernel != nullptr && ((all_known && affordable && wanted) || (all_known && shape_decides) ||
                                                 (found.any_integral_output && affordable) ||
                                                 (shape_decides && found.output_bytes <= kMostAssumedBytes));
  thread_local KernelCall call;
  if (!compute) {
    if (row.kernel == nullptr && found.any_integral_output && affordable) {
      build(executor, true, false, call);
      write_assumed_integers(call);
      return settle_assumed(executor, found, false, outcome);
    }
    mark_outputs(executor, Knowledge::kGhost, Knowledge::kGhost);
    outcome = trace::Outcome::kGhost;
    return Status::ok();
  }

  build(executor, !all_known, shape_decides, call);
  Status status = row.kernel(call);
  if (!status.is_ok()) {
    // Wrong known values are the program's fault; a dtype the kernel lacks, or made-up values, make ghosts.
    if (all_known && status.code() == code::ACLNN_ERR_PARAM_INVALID) return status;
    mark_outputs(executor, Knowledge::kGhost, Knowledge::kGhost);
    outcome = trace::Outcome::kGhost;
    return Status::ok();
  }
  if (all_known) {
    mark_outputs(executor, Knowledge::kKnown, Knowledge::kKnown);
    outcome = trace::Outcome::kComputed;
    return Status::ok();
  }
  if (row.assumed != AssumedValue::kDefault) write_assumed_integers(call);
  return settle_assumed(executor, found, shape_decides, outcome);
}

}  // namespace drydock::ops
