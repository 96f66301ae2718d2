#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "comm/communicator.h"
#include "comm/connect.h"
#include "comm/group.h"
#include "comm/settings.h"
#include "device/context.h"
#include "device/device.h"

// Communicators: how they are made, asked and destroyed.

namespace drydock::entries {
namespace {

using abi::EntryId;
using comm::Communicator;
using comm::CommunicatorSettings;
using comm::Member;

Status require_pointer(std::string_view entry, std::string_view argument, const void* pointer) {
  if (pointer != nullptr) return Status::ok();
  return Status::error(code::HCCL_E_PTR, fmt::format("{}: the argument `{}` is null.", entry, argument));
}

/// The device of this thread's context. Failures get HCCL's code for a failing runtime.
Status current_device(std::string_view entry, int32_t& device) {
  device::Context* context = nullptr;
  const Status status = device::require_context(entry, context);
  if (!status.is_ok()) return Status::error(code::HCCL_E_RUNTIME, status.message());
  device = context->device;
  return Status::ok();
}

Status publish(std::string_view entry, EntryId id, std::shared_ptr<Communicator> joined, void** handle) {
  const uint64_t rank_of_ranks = uint64_t{joined->rank()} << 32 | joined->ranks();
  const int32_t device = joined->device();
  DRYDOCK_RETURN_IF_ERROR(comm::publish_communicator(entry, std::move(joined), *handle));
  record_call(id, rank_of_ranks, static_cast<uint64_t>(device));
  return Status::ok();
}

Status init_root_info(std::string_view entry, EntryId id, uint32_t ranks, const void* root_info, uint32_t rank,
                      const void* config, void** handle) {
  DRYDOCK_RETURN_IF_ERROR(require_pointer(entry, "rootInfo", root_info));
  DRYDOCK_RETURN_IF_ERROR(require_pointer(entry, "comm", handle));
  Member member{ranks, rank, -1};
  DRYDOCK_RETURN_IF_ERROR(current_device(entry, member.device));
  CommunicatorSettings settings;
  DRYDOCK_RETURN_IF_ERROR(comm::read_settings(entry, config, settings));
  std::shared_ptr<Communicator> joined;
  DRYDOCK_RETURN_IF_ERROR(comm::join_root_info(entry, root_info, member, std::move(settings), joined));
  return publish(entry, id, std::move(joined), handle);
}

Status get_root_info(std::string_view entry, EntryId id, void* root_info) {
  DRYDOCK_RETURN_IF_ERROR(require_pointer(entry, "rootInfo", root_info));
  int32_t device = -1;
  DRYDOCK_RETURN_IF_ERROR(current_device(entry, device));
  DRYDOCK_RETURN_IF_ERROR(comm::make_root_info(entry, root_info));
  record_call(id, static_cast<uint64_t>(device));
  return Status::ok();
}

}  // namespace

uint32_t HcclGetCommConfigCapability() { return comm::kConfigCapability; }

Status HcclGetRootInfo(void* root_info) {
  return get_root_info("HcclGetRootInfo", EntryId::HcclGetRootInfo, root_info);
}

Status HcclGetRootInfoScalable(void* root_info) {
  return get_root_info("HcclGetRootInfoScalable", EntryId::HcclGetRootInfoScalable, root_info);
}

Status HcclCommInitRootInfo(uint32_t ranks, const void* root_info, uint32_t rank, void** handle) {
  return init_root_info("HcclCommInitRootInfo", EntryId::HcclCommInitRootInfo, ranks, root_info, rank, nullptr, handle);
}

Status HcclCommInitRootInfoConfig(uint32_t ranks, const void* root_info, uint32_t rank, const void* config,
                                  void** handle) {
  constexpr std::string_view kEntry = "HcclCommInitRootInfoConfig";
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "config", config));
  return init_root_info(kEntry, EntryId::HcclCommInitRootInfoConfig, ranks, root_info, rank, config, handle);
}

