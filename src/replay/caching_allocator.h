#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "replay/driver.h"
#include "replay/events.h"
#include "replay/free_blocks.h"
#include "replay/indifference.h"
#include "replay/settings.h"

// The model of a caching allocator of one device: the rules of torch_npu 2.13, of which PyTorch's for CUDA are a
// special case. Blocks live in an array and are named by their index; sizes and addresses are counted in units of 512
// bytes.

namespace drydock::replay {

inline constexpr uint32_t kNoBlock = 0;
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

/// What is known of the settings when code that calls the allocator often is compiled.
enum class Speciality : uint8_t {
  kNone,
  kNative,      ///< no expandable segments, requests rounded to 512 bytes, no garbage collection
  kExpandable,  ///< the same with expandable segments
};

class CachingAllocator {
 public:
  /// Stream numbers must be in the order of the streams' handles, which is what the allocator sorts by.
  CachingAllocator(const Settings& settings, Driver& driver, uint32_t streams, uint32_t pools);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// A block of at least `bytes`, or kNoBlock: out of memory.
  template <Speciality kSpeciality = Speciality::kNone>
  [[gnu::always_inline]] uint32_t allocate(uint64_t bytes, uint32_t stream, uint32_t pool) {
    const Request request = request_of<kSpeciality>(bytes, stream, pool);
    if (kSpeciality == Speciality::kNone && settings_.lazy_reclaim) reclaim_backlog();
    const uint32_t block = take_cached<kSpeciality>(request);
    if (block == kNoBlock) [[unlikely]]
      return allocate_new(request);
    return finish<kSpeciality>(block, request);
  }
  /// The program gave the block back, and no other stream uses it.
  template <Speciality kSpeciality = Speciality::kNone>
  [[gnu::always_inline]] void free(uint32_t block) {
    allocated_units_ -= blocks_[block].size;
    put_back<kSpeciality>(block);
  }
  /// Whether a program that gives `block` back and at once asks for `bytes` gets the same block again, and nothing else
  /// changes. Where that takes a longer look, false.
  template <Speciality kSpeciality>
  [[gnu::always_inline]] bool would_keep(uint32_t block, uint64_t bytes, uint32_t stream, uint32_t pool) const;
  /// Whether a block of `bytes` would be taken from the cache; it is given back at once, so that nothing changes but
  /// the peak. Where that takes a longer look, false.
  template <Speciality kSpeciality>
  [[gnu::always_inline]] bool touch(uint64_t bytes, uint32_t stream, uint32_t pool);
  /// What may be passed to allocate and free; a limit that is set later does not change it.
  Speciality speciality() const;
  /// The same, but other streams still use it: until complete() with the number that this returns, or until the
  /// allocator waits for all streams. `events`: how many streams it waits for.
  uint64_t free_later(uint32_t block, uint64_t events = 1);
  /// The other streams are done. With lazy reclaim, the allocator sees it when it looks. No-op for blocks that are
  /// complete already.
  void complete(uint64_t number);
  void empty_cache();
  /// A graph's or private pool was let go: what is cached of it goes back.
  void release_pool(uint32_t pool);
  /// The pool that memory belongs to which goes back next, if it is cached and that pool is none of the default ones'.
  uint32_t pool_released_next() const;
  /// Lets pools go for as long as that is so.
  void release_pools();
  /// set_per_process_memory_fraction, as bytes; kUnlimited takes the limit away.
  void limit(uint64_t allowed_bytes);

  /// torch_npu's workspace allocator: one block for each stream, which only grows.
  bool allocate_workspace(uint64_t bytes, uint32_t stream);

  /// Takes over segments that existed before the first event. `held` gets the address and index of each block that the
  /// program holds, or has given back while other streams use it.
  void adopt(const std::vector<StateSegment>& segments, std::vector<std::pair<uint64_t, uint32_t>>& held);

