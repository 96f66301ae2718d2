#pragma once

#include <array>
#include <cstdint>
#include <forward_list>
#include <span>
#include <string>
#include <vector>

#include "base/handle_pool.h"
#include "ops/operator_row.h"
#include "trace/recorder.h"

namespace drydock::ops {

/// Behind aclOpExecutor: one packed call between phase 1 and phase 2, which may run on different threads (contract H1).
/// It owns everything it needs but the aclnn objects, which the client keeps alive until phase 2 returned (H7); whether
/// the client did is checked in phase 2.
class Executor {
 public:
  Executor(uint32_t operator_index, std::span<const Arg> args, trace::CallId call, trace::LineId line);

  uint32_t operator_index() const { return operator_index_; }
  const OperatorRow& row() const { return operator_rows()[operator_index_]; }
  std::span<Arg> args() {
    return many_args_.empty() ? std::span<Arg>(few_args_.data(), arg_count_) : std::span<Arg>(many_args_);
  }
  std::span<const Arg> args() const {
    return many_args_.empty() ? std::span<const Arg>(few_args_.data(), arg_count_) : std::span<const Arg>(many_args_);
  }
  trace::CallId call() const { return call_; }
  trace::LineId line() const { return line_; }
  /// What the size that phase 1 answered rests on.
  trace::WorkspaceBasis workspace_basis() const { return workspace_basis_; }
  void set_workspace_basis(trace::WorkspaceBasis basis) { workspace_basis_ = basis; }
  /// "The call aclnnIndex(self=int64[10], ...) was made at train.py:3.": a fault is told at a later synchronize, where
  /// nothing else says which call it was.
  std::string describe() const;

  /// True if every object of the call is still the one that phase 1 saw: not destroyed, and not another that was given
  /// the same handle since.
  bool objects_are_the_same() const { return fingerprint_of_objects() == fingerprint_; }

  /// A repeatable executor survives phase 2 (aclSetAclOpExecutorRepeatable, contract H4).
  bool repeatable() const { return repeatable_; }
  void set_repeatable() { repeatable_ = true; }

 private:
  static constexpr size_t kFewArgs = 16;

  uint64_t fingerprint_of_objects() const;

  uint32_t operator_index_;
  uint32_t arg_count_;
  trace::CallId call_;
  trace::LineId line_;
  bool repeatable_ = false;
  trace::WorkspaceBasis workspace_basis_ = trace::WorkspaceBasis::kUnknown;
  uint64_t fingerprint_ = 0;  ///< of the generations of all objects
  std::array<Arg, kFewArgs> few_args_;
  std::vector<Arg> many_args_;            ///< used instead when there are more
  std::forward_list<std::string> texts_;  ///< none for nearly all operators, and then no allocation
};

/// Lives as long as the process. Thread-safe.
HandlePool<Executor>& executors() noexcept;

}  // namespace drydock::ops
