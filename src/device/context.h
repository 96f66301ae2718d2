#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"

namespace drydock::device {

/// A context: what a thread works in. aclrtSetDevice gives a thread the device's primary context; aclrtCreateContext
/// makes further ones. The handle a client sees is the address of this object.
struct Context {
  int32_t device = -1;  ///< device as the client numbers it, 0 .. device_count() - 1
  uint32_t id = 0;      ///< unique in the process, never used again
  bool is_primary = false;
  /// The context's default stream: owned and filled by device/stream at its first use, null until then.
  std::atomic<void*> default_stream{nullptr};
  std::atomic<bool> is_ending{false};  ///< someone is destroying it
};

/// Devices the client sees: DRYDOCK_DEVICES (default 1) less what ASCEND_RT_VISIBLE_DEVICES hides. Works before
/// aclInit, in any process and after a fork; starts no thread (contract C1). 0 if a setting makes no sense
/// (`settings_status` in settings.h says which).
DRYDOCK_API int32_t device_count() noexcept;
/// The physical number behind the client's device number (ASCEND_RT_VISIBLE_DEVICES maps it), or -1. Even and odd
/// dies of a 910C package differ in memory (profile).
DRYDOCK_API int32_t physical_device(int32_t device) noexcept;

/// The library's life: aclInit and aclFinalize. Codes: 100002 on repeated initialisation, 100037 on repeated
/// finalisation, 100001 before the first aclInit, 100003/100006/100008 for a bad configuration file.
DRYDOCK_API Status initialize(const char* config_path);
DRYDOCK_API Status finalize();
/// Ok unless the process was forked from one that had used the device (507000: the driver's state does not survive a
/// fork) or aclFinalize was called (100001). Not being initialised yet is no failure: the vendor lets the runtime calls
/// through, and torch_npu makes some before aclInit.
DRYDOCK_API Status require_alive();

/// Makes `device`'s primary context current on this thread. 107001 if there is no such device.
DRYDOCK_API Status set_device(int32_t device);
/// Drops one aclrtSetDevice of `device`; with `force`, or at the last one, the primary context goes and with it its
/// streams and the memory that is still allocated. 107001 if there is no such device.
DRYDOCK_API Status reset_device(int32_t device, bool force);

/// This thread's context; null if none is current (or it was destroyed). Never makes one.
DRYDOCK_API Context* current_context() noexcept;
/// The device of this thread's context, or -1.
DRYDOCK_API int32_t current_device() noexcept;
/// The device that aclInit's configuration named as default, or -1.
DRYDOCK_API int32_t default_device() noexcept;
/// As `current_context`, but a thread without one gets the default device that aclInit's configuration named
/// (contract C4); 107002 with a sentence where there is none. Includes `require_alive`.
/// `what` is the entry that asks ("aclrtCreateStream"), for the sentence.
DRYDOCK_API Status require_context(std::string_view what, Context*& context);

/// The context behind a client's handle, or null for a null, stale or foreign handle (107000/107002 of the caller's).
DRYDOCK_API Context* find_context(const void* handle) noexcept;
/// The primary context of `device`, or null while none is active.
DRYDOCK_API Context* primary_context(int32_t device) noexcept;
DRYDOCK_API Status create_context(int32_t device, Context*& context);
/// 107000 for anything that is not a live context made by `create_context`.
DRYDOCK_API Status destroy_context(const void* handle);
DRYDOCK_API Status set_current_context(const void* handle);

/// Called with each context just before it is destroyed (aclrtDestroyContext, aclrtResetDevice), on the thread that
/// destroys it and with no lock held: device/stream ends the context's streams there. Hooks can't be removed.
using ContextHook = void (*)(Context&) noexcept;
DRYDOCK_API void on_context_destroyed(ContextHook hook) noexcept;

/// "device 3 (of 8)": for sentences.
DRYDOCK_API std::string describe_device(int32_t device);

}  // namespace drydock::device
