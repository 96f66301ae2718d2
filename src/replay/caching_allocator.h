#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "replay/driver.h"
#include "replay/events.h"
#include "replay/free_blocks.h"
#include "replay/settings.h"

// The model of a caching allocator of one device: the rules of torch_npu 2.13, of which PyTorch's for CUDA are a
// special case. Blocks live in an array and are named by their index; sizes and addresses are counted in units of 512
// bytes.

namespace drydock::replay {

inline constexpr uint32_t kNoBlock = 0xffffffff;
inline constexpr uint64_t kUnit = 512;

struct AllocatorTally {
  uint64_t allocated_bytes = 0;  ///< of blocks that the program holds
  uint64_t reserved_bytes = 0;   ///< got from the driver
  uint64_t workspace_bytes = 0;
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t allocated_at_peak_bytes = 0;  ///< when the most was reserved
  uint64_t retries = 0;                  ///< everything cached was given back to make room
  uint64_t collections = 0;              ///< garbage collections that gave something back
  uint64_t rejections = 0;               ///< throw_on_npumalloc_oom
  uint64_t segments = 0;                 ///< segments or mappings got in all
};

class CachingAllocator {
 public:
  /// Stream numbers must be in the order of the streams' handles, which is what the allocator sorts by.
  CachingAllocator(const Settings& settings, Driver& driver, uint32_t streams, uint32_t pools);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// A block of at least `bytes`, or kNoBlock: out of memory.
  uint32_t allocate(uint64_t bytes, uint32_t stream, uint32_t pool);
  /// The program gave the block back, and no other stream uses it.
  void free(uint32_t block);
  /// The same, but other streams still use it: until complete() with the number that this returns, or until the
  /// allocator waits for all streams.
  uint64_t free_later(uint32_t block);
  /// No-op for blocks that are complete already.
  void complete(uint64_t number);
  void empty_cache();
  /// set_per_process_memory_fraction, as bytes; kUnlimited takes the limit away.
  void limit(uint64_t allowed_bytes);

  /// torch_npu's workspace allocator: one block for each stream, which only grows.
  bool allocate_workspace(uint64_t bytes, uint32_t stream);

  /// Takes over segments that existed before the first event. `held` gets the address and index of each block that the
  /// program holds, or has given back while other streams use it.
  void adopt(const std::vector<StateSegment>& segments, std::vector<std::pair<uint64_t, uint32_t>>& held);

  uint64_t address(uint32_t block) const { return blocks_[block].address * kUnit; }
  uint64_t bytes(uint32_t block) const { return uint64_t{blocks_[block].size} * kUnit; }
  const AllocatorTally& tally() const { return tally_; }
  /// All segments with their blocks, by address: for comparisons.
  std::vector<StateSegment> state() const;

  /// Whether a cached block would serve this request.
  bool would_hit(uint64_t bytes, uint32_t stream, uint32_t pool) const;
  /// Whether the limit alone would make the first attempt for new memory fail.
  bool would_exceed_limit(uint64_t bytes, uint32_t stream, uint32_t pool) const;
  bool would_collect() const;

 private:
  enum class State : uint8_t { kFree, kActive, kPending, kUnmapped, kUnused };

  struct Block {
    uint64_t address = 0;
    uint32_t size = 0;
    uint32_t previous = kNoBlock;
    uint32_t next = kNoBlock;
    uint32_t segment = kNoBlock;  // of segments_, for expandable ones
    uint32_t born = 0;            // lookups of the pool when it was cached
    uint16_t shelf = 0;
    State state = State::kUnused;
  };
  static_assert(sizeof(Block) == 32);

  struct Segment {
    uint64_t address = 0;
    uint64_t size = 0;
    uint32_t piece = 0;
    bool is_live = false;
  };

  // The cached blocks of a pool, a size class and a stream.
  struct Shelf {
    FreeBlocks cached;
    std::vector<std::pair<uint64_t, uint32_t>> unmapped;  // by address
    uint32_t pool = 0;
    uint32_t stream = 0;
    bool is_small = false;
  };

  struct Request {
    uint32_t size = 0;
    uint32_t segment_size = 0;
    uint32_t shelf = 0;
    bool was_rejected = false;
  };

  Request request_of(uint64_t bytes, uint32_t stream, uint32_t pool) const;
  FreeBlocks::Position find_cached(const Request& request) const;
  uint32_t take_cached(const Request& request);
  uint32_t take_new(Request& request, bool is_retry);
  uint32_t take_new_native(const Request& request);
  uint32_t take_new_expandable(const Request& request);
  uint32_t expandable_candidate(const Request& request);
  bool map_block(uint32_t block, uint32_t size);
  uint32_t finish(uint32_t block, const Request& request);
  uint32_t split_for_alignment(uint32_t block, const Request& request);
  bool release_available(const Request& request);
  void release_cached();
  void release_shelf(uint32_t shelf);
  void release_block(uint32_t block);
  void unmap_block(uint32_t block);
  void collect_garbage();
  void complete_all();
  void release_workspaces();
  void put_back(uint32_t block);
  void cache(uint32_t block);
  void uncache(uint32_t block);
  void link(uint32_t block, uint32_t previous, uint32_t next);
  void adopt_blocks(const std::vector<const StateSegment*>& pieces, uint32_t segment,
                    std::vector<std::pair<uint64_t, uint32_t>>& held);
  void add_unmapped(uint32_t block);
  void remove_unmapped(uint32_t block);
  bool merge(uint32_t into, uint32_t from);
  bool should_split(const Block& block, uint32_t size) const;
  bool is_expandable(const Block& block) const { return block.segment != kNoBlock; }
  uint32_t piece_of(bool is_small) const;
  uint32_t shelf_of(uint32_t size, uint32_t stream, uint32_t pool) const;
  uint32_t new_block();
  void drop_block(uint32_t block);
  void reserved_more(uint64_t units);

  Settings settings_;
  Driver& driver_;
  uint32_t streams_;
  uint32_t pools_;
  uint32_t max_split_ = 0xffffffff;
  uint32_t max_rounding_ = 0;
  bool has_simple_rounding_ = true;
  uint64_t padding_ = 0;
  bool has_limit_ = false;
  uint64_t allowed_bytes_ = 0;
  uint64_t allowed_units_ = 0;
  uint64_t total_units_ = 0;  // got from the driver by the caching allocator
  std::vector<Block> blocks_;
  std::vector<uint32_t> unused_;
  std::vector<std::unique_ptr<Shelf>> shelves_;
  std::vector<Segment> segments_;
  struct Pending {
    uint64_t number = 0;
    uint32_t block = 0;
  };
  std::vector<Pending> pending_;
  uint64_t next_number_ = 1;
  std::vector<uint32_t> lookups_;  // by pool and size class
  struct Workspace {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  std::vector<Workspace> workspaces_;  // by stream
  AllocatorTally tally_;
};

}  // namespace drydock::replay
