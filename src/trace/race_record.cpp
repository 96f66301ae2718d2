#include "trace/race_record.h"

#include "device/heap.h"
#include "trace/writer.h"

namespace drydock::trace {

void race_found(const RaceRecord& race) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const int32_t owner = device::device_of(reinterpret_cast<const void*>(race.address));  // NOLINT: a number is asked
  const uint64_t base = writer.arena_base(owner);
  Writer::Append append(writer);
  // Device memory by its offset, host memory by number: two runs of a program compare.
  const ValueTag tag = base != 0 ? ValueTag::kDevice : ValueTag::kIdentity;
  const uint64_t place =
      base != 0 ? static_cast<uint64_t>(owner) << 48 | (race.address - base) : append.identity_of(race.address);
  append(Kind::kRace,
         static_cast<uint8_t>((race.is_reuse ? 1 : 0) | (race.first.writes ? 2 : 0) | (race.second.writes ? 4 : 0) |
                              static_cast<int>(tag) << 4),
         static_cast<uint16_t>(race.device),
         {pair_of(race.first.line, race.second.line), pair_of(race.first.call, race.first.what),
          pair_of(race.second.call, race.second.what), pair_of(race.first.stream, race.second.stream),
          pair_of(race.freed_line, race.first.argument | static_cast<uint32_t>(race.second.argument) << 16), place,
          race.size_bytes});
}

}  // namespace drydock::trace
