#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/copy.h"
#include "device/heap.h"
#include "device/host_memory.h"
#include "device/stream.h"
#include "races/stream_check.h"

// Copies and fills, synchronous and in a stream's order.

namespace drydock::entries {
namespace {

using device::Copy;
using device::CopyDirection;
using device::Fill;
using device::Stream;

// aclrtMemcpyBatchAttr; offsets from the vendor's ABI.
struct BatchAttribute {
  uint32_t to_id;
  int32_t to_type;
  uint32_t from_id;
  int32_t from_type;
  uint8_t reserved[16];
};
static_assert(sizeof(BatchAttribute) == 32);

// A copy whose host bytes were taken when the call was made.
class BufferedCopy final : public device::DeferredWork {
 public:
  BufferedCopy(std::string_view entry, const Copy& copy, uint32_t stream_id)
      : entry_(entry),
        bytes_(static_cast<const char*>(copy.from), static_cast<const char*>(copy.from) + copy.size_bytes),
        copy_(copy),
        stream_id_(stream_id) {
    copy_.from = bytes_.data();
  }
  Status run() override { return device::run_copy(entry_, copy_, true, stream_id_); }

 private:
  std::string_view entry_;  // a literal
  std::vector<char> bytes_;
  Copy copy_;
  uint32_t stream_id_;
};

races::Use use_of(const void* pointer, uint64_t size_bytes, bool writes) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  return {.footprint = races::Footprint::dense(address, address + size_bytes),
          .writes = writes,
          .is_host = device::device_of(pointer) < 0};
}

// Nobody tells when pageable memory is freed and used for something else, and copies from it are made at once.
bool is_watched(const void* pointer) {
  return device::device_of(pointer) >= 0 || device::find_host_range(pointer).has_value();
}

// For the stream check. `stream` null: the call itself is the work. The entries' names are literals.
void tell_copy(std::string_view entry, const Copy& copy, const Stream* stream) {
  std::vector<races::Use> uses;
  if (is_watched(copy.from)) uses.push_back(use_of(copy.from, copy.size_bytes, false));
  if (is_watched(copy.to)) uses.push_back(use_of(copy.to, copy.size_bytes, true));
  const races::Work work{.device = copy.device, .line = copy.line, .what = entry.data()};
  stream == nullptr ? races::touched_by_host(work, uses) : races::submitted(stream->id(), work, uses);
}

void tell_fill(std::string_view entry, const Fill& fill, const Stream* stream) {
  const std::array<races::Use, 1> uses = {use_of(fill.to, fill.size_bytes, true)};
  const races::Work work{.device = fill.device, .line = fill.line, .what = entry.data()};
  stream == nullptr ? races::touched_by_host(work, uses) : races::submitted(stream->id(), work, uses);
}

Status run_now(std::string_view entry, const Copy& copy) {
  if (races::is_on()) [[unlikely]]
    tell_copy(entry, copy, nullptr);
  return device::run_copy(entry, copy, false, 0);
}

// `entry` must be a literal: the work may outlive the call.
Status submit(std::string_view entry, Stream& stream, const Copy& copy, int32_t direction) {
  const uint32_t stream_id = stream.id();
  if (races::is_on()) [[unlikely]]
    tell_copy(entry, copy, &stream);
  const auto run = [entry, copy, stream_id] { return device::run_copy(entry, copy, true, stream_id); };
  if (static_cast<CopyDirection>(direction) == CopyDirection::kHostToBufferToDevice) {
    return stream.submit_or_defer(run, [&] { return std::make_unique<BufferedCopy>(entry, copy, stream_id); });
  }
  return stream.submit(run);
}

Status copy_async(std::string_view entry, void* to, size_t to_bytes, const void* from, size_t size_bytes,
                  int32_t direction, void* handle) {
  Stream* stream = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(entry, handle, stream));
  Copy copy;
  DRYDOCK_RETURN_IF_ERROR(device::prepare_copy(entry, to, to_bytes, from, size_bytes, direction, copy));
  return submit(entry, *stream, copy, direction);
}

bool direction_of(const BatchAttribute& attribute, int32_t& direction) {
  constexpr int32_t kHost = 0;
  constexpr int32_t kDevice = 1;
  if (attribute.from_type == kHost && attribute.to_type == kDevice) {
    direction = static_cast<int32_t>(CopyDirection::kHostToDevice);
  } else if (attribute.from_type == kDevice && attribute.to_type == kHost) {
    direction = static_cast<int32_t>(CopyDirection::kDeviceToHost);
  } else {
    return false;
  }
  return true;
}

struct Batch {
  std::string_view entry;
  void** to;
  size_t* to_bytes;
  void** from;
  size_t* sizes;
  size_t count;
  const BatchAttribute* attributes;
  size_t* attribute_begins;
  size_t attribute_count;
};

