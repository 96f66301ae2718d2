#include "ops/executor.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/objects.h"
#include "trace/call_encoding.h"

namespace drydock::ops {

Executor::Executor(uint32_t operator_index, std::span<const Arg> args, trace::CallId call, trace::LineId line)
    : operator_index_(operator_index), arg_count_(static_cast<uint32_t>(args.size())), call_(call), line_(line) {
  if (args.size() <= kFewArgs) {
    std::copy(args.begin(), args.end(), few_args_.begin());
  } else {
    many_args_.assign(args.begin(), args.end());
  }
  for (Arg& arg : this->args()) {
    if (arg.kind == ArgKind::kString && arg.text != nullptr) arg.text = texts_.emplace_front(arg.text).c_str();
  }
  fingerprint_ = fingerprint_of_objects();
}

std::string Executor::describe() const {
  constexpr size_t kMostCharacters = 1000;
  trace::Call call;
  std::string text(row().name);
  if (trace::decode_call(trace::encode_call(operator_index_, args()), call)) {
    text = trace::print_call(call, trace::parse_signature(trace::signature_of(row())));
  }
  if (text.size() > kMostCharacters) text.replace(kMostCharacters, std::string::npos, "...");
  return fmt::format("The call {} was made at {}.", text, trace::describe_line(line_));
}

uint64_t Executor::fingerprint_of_objects() const {
  uint64_t fingerprint = 0;
  const auto add = [&fingerprint](uint64_t generation) {
    fingerprint = (fingerprint ^ generation) * 0x9E3779B97F4A7C15U;
  };
  ObjectPools& pools = objects();
  for (const Arg& arg : args()) {
    switch (arg.kind) {
      case ArgKind::kTensor: add(pools.tensors.generation(arg.tensor)); break;
      case ArgKind::kScalar: add(pools.scalars.generation(arg.scalar)); break;
      case ArgKind::kIntArray: add(pools.int_arrays.generation(arg.ints)); break;
      case ArgKind::kFloatArray: add(pools.float_arrays.generation(arg.floats)); break;
      case ArgKind::kBoolArray: add(pools.bool_arrays.generation(arg.bools)); break;
      case ArgKind::kTensorList: {
        add(pools.tensor_lists.generation(arg.tensors));
        if (pools.tensor_lists.find(arg.tensors) == nullptr) break;
        for (const Tensor* tensor : arg.tensors->tensors) add(pools.tensors.generation(tensor));
        break;
      }
      case ArgKind::kScalarList: {
        add(pools.scalar_lists.generation(arg.scalars));
        if (pools.scalar_lists.find(arg.scalars) == nullptr) break;
        for (const Scalar* scalar : arg.scalars->scalars) add(pools.scalars.generation(scalar));
        break;
      }
      default: break;
    }
  }
  return fingerprint;
}

HandlePool<Executor>& executors() noexcept {
  static HandlePool<Executor>& executors = *new HandlePool<Executor>(size_t{1} << 20);
  return executors;
}

}  // namespace drydock::ops
