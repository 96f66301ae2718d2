#include "base/recent_error.h"

#include <memory>
#include <utility>

namespace drydock {
namespace {

struct RecentError {
  std::string pending;
  std::string taken;
};

/// A plain pointer that is never freed at thread exit: doors are called from destructors of other thread-locals.
thread_local constinit RecentError* recent_error = nullptr;

RecentError* of_this_thread() noexcept {
  if (recent_error == nullptr) recent_error = new (std::nothrow) RecentError;
  return recent_error;
}

}  // namespace

void set_recent_error(std::string message) noexcept {
  if (RecentError* error = of_this_thread(); error != nullptr) error->pending = std::move(message);
}

const char* peek_recent_error() noexcept { return recent_error == nullptr ? "" : recent_error->pending.c_str(); }

const char* take_recent_error() noexcept {
  if (recent_error == nullptr) return "";
  recent_error->taken.clear();
  recent_error->taken.swap(recent_error->pending);
  return recent_error->taken.c_str();
}

}  // namespace drydock
