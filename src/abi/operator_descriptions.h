#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "abi/entry_arguments.h"
#include "base/handle_pool.h"

// The objects in which a client describes a legacy (aclop) operator: tensor descriptions, buffers, attributes.

namespace drydock::entries {

inline constexpr int32_t kUndefined = -1;  ///< the vendor's undefined data type and format

/// Behind aclTensorDesc. The storage's shape and format are the ones asked for separately, on private formats.
struct TensorDescription {
  int32_t data_type = kUndefined;
  int32_t format = kUndefined;
  std::vector<int64_t> dims;
  int32_t storage_format = kUndefined;
  std::vector<int64_t> storage_dims;
  int32_t memory_type = 0;  ///< 0 device, 1 host, 2 host and not compiled in
  std::string name;
};

/// Behind aclDataBuffer.
struct DataBuffer {
  void* data = nullptr;
  size_t size_bytes = 0;
};

using AttributeValue = std::variant<bool, int64_t, float, std::string, std::vector<uint8_t>, std::vector<int64_t>,
                                    std::vector<float>, std::vector<std::vector<int64_t>>>;

/// Behind aclopAttr.
struct Attributes {
  std::map<std::string, AttributeValue> values;
};

/// Descriptions alive at once: a client makes a handful per call, and a leak shows as a null handle.
inline constexpr size_t kMaxDescriptions = size_t{1} << 20;

/// The pool of one kind of description; lives as long as the process.
template <class Object>
HandlePool<Object>& description_pool() {
  static HandlePool<Object>& objects = *new HandlePool<Object>(kMaxDescriptions);
  return objects;
}

/// The object behind a handle; 100000 with a sentence if the handle is null, destroyed or of another kind.
template <class Object>
Status find_description(std::string_view entry, std::string_view what, const void* handle, Object*& object) {
  object = description_pool<Object>().find(handle);
  if (object != nullptr) return Status::ok();
  std::string why = handle == nullptr                                  ? "is null."
                    : description_pool<Object>().was_destroyed(handle) ? "was destroyed before."
                                                                       : "is no handle of this kind.";
  return bad_argument(entry, "the " + std::string(what) + " " + why);
}

}  // namespace drydock::entries
