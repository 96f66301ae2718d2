#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "abi/operator_descriptions.h"
#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "device/address_space.h"
#include "device/context.h"
#include "device/heap.h"
#include "device/options.h"
#include "ops/kernel_access.h"
#include "ops/legacy_operator.h"
#include "ops/objects.h"
#include "ops/phases.h"

// The legacy route: a call names its operator and gives descriptions, buffers and attributes. It is packed as the call
// of an operator row and goes through the two phases that aclnn operators go through.

namespace drydock::entries {
namespace {

using From = ops::LegacyArgSource::From;

/// Descriptions and buffers of one side of a call.
struct Side {
  std::string_view what;  ///< "input" or "output"
  int count;
  const void* const* descriptions;
  const void* const* buffers;
};

/// The objects made for one call. The client of the phases must keep them until the second has returned.
class CallObjects {
 public:
  CallObjects() = default;
  CallObjects(const CallObjects&) = delete;
  CallObjects& operator=(const CallObjects&) = delete;
  ~CallObjects() {
    for (ops::Tensor* tensor : tensors_) ops::objects().tensors.destroy(tensor);
    for (ops::IntArray* array : ints_) ops::objects().int_arrays.destroy(array);
    for (ops::FloatArray* array : floats_) ops::objects().float_arrays.destroy(array);
    for (ops::BoolArray* array : bools_) ops::objects().bool_arrays.destroy(array);
  }

  ops::Tensor* add(ops::Tensor tensor) { return keep(tensors_, ops::objects().tensors.create(tensor)); }
  ops::IntArray* add(ops::IntArray array) { return keep(ints_, ops::objects().int_arrays.create(std::move(array))); }
  ops::FloatArray* add(ops::FloatArray array) {
    return keep(floats_, ops::objects().float_arrays.create(std::move(array)));
  }
  ops::BoolArray* add(ops::BoolArray array) {
    return keep(bools_, ops::objects().bool_arrays.create(std::move(array)));
  }

 private:
  template <class Object>
  static Object* keep(std::vector<Object*>& kept, Object* object) {
    if (object != nullptr) kept.push_back(object);
    return object;
  }

  std::vector<ops::Tensor*> tensors_;
  std::vector<ops::IntArray*> ints_;
  std::vector<ops::FloatArray*> floats_;
  std::vector<ops::BoolArray*> bools_;
};

Status tensor_at(std::string_view entry, const Side& side, int position, const TensorDescription*& description,
                 const DataBuffer*& buffer) {
  description = nullptr;
  buffer = nullptr;
  if (position >= side.count) return Status::ok();  // an optional one that was left out
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "descriptions of the tensors", side.descriptions));
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "buffers of the tensors", side.buffers));
  TensorDescription* found = nullptr;
  DataBuffer* data = nullptr;
  const std::string what = fmt::format("{} {}", side.what, position);
  DRYDOCK_RETURN_IF_ERROR(find_description(entry, "description of " + what, side.descriptions[position], found));
  DRYDOCK_RETURN_IF_ERROR(find_description(entry, "buffer of " + what, side.buffers[position], data));
  if (found->data_type == kUndefined) return Status::ok();  // how a client fills the place of an optional tensor
  description = found;
  buffer = data;
  return Status::ok();
}

ops::Tensor tensor_of(const TensorDescription& description, const DataBuffer& buffer) {
  ops::Tensor tensor;
  tensor.dtype = static_cast<DataType>(description.data_type);
  tensor.format = description.format;
  tensor.dims = ops::Dims(std::span(description.dims));
  tensor.strides = ops::kernels::contiguous_strides(tensor.dims);
  const int64_t bits = bits_of(tensor.dtype);
  tensor.storage_dims = {bits > 0 ? static_cast<int64_t>(buffer.size_bytes) * 8 / bits : 0};
  if (ops::is_private_format(description.storage_format)) {
    // Sizes are those of the plain tensor; the storage says in which blocks it lies.
    tensor.format = description.storage_format;
    tensor.storage_dims = ops::Dims(std::span(description.storage_dims));
  }
  tensor.storage = buffer.data;
  return tensor;
}

/// The integers of a tensor that decides a shape; it lies on the host or on the device.
Status values_of(std::string_view entry, const TensorDescription& description, const DataBuffer& buffer,
                 std::vector<int64_t>& values) {
  const auto dtype = static_cast<DataType>(description.data_type);
  const auto element_bytes = static_cast<size_t>(bits_of(dtype) / 8);
  size_t count = 1;
  for (int64_t size : description.dims) count *= static_cast<size_t>(std::max<int64_t>(size, 0));
  if ((dtype != DataType::kInt32 && dtype != DataType::kInt64) || count * element_bytes > buffer.size_bytes) {
    return bad_argument(entry, "the values that decide a shape are not int32 or int64, or their buffer is too small.");
  }
  const char* from = static_cast<const char*>(buffer.data);
  if (device::is_allocated(buffer.data, buffer.size_bytes)) from = device::host_address(buffer.data);
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "address of the values", from));
  for (size_t index = 0; index < count; ++index) {
    int32_t narrow = 0;
    int64_t wide = 0;
    if (dtype == DataType::kInt32) {
      std::memcpy(&narrow, from + index * sizeof narrow, sizeof narrow);
      wide = narrow;
    } else {
      std::memcpy(&wide, from + index * sizeof wide, sizeof wide);
    }
    values.push_back(wide);
  }
  return Status::ok();
}

