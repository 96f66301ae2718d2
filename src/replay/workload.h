#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "replay/events.h"

// A history made ready for many replays: one device, blocks by number instead of address, 16 bytes an operation.

namespace drydock::replay {

enum class OperationKind : uint8_t {
  kAllocate,   ///< bytes asked for
  kFree,       ///< given back and complete
  kFreeLater,  ///< given back, still used on other streams: bytes says on how many, 0 where unknown
  kComplete,   ///< the other streams are done
  kRefuse,     ///< a request that failed; bytes after rounding
  kAllocateWorkspace,
  kEmptyCache,
  kReleasePool,  ///< a pool that is none of the default ones was let go
  kLimit,        ///< bytes that the process may use; kUnlimited takes the limit away
};

struct Operation {
  uint64_t bytes = 0;
  uint32_t slot = 0;  ///< number of the block; numbers are used again
  uint16_t stream = 0;
  OperationKind kind = OperationKind::kAllocate;
  uint8_t pool = 0;
};
static_assert(sizeof(Operation) == 16);

/// `count` times the same `length` operations, from `begin` on.
struct Repeat {
  uint32_t begin = 0;
  uint32_t length = 0;
  uint32_t count = 0;
};

struct Workload {
  uint8_t device = 0;
  std::vector<Operation> operations;
  std::vector<uint32_t> events;  ///< of each operation: index into History::events
  std::vector<uint32_t> steps;   ///< ends of optimizer steps: number of operations before each
  std::vector<Repeat> repeats;   ///< what find_repeats says; without it, every operation is replayed
  uint32_t slots = 0;
  uint32_t streams = 1;
  uint32_t pools = 1;
  uint64_t total_bytes = 0;                         ///< of the device; 0 where unknown
  uint64_t external_bytes = 0;                      ///< used by others
  std::vector<StateSegment> initial;                ///< streams renumbered as in `operations`
  std::vector<std::pair<uint64_t, uint32_t>> held;  ///< address and slot of blocks that were held before
  std::vector<uint16_t> stream_ranks;               ///< by index into History::streams: number in `operations`
  uint64_t peak_live_bytes = 0;    ///< most bytes that were held at a time, each block rounded to 512 bytes
  uint64_t lower_bound_bytes = 0;  ///< the same in whole pages of 2 MiB: no allocator needs less
  std::vector<std::string> missing;
};

/// The devices of a history that have block events, in order.
std::vector<uint8_t> devices_of(const History& history);
/// `with_workspaces` false: as if no operator had asked for one.
Workload workload_of(const History& history, uint8_t device, bool with_workspaces = true);

}  // namespace drydock::replay
