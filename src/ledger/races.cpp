#include "ledger/races.h"

#include <fmt/format.h>

#include "ledger/database.h"
#include "ledger/sizes.h"
#include "trace/call_encoding.h"

namespace drydock::ledger {
namespace {

RaceSide side_of(const trace::Reader& reader, const trace::RaceAccess& access) {
  RaceSide side;
  side.line_id = access.line;
  side.stream = access.stream;
  side.writes = access.writes;
  if (access.call == 0) {
    side.what = access.what == 0 ? "an operation" : std::string(reader.string(access.what));
    return side;
  }
  trace::Call call;
  if (!trace::decode_call(reader.call(access.call), call)) call.truncated = true;
  const trace::Signature signature = trace::parse_signature(reader.operator_signature(call.operator_id));
  side.what = signature.name.empty() ? fmt::format("operator {}", call.operator_id) : signature.name;
  side.call = trace::print_call(call, signature);
  if (access.argument < call.arguments.size()) {
    const std::string name =
        access.argument < signature.arguments.size() ? signature.arguments[access.argument].name : "";
    side.tensor = fmt::format("{} {}", name, trace::print_argument(call.arguments[access.argument]));
  } else if (!call.truncated) {
    side.tensor = "its workspace";
  }
  return side;
}

std::string place_of(const RaceSide& side) {
  return side.stream == 0 ? std::string("the host") : fmt::format("stream {}", side.stream);
}

std::string words_of(const RaceSide& side) {
  return fmt::format("{} at {} {}{} on {}", side.what, side.line, side.writes ? "writes" : "reads",
                     side.tensor.empty() ? "" : " " + side.tensor, place_of(side));
}

}  // namespace

Race race_of(const trace::Reader& reader, const trace::Record& record) {
  Race race;
  race.first = side_of(reader, record.race.first);
  race.second = side_of(reader, record.race.second);
  race.device = record.device;
  race.is_reuse = record.race.is_reuse;
  race.is_host = record.address.tag != trace::ValueTag::kDevice;
  race.freed_line_id = record.race.freed_line;
  race.offset = record.address.bits;
  race.size_bytes = record.size_bytes;
  return race;
}

std::string sentence_of(const Race& race) {
  const std::string bytes = fmt::format("{} of {}", human_size(race.size_bytes),
                                        race.is_host ? "pinned host memory" : fmt::format("npu:{}", race.device));
  if (race.is_reuse)
    return fmt::format(
        "{}: {}; its block was freed at {} and given out again, and {}. Nothing makes that wait for the first.", bytes,
        words_of(race.first), race.freed_line, words_of(race.second));
  return fmt::format("{}: {}, and {}. Nothing orders the two.", bytes, words_of(race.first), words_of(race.second));
}

std::string cure_of(const Race& race) {
  if (race.is_reuse && race.first.stream != 0)
    return fmt::format("before the block is freed at {}: tensor.record_stream(s), s being stream {}", race.freed_line,
                       race.first.stream);
  if (race.second.stream == 0)
    return fmt::format("before {}: s.synchronize(), s being stream {}, or synchronize() of an event that it recorded",
                       race.second.line, race.first.stream);
  if (race.first.stream == 0) return fmt::format("call {} before {}", race.first.line, race.second.line);
  return fmt::format(
      "before {}: torch.npu.current_stream().wait_stream(s), s being stream {}, or wait_event() for an event that it "
      "recorded",
      race.second.line, race.first.stream);
}

void load_races(Database& database, std::vector<Race>& races) {
  Statement rows = database.prepare(
      "SELECT r.device, r.kind, r.is_host, f.text, r.offset, r.bytes, a.text, r.first_what, r.first_tensor, "
      "r.first_call, r.first_stream, r.first_writes, b.text, r.second_what, r.second_tensor, r.second_call, "
      "r.second_stream, r.second_writes FROM races r JOIN lines a ON a.id = r.first_line JOIN lines b ON b.id = "
      "r.second_line JOIN lines f ON f.id = r.freed_line ORDER BY r.rowid LIMIT 1000");
  while (rows.step()) {
    Race& race = races.emplace_back();
    const auto side = [&rows](int from) {
      RaceSide each;
      each.line = rows.text(from);
      each.what = rows.text(from + 1);
      each.tensor = rows.text(from + 2);
      each.call = rows.text(from + 3);
      each.stream = static_cast<uint32_t>(rows.integer(from + 4));
      each.writes = rows.integer(from + 5) != 0;
      return each;
    };
    race.device = static_cast<int32_t>(rows.integer(0));
    race.is_reuse = rows.text(1) == "reuse";
    race.is_host = rows.integer(2) != 0;
    race.freed_line = rows.text(3);
    race.offset = rows.unsigned_integer(4);
    race.size_bytes = rows.unsigned_integer(5);
    race.first = side(6);
    race.second = side(12);
  }
}

}  // namespace drydock::ledger
