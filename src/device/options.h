#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"

// Settings that a client makes through the ABI: kept, answered, and read by what they concern. Thread-safe.

namespace drydock::device {

struct Context;

/// Runtime parameters (the vendor's numbers).
enum class SystemParameter : int32_t {
  kDeterministic = 0,
  kDebugKernel = 1,
  kStrongConsistency = 2,
  kKernelEarlyStart = 3,
};
inline constexpr int32_t kSystemParameters = 4;

/// 107000 for a number that is no parameter.
DRYDOCK_API Status check_system_parameter(std::string_view entry, int32_t parameter);
DRYDOCK_API void set_system_parameter(SystemParameter parameter, int64_t value) noexcept;
DRYDOCK_API void set_system_parameter(const Context& context, SystemParameter parameter, int64_t value);
/// The value that holds for this thread: its context's, else the process's, else 0, which is the default of all
/// (contract H20; default: the vendor's manual of aclrtGetSysParamOpt).
DRYDOCK_API int64_t system_parameter(SystemParameter parameter);
/// The context's own value, if one was set.
DRYDOCK_API std::optional<int64_t> system_parameter(const Context& context, SystemParameter parameter);

/// Options of the operator compiler, 0 .. kCompileOptions - 1 (the vendor's numbers).
inline constexpr int32_t kCompileOptions = 17;
/// 100000 for a number that is no option.
DRYDOCK_API Status check_compile_option(std::string_view entry, int32_t option);
DRYDOCK_API void set_compile_option(int32_t option, std::string_view value);
/// The value, "" where none was set; ACL_OP_JIT_COMPILE is "disable" until set (default of the 910B and 910C).
DRYDOCK_API std::string compile_option(int32_t option);

/// The hardware counts an operator's time limit in steps of 2^32 ns, at most 254 of them: 1,091 s, which is also the
/// limit until one is set (source: the vendor's manual of aclrtSetOpExecuteTimeOut).
inline constexpr uint64_t kTimeoutStepUs = 4'294'967;
inline constexpr uint64_t kMaxTimeoutUs = 254 * kTimeoutStepUs;
/// Sets the time limit of operators, rounded up to a step; 0 asks for the longest. Returns the one in force.
DRYDOCK_API uint64_t set_operator_timeout_us(uint64_t timeout_us) noexcept;
DRYDOCK_API uint64_t operator_timeout_us() noexcept;
/// How long a stream may wait for an event, in seconds; 0 = for ever, the default. Kept; waits do not run out yet.
DRYDOCK_API void set_wait_timeout_s(uint32_t timeout_s) noexcept;
DRYDOCK_API uint32_t wait_timeout_s() noexcept;

/// What a float operator gives where its result is too large (the vendor's numbers).
enum class SaturationMode : int32_t { kSaturation = 0, kInfNan = 1 };
/// 107000 for another number.
DRYDOCK_API Status set_saturation_mode(std::string_view entry, int32_t device, int32_t mode);
/// kInfNan until set: the 910C's default.
DRYDOCK_API SaturationMode saturation_mode(int32_t device) noexcept;

}  // namespace drydock::device
