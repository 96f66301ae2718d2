#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "abi/operator_descriptions.h"
#include "base/data_type.h"
#include "base/element_types.h"
#include "base/generated/error_codes.h"
#include "base/handle_pool.h"

// Making, changing and reading the objects of operator_descriptions.h. They are used by entries_legacy_operators.cpp.

namespace drydock::entries {
namespace {

constexpr int kMaxDims = 128;  ///< far above any rank; a larger number is no number of dimensions
/// A shape of one dimension of this size says that not even the rank is known; asking for the rank then gives this.
constexpr int64_t kUnknownRankDim = -2;
constexpr size_t kUnknownRank = 0xFFFFFFFFFFFFFFFE;

Status copy_dims(std::string_view entry, int count, const int64_t* dims, std::vector<int64_t>& to) {
  if (count < 0 || count > kMaxDims) {
    return bad_argument(entry, std::to_string(count) + " is no number of dimensions.");
  }
  if (count > 0) DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "dims", dims));
  to.assign(dims, dims + count);
  return Status::ok();
}

template <class Value>
Status set_attribute(std::string_view entry, void* attr, const char* name, Value value) {
  Attributes* attributes = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_description(entry, "attribute object", attr, attributes));
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "attrName", name));
  attributes->values.insert_or_assign(name, AttributeValue(std::move(value)));
  return Status::ok();
}

template <class Value>
Status set_list(std::string_view entry, void* attr, const char* name, int count, const Value* values) {
  if (count < 0) return bad_argument(entry, std::to_string(count) + " is no number of values.");
  if (count > 0) DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "values", values));
  return set_attribute(entry, attr, name, std::vector<Value>(values, values + count));
}

}  // namespace

void* aclCreateTensorDesc(int32_t data_type, int num_dims, const int64_t* dims, int32_t format) {
  TensorDescription description;
  description.data_type = data_type;
  description.format = format;
  if (!copy_dims("aclCreateTensorDesc", num_dims, dims, description.dims).is_ok()) return nullptr;
  return description_pool<TensorDescription>().create(std::move(description));
}

void aclDestroyTensorDesc(const void* desc) { description_pool<TensorDescription>().destroy(desc); }

int32_t aclGetTensorDescType(const void* desc) {
  const TensorDescription* description = description_pool<TensorDescription>().find(desc);
  return description == nullptr ? kUndefined : description->data_type;
}

int32_t aclGetTensorDescFormat(const void* desc) {
  const TensorDescription* description = description_pool<TensorDescription>().find(desc);
  return description == nullptr ? kUndefined : description->format;
}

size_t aclGetTensorDescNumDims(const void* desc) {
  const TensorDescription* description = description_pool<TensorDescription>().find(desc);
  if (description == nullptr) return 0;
  if (description->dims.size() == 1 && description->dims[0] == kUnknownRankDim) return kUnknownRank;
  return description->dims.size();
}

Status aclGetTensorDescDimV2(const void* desc, size_t index, int64_t* dim_size) {
  constexpr std::string_view kEntry = "aclGetTensorDescDimV2";
  TensorDescription* description = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_description(kEntry, "tensor description", desc, description));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "dimSize", dim_size));
  if (index >= description->dims.size()) {
    return bad_argument(kEntry, "there is no dimension " + std::to_string(index) + ": the tensor has " +
                                    std::to_string(description->dims.size()) + ".");
  }
  *dim_size = description->dims[index];
  return Status::ok();
}

void aclSetTensorDescName(void* desc, const char* name) {
  if (TensorDescription* description = description_pool<TensorDescription>().find(desc)) {
    description->name = name == nullptr ? "" : name;
  }
}

Status aclSetTensorFormat(void* desc, int32_t format) {
  TensorDescription* description = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_description("aclSetTensorFormat", "tensor description", desc, description));
  description->storage_format = format;
  return Status::ok();
}

Status aclSetTensorShape(void* desc, int num_dims, const int64_t* dims) {
  constexpr std::string_view kEntry = "aclSetTensorShape";
  TensorDescription* description = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_description(kEntry, "tensor description", desc, description));
  return copy_dims(kEntry, num_dims, dims, description->storage_dims);
}