// All copies are checked before the first one runs. `failed` is the index of the one at fault, or SIZE_MAX where the
// call as a whole is.
Status prepare_batch(const Batch& batch, std::vector<std::pair<Copy, int32_t>>& copies, size_t& failed) {
  failed = SIZE_MAX;
  DRYDOCK_RETURN_IF_ERROR(require_argument(batch.entry, "dsts", batch.to));
  DRYDOCK_RETURN_IF_ERROR(require_argument(batch.entry, "destMaxs", batch.to_bytes));
  DRYDOCK_RETURN_IF_ERROR(require_argument(batch.entry, "srcs", batch.from));
  DRYDOCK_RETURN_IF_ERROR(require_argument(batch.entry, "sizes", batch.sizes));
  DRYDOCK_RETURN_IF_ERROR(require_argument(batch.entry, "attrs", batch.attributes));
  DRYDOCK_RETURN_IF_ERROR(require_argument(batch.entry, "attrsIndexes", batch.attribute_begins));
  if (batch.count == 0) return bad_argument(batch.entry, "the batch is empty.");
  if (batch.attribute_count == 0 || batch.attribute_count > batch.count || batch.attribute_begins[0] != 0) {
    return bad_argument(batch.entry, fmt::format("{} attributes for {} copies: there is at least one, at most one for "
                                                 "each copy, and the first one begins with copy 0.",
                                                 batch.attribute_count, batch.count));
  }
  size_t attribute = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    failed = i;
    while (attribute + 1 < batch.attribute_count && batch.attribute_begins[attribute + 1] <= i) ++attribute;
    int32_t direction = 0;
    if (!direction_of(batch.attributes[attribute], direction)) {
      return Status::error(
          code::ACL_ERROR_RT_PARAM_INVALID,
          fmt::format("{}: copy {} goes from location type {} to {}: a batch copies between host (0) "
                      "and device (1).",
                      batch.entry, i, batch.attributes[attribute].from_type, batch.attributes[attribute].to_type));
    }
    Copy copy;
    DRYDOCK_RETURN_IF_ERROR(device::prepare_copy(batch.entry, batch.to[i], batch.to_bytes[i], batch.from[i],
                                                 batch.sizes[i], direction, copy));
    copies.emplace_back(copy, direction);
  }
  failed = SIZE_MAX;
  return Status::ok();
}

}  // namespace

Status aclrtMemcpy(void* dst, size_t to_bytes, const void* src, size_t count, int32_t kind) {
  constexpr std::string_view kEntry = "aclrtMemcpy";
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  Copy copy;
  DRYDOCK_RETURN_IF_ERROR(device::prepare_copy(kEntry, dst, to_bytes, src, count, kind, copy));
  return run_now(kEntry, copy);
}

Status aclrtMemcpyAsync(void* dst, size_t to_bytes, const void* src, size_t count, int32_t kind, void* stream) {
  return copy_async("aclrtMemcpyAsync", dst, to_bytes, src, count, kind, stream);
}

// The vendor's differs in checking whether the host memory is pinned before it decides how to copy; here both ways are
// one.
Status aclrtMemcpyAsyncWithCondition(void* dst, size_t to_bytes, const void* src, size_t count, int32_t kind,
                                     void* stream) {
  return copy_async("aclrtMemcpyAsyncWithCondition", dst, to_bytes, src, count, kind, stream);
}

Status aclrtMemcpyBatch(void** dsts, size_t* to_bytes, void** srcs, size_t* sizes, size_t count, void* attrs,
                        size_t* attribute_begins, size_t attribute_count, size_t* failed) {
  constexpr std::string_view kEntry = "aclrtMemcpyBatch";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "failIndex", failed));
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  std::vector<std::pair<Copy, int32_t>> copies;
  DRYDOCK_RETURN_IF_ERROR(prepare_batch({kEntry, dsts, to_bytes, srcs, sizes, count,
                                         static_cast<const BatchAttribute*>(attrs), attribute_begins, attribute_count},
                                        copies, *failed));
  for (size_t i = 0; i < copies.size(); ++i) {
    *failed = i;
    DRYDOCK_RETURN_IF_ERROR(run_now(kEntry, copies[i].first));
  }
  *failed = SIZE_MAX;
  return Status::ok();
}

Status aclrtMemcpyBatchAsync(void** dsts, size_t* to_bytes, void** srcs, size_t* sizes, size_t count, void* attrs,
                             size_t* attribute_begins, size_t attribute_count, size_t* failed, void* stream) {
  constexpr std::string_view kEntry = "aclrtMemcpyBatchAsync";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "failIndex", failed));
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(kEntry, stream, found));
  std::vector<std::pair<Copy, int32_t>> copies;
  DRYDOCK_RETURN_IF_ERROR(prepare_batch({kEntry, dsts, to_bytes, srcs, sizes, count,
                                         static_cast<const BatchAttribute*>(attrs), attribute_begins, attribute_count},
                                        copies, *failed));
  for (size_t i = 0; i < copies.size(); ++i) {
    *failed = i;
    DRYDOCK_RETURN_IF_ERROR(submit(kEntry, *found, copies[i].first, copies[i].second));
  }
  *failed = SIZE_MAX;
  return Status::ok();
}

Status aclrtMemset(void* pointer, size_t to_bytes, int32_t value, size_t count) {
  constexpr std::string_view kEntry = "aclrtMemset";
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  Fill fill;
  DRYDOCK_RETURN_IF_ERROR(device::prepare_fill(kEntry, pointer, to_bytes, value, count, fill));
  if (races::is_on()) [[unlikely]]
    tell_fill(kEntry, fill, nullptr);
  return device::run_fill(kEntry, fill, false, 0);
}

Status aclrtMemsetAsync(void* pointer, size_t to_bytes, int32_t value, size_t count, void* stream) {
  constexpr std::string_view kEntry = "aclrtMemsetAsync";
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(kEntry, stream, found));
  Fill fill;
  DRYDOCK_RETURN_IF_ERROR(device::prepare_fill(kEntry, pointer, to_bytes, value, count, fill));
  const uint32_t stream_id = found->id();
  if (races::is_on()) [[unlikely]]
    tell_fill(kEntry, fill, found);
  return found->submit([kEntry, fill, stream_id] { return device::run_fill(kEntry, fill, true, stream_id); });
}

}  // namespace drydock::entries
