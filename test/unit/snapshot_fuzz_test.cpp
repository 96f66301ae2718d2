#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ledger_synthetic_run.h"
#include "replay/events.h"
#include "replay/settings.h"
#include "replay/simulate.h"
#include "replay/trace_history.h"
#include "replay/verify.h"
#include "replay/workload.h"
#include "snapshot/history.h"
#include "snapshot/pickle.h"
#include "snapshot/snapshot.h"
#include "trace/call_encoding.h"
#include "trace/reader.h"
#include "trace/text.h"
#include "watch/npu_smi_table.h"

// Files of others, damaged at random: snapshots, traces, tables. Each must be read or refused with a sentence, in
// bounded time and memory. The sanitizer builds make this test sharp.
//
// DRYDOCK_FUZZ_SECONDS: how long each test goes on, instead of the second of a quick run. DRYDOCK_FUZZ_SEED: where the
// numbers begin; a failure names its own.

namespace drydock {
namespace {

// Whatever a history claims, the allocator's model takes it, and says the same thing twice.
void replay_all(const replay::History& history) {
  std::vector<replay::Settings> all(4);
  ASSERT_TRUE(replay::parse_settings("expandable_segments:True", replay::Policy::kNpu, all[1]).is_ok());
  ASSERT_TRUE(replay::parse_settings("max_split_size_mb:20,garbage_collection_threshold:0.5,"
                                     "per_process_memory_fraction:0.5,multi_stream_lazy_reclaim:True",
                                     replay::Policy::kNpu, all[2])
                  .is_ok());
  all[3].policy = replay::Policy::kCuda;
  for (const uint8_t device : replay::devices_of(history)) {
    const replay::Workload load = replay::workload_of(history, device);
    for (const replay::Settings& settings : all) {
      EXPECT_EQ(replay::simulate(load, settings), replay::simulate(load, settings));
      const replay::Verification result = replay::verify(history, load, settings);
      EXPECT_EQ(result.is_equal, result.difference.empty());
      EXPECT_LE(result.blocks_equal, result.blocks);
    }
  }
}

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : engine_(seed) {}

  size_t below(size_t count) { return count == 0 ? 0 : engine_() % count; }
  bool one_in(size_t count) { return below(count) == 0; }

  /// A few changes, or many: bits, bytes, numbers at their borders, pieces moved, doubled or taken out, a cut.
  std::string damaged(std::string bytes, size_t first) {
    const size_t changes = one_in(4) ? 1 + below(50) : 1 + below(4);
    for (size_t change = 0; change < changes && bytes.size() > first + 8; ++change) {
      const size_t at = first + below(bytes.size() - first);
      switch (below(8)) {
        case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
        case 1: bytes[at] = static_cast<char>(below(256)); break;
        case 2: {  // a length or an id that is very large
          constexpr std::array<uint64_t, 6> kBorders = {0,          0x7fffffff, 0xffffffff,
                                                        1ULL << 62, ~0ULL,      0x8000000000000000};
          const uint64_t border = kBorders[below(kBorders.size())];
          std::memcpy(&bytes[std::min(at, bytes.size() - 8)], &border, one_in(2) ? 4 : 8);
          break;
        }
        case 3: bytes.erase(at, 1 + below(16)); break;
        case 4: bytes.insert(at, bytes.substr(first + below(bytes.size() - first), 1 + below(64))); break;
        case 5: bytes.insert(at, std::string(1 + below(40), static_cast<char>(below(256)))); break;
        case 6: std::swap(bytes[at], bytes[first + below(bytes.size() - first)]); break;
        default:
          if (one_in(3)) bytes.resize(at);
      }
    }
    return bytes;
  }

 private:
  std::mt19937_64 engine_;
};

// Runs `round` with one seed after the other, for the time that is given.
void fuzz(const std::function<void(Damage&)>& round) {
  const double seconds = static_cast<double>(number_of("DRYDOCK_FUZZ_SECONDS", 1));
  const auto begin = std::chrono::steady_clock::now();
  uint64_t seed = number_of("DRYDOCK_FUZZ_SEED", 1);
  uint64_t rounds = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Damage damage(seed++);
    const auto start = std::chrono::steady_clock::now();
    round(damage);
    ASSERT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5.0);
    if (::testing::Test::HasFailure()) return;
    ++rounds;
  }
  std::printf("%lu rounds, up to seed %lu\n", rounds, seed - 1);
  EXPECT_GT(rounds, 10U);
}

void read_snapshot_of(const std::string& bytes, uint64_t& accepted) {
  snapshot::Snapshot snapshot;
  const Status status = snapshot::read_snapshot(std::as_bytes(std::span(bytes)), snapshot);
  if (!status.is_ok()) {
    EXPECT_FALSE(status.message().empty());
    return;
  }
  ++accepted;
  const replay::History history = snapshot::history_of(snapshot);
  for (const replay::StateSegment& segment : history.initial) {
    uint64_t covered = 0;
    for (const replay::StateBlock& block : segment.blocks) {
      EXPECT_EQ(block.address, segment.address + covered);
      covered += block.size;
    }
    EXPECT_EQ(covered, segment.size);
  }
  replay_all(history);
}