Status aclSetTensorPlaceMent(void* desc, int32_t mem_type) {
  constexpr std::string_view kEntry = "aclSetTensorPlaceMent";
  TensorDescription* description = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_description(kEntry, "tensor description", desc, description));
  if (mem_type < 0 || mem_type > 2) {
    return bad_argument(kEntry, "there is no placement " + std::to_string(mem_type) +
                                    ". They are 0 (device), 1 (host) and 2 (host, not compiled in).");
  }
  description->memory_type = mem_type;
  return Status::ok();
}

void* aclCreateDataBuffer(void* data, size_t size) {
  return description_pool<DataBuffer>().create(DataBuffer{data, size});
}

Status aclDestroyDataBuffer(const void* data_buffer) {
  if (description_pool<DataBuffer>().destroy(data_buffer)) return Status::ok();
  DataBuffer* buffer = nullptr;
  return find_description("aclDestroyDataBuffer", "data buffer", data_buffer, buffer);
}

void* aclGetDataBufferAddr(const void* data_buffer) {
  const DataBuffer* buffer = description_pool<DataBuffer>().find(data_buffer);
  return buffer == nullptr ? nullptr : buffer->data;
}

size_t aclGetDataBufferSizeV2(const void* data_buffer) {
  const DataBuffer* buffer = description_pool<DataBuffer>().find(data_buffer);
  return buffer == nullptr ? 0 : buffer->size_bytes;
}

void* aclopCreateAttr() { return description_pool<Attributes>().create(); }

void aclopDestroyAttr(const void* attr) { description_pool<Attributes>().destroy(attr); }

Status aclopSetAttrBool(void* attr, const char* attr_name, uint8_t attr_value) {
  return set_attribute("aclopSetAttrBool", attr, attr_name, attr_value != 0);
}

Status aclopSetAttrDataType(void* attr, const char* attr_name, int32_t attr_value) {
  return set_attribute("aclopSetAttrDataType", attr, attr_name, int64_t{attr_value});
}

Status aclopSetAttrFloat(void* attr, const char* attr_name, float attr_value) {
  return set_attribute("aclopSetAttrFloat", attr, attr_name, attr_value);
}

Status aclopSetAttrInt(void* attr, const char* attr_name, int64_t attr_value) {
  return set_attribute("aclopSetAttrInt", attr, attr_name, attr_value);
}

Status aclopSetAttrListBool(void* attr, const char* attr_name, int num_values, const uint8_t* values) {
  return set_list("aclopSetAttrListBool", attr, attr_name, num_values, values);
}

Status aclopSetAttrListFloat(void* attr, const char* attr_name, int num_values, const float* values) {
  return set_list("aclopSetAttrListFloat", attr, attr_name, num_values, values);
}

Status aclopSetAttrListInt(void* attr, const char* attr_name, int num_values, const int64_t* values) {
  return set_list("aclopSetAttrListInt", attr, attr_name, num_values, values);
}

// The rows live for the call only and may be empty (contract I4).
Status aclopSetAttrListListInt(void* attr, const char* attr_name, int num_lists, const int* num_values,
                               const int64_t* const* values) {
  constexpr std::string_view kEntry = "aclopSetAttrListListInt";
  if (num_lists < 0) return bad_argument(kEntry, std::to_string(num_lists) + " is no number of lists.");
  if (num_lists > 0) {
    DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "numValues", num_values));
    DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "values", values));
  }
  std::vector<std::vector<int64_t>> lists;
  for (int list = 0; list < num_lists; ++list) {
    const int count = num_values[list];
    if (count < 0 || (count > 0 && values[list] == nullptr)) {
      return bad_argument(kEntry,
                          "list " + std::to_string(list) + " has " + std::to_string(count) + " values at no address.");
    }
    lists.emplace_back(values[list], values[list] + count);
  }
  return set_attribute(kEntry, attr, attr_name, std::move(lists));
}

Status aclopSetAttrString(void* attr, const char* attr_name, const char* attr_value) {
  constexpr std::string_view kEntry = "aclopSetAttrString";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "attrValue", attr_value));
  return set_attribute(kEntry, attr, attr_name, std::string(attr_value));
}

size_t aclDataTypeSize(int32_t data_type) { return static_cast<size_t>(bytes_of(static_cast<DataType>(data_type), 1)); }

float aclFloat16ToFloat(uint16_t value) { return float_of(Float16{value}); }

uint16_t aclFloatToFloat16(float value) { return float16_of(value).bits; }

}  // namespace drydock::entries
