#include "comm/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "comm/device_buffer.h"
#include "comm/peer_bytes.h"
#include "comm/reduction.h"
#include "device/address_space.h"
#include "values/policy.h"

namespace drydock::comm {
namespace {

using values::Knowledge;

constexpr uint64_t kCachedBytes = 2048;

/// Bytes of one rank's send buffer that this rank takes.
struct Piece {
  uint32_t from = 0;
  Share source;
  uint64_t to = 0;  ///< device address
};

/// Buffers of a worker thread, kept because fresh pages cost more than the work on small calls.
struct Scratch {
  alignas(64) unsigned char accumulator[Reduction::kScratchBytes];
  alignas(64) unsigned char received[Reduction::kScratchBytes];
};

Scratch& scratch() {
  thread_local const std::unique_ptr<Scratch> buffers(new Scratch);
  return *buffers;
}

bool has_values(const Offer& offer) {
  return offer.moves != 0 && offer.size_bytes != 0 && static_cast<Knowledge>(offer.knowledge) != Knowledge::kGhost;
}

class Exchange {
 public:
  Exchange(Meeting& meeting, PeerWindows& windows, const Collective& call)
      : meeting_(meeting),
        windows_(windows),
        segment_(meeting.segment()),
        call_(call),
        own_(segment_.rank()),
        ranks_(segment_.ranks()) {}

  Status run() {
    DRYDOCK_RETURN_IF_ERROR(meeting_.wait(
        [&](uint32_t rank) { return segment_.place(rank).arrived.load(std::memory_order_acquire) < call_.sequence; }));
    DRYDOCK_RETURN_IF_ERROR(compare());
    if (call_.kind == Kind::kBarrier) return Status::ok();
    if (call_.kind == Kind::kAllReduce) return all_reduce();
    return call_.reduces() ? reduce() : gather();
  }

 private:
  Offer& offer_of(uint32_t rank) const { return segment_.offer(rank, call_.sequence).offer; }

  /// All ranks do this on the same offers, so all of them find the same difference.
  Status compare() const {
    const Offer& own = offer_of(own_);
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Offer& other = offer_of(rank);
      const bool is_same = other.kind == own.kind && other.type == own.type && other.op == own.op &&
                           other.root == own.root && other.count == own.count;
      if (!is_same) return differ(rank, describe(other), describe(own));
      if (call_.kind != Kind::kAllGatherV && call_.kind != Kind::kAllToAllV) continue;
      const uint64_t given = share_from(rank).size_bytes;
      const uint64_t expected = call_.receive_shares[rank].size_bytes;
      if (given != expected) {
        return differ(rank, fmt::format("{} with {} bytes for rank {}", name_of(call_.kind), given, own_),
                      fmt::format("{} with {} bytes from rank {}", name_of(call_.kind), expected, rank));
      }
    }
    return Status::ok();
  }

  Status differ(uint32_t rank, const std::string& theirs, const std::string& ours) const {
    return Status::error(
        code::ACL_ERROR_RT_AICPU_EXCEPTION,
        fmt::format("Ranks called different things as #{} of {}: rank {} {} ({}), rank {} {} ({}).", call_.sequence,
                    meeting_.communicator(), own_, ours, offer_of(own_).line, rank, theirs, offer_of(rank).line));
  }

  /// What `rank` gives to this one, in a kind where sizes differ.
  Share share_from(uint32_t rank) const {
    if (call_.kind == Kind::kAllGatherV) return {0, offer_of(rank).size_bytes};
    return segment_.offer(rank, call_.sequence).shares[own_];
  }

  std::vector<Piece> pieces() const {
    const uint64_t size_bytes = call_.count * bytes_of(call_.type);
    std::vector<Piece> pieces;
    switch (call_.kind) {
      case Kind::kBroadcast:
        if (own_ != call_.root) pieces.push_back({call_.root, {0, size_bytes}, call_.receive});
        break;
      case Kind::kScatter: pieces.push_back({call_.root, {own_ * size_bytes, size_bytes}, call_.receive}); break;
      case Kind::kAllGather:
        for (uint32_t rank = 0; rank < ranks_; ++rank)
          pieces.push_back({rank, {0, size_bytes}, call_.receive + rank * size_bytes});
        break;
      case Kind::kAllToAll:
        for (uint32_t rank = 0; rank < ranks_; ++rank)
          pieces.push_back({rank, {own_ * size_bytes, size_bytes}, call_.receive + rank * size_bytes});
        break;
      default:
        for (uint32_t rank = 0; rank < ranks_; ++rank)
          pieces.push_back({rank, share_from(rank), call_.receive + call_.receive_shares[rank].offset});
    }
    return pieces;
  }

