#include "replay/settings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/generated/error_codes.h"

namespace drydock::replay {
namespace {

constexpr uint64_t kMinBlock = 512;
constexpr int kFirstDivisionBit = 20;  // sizes up to 1 MiB share the first entry
constexpr int kDivisionEntries = 16;
// What torch_npu adds to each request on this chip.
constexpr uint64_t kNpuPadding = 32;

Status refuse(std::string sentence) { return Status::error(code::ACL_ERROR_INVALID_PARAM, std::move(sentence)); }

bool whole_number(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool real_number(std::string_view text, double& number) {
  const std::string copy(text);
  char* end = nullptr;
  number = std::strtod(copy.c_str(), &end);
  return !copy.empty() && end == copy.c_str() + copy.size() && std::isfinite(number);
}

Status take_bool(std::string_view key, std::string_view value, bool& flag) {
  if (value != "True" && value != "False")
    return refuse(fmt::format("{} takes True or False, not \"{}\".", key, value));
  flag = value == "True";
  return Status::ok();
}

Status take_mib(std::string_view key, std::string_view value, uint64_t least, uint64_t most, uint64_t& bytes) {
  uint64_t number = 0;
  if (!whole_number(value, number) || number < least || number > most)
    return refuse(fmt::format("{} takes whole numbers {} {}, not \"{}\".", key,
                              most == kUnlimited / kMib ? "from" : fmt::format("up to {} from", most), least, value));
  bytes = number * kMib;
  return Status::ok();
}

Status take_real(std::string_view key, std::string_view value, bool with_bounds, double& number) {
  if (!real_number(value, number) || number < 0 || number > 1 || (!with_bounds && (number <= 0 || number >= 1)))
    return refuse(
        fmt::format("{} takes numbers {} 0 and 1, not \"{}\".", key, with_bounds ? "from" : "between", value));
  return Status::ok();
}

bool is_division_count(uint64_t number) { return number == 0 || std::has_single_bit(number); }

// "8", or "[256:1,512:2,>:8]": divisions by the size in MiB up to which they hold.
Status take_divisions(std::string_view value, std::vector<uint64_t>& divisions) {
  uint64_t number = 0;
  if (whole_number(value, number)) {
    if (!is_division_count(number))
      return refuse(fmt::format("roundup_power2_divisions takes powers of two, not {}.", number));
    std::fill(divisions.begin(), divisions.end(), number);
    return Status::ok();
  }
  if (value.size() < 2 || value.front() != '[' || value.back() != ']')
    return refuse(
        fmt::format("roundup_power2_divisions takes a number or [SIZE:NUMBER,...,>:NUMBER], not \"{}\".", value));
  std::string_view rest = value.substr(1, value.size() - 2);
  size_t last = 0;
  bool is_first = true;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t colon = pair.find(':');
    if (colon == std::string_view::npos || !whole_number(pair.substr(colon + 1), number) || !is_division_count(number))
      return refuse(fmt::format("roundup_power2_divisions: \"{}\" is no SIZE:POWER_OF_TWO.", pair));
    const std::string_view size = pair.substr(0, colon);
    if (size == ">") {
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(std::min(last + 1, divisions.size())), divisions.end(),
                number);
      continue;
    }
    uint64_t mib = 0;
    if (!whole_number(size, mib) || !std::has_single_bit(mib))
      return refuse(fmt::format("roundup_power2_divisions: sizes are powers of two in MiB, not \"{}\".", size));
    const size_t index = std::min<size_t>(static_cast<size_t>(std::bit_width(mib) - 1), kDivisionEntries - 1);
    // A size without an entry of its own takes the one below it.
    const size_t begin = is_first ? 0 : index;
    std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(begin),
              divisions.begin() + static_cast<std::ptrdiff_t>(index) + 1, number);
    last = index;
    is_first = false;
  }
  return Status::ok();
}

struct NoEffectKey {
  std::string_view key;
  bool is_flag;
};
// Pinned memory is the host's, and a lock that is dropped changes who waits, not what is handed out.
constexpr std::array<NoEffectKey, 7> kWithoutEffect = {{{"pin_memory_expandable_segments", true},
                                                        {"pinned_mem_register", true},
                                                        {"pinned_use_background_threads", true},
                                                        {"pinned_max_round_threshold_mb", false},
                                                        {"pinned_max_cached_size_mb", false},
                                                        {"pinned_reserve_segment_size_mb", false},
                                                        {"release_lock_on_npumalloc", true}}};
