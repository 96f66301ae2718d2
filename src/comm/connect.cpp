#include "comm/connect.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/generated/error_codes.h"
#include "comm/buffers.h"

namespace drydock::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{20};

/// Where a segment is: in a process of this machine.
struct Place {
  std::array<char, 8> magic{'d', 'r', 'y', 'd', 'o', 'c', 'k', '1'};
  uint64_t machine = 0;
  uint64_t nonce = 0;
  int32_t pid = 0;
  int32_t descriptor = -1;
};
static_assert(sizeof(Place) <= kRootInfoBytes);

uint64_t this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  const std::string id{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return std::hash<std::string>{}(id);
}

Status make_place(std::string_view entry, Place& place) {
  place.machine = this_machine();
  place.pid = getpid();
  return Segment::create(entry, place.descriptor, place.nonce);
}

/// Closes the descriptor of a segment that this process made: all ranks have mapped it, or never will.
void close_place(const Place& place) {
  if (place.pid == getpid() && place.descriptor >= 0) close(place.descriptor);
}

Status check_member(std::string_view entry, const Member& member) {
  if (member.ranks == 0 || member.rank >= member.ranks) {
    return Status::error(code::HCCL_E_PARA,
                         fmt::format("{}: there is no rank {} of {}.", entry, member.rank, member.ranks));
  }
  if (member.ranks > kMaxRanks) {
    return Status::error(code::HCCL_E_NOT_SUPPORT,
                         fmt::format("{}: {} ranks. Real ranks are processes of one machine, at most {}.", entry,
                                     member.ranks, kMaxRanks));
  }
  return Status::ok();
}

std::string missing_ranks(const Segment& segment) {
  std::string text;
  for (uint32_t rank = 0; rank < segment.ranks(); ++rank) {
    if (segment.place(rank).is_in.load() != 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  }
  return text;
}

Status wait_for_all(std::string_view entry, const Segment& segment, const Place& place, std::chrono::seconds limit) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    const uint32_t announcements = segment.announcements();
    const std::string missing = missing_ranks(segment);
    if (missing.empty()) return Status::ok();
    if (kill(place.pid, 0) != 0 && errno == ESRCH) {
      return Status::error(code::HCCL_E_REMOTE,
                           fmt::format("{}: rank {} of {} waits for rank {}, and process {}, which "
                                       "made the root info, has ended.",
                                       entry, segment.rank(), segment.ranks(), missing, place.pid));
    }
    if (Clock::now() - begin >= limit) {
      return Status::error(
          code::HCCL_E_TIMEOUT,
          fmt::format("{}: rank {} of {} waited {} s (HCCL_CONNECT_TIMEOUT) for rank {}, which did not "
                      "come. Did it start, and does it make the same communicators in the same order?",
                      entry, segment.rank(), segment.ranks(), limit.count(), missing));
    }
    segment.sleep(announcements, kLook);
  }
}

Status finish(std::string_view entry, std::unique_ptr<Segment> segment, const Place& place, const Member& member,
              CommunicatorSettings settings, std::shared_ptr<Communicator>& joined) {
  std::shared_ptr<void> buffers;
  DRYDOCK_RETURN_IF_ERROR(take_buffers(entry, member.device, member.ranks, settings, buffers));
  DRYDOCK_RETURN_IF_ERROR(wait_for_all(entry, *segment, place, settings.connect_limit));
  if (settings.name.empty()) settings.name = fmt::format("drydock_{:016x}", place.nonce);
  joined = std::make_shared<Communicator>(std::move(segment), member.device, std::move(settings), std::move(buffers));
  return Status::ok();
}

Status join_place(std::string_view entry, const Place& place, const Member& member, CommunicatorSettings settings,
                  std::shared_ptr<Communicator>& joined) {
  auto segment = std::make_unique<Segment>();
  DRYDOCK_RETURN_IF_ERROR(
      segment->attach_to(entry, place.pid, place.descriptor, place.nonce, member.ranks, member.rank));
  return finish(entry, std::move(segment), place, member, std::move(settings), joined);
}

// --- Members of a sub-communicator meet in a directory of the parent's segment.

uint64_t directory_key(std::span<const uint32_t> ids, uint64_t id) {
  uint64_t key = 0xcbf29ce484222325 ^ id;
  for (const uint32_t rank : ids) key = (key ^ rank) * 0x100000001b3;
  return key | 1;  // 0 marks a free entry
}

Status write_directory(std::string_view entry, const Segment& parent, uint64_t key, const Place& place,
                       DirectoryEntry*& written) {
  for (DirectoryEntry* at = parent.begin_directory(); at != parent.end_directory(); ++at) {
    uint64_t is_free = 0;
    if (!at->key.compare_exchange_strong(is_free, key)) continue;
    at->descriptor = place.descriptor;
    at->nonce = place.nonce;
    at->pid.store(place.pid, std::memory_order_release);
    parent.announce();
    written = at;
    return Status::ok();
  }
  return Status::error(code::HCCL_E_UNAVAIL,
                       fmt::format("{}: too many sub-communicators are being made at once.", entry));
}

