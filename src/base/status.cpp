#include "base/status.h"

namespace drydock {

Status Status::error(int32_t code, std::string message) {
  Status status;
  status.failure_ = std::make_unique<Failure>(Failure{code, std::move(message)});
  return status;
}

const std::string& Status::message() const noexcept {
  static const std::string& empty = *new std::string;
  return failure_ ? failure_->message : empty;
}

}  // namespace drydock