constexpr std::array<std::string_view, 3> kCudaWithoutEffect = {
    "pinned_num_register_threads", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register"};

Status take_common(std::string_view key, std::string_view value, Settings& settings, bool& known) {
  known = true;
  constexpr uint64_t kMost = kUnlimited / kMib;
  // Their least value is large_segment_size_mb's, which may come later.
  if (key == "max_split_size_mb") return take_mib(key, value, 0, kMost, settings.max_split_bytes);
  if (key == "max_non_split_rounding_mb") return take_mib(key, value, 0, kMost, settings.max_non_split_rounding_bytes);
  if (key == "large_segment_size_mb") return take_mib(key, value, 11, kMost, settings.large_segment_bytes);
  if (key == "garbage_collection_threshold") return take_real(key, value, false, settings.garbage_collection_threshold);
  if (key == "expandable_segments") return take_bool(key, value, settings.expandable_segments);
  if (key == "per_process_memory_fraction") return take_real(key, value, true, settings.memory_fraction);
  if (key == "roundup_power2_divisions") return take_divisions(value, settings.power2_divisions);
  known = false;
  return Status::ok();
}

Status take_npu(std::string_view key, std::string_view value, Settings& settings, bool& known) {
  known = true;
  if (key == "segment_size_mb") return take_mib(key, value, 20, 512, settings.segment_bytes);
  if (key == "multi_stream_lazy_reclaim") return take_bool(key, value, settings.lazy_reclaim);
  if (key == "throw_on_npumalloc_oom") return take_bool(key, value, settings.throw_on_oom);
  if (key == "page_size") {
    if (value != "1g") return refuse(fmt::format("page_size takes 1g, not \"{}\".", value));
    settings.giant_pages = true;
    return Status::ok();
  }
  if (key == "base_addr_aligned_kb") {
    uint64_t number = 0;
    if (!whole_number(value, number) || number > 16)
      return refuse(fmt::format("base_addr_aligned_kb takes whole numbers from 0 to 16, not \"{}\".", value));
    settings.base_alignment_bytes = number * 1024;
    return Status::ok();
  }
  for (const NoEffectKey& entry : kWithoutEffect) {
    if (key != entry.key) continue;
    settings.without_effect.emplace_back(key);
    bool flag = false;
    if (entry.is_flag) return take_bool(key, value, flag);
    uint64_t number = 0;
    if (!whole_number(value, number)) return refuse(fmt::format("{} takes whole numbers, not \"{}\".", key, value));
    return Status::ok();
  }
  known = false;
  return Status::ok();
}

Status take(std::string_view key, std::string_view value, Settings& settings) {
  bool known = false;
  DRYDOCK_RETURN_IF_ERROR(take_common(key, value, settings, known));
  if (known) return Status::ok();
  if (settings.policy == Policy::kNpu) {
    DRYDOCK_RETURN_IF_ERROR(take_npu(key, value, settings, known));
    if (known) return Status::ok();
  } else if (std::find(kCudaWithoutEffect.begin(), kCudaWithoutEffect.end(), key) != kCudaWithoutEffect.end()) {
    settings.without_effect.emplace_back(key);
    return Status::ok();
  }
  return refuse(fmt::format("the allocator has no key \"{}\".", key));
}

}  // namespace

Status parse_settings(std::string_view text, Policy policy, Settings& settings) {
  Settings parsed;
  parsed.policy = policy;
  bool has_rounding = false;
  std::string compact;
  std::copy_if(text.begin(), text.end(), std::back_inserter(compact), [](char c) { return c != ' ' && c != '\t'; });
  std::string_view rest = compact;
  while (!rest.empty()) {
    size_t end = 0;
    int depth = 0;
    while (end < rest.size() && (depth > 0 || rest[end] != ',')) {
      depth += rest[end] == '[' ? 1 : rest[end] == ']' ? -1 : 0;
      ++end;
    }
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (pair.empty()) continue;
    const size_t colon = pair.find_first_of(":=");
    if (colon == std::string_view::npos) return refuse(fmt::format("\"{}\" is no KEY:VALUE.", pair));
    DRYDOCK_RETURN_IF_ERROR(take(pair.substr(0, colon), pair.substr(colon + 1), parsed));
    has_rounding = has_rounding || pair.substr(0, colon) == "max_non_split_rounding_mb";
  }
  // Only where it is given: the default of 20 MiB goes with any segment size.
  if (has_rounding && parsed.max_non_split_rounding_bytes < parsed.large_segment_bytes)
    return refuse("max_non_split_rounding_mb must not be smaller than large_segment_size_mb (default: 20).");
  if (std::string why = illegal(parsed); !why.empty()) return refuse(std::move(why));
  settings = std::move(parsed);
  return Status::ok();
}

std::string illegal(const Settings& settings) {
  const bool splits_limited = settings.max_split_bytes != kUnlimited;
  // PyTorch's own allocator takes both and lets expandable segments split as they like.
  if (settings.policy == Policy::kNpu && settings.expandable_segments &&
      (splits_limited || settings.garbage_collection_threshold > 0))
    return "torch_npu refuses expandable_segments:True together with max_split_size_mb or "
           "garbage_collection_threshold.";
  if (splits_limited && settings.large_segment_bytes > settings.max_split_bytes)
    return "max_split_size_mb must not be smaller than large_segment_size_mb (default: 20).";
  return {};
}

uint64_t round_request(const Settings& settings, uint64_t bytes) {
  const uint64_t size = bytes + (settings.policy == Policy::kNpu ? kNpuPadding : 0);
  if (size < kMinBlock) return kMinBlock;
  // The size's power of two, rounded down, chooses the entry; 1 MiB and less take the first.
  const int bit = std::bit_width(size) - 1;
  const int index = std::clamp(bit - kFirstDivisionBit, 0, kDivisionEntries - 1);
  const uint64_t divisions = settings.power2_divisions[static_cast<size_t>(index)];
  if (divisions <= 1 || size <= kMinBlock * divisions) return (size + kMinBlock - 1) / kMinBlock * kMinBlock;
  if (std::has_single_bit(size)) return size;
  const uint64_t division = (uint64_t{1} << bit) >> (std::bit_width(divisions) - 1);
  if (division == 0) return uint64_t{2} << bit;
  return (size + division - 1) / division * division;
}

}  // namespace drydock::replay