  Status gather() {
    const std::vector<Piece> pieces = this->pieces();
    // Another rank may not have read yet what this one would overwrite.
    const bool is_staged = call_.send < call_.receive + call_.receive_bytes &&
                           call_.receive < call_.send + call_.send_bytes &&
                           (call_.kind == Kind::kAllToAll || call_.kind == Kind::kAllToAllV);
    std::vector<unsigned char> stage(is_staged ? call_.receive_bytes : 0);
    const auto target = [&](const Piece& piece) {
      return is_staged ? stage.data() + (piece.to - call_.receive) : host_bytes(piece.to);
    };
    for (const Piece& piece : pieces) {
      if (!has_values(offer_of(piece.from)) || piece.source.size_bytes == 0) continue;
      const device::MemoryInUse in_use;
      DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call_));
      DRYDOCK_RETURN_IF_ERROR(read(piece.from, piece.source, target(piece)));
    }
    DRYDOCK_RETURN_IF_ERROR(leave());
    const device::MemoryInUse in_use;
    DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call_));
    for (const Piece& piece : pieces) {
      if (piece.source.size_bytes == 0) continue;
      const Offer& offer = offer_of(piece.from);
      if (has_values(offer)) {
        if (is_staged) std::memcpy(host_bytes(piece.to), target(piece), piece.source.size_bytes);
        values::set_knowledge(piece.to, piece.source.size_bytes, static_cast<Knowledge>(offer.knowledge));
      } else {
        make_ghost(piece.to, piece.source.size_bytes, call_.type);
      }
    }
    return Status::ok();
  }

  /// Where this process finds what `rank` sends; null where it has to be copied from that process first.
  const unsigned char* bytes_from(uint32_t rank) const {
    const OfferPlace& place = segment_.offer(rank, call_.sequence);
    if (place.offer.is_inline != 0) return place.bytes;
    if (rank == own_) return host_bytes(call_.send);
    return windows_.send_buffer(segment_, rank, place.offer);
  }

  Status read(uint32_t rank, const Share& source, void* to) const {
    if (const unsigned char* bytes = bytes_from(rank)) {
      // A rank's own piece may be where it belongs already.
      if (bytes + source.offset != to) std::memcpy(to, bytes + source.offset, source.size_bytes);
      return Status::ok();
    }
    return read_peer(meeting_, rank, to, offer_of(rank).address + source.offset, source.size_bytes);
  }

  /// What is known of a reduction's result.
  Knowledge knowledge_of_result() const {
    Knowledge worst = Knowledge::kKnown;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Offer& offer = offer_of(rank);
      if (offer.size_bytes == 0) continue;
      worst = offer.moves != 0 ? std::min(worst, static_cast<Knowledge>(offer.knowledge)) : Knowledge::kGhost;
    }
    // Floats never rest on assumptions.
    const bool is_float = is_floating(data_type_of(call_.type));
    return worst == Knowledge::kAssumed && is_float ? Knowledge::kGhost : worst;
  }

  /// Reduces a range of all ranks' send buffers, and writes it to each of `targets`. The caller holds MemoryInUse.
  Status reduce_range(const Share& range, std::span<unsigned char* const> targets) const {
    std::array<const unsigned char*, kMaxRanks> sources{};
    bool are_all_here = true;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      sources[rank] = bytes_from(rank);
      if (sources[rank] == nullptr) are_all_here = false;
    }
    const uint64_t element_bytes = bytes_of(call_.type);
    // What was read last is still in the first cache when it is written over.
    const uint64_t most_bytes = are_all_here ? kCachedBytes : Reduction::kBlockElements * element_bytes;
    Scratch& buffers = scratch();
    Reduction reduction(call_.type, call_.op, buffers.accumulator);
    for (uint64_t done = 0; done < range.size_bytes;) {
      const uint64_t block_bytes = std::min(range.size_bytes - done, most_bytes);
      const uint64_t count = block_bytes / element_bytes;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        const uint64_t offset = range.offset + done;
        const unsigned char* elements = buffers.received;
        if (sources[rank] != nullptr) {
          elements = sources[rank] + offset;
        } else {
          DRYDOCK_RETURN_IF_ERROR(
              read_peer(meeting_, rank, buffers.received, offer_of(rank).address + offset, block_bytes));
        }
        rank == 0 ? reduction.begin(elements, count) : reduction.add(elements, count);
      }
      reduction.end(targets.front() + done, count);
      for (unsigned char* target : targets.subspan(1)) std::memcpy(target + done, targets.front() + done, block_bytes);
      done += block_bytes;
    }
    return Status::ok();
  }
  Status reduce_range(const Share& range, unsigned char* to) const { return reduce_range(range, std::span(&to, 1)); }

  Status reduce() {
    Share range{0, call_.send_bytes};
    if (call_.kind == Kind::kReduceScatter) range = {own_ * call_.receive_bytes, call_.receive_bytes};
    if (call_.kind == Kind::kReduceScatterV) range = call_.send_shares[own_];
    const bool takes_part = call_.kind != Kind::kReduce || own_ == call_.root;
    const Knowledge knowledge = knowledge_of_result();
    const bool has_result = takes_part && knowledge != Knowledge::kGhost;
    // Where a result lies upon what other ranks read of this one, it has to wait until they have; its own part of the
    // send buffer nobody else reads.
    const bool overlaps =
        call_.send < call_.receive + call_.receive_bytes && call_.receive < call_.send + call_.send_bytes;
    const bool is_staged = has_result && overlaps && call_.receive != call_.send + range.offset;
    std::vector<unsigned char> stage(is_staged ? range.size_bytes : 0);
    if (has_result) {
      const device::MemoryInUse in_use;
      DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call_));
      DRYDOCK_RETURN_IF_ERROR(reduce_range(range, is_staged ? stage.data() : host_bytes(call_.receive)));
    }
    DRYDOCK_RETURN_IF_ERROR(leave());
    if (is_staged) {
      const device::MemoryInUse in_use;
      DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call_));
      std::memcpy(host_bytes(call_.receive), stage.data(), range.size_bytes);
    }
    if (takes_part) set_result(call_.receive, range.size_bytes, knowledge);
    return Status::ok();
  }

  Status all_reduce() {
    const Knowledge knowledge = knowledge_of_result();
    const bool is_inline = offer_of(own_).is_inline != 0;  // sizes are the same on all ranks
    if (knowledge != Knowledge::kGhost && call_.send_bytes != 0) {
      if (is_inline) {
        const device::MemoryInUse in_use;
        DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call_));
        DRYDOCK_RETURN_IF_ERROR(reduce_range({0, call_.send_bytes}, host_bytes(call_.receive)));
      } else {
        DRYDOCK_RETURN_IF_ERROR(all_reduce_by_parts());
      }
    } else {
      DRYDOCK_RETURN_IF_ERROR(leave());
    }
    set_result(call_.receive, call_.receive_bytes, knowledge);
    return Status::ok();
  }

  /// Each rank reduces its part, in place where the call is in place (nobody else reads that part), and gives it to all
  /// ranks whose memory it can reach. The others take it from there.
  Status all_reduce_by_parts() {
    const Share own = part_of(own_);
    uint64_t delivered = bit_of(own_);
    {
      const device::MemoryInUse in_use;
      DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call_));
      std::vector<unsigned char*> targets{host_bytes(call_.receive) + own.offset};
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        if (rank == own_) continue;
        unsigned char* result = windows_.result_buffer(segment_, rank, offer_of(rank));
        if (result == nullptr) continue;
        targets.push_back(result + own.offset);
        delivered |= bit_of(rank);
      }
      DRYDOCK_RETURN_IF_ERROR(reduce_range(own, targets));
    }
    RankPlace& place = segment_.place(own_);
    place.delivered = delivered;
    place.reduced.store(call_.sequence, std::memory_order_release);
    segment_.announce();
    const uint64_t everyone = ranks_ == 64 ? ~uint64_t{0} : bit_of(ranks_) - 1;
    bool is_read_by_others = delivered != everyone;
    for (uint32_t step = 1; step < ranks_; ++step) {
      // Each begins with its neighbour, so that not all read from one.
      const uint32_t from = (own_ + step) % ranks_;
      DRYDOCK_RETURN_IF_ERROR(meeting_.wait_until([&] {
        return segment_.place(from).reduced.load(std::memory_order_acquire) < call_.sequence ? from : ranks_;
      }));
      const uint64_t given = segment_.place(from).delivered;
      if (given != everyone) is_read_by_others = true;
      if ((given & bit_of(own_)) != 0) continue;
      const Share part = part_of(from);
      const device::MemoryInUse in_use;
      DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call_));
      DRYDOCK_RETURN_IF_ERROR(read_peer(meeting_, from, host_bytes(call_.receive + part.offset),
                                        offer_of(from).result_address + part.offset, part.size_bytes));
    }
    // Where all ranks were given all parts, nobody touches this rank's buffers any more.
    return is_read_by_others ? leave() : Status::ok();
  }

  static uint64_t bit_of(uint32_t rank) { return uint64_t{1} << rank; }

  Share part_of(uint32_t rank) const {
    constexpr uint64_t kLineElements = 64;
    const uint64_t each = ((call_.count + ranks_ - 1) / ranks_ + kLineElements - 1) / kLineElements * kLineElements;
    const uint64_t begin = std::min(rank * each, call_.count);
    const uint64_t end = std::min(begin + each, call_.count);
    const uint64_t element_bytes = bytes_of(call_.type);
    return {begin * element_bytes, (end - begin) * element_bytes};
  }

  void set_result(uint64_t address, uint64_t size_bytes, Knowledge knowledge) const {
    if (size_bytes == 0) return;
    if (knowledge == Knowledge::kGhost) return make_ghost(address, size_bytes, call_.type);
    values::set_knowledge(address, size_bytes, knowledge);
    if (knowledge == Knowledge::kAssumed) trace::assumed(trace::Assumption::kOperatorResult, size_bytes, call_.line);
  }

  /// Nobody returns while another may still read its buffers. Where all bytes were in the segment, nobody has to wait.
  Status leave() {
    bool is_read_by_others = false;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Offer& offer = offer_of(rank);
      if (has_values(offer) && offer.is_inline == 0) is_read_by_others = true;
    }
    if (!is_read_by_others) return Status::ok();
    segment_.place(own_).finished.store(call_.sequence, std::memory_order_release);
    segment_.announce();
    return meeting_.wait(
        [&](uint32_t rank) { return segment_.place(rank).finished.load(std::memory_order_acquire) < call_.sequence; });
  }

  Meeting& meeting_;
  PeerWindows& windows_;
  const Segment& segment_;
  const Collective& call_;
  const uint32_t own_;
  const uint32_t ranks_;
};

}  // namespace

