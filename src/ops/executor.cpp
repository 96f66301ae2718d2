#include "ops/executor.h"

#include <algorithm>

namespace drydock::ops {

Executor::Executor(uint32_t operator_index, std::span<const Arg> args, trace::CallId call, trace::LineId line)
    : operator_index_(operator_index), arg_count_(static_cast<uint32_t>(args.size())), call_(call), line_(line) {
  if (args.size() <= kFewArgs) {
    std::copy(args.begin(), args.end(), few_args_.begin());
  } else {
    many_args_.assign(args.begin(), args.end());
  }
}

HandlePool<Executor>& executors() noexcept {
  static HandlePool<Executor>& executors = *new HandlePool<Executor>(size_t{1} << 20);
  return executors;
}

}  // namespace drydock::ops
