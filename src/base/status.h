#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/export.h"

namespace drydock {

/// Outcome of a call: success, or one of the vendor's error codes with a sentence for `aclGetRecentErrMsg`.
/// A success is one null pointer; only failures allocate. Not thread-safe, moved between threads freely.
class [[nodiscard, gnu::visibility("default")]] Status {
 public:
  static Status ok() noexcept { return Status(); }
  /// `code` is a vendor number (spec/errors.csv), never 0; `message` says what, where, why and what to do.
  static Status error(int32_t code, std::string message);

  bool is_ok() const noexcept { return failure_ == nullptr; }
  /// 0 for success.
  int32_t code() const noexcept { return failure_ ? failure_->code : 0; }
  /// Empty for success.
  const std::string& message() const noexcept;

 private:
  struct Failure {
    int32_t code;
    std::string message;
  };
  Status() noexcept = default;
  std::unique_ptr<Failure> failure_;
};

}  // namespace drydock

/// Leaves the enclosing function with the failure of `expression`, if it fails.
#define DRYDOCK_RETURN_IF_ERROR(expression)                                                                 \
  do {                                                                                                      \
    if (::drydock::Status drydock_status_ = (expression); !drydock_status_.is_ok()) return drydock_status_; \
  } while (false)