TEST(ReaderFuzz, DamagedSnapshotsAreReadOrRefused) {
  std::vector<std::string> seeds;
  for (const char* name : {"whole", "ring", "expandable", "late"})
    seeds.push_back(bytes_of(std::string(DRYDOCK_TEST_DATA) + "/snapshots/" + name + ".pickle"));
  uint64_t accepted = 0;
  fuzz([&](Damage& damage) {
    const std::string& seed = seeds[damage.below(seeds.size())];
    ASSERT_GT(seed.size(), 1000U);
    read_snapshot_of(damage.damaged(seed, damage.one_in(10) ? 0 : 2), accepted);
  });
  EXPECT_GT(accepted, 0U);  // else what is behind the pickle reader was never reached
}

// Any opcodes in any order, with small operands: what a pickler would never write.
TEST(ReaderFuzz, PicklesOfRandomInstructionsAreReadOrRefused) {
  const std::string opcodes =
      "(.012GJKMNTUXBCaet)}]dlhjqrsu\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x94\x95\x96"
      "ciRbo\x81\x92PQ\x82\x83\x84\x8f\x90\x91\x93\x97\x98";
  fuzz([&](Damage& damage) {
    std::string bytes = "\x80\x04";
    const size_t length = damage.below(3000);
    for (size_t index = 0; index < length; ++index) {
      // Mostly what makes values, so that the stack is rarely empty.
      bytes += damage.one_in(3) ? opcodes[damage.below(opcodes.size())] : "N]}(K\x94)\x88"[damage.below(8)];
      if (damage.one_in(4)) bytes += static_cast<char>(damage.below(4));
    }
    bytes += '.';
    snapshot::Pickle pickle;
    const Status status = snapshot::Pickle::parse(std::as_bytes(std::span(bytes)), snapshot::PickleLimits(), pickle);
    EXPECT_TRUE(status.is_ok() || !status.message().empty());
  });
}

TEST(ReaderFuzz, DamagedTracesGiveABeginningAndASentence) {
  ledger::SyntheticRun run;
  run.record([] {
    trace::overhead_charged(0, "context", 1 << 20);
    for (uint32_t step = 0; step < 20; ++step) {
      ledger::segment(ledger::kBase + step * ledger::kGiB, 20 * ledger::kMiB, ledger::line(step));
      for (uint64_t block = 0; block < 4; ++block)
        ledger::block(ledger::kBase + step * ledger::kGiB + block * ledger::kMiB, ledger::kMiB, ledger::line(7));
      trace::block_freed(0, ledger::kBase + step * ledger::kGiB);
      trace::step_ended();
    }
    ledger::no_room(ledger::kGiB, 1, 2, ledger::line(3));
    ledger::raise_out_of_memory("1.00 GiB");
  });
  const std::string seed = bytes_of(run.trace());
  ASSERT_GT(seed.size(), 5000U);
  const std::string path = testing::TempDir() + "/drydock-fuzz-" + std::to_string(getpid()) + ".ddtrace";
  uint64_t read = 0;
  fuzz([&](Damage& damage) {
    // The header's first bytes decide whether anything else is looked at.
    const std::string bytes = damage.damaged(seed, damage.one_in(10) ? 0 : damage.one_in(2) ? 40 : 4096);
    { std::ofstream(path, std::ios::binary) << bytes; }
    std::unique_ptr<trace::Reader> reader;
    const Status status = trace::Reader::open(path, reader);
    if (!status.is_ok()) {
      EXPECT_FALSE(status.message().empty());
      return;
    }
    trace::Record record;
    while (reader->next(record)) {
      ++read;
      if (damage.one_in(50)) {
        EXPECT_FALSE(trace::print_record(*reader, record, {}).empty());
      }
    }
    reader->resume();
    while (reader->next(record)) ++read;
    ledger::ProcessAccount account;
    EXPECT_TRUE(ledger::read_trace(path, account).is_ok());
    replay::History history;
    ASSERT_TRUE(replay::read_trace(path, history).is_ok());
    replay_all(history);
  });
  EXPECT_GT(read, 100U);
  std::filesystem::remove(path);
}

TEST(ReaderFuzz, DamagedTablesAreReadOrRefused) {
  std::vector<std::string> seeds;
  for (const char* name : {"910a-23.0", "910b-24.1", "910c-25.2", "910c-26.0"})
    seeds.push_back(bytes_of(std::string(DRYDOCK_TEST_DATA) + "/npu_smi/" + name + ".txt"));
  fuzz([&](Damage& damage) {
    watch::NpuSmiTable table;
    const Status status = watch::parse_npu_smi(damage.damaged(seeds[damage.below(seeds.size())], 0), table);
    EXPECT_TRUE(status.is_ok() ? !table.chips.empty() : !status.message().empty());
  });
}

}  // namespace
}  // namespace drydock
