#include "device/last_error.h"

namespace drydock::device {
namespace {

thread_local int32_t pending_fault = 0;

}  // namespace

int32_t last_error() noexcept { return pending_fault; }

void set_last_error(int32_t code) noexcept { pending_fault = code; }

}  // namespace drydock::device
