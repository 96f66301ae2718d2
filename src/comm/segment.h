#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/export.h"
#include "base/status.h"

// The shared memory in which the ranks of one communicator meet. It is a memfd without a name: nothing is left of it
// when the last process that maps it is gone, however that one ended.

namespace drydock::comm {

inline constexpr uint32_t kMaxRanks = 64;  ///< ranks of one machine
/// Buffers up to this size travel inside the segment: such a collective needs one meeting of the ranks.
inline constexpr uint64_t kInlineBytes = 8192;

/// The bytes of a send buffer that one rank gives to another.
struct Share {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

/// What a rank brings to a collective, or to the other end of a send.
struct Offer {
  uint64_t sequence;
  int32_t kind;
  int32_t type;
  int32_t op;
  uint32_t root;
  uint64_t count;
  uint64_t address;         ///< of its send buffer, in its own process
  uint64_t result_address;  ///< of its receive buffer
  uint64_t size_bytes;      ///< of its send buffer
  uint64_t result_bytes;
  /// A file of its process that holds both buffers, if one does, and where they are in it; else -1.
  int32_t file;
  uint64_t offset;
  uint64_t result_offset;
  int32_t knowledge;   ///< values::Knowledge, the worst in its send buffer
  uint32_t moves;      ///< 1: its policy lets bytes of this size move
  uint32_t is_inline;  ///< 1: the bytes are in the segment
  char line[116];      ///< of the user's program
};

/// One rank's place. What only its owner writes is read by others after they saw a counter of it.
struct alignas(64) RankPlace {
  std::atomic<int32_t> pid;      ///< 0 until somebody took the place
  std::atomic<uint32_t> is_in;   ///< its owner mapped everything
  std::atomic<uint32_t> is_out;  ///< its owner destroyed its communicator
  std::atomic<uint32_t> has_failed;
  char failure[480];
  // Sequence numbers of the collective that the rank has reached a point of.
  alignas(64) std::atomic<uint64_t> arrived;
  std::atomic<uint64_t> reduced;
  uint64_t delivered;  ///< bit for each rank that has been given what this one reduced; written before `reduced`
  std::atomic<uint64_t> finished;
};

/// What a rank offers to a collective; two of them take turns. A rank arrives at a collective only after it left the
/// one before, so nobody still reads the turn before the last.
struct alignas(64) OfferPlace {
  Offer offer;
  Share shares[kMaxRanks];  ///< for each rank, where sizes differ
  alignas(64) unsigned char bytes[kInlineBytes];
};

/// Messages from one rank to another, one at a time.
struct alignas(64) Channel {
  std::atomic<uint64_t> sent;
  std::atomic<uint64_t> received;
  std::atomic<uint32_t> is_refused;  ///< the receiver wanted another size or type
  Offer offer;
  alignas(64) unsigned char bytes[kInlineBytes];
};

/// Where the members of a sub-communicator find its segment: a file descriptor of the process that made it.
struct DirectoryEntry {
  std::atomic<uint64_t> key;  ///< 0 = free
  std::atomic<int32_t> pid;   ///< 0 until the rest is written
  int32_t descriptor;
  uint64_t nonce;
};

class DRYDOCK_API Segment {
 public:
  Segment() = default;
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// A new segment for a number of ranks that is not known yet: the descriptor and a number that tells it from others.
  static Status create(std::string_view entry, int& descriptor, uint64_t& nonce);
  /// Maps the segment behind `descriptor` as `rank` of `ranks`, and closes nothing. 1 (HCCL_E_PARA) where other ranks
  /// said another number of ranks, or the place is taken.
  Status attach(std::string_view entry, int descriptor, uint64_t nonce, uint32_t ranks, uint32_t rank);
  /// The same for a descriptor of another process of this machine.
  Status attach_to(std::string_view entry, int32_t pid, int descriptor, uint64_t nonce, uint32_t ranks, uint32_t rank);

  uint32_t ranks() const noexcept { return ranks_; }
  uint32_t rank() const noexcept { return rank_; }
  RankPlace& place(uint32_t rank) const noexcept { return places_[rank]; }
  OfferPlace& offer(uint32_t rank, uint64_t sequence) const noexcept { return offers_[2 * rank + sequence % 2]; }
  Channel& channel(uint32_t from, uint32_t to) const noexcept { return channels_[from * ranks_ + to]; }
  DirectoryEntry* begin_directory() const noexcept;
  DirectoryEntry* end_directory() const noexcept;

  /// To be called after a change that others may wait for.
  void announce() const noexcept;
  /// Announcements so far; `sleep` returns when there were more, after `for_time`, or for no reason.
  uint32_t announcements() const noexcept;
  void sleep(uint32_t seen_announcements, std::chrono::milliseconds for_time) const noexcept;

  /// The process of `rank`.
  int32_t process_of(uint32_t rank) const noexcept { return places_[rank].pid.load(std::memory_order_relaxed); }
  /// Opens what `is_dead` asks. Every place must be taken.
  void watch_peers();
  /// True if the process of `rank` is gone.
  bool is_dead(uint32_t rank) const noexcept;

  /// Copies bytes of `rank`'s process. False if they can't be had (errno tells).
  bool read(uint32_t rank, void* to, uint64_t from, uint64_t size_bytes) const noexcept;

 private:
  struct Head;

  struct Mapping;
  /// The whole of the segment behind `descriptor`: one mapping for all ranks of a process.
  static std::shared_ptr<Mapping> map(int descriptor, uint64_t size_bytes);

  std::shared_ptr<Mapping> mapping_;
  Head* head_ = nullptr;
  uint32_t ranks_ = 0;
  uint32_t rank_ = 0;
  RankPlace* places_ = nullptr;
  OfferPlace* offers_ = nullptr;
  Channel* channels_ = nullptr;
  std::vector<int> peers_;  ///< a descriptor of each rank's process, -1 where there is none
};

}  // namespace drydock::comm
