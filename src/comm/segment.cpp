#include "comm/segment.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/generated/error_codes.h"

namespace drydock::comm {
namespace {

constexpr uint64_t kMagic = 0x33304d4d4f434444;  // changes with the layout
constexpr size_t kDirectoryEntries = 64;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "other processes share these");

Status system_failure(std::string_view entry, std::string_view what) {
  const int error = errno;
  return Status::error(code::HCCL_E_SYSCALL, fmt::format("{}: {}: {}.", entry, what, std::strerror(error)));
}

}  // namespace

struct Segment::Head {
  uint64_t magic;
  uint64_t nonce;
  std::atomic<uint32_t> ranks;
  alignas(64) std::atomic<uint32_t> announcements;
  std::atomic<uint32_t> sleepers;
  alignas(64) DirectoryEntry directory[kDirectoryEntries];
};

Segment::~Segment() {
  for (const int peer : peers_) {
    if (peer >= 0) close(peer);
  }
}

struct Segment::Mapping {
  Mapping(void* first, uint64_t bytes) : begin(first), size_bytes(bytes) {}
  ~Mapping() { munmap(begin, size_bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void* const begin;
  const uint64_t size_bytes;
};

std::shared_ptr<Segment::Mapping> Segment::map(int descriptor, uint64_t size_bytes) {
  // Two mappings of one memory would be two memories to a thread sanitizer.
  static std::mutex& mutex = *new std::mutex;
  static auto& mappings = *new std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Mapping>>;
  struct stat state {};
  if (fstat(descriptor, &state) != 0) return nullptr;
  const std::lock_guard lock(mutex);
  std::erase_if(mappings, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<Mapping>& known = mappings[{state.st_dev, state.st_ino}];
  if (std::shared_ptr<Mapping> mapping = known.lock()) return mapping;
  void* const begin = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (begin == MAP_FAILED) return nullptr;
  auto mapping = std::make_shared<Mapping>(begin, size_bytes);
  known = mapping;
  return mapping;
}

Status Segment::create(std::string_view entry, int& descriptor, uint64_t& nonce) {
  descriptor = memfd_create("drydock-communicator", MFD_CLOEXEC);
  if (descriptor < 0) return system_failure(entry, "the memory where the ranks meet could not be made");
  // From a file, because the constructor of atomics would not be run by the others.
  Head head{};
  head.magic = kMagic;
  if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) nonce = static_cast<uint64_t>(getpid());
  head.nonce = nonce;
  if (pwrite(descriptor, &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head)) {
    Status failure = system_failure(entry, "the memory where the ranks meet could not be written");
    close(descriptor);
    return failure;
  }
  return Status::ok();
}

Status Segment::attach(std::string_view entry, int descriptor, uint64_t nonce, uint32_t ranks, uint32_t rank) {
  const uint64_t places_at = (sizeof(Head) + 4095) / 4096 * 4096;
  const uint64_t offers_at = places_at + ranks * sizeof(RankPlace);
  const uint64_t channels_at = offers_at + uint64_t{2} * ranks * sizeof(OfferPlace);
  const uint64_t size_bytes = channels_at + uint64_t{ranks} * ranks * sizeof(Channel);
  void* first = mmap(nullptr, places_at, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (first == MAP_FAILED) return system_failure(entry, "the memory where the ranks meet could not be mapped");
  struct stat state {};
  if (fstat(descriptor, &state) != 0 || state.st_size < static_cast<off_t>(sizeof(Head)) ||
      static_cast<Head*>(first)->magic != kMagic || static_cast<Head*>(first)->nonce != nonce) {
    munmap(first, places_at);
    return Status::error(code::HCCL_E_PARA,
                         fmt::format("{}: the root info is not that of a rank that still waits here, or another "
                                     "version of Drydock made it. Start all ranks anew.",
                                     entry));
  }
  uint32_t agreed = 0;
  if (!static_cast<Head*>(first)->ranks.compare_exchange_strong(agreed, ranks) && agreed != ranks) {
    munmap(first, places_at);
    return Status::error(
        code::HCCL_E_PARA,
        fmt::format("{}: rank {} says that there are {} ranks, and another said {}. Is WORLD_SIZE the same for all?",
                    entry, rank, ranks, agreed));
  }
  munmap(first, places_at);
  // All ranks ask for the same size, so it does not matter who is first.
  if (ftruncate(descriptor, static_cast<off_t>(size_bytes)) != 0)
    return system_failure(entry, "the memory where the ranks meet could not be made larger");
  std::shared_ptr<Mapping> all = map(descriptor, size_bytes);
  if (all == nullptr) return system_failure(entry, "the memory where the ranks meet could not be mapped");
  auto* base = static_cast<unsigned char*>(all->begin);
  auto* places = reinterpret_cast<RankPlace*>(base + places_at);
  int32_t owner = 0;
  if (!places[rank].pid.compare_exchange_strong(owner, getpid())) {
    return Status::error(code::HCCL_E_PARA,
                         fmt::format("{}: there is a rank {} of {} already, process {}. Is RANK the same twice?", entry,
                                     rank, ranks, owner));
  }
  head_ = static_cast<Head*>(all->begin);
  mapping_ = std::move(all);
  ranks_ = ranks;
  rank_ = rank;
  places_ = places;
  offers_ = reinterpret_cast<OfferPlace*>(base + offers_at);
  channels_ = reinterpret_cast<Channel*>(base + channels_at);
  // Where the host lets only parents look into processes (yama), the other ranks may look into this one. Elsewhere the
  // call does nothing.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  places_[rank].is_in.store(1, std::memory_order_release);
  announce();
  return Status::ok();
}

Status Segment::attach_to(std::string_view entry, int32_t pid, int descriptor, uint64_t nonce, uint32_t ranks,
                          uint32_t rank) {
  if (pid == getpid()) return attach(entry, descriptor, nonce, ranks, rank);
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  const int own = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) {
    const int error = errno;
    return Status::error(code::HCCL_E_REMOTE,
                         fmt::format("{}: process {}, which made the root info, can't be reached: {}. Did it end, or "
                                     "does it run in another container?",
                                     entry, pid, std::strerror(error)));
  }
  Status status = attach(entry, own, nonce, ranks, rank);
  close(own);
  return status;
}

DirectoryEntry* Segment::begin_directory() const noexcept { return head_->directory; }
DirectoryEntry* Segment::end_directory() const noexcept { return head_->directory + kDirectoryEntries; }

void Segment::announce() const noexcept {
  head_->announcements.fetch_add(1);
  if (head_->sleepers.load() != 0) syscall(SYS_futex, &head_->announcements, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint32_t Segment::announcements() const noexcept { return head_->announcements.load(); }

void Segment::sleep(uint32_t seen_announcements, std::chrono::milliseconds for_time) const noexcept {
  timespec time{};
  time.tv_sec = for_time.count() / 1000;
  time.tv_nsec = for_time.count() % 1000 * 1'000'000;
  head_->sleepers.fetch_add(1);
  syscall(SYS_futex, &head_->announcements, FUTEX_WAIT, seen_announcements, &time, nullptr, 0);
  head_->sleepers.fetch_sub(1);
}

void Segment::watch_peers() {
  peers_.assign(ranks_, -1);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const int32_t pid = places_[rank].pid.load();
    if (pid != getpid()) peers_[rank] = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  }
}

bool Segment::is_dead(uint32_t rank) const noexcept {
  const int32_t pid = places_[rank].pid.load();
  if (pid == getpid()) return false;
  const int peer = rank < peers_.size() ? peers_[rank] : -1;
  if (peer < 0) return pid != 0 && kill(pid, 0) != 0 && errno == ESRCH;
  pollfd asked{peer, POLLIN, 0};
  return poll(&asked, 1, 0) == 1;
}

bool Segment::read(uint32_t rank, void* to, uint64_t from, uint64_t size_bytes) const noexcept {
  const int32_t pid = places_[rank].pid.load();
  if (pid == getpid()) {
    std::memcpy(to, reinterpret_cast<const void*>(from), size_bytes);
    return true;
  }
  auto* at = static_cast<unsigned char*>(to);
  while (size_bytes > 0) {
    iovec target{at, size_bytes};
    iovec source{reinterpret_cast<void*>(from), size_bytes};
    const ssize_t copied = process_vm_readv(pid, &target, 1, &source, 1, 0);
    if (copied <= 0) return false;
    at += copied;
    from += static_cast<uint64_t>(copied);
    size_bytes -= static_cast<uint64_t>(copied);
  }
  return true;
}

}  // namespace drydock::comm