  uint64_t address(uint32_t block) const { return blocks_[block].address * kUnit; }
  uint64_t bytes(uint32_t block) const { return uint64_t{blocks_[block].size} * kUnit; }
  AllocatorTally tally() const {
    AllocatorTally tally = tally_;
    tally.allocated_bytes = allocated_units_ * kUnit;
    tally.peak_allocated_bytes = peak_allocated_units_ * kUnit;
    return tally;
  }
  /// As if what was done since the tally was `before` had been done `times` more, and had led to the same state.
  void repeat_tally(const AllocatorTally& before, uint64_t times);
  /// All that decides its answers, appended; `ids` says for each block what will name it. Not of what waits for other
  /// streams: false if there is any.
  bool describe(const std::vector<uint64_t>& ids, std::vector<uint64_t>& words) const;
  /// Blocks are numbered below this.
  size_t blocks() const { return blocks_.size(); }
  const Indifference& indifference() const { return indifference_; }
  /// Bytes above which garbage is collected; kUnlimited if it never is.
  uint64_t collection_threshold() const;
  /// Units of 512 bytes that may be had; kUnlimited: no limit.
  uint64_t allowed_units() const { return has_limit_ ? allowed_units_ : kUnlimited; }
  uint32_t max_split_units() const { return max_split_; }
  /// All segments with their blocks, by address: for comparisons.
  std::vector<StateSegment> state() const;

  /// Whether a cached block would serve this request.
  bool would_hit(uint64_t bytes, uint32_t stream, uint32_t pool) const;
  /// Whether the limit alone would make the first attempt for new memory fail.
  bool would_exceed_limit(uint64_t bytes, uint32_t stream, uint32_t pool) const;
  bool would_collect() const;

 private:
  static constexpr uint32_t kNoSegment = 0xffffffff;

  enum class State : uint8_t { kFree, kActive, kPending, kUnmapped, kUnused };

  // Block 0 is none: it stands before the first and behind the last block of each segment, and is never free.
  struct Block {
    uint64_t address = 0;
    uint32_t size = 0;
    uint32_t previous = kNoBlock;
    uint32_t next = kNoBlock;       // of unused ones: the next that is unused
    uint32_t segment = kNoSegment;  // of segments_, for expandable ones
    uint32_t born = 0;              // lookups of the pool when it was cached
    uint16_t shelf = 0;
    State state = State::kUnused;
  };
  static_assert(sizeof(Block) == 32);
  // No device has half a tebibyte: larger requests, of damaged histories, are refused like this one.
  static constexpr uint64_t kMostUnits = (uint64_t{1} << 30) - 1;
  static constexpr uint32_t kSmallRequest = static_cast<uint32_t>(kMib / kUnit);  // the largest of the small pool

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
    uint32_t least_rest = 0;                              // what has to be left for a block to be split
    uint32_t split_below = 0;                             // smaller requests split
    uint32_t pool = 0;
    uint32_t stream = 0;
    bool is_small = false;
  };

  struct Request {
    uint32_t size = 0;
    uint32_t shelf = 0;
  };

  [[gnu::always_inline]] static bool is_split(const Shelf& shelf, uint32_t size, uint32_t wanted) {
    return size - wanted >= shelf.least_rest && wanted < shelf.split_below;
  }
  template <Speciality kSpeciality>
  [[gnu::always_inline]] bool is_misaligned(uint64_t address, const Request& request) const {
    return kSpeciality != Speciality::kNative && request.size >= aligned_from_ && (address & alignment_mask_) != 0;
  }
  [[gnu::always_inline]] uint32_t shelf_of(uint32_t pool, bool is_small, uint32_t stream) const {
    return pool * 2 * streams_ + stream + (is_small ? streams_ : 0);
  }

