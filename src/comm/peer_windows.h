#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/export.h"
#include "comm/segment.h"

namespace drydock::comm {

/// Views of the device memory of other ranks, where it lies in a file of theirs: what is read there is copied by nobody
/// before. Kept until the communicator goes. One thread at a time.
class DRYDOCK_API PeerWindows {
 public:
  PeerWindows() = default;
  ~PeerWindows();
  PeerWindows(const PeerWindows&) = delete;
  PeerWindows& operator=(const PeerWindows&) = delete;

  /// Where this process reads and writes the buffers of `offer`, which `rank` made: null where that is not possible.
  unsigned char* send_buffer(const Segment& segment, uint32_t rank, const Offer& offer);
  unsigned char* result_buffer(const Segment& segment, uint32_t rank, const Offer& offer);

 private:
  unsigned char* find(const Segment& segment, uint32_t rank, int32_t file, uint64_t offset, uint64_t size_bytes);
  int file_of(const Segment& segment, uint32_t rank, int32_t file);

  std::map<std::pair<uint32_t, int32_t>, int> files_;  ///< by rank and its own number; -1 where it can't be opened
  std::map<std::pair<int, uint64_t>, void*> windows_;  ///< by file and number of the window
};

}  // namespace drydock::comm
