#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace drydock::ledger {

/// "512 B", "48.00 MiB", "50.46 GiB": binary units with two decimals.
std::string human_size(uint64_t size_bytes);
/// "8,735,112": a count with thousands separated.
std::string human_count(uint64_t count);

/// The bytes behind "48.00 MiB" (bytes, KiB, MiB, GiB) that follow `after` in `text`, as torch and torch_npu write
/// them into their messages: rounded to two decimals. Nothing if `after` or a size is missing.
std::optional<uint64_t> size_after(std::string_view text, std::string_view after);
/// Half of the last digit that `size_after` could see: a size of this magnitude is known that well.
uint64_t rounding_of(uint64_t size_bytes);

}  // namespace drydock::ledger