  template <Speciality kSpeciality = Speciality::kNone>
  Request request_of(uint64_t bytes, uint32_t stream, uint32_t pool) const;
  template <Speciality kSpeciality = Speciality::kNone>
  FreeBlocks::Position find_cached(const Request& request) const;
  void note_split(const Request& request);
  template <Speciality kSpeciality = Speciality::kNone>
  uint32_t take_cached(const Request& request);
  void prefer_growing(const FreeBlocks& cached, FreeBlocks::Position& place) const;
  uint32_t allocate_new(const Request& request);
  uint32_t segment_size_of(const Request& request) const;
  uint32_t take_new(const Request& request, bool is_retry, bool& was_rejected);
  uint32_t take_new_native(const Request& request);
  uint32_t take_new_expandable(const Request& request);
  uint32_t expandable_candidate(const Request& request);
  bool map_block(uint32_t block, uint32_t size);
  template <Speciality kSpeciality = Speciality::kNone>
  uint32_t finish(uint32_t block, const Request& request);
  uint32_t split_for_alignment(uint32_t block, const Request& request);
  bool release_available(const Request& request);
  void release_cached();
  void release_shelf(uint32_t shelf);
  void release_block(uint32_t block);
  void unmap_block(uint32_t block);
  void collect_garbage();
  void reclaim();
  void reclaim_backlog();
  void complete_all();
  void release_workspaces();
  template <Speciality kSpeciality = Speciality::kNone>
  void put_back(uint32_t block);
  template <Speciality kSpeciality = Speciality::kNone>
  void cache(uint32_t block);
  void uncache(uint32_t block);
  void link(uint32_t block, uint32_t previous, uint32_t next);
  void adopt_blocks(const std::vector<const StateSegment*>& pieces, uint32_t segment,
                    std::vector<std::pair<uint64_t, uint32_t>>& held);
  void add_unmapped(uint32_t block);
  void remove_unmapped(uint32_t block);
  bool merge(uint32_t into, uint32_t from);
  bool is_expandable(const Block& block) const { return block.segment != kNoSegment; }
  uint32_t piece_of(bool is_small) const;
  uint32_t new_block();
  uint32_t add_block();
  template <Speciality kSpeciality = Speciality::kNone>
  void split(uint32_t block, uint32_t size);
  void drop_block(uint32_t block);
  void reserved_more(uint64_t units);

  Settings settings_;
  Driver& driver_;
  uint32_t streams_;
  uint32_t pools_;
  uint32_t max_split_ = 0xffffffff;
  uint32_t max_rounding_ = 0;
  bool has_simple_rounding_ = true;
  bool collects_ = false;  // garbage collection can happen
  bool is_expandable_ = false;
  uint32_t aligned_from_ = 0xffffffff;      // requests from this size on begin at a multiple of the base alignment
  uint64_t alignment_mask_ = ~uint64_t{0};  // bits of an address that are 0 where it is aligned for sure
  uint64_t padding_ = 0;
  bool has_limit_ = false;
  uint64_t allowed_bytes_ = 0;
  uint64_t allowed_units_ = 0;
  uint64_t total_units_ = 0;  // got from the driver by the caching allocator
  std::vector<Block> blocks_;
  uint32_t unused_ = kNoBlock;  // the first of a list
  std::vector<Shelf> shelves_;
  std::vector<Segment> segments_;
  struct Pending {
    uint64_t number = 0;
    uint64_t events = 0;
    uint32_t block = 0;
    bool is_complete = false;  // and not seen yet: lazy reclaim
  };
  std::vector<Pending> pending_;
  bool has_reclaimed_ = false;  // in the request that is being served
  uint64_t next_number_ = 1;
  std::vector<uint32_t> lookups_;  // by pool and size class
  uint64_t allocated_units_ = 0;
  uint64_t peak_allocated_units_ = 0;
  struct Workspace {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  std::vector<Workspace> workspaces_;  // by stream
  AllocatorTally tally_;
  Indifference indifference_;
};

}  // namespace drydock::replay

#include "replay/caching_allocator_inline.h"
