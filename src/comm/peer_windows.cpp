#include "comm/peer_windows.h"

#include <fcntl.h>
#include <string>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/mman.h>

namespace drydock::comm {
namespace {

// A window begins at each multiple of half its size, so a buffer of up to that lies in one.
constexpr uint64_t kWindowBytes = uint64_t{16} << 30;
constexpr uint64_t kStrideBytes = kWindowBytes / 2;

}  // namespace

PeerWindows::~PeerWindows() {
  for (const auto& [key, window] : windows_) {
    if (window != MAP_FAILED) munmap(window, kWindowBytes);
  }
  for (const auto& [key, file] : files_) {
    if (file >= 0) close(file);
  }
}

unsigned char* PeerWindows::send_buffer(const Segment& segment, uint32_t rank, const Offer& offer) {
  if (segment.process_of(rank) == getpid()) return reinterpret_cast<unsigned char*>(offer.address);
  return find(segment, rank, offer.file, offer.offset, offer.size_bytes);
}

unsigned char* PeerWindows::result_buffer(const Segment& segment, uint32_t rank, const Offer& offer) {
  if (segment.process_of(rank) == getpid()) return reinterpret_cast<unsigned char*>(offer.result_address);
  return find(segment, rank, offer.file, offer.result_offset, offer.result_bytes);
}

unsigned char* PeerWindows::find(const Segment& segment, uint32_t rank, int32_t file, uint64_t offset,
                                 uint64_t size_bytes) {
  if (file < 0 || size_bytes == 0 || size_bytes > kStrideBytes) return nullptr;
  const int own = file_of(segment, rank, file);
  if (own < 0) return nullptr;
  const uint64_t number = offset / kStrideBytes;
  const auto [window, is_new] = windows_.try_emplace({own, number}, MAP_FAILED);
  if (is_new) {
    window->second = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, own,
                          static_cast<off_t>(number * kStrideBytes));
  }
  if (window->second == MAP_FAILED) return nullptr;
  return static_cast<unsigned char*>(window->second) + (offset - number * kStrideBytes);
}

int PeerWindows::file_of(const Segment& segment, uint32_t rank, int32_t file) {
  const auto [known, is_new] = files_.try_emplace({rank, file}, -1);
  if (is_new) {
    const std::string path = fmt::format("/proc/{}/fd/{}", segment.process_of(rank), file);
    known->second = open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  return known->second;
}

}  // namespace drydock::comm
