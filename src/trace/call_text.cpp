#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trace/call_encoding.h"

namespace drydock::trace {
namespace {

using ops::ArgDirection;
using ops::ArgKind;

std::string_view mark_of(ArgDirection direction) {
  switch (direction) {
    case ArgDirection::kIn: return "";
    case ArgDirection::kOut: return ">";
    case ArgDirection::kInOut: return "<>";
  }
  return "";
}

std::string print_tensor(const CallTensor& tensor) {
  if (!tensor.defined) return "none";
  std::string text = fmt::format("{}[{}", name_of(tensor.dtype), fmt::join(tensor.dims, ","));
  if (!tensor.strides.empty()) text += fmt::format(";{}", fmt::join(tensor.strides, ","));
  text += ']';
  if (tensor.offset != 0) text += fmt::format("+{}", tensor.offset);
  if (tensor.format != 2) text += fmt::format("@format{}", tensor.format);
  return text;
}

std::string print_scalar(const CallScalar& scalar) {
  if (!scalar.defined) return "none";
  if (scalar.dtype == DataType::kBool) return scalar.integer != 0 ? "true" : "false";
  if (is_integral(scalar.dtype)) return fmt::format("{}", scalar.integer);
  if (scalar.dtype == DataType::kComplex32) return fmt::format("bits {:#x}", scalar.integer);
  if (scalar.value.imag() != 0) return fmt::format("{}{:+}j", scalar.value.real(), scalar.value.imag());
  return fmt::format("{}", scalar.value.real());
}

template <class Values, class Print>
std::string print_list(const Values& values, Print&& print) {
  std::string text = "{";
  for (size_t index = 0; index < values.size(); ++index) {
    if (index > 0) text += ", ";
    text += print(values[index]);
  }
  return text + "}";
}

}  // namespace

std::string print_argument(const CallArgument& argument) {
  if (!argument.present) return "none";
  switch (argument.kind) {
    case ArgKind::kTensor: return print_tensor(argument.tensors.front());
    case ArgKind::kTensorList: return print_list(argument.tensors, print_tensor);
    case ArgKind::kScalar: return print_scalar(argument.scalars.front());
    case ArgKind::kScalarList: return print_list(argument.scalars, print_scalar);
    case ArgKind::kIntArray:
    case ArgKind::kBoolArray: return fmt::format("{{{}}}", fmt::join(argument.integers, ", "));
    case ArgKind::kFloatArray: return fmt::format("{{{}}}", fmt::join(argument.numbers, ", "));
    case ArgKind::kInt: return fmt::format("{}", argument.integers.front());
    case ArgKind::kDouble: return fmt::format("{}", argument.numbers.front());
    case ArgKind::kBool: return argument.integers.front() != 0 ? "true" : "false";
    case ArgKind::kDataType: return std::string(name_of(static_cast<DataType>(argument.integers.front())));
    case ArgKind::kString: return fmt::format("\"{}\"", argument.text);
    case ArgKind::kPointer: return "pointer";
  }
  return "unknown";
}

std::string signature_of(const ops::OperatorRow& row) {
  std::string text(row.name);
  text += '(';
  for (size_t index = 0; index < row.args.size(); ++index) {
    if (index > 0) text += ", ";
    text += mark_of(row.args[index].direction);
    text += row.args[index].name;
  }
  return text + ')';
}

Signature parse_signature(std::string_view text) {
  Signature signature;
  const size_t open = text.find('(');
  signature.name = std::string(text.substr(0, open));
  if (open == std::string_view::npos) return signature;
  std::string_view rest = text.substr(open + 1);
  if (!rest.empty() && rest.back() == ')') rest.remove_suffix(1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view name = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    while (name.starts_with(' ')) name.remove_prefix(1);
    SignatureArgument argument;
    for (const ArgDirection direction : {ArgDirection::kInOut, ArgDirection::kOut}) {
      if (!name.starts_with(mark_of(direction))) continue;
      argument.direction = direction;
      name.remove_prefix(mark_of(direction).size());
      break;
    }
    argument.name = std::string(name);
    signature.arguments.push_back(std::move(argument));
  }
  return signature;
}

std::string print_call(const Call& call, const Signature& signature) {
  std::string text = signature.name.empty() ? fmt::format("operator {}", call.operator_id) : signature.name;
  text += '(';
  for (size_t index = 0; index < call.arguments.size(); ++index) {
    if (index > 0) text += ", ";
    if (index < signature.arguments.size()) {
      const SignatureArgument& argument = signature.arguments[index];
      text += fmt::format("{}{}=", mark_of(argument.direction), argument.name);
    }
    text += print_argument(call.arguments[index]);
  }
  if (call.truncated) text += call.arguments.empty() ? "..." : ", ...";
  return text + ')';
}

}  // namespace drydock::trace