Status find_in_directory(std::string_view entry, const Segment& parent, uint64_t key, uint32_t creator,
                         std::chrono::seconds limit, Place& place) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    const uint32_t announcements = parent.announcements();
    for (DirectoryEntry* at = parent.begin_directory(); at != parent.end_directory(); ++at) {
      if (at->key.load(std::memory_order_acquire) != key) continue;
      const int32_t pid = at->pid.load(std::memory_order_acquire);
      if (pid == 0) continue;
      place.pid = pid;
      place.descriptor = at->descriptor;
      place.nonce = at->nonce;
      return Status::ok();
    }
    if (parent.is_dead(creator)) {
      return Status::error(code::HCCL_E_REMOTE,
                           fmt::format("{}: rank {}, the first of the sub-communicator, has ended.", entry, creator));
    }
    if (Clock::now() - begin >= limit) {
      return Status::error(code::HCCL_E_TIMEOUT,
                           fmt::format("{}: waited {} s (HCCL_CONNECT_TIMEOUT) for rank {}, the first of the "
                                       "sub-communicator, which did not come.",
                                       entry, limit.count(), creator));
    }
    parent.sleep(announcements, kLook);
  }
}

// --- Ranks with a rank table meet at a socket whose name has no file, so that none can be left behind.

sockaddr_un table_socket(const std::string& path) {
  std::error_code ignored;
  std::string key = std::filesystem::absolute(path, ignored).string() + fmt::format("/{}", getuid());
  for (const char* variable : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}) {
    const char* value = std::getenv(variable);
    key += fmt::format("/{}", value == nullptr ? "" : value);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("drydock-rank-table-{:016x}", std::hash<std::string>{}(key));
  name.copy(address.sun_path + 1, name.size());
  return address;
}

Status socket_failure(std::string_view entry, int error) {
  return Status::error(code::HCCL_E_SYSCALL, fmt::format("{}: the socket where ranks of a rank table meet: {}.", entry,
                                                         std::strerror(error)));
}

/// Rank 0 tells all others the place, until all are in.
Status serve_table(std::string_view entry, const std::string& path, const Place& place, const Segment& segment,
                   std::chrono::seconds limit) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = table_socket(path);
  Status status = Status::ok();
  if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, static_cast<int>(kMaxRanks)) != 0) {
    const int error = errno;
    status = error == EADDRINUSE
                 ? Status::error(code::HCCL_E_UNAVAIL,
                                 fmt::format("{}: another rank 0 waits for the ranks of {} right now.", entry, path))
                 : socket_failure(entry, error);
  }
  const Clock::time_point begin = Clock::now();
  while (status.is_ok() && !missing_ranks(segment).empty()) {
    if (Clock::now() - begin >= limit) break;  // `finish` says who is missing
    pollfd asked{listener, POLLIN, 0};
    if (poll(&asked, 1, static_cast<int>(kLook.count())) != 1) continue;
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    static_cast<void>(send(client, &place, sizeof place, MSG_NOSIGNAL));
    close(client);
  }
  if (listener >= 0) close(listener);
  return status;
}

Status ask_table(std::string_view entry, const std::string& path, std::chrono::seconds limit, Place& place) {
  const sockaddr_un address = table_socket(path);
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < limit) {
    const int asking = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (asking < 0) return socket_failure(entry, errno);
    const bool is_told = connect(asking, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                         recv(asking, &place, sizeof place, MSG_WAITALL) == static_cast<ssize_t>(sizeof place);
    close(asking);
    if (is_told) return Status::ok();
    std::this_thread::sleep_for(kLook);
  }
  return Status::error(code::HCCL_E_TIMEOUT,
                       fmt::format("{}: waited {} s (HCCL_CONNECT_TIMEOUT) for rank 0 of {}, which did not come.",
                                   entry, limit.count(), path));
}

Status ranks_of_table(std::string_view entry, const std::string& path, uint32_t& ranks) {
  std::ifstream file(path);
  if (!file) {
    return Status::error(code::HCCL_E_OPEN_FILE_FAILURE,
                         fmt::format("{}: the rank table {} can't be read: {}.", entry, path, std::strerror(errno)));
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ranks = 0;
  constexpr std::string_view kRank = "\"rank_id\"";
  for (size_t at = text.find(kRank); at != std::string::npos; at = text.find(kRank, at + kRank.size())) ++ranks;
  if (ranks != 0) return Status::ok();
  return Status::error(code::HCCL_E_PARA, fmt::format("{}: the rank table {} names no rank_id.", entry, path));
}

}  // namespace