// Several roots share the work of telling all ranks; on one machine the first one is enough, and all ranks have its
// info.
Status HcclCommInitRootInfoScalable(uint32_t ranks, uint32_t roots, const void* root_infos, uint32_t rank,
                                    uint32_t /*nExtRoot*/, const void* config, void** handle) {
  constexpr std::string_view kEntry = "HcclCommInitRootInfoScalable";
  if (roots == 0) return Status::error(code::HCCL_E_PARA, std::string(kEntry) + ": there are 0 root infos.");
  return init_root_info(kEntry, EntryId::HcclCommInitRootInfoScalable, ranks, root_infos, rank, config, handle);
}

Status HcclCommInitClusterInfoConfig(const char* cluster_info, uint32_t rank, void* config, void** handle) {
  constexpr std::string_view kEntry = "HcclCommInitClusterInfoConfig";
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "clusterInfo", cluster_info));
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "comm", handle));
  Member member{0, rank, -1};
  DRYDOCK_RETURN_IF_ERROR(current_device(kEntry, member.device));
  CommunicatorSettings settings;
  DRYDOCK_RETURN_IF_ERROR(comm::read_settings(kEntry, config, settings));
  std::shared_ptr<Communicator> joined;
  DRYDOCK_RETURN_IF_ERROR(comm::join_rank_table(kEntry, cluster_info, member, std::move(settings), joined));
  return publish(kEntry, EntryId::HcclCommInitClusterInfoConfig, std::move(joined), handle);
}

Status HcclCreateSubCommConfig(void** parent_handle, uint32_t ranks, uint32_t* ids, uint64_t id, uint32_t rank,
                               void* config, void** handle) {
  constexpr std::string_view kEntry = "HcclCreateSubCommConfig";
  // What a rank passes that is in the parent and not in the new communicator.
  constexpr uint64_t kNotAMember = 0xffffffff;
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "comm", parent_handle));
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "subComm", handle));
  std::shared_ptr<Communicator> parent;
  DRYDOCK_RETURN_IF_ERROR(comm::find_communicator(kEntry, *parent_handle, parent));
  if (ids == nullptr && id == kNotAMember) {
    *handle = nullptr;
    return Status::ok();
  }
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "rankIds", ids));
  CommunicatorSettings settings;
  DRYDOCK_RETURN_IF_ERROR(comm::read_settings(kEntry, config, settings));
  std::shared_ptr<Communicator> joined;
  DRYDOCK_RETURN_IF_ERROR(comm::join_sub_communicator(kEntry, *parent, std::span(ids, ranks), id,
                                                      {ranks, rank, parent->device()}, std::move(settings), joined));
  return publish(kEntry, EntryId::HcclCreateSubCommConfig, std::move(joined), handle);
}

Status HcclCommInitAll(uint32_t count, int32_t* devices, void** handles) {
  constexpr std::string_view kEntry = "HcclCommInitAll";
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "devices", devices));
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "comms", handles));
  const std::span<const int32_t> of(devices, count);
  for (const int32_t number : of) {
    device::Device* opened = nullptr;
    const Status status = device::Device::open(kEntry, number, opened);
    if (!status.is_ok()) return Status::error(code::HCCL_E_PARA, status.message());
  }
  CommunicatorSettings settings;
  DRYDOCK_RETURN_IF_ERROR(comm::read_settings(kEntry, nullptr, settings));
  std::vector<std::shared_ptr<Communicator>> joined(count);
  DRYDOCK_RETURN_IF_ERROR(comm::join_all(kEntry, of, settings, joined));
  for (uint32_t rank = 0; rank < count; ++rank)
    DRYDOCK_RETURN_IF_ERROR(publish(kEntry, EntryId::HcclCommInitAll, std::move(joined[rank]), handles + rank));
  return Status::ok();
}

Status HcclCommDestroy(void* handle) {
  DRYDOCK_RETURN_IF_ERROR(comm::destroy_communicator("HcclCommDestroy", handle));
  record_call(EntryId::HcclCommDestroy, 0);
  return Status::ok();
}