/// Sets an argument from the attribute of its name; one that was not set is 0, false or absent.
void set_attribute(const Attributes* attributes, const ops::ArgSpec& spec, CallObjects& objects, ops::Arg& arg) {
  if (spec.kind == ops::ArgKind::kDouble) arg.number = 0;
  if (spec.kind == ops::ArgKind::kBool) arg.boolean = false;
  if (spec.kind == ops::ArgKind::kInt) arg.integer = 0;
  if (attributes == nullptr) return;
  const auto found = attributes->values.find(std::string(spec.name));
  if (found == attributes->values.end()) return;
  const AttributeValue& value = found->second;
  const auto number = [&value]() -> double {
    if (const auto* real = std::get_if<float>(&value)) return *real;
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
    return 0;
  };
  switch (spec.kind) {
    case ops::ArgKind::kInt: {
      const auto* integer = std::get_if<int64_t>(&value);
      arg.integer = integer != nullptr ? *integer : static_cast<int64_t>(number());
      break;
    }
    case ops::ArgKind::kDouble: arg.number = number(); break;
    case ops::ArgKind::kBool: arg.boolean = number() != 0; break;
    case ops::ArgKind::kString:
      if (const auto* text = std::get_if<std::string>(&value)) arg.text = text->c_str();
      break;
    case ops::ArgKind::kIntArray:
      if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) arg.ints = objects.add(ops::IntArray{*list});
      break;
    case ops::ArgKind::kFloatArray:
      if (const auto* list = std::get_if<std::vector<float>>(&value)) arg.floats = objects.add(ops::FloatArray{*list});
      break;
    case ops::ArgKind::kBoolArray:
      if (const auto* list = std::get_if<std::vector<uint8_t>>(&value)) arg.bools = objects.add(ops::BoolArray{*list});
      break;
    default: break;
  }
}

Status execute(std::string_view entry, const char* op_type, const Side& inputs, const Side& outputs, const void* attr,
               void* stream) {
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "opType", op_type));
  const ops::LegacyRow* row = ops::find_legacy_row(op_type);
  if (row == nullptr) {
    return Status::error(
        code::ACL_ERROR_API_NOT_SUPPORT,
        fmt::format(
            "{}({}): not supported by the virtual device: no kernel is bound to this operator of the legacy "
            "kind (drydock support lists those that have one). Use the aclnn form, or move the call to the CPU.",
            entry, op_type));
  }
  // In this mode operators clamp what overflows and say so here, which the kernels do not: "nothing did" would be
  // false.
  if (std::string_view(op_type).starts_with("NPUGetFloatStatus") &&
      device::saturation_mode(device::current_device()) == device::SaturationMode::kSaturation) {
    return Status::error(
        code::ACL_ERROR_API_NOT_SUPPORT,
        fmt::format("{}({}): overflows are not watched for in saturation mode. Let the device keep infinities and NaNs "
                    "(its default: unset INF_NAN_MODE_FORCE_DISABLE), so that gradients themselves show them.",
                    entry, op_type));
  }
  Attributes* attributes = nullptr;
  if (attr != nullptr) DRYDOCK_RETURN_IF_ERROR(find_description(entry, "attribute object", attr, attributes));
  CallObjects objects;
  const auto specs = ops::operator_rows()[row->operator_index].args;
  std::vector<ops::Arg> args(specs.size());
  for (size_t index = 0; index < specs.size(); ++index) {
    ops::Arg& arg = args[index];
    arg.kind = specs[index].kind;
    const ops::LegacyArgSource& source = row->sources[index];
    if (source.from == From::kAttribute) {
      set_attribute(attributes, specs[index], objects, arg);
      continue;
    }
    const TensorDescription* description = nullptr;
    const DataBuffer* buffer = nullptr;
    const Side& side = source.from == From::kOutput ? outputs : inputs;
    DRYDOCK_RETURN_IF_ERROR(tensor_at(entry, side, source.position, description, buffer));
    if (description == nullptr) continue;
    if (source.from == From::kInputValues) {
      std::vector<int64_t> values;
      DRYDOCK_RETURN_IF_ERROR(values_of(entry, *description, *buffer, values));
      arg.ints = objects.add(ops::IntArray{std::move(values)});
    } else {
      arg.tensor = objects.add(tensor_of(*description, *buffer));
    }
  }
  uint64_t workspace_bytes = 0;
  void* executor = nullptr;
  const auto count = static_cast<uint32_t>(args.size());
  int32_t result = ops::phase1(row->operator_index, args.data(), count, &workspace_bytes, &executor);
  if (result == 0) result = ops::phase2(row->operator_index, nullptr, 0, executor, stream);
  // The phases have recorded what was wrong and left their sentence.
  return result == 0 ? Status::ok() : Status::error(result, peek_recent_error());
}

}  // namespace

Status aclopCompileAndExecute(const char* op_type, int num_inputs, const void* const* input_desc,
                              const void* const* inputs, int num_outputs, const void* const* output_desc,
                              void* const* outputs, const void* attr, int32_t, int32_t, const char*, void* stream) {
  return execute("aclopCompileAndExecute", op_type, {"input", num_inputs, input_desc, inputs},
                 {"output", num_outputs, output_desc, outputs}, attr, stream);
}

// The second form writes the shapes that depend on values into the output descriptions; none of the rows has such.
Status aclopCompileAndExecuteV2(const char* op_type, int num_inputs, void** input_desc, void** inputs, int num_outputs,
                                void** output_desc, void** outputs, void* attr, int32_t, int32_t, const char*,
                                void* stream) {
  return execute("aclopCompileAndExecuteV2", op_type, {"input", num_inputs, input_desc, inputs},
                 {"output", num_outputs, output_desc, outputs}, attr, stream);
}

}  // namespace drydock::entries