Status arrive(Meeting& meeting, const Collective& call) {
  const Segment& segment = meeting.segment();
  OfferPlace& place = segment.offer(segment.rank(), call.sequence);
  share_buffers_of(call);
  {
    const device::MemoryInUse in_use;
    DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call));
    fill_offer(place.offer, call);
    if (place.offer.is_inline != 0) std::memcpy(place.bytes, host_bytes(call.send), call.send_bytes);
  }
  std::copy(call.send_shares.begin(), call.send_shares.end(), place.shares);
  segment.place(segment.rank()).arrived.store(call.sequence, std::memory_order_release);
  segment.announce();
  return Status::ok();
}

bool can_end_at_once(Meeting& meeting, const Collective& call, bool wait_briefly) {
  const Segment& segment = meeting.segment();
  const auto is_missing = [&](uint32_t rank) {
    return segment.place(rank).arrived.load(std::memory_order_acquire) < call.sequence;
  };
  for (uint32_t rank = 0; rank < segment.ranks(); ++rank) {
    if (!is_missing(rank)) continue;
    if (!wait_briefly || !meeting.wait_briefly(is_missing)) return false;
  }
  for (uint32_t rank = 0; rank < segment.ranks(); ++rank) {
    const Offer& offer = segment.offer(rank, call.sequence).offer;
    if (has_values(offer) && offer.is_inline == 0) return false;
  }
  return true;
}

Status exchange(Meeting& meeting, PeerWindows& windows, const Collective& call) {
  return Exchange(meeting, windows, call).run();
}

}  // namespace drydock::comm
