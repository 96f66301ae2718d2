#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

// What can be set of a caching allocator, as PYTORCH_NPU_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF spell it.

namespace drydock::replay {

enum class Policy : uint8_t {
  kNpu = 0,   ///< torch_npu 2.13
  kCuda = 1,  ///< PyTorch's allocator for CUDA
};

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t kMib = uint64_t{1} << 20;

struct Settings {
  Policy policy = Policy::kNpu;
  uint64_t max_split_bytes = kUnlimited;
  uint64_t max_non_split_rounding_bytes = 20 * kMib;
  uint64_t large_segment_bytes = 20 * kMib;
  uint64_t segment_bytes = 0;  ///< segment_size_mb; 0 = not set
  uint64_t base_alignment_bytes = 16 * 1024;
  double garbage_collection_threshold = 0;
  double memory_fraction = 1;  ///< per_process_memory_fraction
  bool expandable_segments = false;
  bool giant_pages = false;  ///< page_size:1g
  bool lazy_reclaim = false;
  bool throw_on_oom = false;
  /// By power of two from 1 MiB to 32 GiB; 0 and 1 round to 512 bytes.
  std::vector<uint64_t> power2_divisions = std::vector<uint64_t>(16, 0);
  /// Keys that were given and have no effect on device memory.
  std::vector<std::string> without_effect;
};

/// Reads a value of the environment variable: KEY:VALUE,... (KEY=VALUE is taken too). 100000 with the sentence that
/// says why torch_npu would refuse it at start: unknown keys, values out of range, combinations that exclude each
/// other.
Status parse_settings(std::string_view text, Policy policy, Settings& settings);

/// Why the allocator refuses this combination at start; empty if it takes it.
std::string illegal(const Settings& settings);

/// Bytes that a request for `bytes` takes at least.
uint64_t round_request(const Settings& settings, uint64_t bytes);

}  // namespace drydock::replay