Status HcclGetCommAsyncError(void* handle, int32_t* async_error) {
  constexpr std::string_view kEntry = "HcclGetCommAsyncError";
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "asyncError", async_error));
  std::shared_ptr<Communicator> communicator;
  DRYDOCK_RETURN_IF_ERROR(comm::find_communicator(kEntry, handle, communicator));
  const Status error = communicator->async_error();
  *async_error = error.code();
  // The call succeeds; clients that find an error ask for its sentence on this thread.
  if (!error.is_ok()) set_recent_error(error.message());
  return Status::ok();
}

Status HcclGetCommName(void* handle, char* name) {
  constexpr std::string_view kEntry = "HcclGetCommName";
  constexpr size_t kNameBytes = 128;
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "commName", name));
  std::shared_ptr<Communicator> communicator;
  DRYDOCK_RETURN_IF_ERROR(comm::find_communicator(kEntry, handle, communicator));
  std::memset(name, 0, kNameBytes);
  communicator->name().copy(name, kNameBytes - 1);
  return Status::ok();
}

Status HcclGetRankSize(void* handle, uint32_t* ranks) {
  constexpr std::string_view kEntry = "HcclGetRankSize";
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "rankSize", ranks));
  std::shared_ptr<Communicator> communicator;
  DRYDOCK_RETURN_IF_ERROR(comm::find_communicator(kEntry, handle, communicator));
  *ranks = communicator->ranks();
  return Status::ok();
}

Status HcclGetRankId(void* handle, uint32_t* rank) {
  constexpr std::string_view kEntry = "HcclGetRankId";
  DRYDOCK_RETURN_IF_ERROR(require_pointer(kEntry, "rank", rank));
  std::shared_ptr<Communicator> communicator;
  DRYDOCK_RETURN_IF_ERROR(comm::find_communicator(kEntry, handle, communicator));
  *rank = communicator->rank();
  return Status::ok();
}

const char* HcclGetErrorString(int32_t code) {
  switch (code) {
    case code::HCCL_SUCCESS: return "no error";
    case code::HCCL_E_PARA: return "a bad argument";
    case code::HCCL_E_PTR: return "a null pointer";
    case code::HCCL_E_MEMORY: return "a memory operation failed";
    case code::HCCL_E_INTERNAL: return "an internal failure";
    case code::HCCL_E_NOT_SUPPORT: return "not supported";
    case code::HCCL_E_NOT_FOUND: return "a resource does not exist";
    case code::HCCL_E_UNAVAIL: return "a resource can't be used now";
    case code::HCCL_E_SYSCALL: return "a system call failed";
    case code::HCCL_E_TIMEOUT: return "another rank did not answer in time";
    case code::HCCL_E_OPEN_FILE_FAILURE: return "a file can't be opened";
    case code::HCCL_E_TCP_CONNECT: return "a TCP connection failed";
    case code::HCCL_E_ROCE_CONNECT: return "a RoCE connection failed";
    case code::HCCL_E_TCP_TRANSFER: return "a TCP transfer failed";
    case code::HCCL_E_ROCE_TRANSFER: return "a RoCE transfer failed";
    case code::HCCL_E_RUNTIME: return "a call of the runtime failed";
    case code::HCCL_E_DRV: return "a call of the driver failed";
    case code::HCCL_E_PROFILING: return "a call of the profiler failed";
    case code::HCCL_E_CCE: return "a kernel call failed";
    case code::HCCL_E_NETWORK: return "a call of the network layer failed";
    case code::HCCL_E_AGAIN: return "try again later";
    case code::HCCL_E_REMOTE: return "a fault of another rank";
    case code::HCCL_E_SUSPENDING: return "the communicator is suspended";
    case code::HCCL_E_OPRETRY_FAIL: return "a retry could not be carried out";
    case code::HCCL_E_OOM: return "the device has no memory left";
    default: return "an unknown error";
  }
}

Status HcclGroupStart() {
  comm::start_group();
  return Status::ok();
}

Status HcclGroupEnd() { return comm::end_group("HcclGroupEnd"); }

}  // namespace drydock::entries
