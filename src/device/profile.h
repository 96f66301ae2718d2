#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/status.h"

namespace drydock::device {

/// What is told apart between the two dies of a package.
struct DieMemory {
  uint64_t usable_bytes = 0;   ///< what aclrtGetMemInfo shows as total
  uint64_t idle_bytes = 0;     ///< in use before any process of ours
  uint64_t context_bytes = 0;  ///< taken by a process when it opens the device

  /// What a process can have on a device of its own.
  uint64_t capacity_bytes() const { return usable_bytes - idle_bytes - context_bytes; }
};

/// A device as data: profiles/*.toml, or a file of the user's. Sources of the numbers are in the profiles.
struct Profile {
  std::string name;      ///< "ascend910c"
  std::string soc_name;  ///< "Ascend910_9392": what aclrtGetSocName answers (spec/soc_names.csv)

  int32_t cube_cores = 0;
  int32_t vector_cores = 0;
  int32_t ai_cpu_cores = 0;
  int32_t cube_mhz = 0;
  int32_t npu_arch = 0;  ///< 2201 for the 910B and 910C families

  uint64_t hbm_bytes = 0;  ///< on the chip, as its data sheet says
  uint64_t l2_bytes = 0;
  uint64_t ub_bytes = 0;  ///< unified buffer of one vector core
  double hbm_tbs = 0;     ///< 1e12 bytes a second
  DieMemory even_die;
  DieMemory odd_die;  ///< equal to `even_die` where the profile does not tell them apart

  // What a communicator of more than one rank takes of each of its devices, from its first collective on.
  uint64_t hccl_buffer_bytes = uint64_t{200} << 20;  ///< unless HCCL_BUFFSIZE says otherwise
  int32_t hccl_buffers = 2;
  uint64_t hccl_fixed_bytes = 36'864;

  // Peak rates of one device, in 1e12 operations a second.
  double bf16_tflops = 0;
  double fp16_tflops = 0;
  double int8_tops = 0;
  double fp32_cube_tflops = 0;
  double vector_fp16_tflops = 0;
  double vector_fp32_tflops = 0;

  std::string cann_version;       ///< claimed unless a setting says otherwise
  std::string driver_version;     ///< claimed unless a setting says otherwise
  int64_t operator_issue_ns = 0;  ///< time the target's own CPU takes to issue one operator

  /// `buffer_bytes`: as HCCL_BUFFSIZE says, 0 for the default. A world of one has no buffers.
  uint64_t communicator_bytes(int32_t ranks, uint64_t buffer_bytes = 0) const {
    if (ranks < 2) return 0;
    return static_cast<uint64_t>(hccl_buffers) * (buffer_bytes == 0 ? hccl_buffer_bytes : buffer_bytes) +
           hccl_fixed_bytes;
  }
  const DieMemory& die(int32_t physical_device) const { return physical_device % 2 == 0 ? even_die : odd_die; }
};

/// Most memory a profile may claim: the address space set aside for one device's plain allocations holds it with room
/// for gaps.
inline constexpr uint64_t kMaxUsableBytes = uint64_t{512} << 30;

/// A profile from text. `format` is "toml" or "json", `origin` names the text in sentences (a file name).
///
/// Every key is required, except `memory.odd_die.*`, unless the text has `base = "NAME"`: then what it leaves out is
/// taken from that profile (a built-in one, or a file, whose path counts from the folder of `origin`), and a new
/// `memory.hbm_bytes` without `memory.usable_bytes` keeps the part of the chip that the base does not show. Nonsense
/// (no such key, wrong type, negative, out of range, an unknown SoC name) gives 100008 with a sentence; text that can't
/// be parsed 100006.
DRYDOCK_API Status parse_profile(std::string_view text, std::string_view format, std::string_view origin,
                                 Profile& profile);

/// A built-in profile by name, or a file by path (ends in .toml or .json, or has a '/'). 100003 if there is neither.
DRYDOCK_API Status load_profile(std::string_view name_or_path, Profile& profile);

/// Names of the built-in profiles, sorted.
DRYDOCK_API std::vector<std::string> profile_names();

/// The profile in force: DRYDOCK_PROFILE (default "ascend910c"), read at the first call. If that could not be loaded,
/// the default, and `settings_status` (settings.h) says what was wrong. Thread-safe.
DRYDOCK_API const Profile& profile() noexcept;

}  // namespace drydock::device