Status make_root_info(std::string_view entry, void* root_info) {
  Place place;
  DRYDOCK_RETURN_IF_ERROR(make_place(entry, place));
  std::memset(root_info, 0, kRootInfoBytes);
  std::memcpy(root_info, &place, sizeof place);
  return Status::ok();
}

Status join_root_info(std::string_view entry, const void* root_info, const Member& member,
                      CommunicatorSettings settings, std::shared_ptr<Communicator>& joined) {
  DRYDOCK_RETURN_IF_ERROR(check_member(entry, member));
  Place place;
  const Place expected;
  std::memcpy(&place, root_info, sizeof place);
  if (place.magic != expected.magic)
    return Status::error(code::HCCL_E_PARA, fmt::format("{}: the root info is not from HcclGetRootInfo.", entry));
  if (place.machine != this_machine()) {
    return Status::error(code::HCCL_E_NOT_SUPPORT,
                         fmt::format("{}: the root info is from another machine. Real ranks are processes of one "
                                     "machine.",
                                     entry));
  }
  Status status = join_place(entry, place, member, std::move(settings), joined);
  close_place(place);
  return status;
}

Status join_rank_table(std::string_view entry, const char* path, Member member, CommunicatorSettings settings,
                       std::shared_ptr<Communicator>& joined) {
  DRYDOCK_RETURN_IF_ERROR(ranks_of_table(entry, path, member.ranks));
  DRYDOCK_RETURN_IF_ERROR(check_member(entry, member));
  Place place;
  if (member.rank != 0) {
    DRYDOCK_RETURN_IF_ERROR(ask_table(entry, path, settings.connect_limit, place));
    return join_place(entry, place, member, std::move(settings), joined);
  }
  DRYDOCK_RETURN_IF_ERROR(make_place(entry, place));
  auto segment = std::make_unique<Segment>();
  Status status = segment->attach_to(entry, place.pid, place.descriptor, place.nonce, member.ranks, member.rank);
  if (status.is_ok()) status = serve_table(entry, path, place, *segment, settings.connect_limit);
  if (status.is_ok()) status = finish(entry, std::move(segment), place, member, std::move(settings), joined);
  close_place(place);
  return status;
}

Status join_sub_communicator(std::string_view entry, const Communicator& parent, std::span<const uint32_t> ids,
                             uint64_t id, const Member& member, CommunicatorSettings settings,
                             std::shared_ptr<Communicator>& joined) {
  DRYDOCK_RETURN_IF_ERROR(check_member(entry, member));
  for (const uint32_t rank : ids) {
    if (rank < parent.ranks()) continue;
    return Status::error(code::HCCL_E_PARA, fmt::format("{}: there is no rank {} in {}, which has {}.", entry, rank,
                                                        parent.name(), parent.ranks()));
  }
  if (ids[member.rank] != parent.rank()) {
    return Status::error(
        code::HCCL_E_PARA,
        fmt::format("{}: rank {} of the sub-communicator is rank {} of {}, and this process is rank {}.", entry,
                    member.rank, ids[member.rank], parent.name(), parent.rank()));
  }
  const uint64_t key = directory_key(ids, id);
  Place place;
  if (member.rank != 0) {
    DRYDOCK_RETURN_IF_ERROR(
        find_in_directory(entry, parent.segment(), key, ids.front(), settings.connect_limit, place));
    return join_place(entry, place, member, std::move(settings), joined);
  }
  DRYDOCK_RETURN_IF_ERROR(make_place(entry, place));
  DirectoryEntry* written = nullptr;
  Status status = write_directory(entry, parent.segment(), key, place, written);
  if (status.is_ok()) status = join_place(entry, place, member, std::move(settings), joined);
  if (written != nullptr) {
    written->pid.store(0);
    written->key.store(0);
  }
  close_place(place);
  return status;
}

Status join_all(std::string_view entry, std::span<const int32_t> devices, const CommunicatorSettings& settings,
                std::span<std::shared_ptr<Communicator>> joined) {
  const auto ranks = static_cast<uint32_t>(devices.size());
  DRYDOCK_RETURN_IF_ERROR(check_member(entry, {ranks, 0, 0}));
  Place place;
  DRYDOCK_RETURN_IF_ERROR(make_place(entry, place));
  std::vector<std::unique_ptr<Segment>> segments;
  Status status = Status::ok();
  for (uint32_t rank = 0; rank < ranks && status.is_ok(); ++rank) {
    segments.push_back(std::make_unique<Segment>());
    status = segments.back()->attach_to(entry, place.pid, place.descriptor, place.nonce, ranks, rank);
  }
  for (uint32_t rank = 0; rank < ranks && status.is_ok(); ++rank)
    status = finish(entry, std::move(segments[rank]), place, {ranks, rank, devices[rank]}, settings, joined[rank]);
  close_place(place);
  return status;
}

}  // namespace drydock::comm
