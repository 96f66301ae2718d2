#include "page/address_space.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace drydock::page {

void AddressSpace::block_allocated(const PlacedBlock& block) {
  if (block.address == ledger::FlatTable<LiveBlock>::kEmptyKey) return;
  block_freed(block.address);
  blocks_[block.address] = {block, ++clock_};
}

PlacedBlock* AddressSpace::block_at(uint64_t address) {
  LiveBlock* found = blocks_.find(address);
  return found == nullptr ? nullptr : &found->block;
}

void AddressSpace::block_freed(uint64_t address) {
  const LiveBlock* found = blocks_.find(address);
  if (found == nullptr) return;
  for (Marked& mark : marks_)
    if (found->born <= mark.at) mark.gone_blocks.push_back(found->block);
  blocks_.erase(address);
}

void AddressSpace::reserved(uint64_t address, uint64_t size_bytes) { reservations_[address] = size_bytes; }

void AddressSpace::unreserved(uint64_t address) { reservations_.erase(address); }

uint64_t AddressSpace::reservation_of(uint64_t address) const {
  auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return 0;
  const auto& [begin, size_bytes] = *std::prev(after);
  return address - begin < size_bytes ? begin : 0;
}

void AddressSpace::piece_added(const PlacedSegment& piece, bool is_mapping) {
  piece_removed(piece.address);
  pieces_[piece.address] = {piece, is_mapping ? reservation_of(piece.address) : 0, ++clock_};
}

void AddressSpace::piece_removed(uint64_t address) {
  auto found = pieces_.find(address);
  if (found == pieces_.end()) return;
  for (Marked& mark : marks_)
    if (found->second.born <= mark.at) mark.gone_pieces.push_back(found->second);
  pieces_.erase(found);
}

void AddressSpace::mark(Mark which) {
  Marked& mark = marks_[static_cast<size_t>(which)];
  mark.at = clock_;
  mark.gone_blocks.clear();
  mark.gone_pieces.clear();
}

Layout AddressSpace::at(Mark which) const {
  const Marked& mark = marks_[static_cast<size_t>(which)];
  Layout layout{.segments = {}, .blocks = mark.gone_blocks};
  blocks_.for_each([&](uint64_t, const LiveBlock& live) {
    if (live.born <= mark.at) layout.blocks.push_back(live.block);
  });
  std::vector<Piece> pieces = mark.gone_pieces;
  for (const auto& [address, piece] : pieces_)
    if (piece.born <= mark.at) pieces.push_back(piece);
  std::sort(layout.blocks.begin(), layout.blocks.end(),
            [](const PlacedBlock& a, const PlacedBlock& b) { return a.address < b.address; });
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.segment.address < b.segment.address; });
  uint64_t reservation = 0;
  for (const Piece& piece : pieces) {
    const PlacedSegment& segment = piece.segment;
    PlacedSegment* last = layout.segments.empty() ? nullptr : &layout.segments.back();
    const bool continues = last != nullptr && piece.reservation != 0 && piece.reservation == reservation &&
                           last->address + last->size_bytes == segment.address;
    if (continues)
      last->size_bytes += segment.size_bytes;
    else
      layout.segments.push_back(segment);
    reservation = piece.reservation;
  }
  return layout;
}

}  // namespace drydock::page
