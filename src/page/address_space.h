#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "ledger/flat_table.h"

namespace drydock::page {

/// A live block of the client's allocator.
struct PlacedBlock {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;  ///< 0 = unknown
  uint32_t holder = 0;
  uint32_t step = 0;  ///< in which it was allocated, counted from 1
};

/// Driver memory at consecutive addresses: an allocation, or what is mapped without a gap in one reservation.
struct PlacedSegment {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint32_t holder = 0;  ///< who had the driver allocate its first piece
};

/// Both, by address.
struct Layout {
  std::vector<PlacedSegment> segments;
  std::vector<PlacedBlock> blocks;
};

/// What lies where on a device, and what lay where at two moments. Events take constant time (pieces of driver memory:
/// logarithmic): what goes after a marked moment is kept until the mark moves.
class AddressSpace {
 public:
  /// A block at an address that is taken replaces the one there.
  void block_allocated(const PlacedBlock& block);
  /// Null if there is none. Valid until the next call.
  PlacedBlock* block_at(uint64_t address);
  void block_freed(uint64_t address);

  void reserved(uint64_t address, uint64_t size_bytes);
  void unreserved(uint64_t address);
  /// `is_mapping`: joined with its neighbours in the same reservation.
  void piece_added(const PlacedSegment& piece, bool is_mapping);
  void piece_removed(uint64_t address);

  enum class Mark : uint8_t { kPeak, kRefusal };
  /// The present moment becomes the marked one.
  void mark(Mark which);
  /// The layout at the mark; empty if it was never set.
  Layout at(Mark which) const;

 private:
  struct LiveBlock {
    PlacedBlock block;
    uint64_t born = 0;
  };
  struct Piece {
    PlacedSegment segment;
    uint64_t reservation = 0;  // address of the one that it is mapped in; 0 = none
    uint64_t born = 0;
  };

  struct Marked {
    uint64_t at = 0;
    std::vector<PlacedBlock> gone_blocks;  // of those that were live then
    std::vector<Piece> gone_pieces;
  };

  uint64_t reservation_of(uint64_t address) const;

  uint64_t clock_ = 0;
  std::array<Marked, 2> marks_;
  ledger::FlatTable<LiveBlock> blocks_;
  std::map<uint64_t, Piece> pieces_;
  std::map<uint64_t, uint64_t> reservations_;  // size by address
};

}  // namespace drydock::page
