#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "replay/settings.h"
#include "replay/verify.h"
#include "replay/workload.h"
#include "snapshot/history.h"
#include "snapshot/snapshot.h"

// Snapshots of real allocators, replayed: the model hands out the same addresses, asks the driver for the same, fails
// where the real one failed, and ends in the same state.
//
// DRYDOCK_SNAPSHOTS: a folder of further snapshots.

namespace drydock::snapshot {
namespace {

using replay::History;
using replay::Verification;

void replay_file(const std::filesystem::path& path, uint64_t& blocks) {
  SCOPED_TRACE(path.string());
  Snapshot snapshot;
  const Status read = read_snapshot_file(path.string(), snapshot);
  ASSERT_TRUE(read.is_ok()) << read.message();
  const History history = history_of(snapshot);
  const replay::Policy policy = is_of_npu(snapshot) ? replay::Policy::kNpu : replay::Policy::kCuda;
  replay::Settings settings;
  const Status parsed = replay::parse_settings(history.settings, policy, settings);
  ASSERT_TRUE(parsed.is_ok()) << parsed.message();
  for (const uint8_t device : replay::devices_of(history)) {
    const Verification result = replay::verify(history, replay::workload_of(history, device), settings);
    std::printf("%s device %d: %lu of %lu blocks, %lu of %lu segment calls, %lu of %lu out of memory, end %s\n",
                path.filename().c_str(), device, result.blocks_equal, result.blocks, result.segment_calls_equal,
                result.segment_calls, result.out_of_memory_equal, result.out_of_memory,
                result.is_final_state_equal ? "equal" : "not equal");
    EXPECT_TRUE(result.is_equal) << result.difference << ", entry " << result.ordinal;
    EXPECT_EQ(result.blocks_equal, result.blocks);
    EXPECT_EQ(result.segment_calls_equal, result.segment_calls);
    EXPECT_EQ(result.out_of_memory_equal, result.out_of_memory);
    EXPECT_TRUE(result.is_final_state_equal);
    blocks += result.blocks;
  }
}

uint64_t replay_folder(const std::filesystem::path& folder) {
  uint64_t blocks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".pickle") replay_file(entry.path(), blocks);
  return blocks;
}

TEST(SnapshotReplay, TorchNpusSnapshotsReplayAddressForAddress) {
  EXPECT_EQ(replay_folder(std::string(DRYDOCK_TEST_DATA) + "/snapshots"), 189U);
}

TEST(SnapshotReplay, FurtherSnapshotsReplayAddressForAddress) {
  const char* folder = std::getenv("DRYDOCK_SNAPSHOTS");
  if (folder == nullptr) GTEST_SKIP() << "DRYDOCK_SNAPSHOTS names no folder of further snapshots";
  EXPECT_GT(replay_folder(folder), 0U);
}

}  // namespace
}  // namespace drydock::snapshot
