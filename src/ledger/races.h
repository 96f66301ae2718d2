#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/reader.h"

// Streams that touched the same memory without a wait between them (drydock run --check streams).

namespace drydock::ledger {

class Database;

/// One of two accesses, as its process's trace has it.
struct RaceSide {
  std::string what;    ///< "aclnnAdd", "aclrtMemcpyAsync"
  std::string tensor;  ///< "self float32[2, 3]", "workspace"; empty where no operator's argument is meant
  std::string call;    ///< the whole call; empty where no operator does it
  std::string line;    ///< as a ledger shows it; only of what was read from one
  trace::LineId line_id = 0;
  uint32_t stream = 0;  ///< 0: the host
  bool writes = false;
};

struct Race {
  RaceSide first;
  RaceSide second;
  int32_t device = 0;
  bool is_reuse = false;   ///< the block of the first access was freed, and the second is to what came into its place
  bool is_host = false;    ///< host memory
  std::string freed_line;  ///< only of what was read from a ledger
  trace::LineId freed_line_id = 0;
  uint64_t offset = 0;  ///< of the first byte, in the device's range of addresses; a number of host memory
  uint64_t size_bytes = 0;
};

/// Of a kRace record.
Race race_of(const trace::Reader& reader, const trace::Record& record);

/// What is wrong, in one sentence, and what cures it.
std::string sentence_of(const Race& race);
std::string cure_of(const Race& race);

void load_races(Database& database, std::vector<Race>& races);

}  // namespace drydock::ledger
