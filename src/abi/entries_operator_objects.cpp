#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "abi/door_guard.h"
#include "abi/generated/entries.h"
#include "abi/generated/entry_rows.h"
#include "base/generated/error_codes.h"
#include "base/saturating.h"
#include "ops/executor.h"
#include "ops/objects.h"

// aclTensor, aclScalar, the arrays and lists, and what clients may do with an executor between its phases.
// A constructor that is asked for nonsense answers null, as the vendor's does; the operator then refuses the null.

namespace drydock::entries {
namespace {

using abi::EntryId;
using ops::objects;

// Keeps every size and offset far from overflow: the largest device is 2^40 bytes of address space.
constexpr int64_t kMostElements = int64_t{1} << 48;

bool assign_dims(ops::Dims& dims, const int64_t* values, uint64_t count) {
  if (count > static_cast<uint64_t>(ops::kMaxRank) || (count > 0 && values == nullptr)) return false;
  dims.assign({values, static_cast<size_t>(count)});
  // As if no size were 0: then the product of any of them is in bounds too.
  int64_t elements = 1;
  for (const int64_t size : dims) {
    if (size < 0 || size > kMostElements) return false;
    elements = saturating_product(elements, std::max<int64_t>(size, 1));
    if (elements > kMostElements) return false;
  }
  return true;
}

// How far the view reaches is in bounds as well, not only its sizes and strides.
bool reaches_too_far(const ops::Tensor& tensor) {
  int64_t last = tensor.offset;
  for (int axis = 0; axis < tensor.dims.size(); ++axis) {
    if (tensor.dims[axis] == 0) return false;
    last = saturating_sum(last, saturating_product(tensor.dims[axis] - 1, tensor.strides[axis]));
  }
  return last > kMostElements;
}

bool fill_tensor(ops::Tensor& tensor, const int64_t* view_dims, uint64_t view_dims_num, int32_t data_type,
                 const int64_t* strides, int64_t offset, int32_t format, const int64_t* storage_dims,
                 uint64_t storage_dims_num, void* data) {
  tensor.dtype = static_cast<DataType>(data_type);
  if (name_of(tensor.dtype) == "unknown" && tensor.dtype != DataType::kUndefined) return false;
  if (offset < 0 || offset > kMostElements) return false;
  if (!assign_dims(tensor.dims, view_dims, view_dims_num)) return false;
  if (!assign_dims(tensor.storage_dims, storage_dims, storage_dims_num)) return false;
  tensor.format = format;
  tensor.offset = offset;
  tensor.storage = data;
  tensor.strides.clear();
  if (strides != nullptr) {
    for (uint64_t axis = 0; axis < view_dims_num; ++axis) {
      if (strides[axis] < 0 || strides[axis] > kMostElements) return false;
      tensor.strides.push_back(strides[axis]);
    }
    return !reaches_too_far(tensor);
  }
  // Without strides the view is dense.
  tensor.strides = tensor.dims;
  int64_t stride = 1;
  for (int axis = tensor.dims.size() - 1; axis >= 0; --axis) {
    tensor.strides[axis] = stride;
    stride *= tensor.dims[axis];
  }
  return true;
}

std::string sentence(EntryId entry, std::string_view what) {
  return fmt::format("{}: {}", abi::entry_rows()[static_cast<size_t>(entry)].name, what);
}

// A constructor has no error code: the sentence and the record are all that tells why it answered null.
void* answer_null(EntryId entry, std::string_view why) {
  static_cast<void>(abi::report_failure(entry, Status::error(code::ACLNN_ERR_PARAM_INVALID, sentence(entry, why))));
  return nullptr;
}

// More elements than an array can hold here: a wrong size, which would wrap.
constexpr uint64_t kMostArrayElements = uint64_t{1} << 32;

template <class Array, class Pool, class T>
void* create_array(EntryId entry, Pool& pool, const T* values, uint64_t size) {
  if (size > kMostArrayElements) return answer_null(entry, fmt::format("an array of {} elements is too long.", size));
  if (values == nullptr && size > 0) {
    return answer_null(entry, fmt::format("the values of an array of {} elements are null.", size));
  }
  if (void* array = pool.create(Array{{values, values + size}})) return array;
  return answer_null(entry, "too many arrays are alive.");
}

// `List` is a list of `element_pool`'s objects; null elements are legal (contract H8).
template <class List, class Pool, class ElementPool, class Elements>
void* create_list(EntryId entry, Pool& pool, const ElementPool& element_pool, Elements elements,
                  const void* const* values, uint64_t size) {
  if (size > kMostArrayElements) return answer_null(entry, fmt::format("a list of {} elements is too long.", size));
  if (values == nullptr && size > 0) {
    return answer_null(entry, fmt::format("the elements of a list of {} are null.", size));
  }
  List list;
  for (uint64_t index = 0; index < size; ++index) {
    auto* element = element_pool.find(values[index]);
    if (values[index] != nullptr && element == nullptr) {
      return answer_null(entry, fmt::format("element {} of the list is not a live object of its kind.", index));
    }
    (list.*elements).push_back(element);
  }
  if (void* handle = pool.create(std::move(list))) return handle;
  return answer_null(entry, "too many lists are alive.");
}

template <class Pool>
Status destroy(EntryId entry, Pool& pool, const void* handle) {
  if (handle == nullptr || pool.destroy(handle)) return Status::ok();  // destroying null is success (contract H8)
  return Status::error(
      code::ACLNN_ERR_PARAM_INVALID,
      sentence(entry, fmt::format("{} is not live: it was destroyed before, or is a handle of another kind.", handle)));
}

// The vendor's arrays come from new[] and the client deletes them (contract H15).
Status give_dims(const ops::Dims& dims, int64_t** values, uint64_t* count) {
  auto* copy = new int64_t[static_cast<size_t>(dims.size()) + 1];
  std::memcpy(copy, dims.data(), static_cast<size_t>(dims.size()) * sizeof(int64_t));
  *values = copy;
  *count = static_cast<uint64_t>(dims.size());
  return Status::ok();
}

Status give_dims_of(EntryId entry, const void* handle, bool strides, int64_t** values, uint64_t* count) {
  if (handle == nullptr || values == nullptr || count == nullptr) {
    return Status::error(code::ACLNN_ERR_PARAM_NULLPTR, sentence(entry, "the tensor or an out-parameter is null."));
  }
  const ops::Tensor* tensor = objects().tensors.find(handle);
  if (tensor == nullptr) {
    return Status::error(code::ACLNN_ERR_PARAM_INVALID,
                         sentence(entry, fmt::format("{} is not a live aclTensor.", handle)));
  }
  return give_dims(strides ? tensor->strides : tensor->dims, values, count);
}

Status find_executor(EntryId entry, const void* handle, ops::Executor*& executor) {
  if (handle == nullptr) return Status::error(code::ACLNN_ERR_PARAM_NULLPTR, sentence(entry, "the executor is null."));
  executor = ops::executors().find(handle);
  if (executor != nullptr) return Status::ok();
  return Status::error(code::ACLNN_ERR_PARAM_INVALID,
                       sentence(entry, fmt::format("{} is not a live executor: its second phase used it up, or it is a "
                                                   "handle of another kind.",
                                                   handle)));
}

}  // namespace

void* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, int32_t dataType, const int64_t* stride,
                      int64_t offset, int32_t format, const int64_t* storageDims, uint64_t storageDimsNum,
                      void* tensorData) {
  ops::Tensor* tensor = objects().tensors.create();
  if (tensor == nullptr) return answer_null(EntryId::aclCreateTensor, "too many tensors are alive.");
  if (!fill_tensor(*tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
                   tensorData)) {
    objects().tensors.destroy(tensor);
    return answer_null(
        EntryId::aclCreateTensor,
        fmt::format("a tensor of rank {}, data type {} and offset {}: a size, stride or offset is negative "
                    "or too large, the rank is over {}, the type unknown, or the sizes are null.",
                    viewDimsNum, dataType, offset, ops::kMaxRank));
  }
  return tensor;
}

void* aclCreateScalar(void* value, int32_t dataType) {
  const auto dtype = static_cast<DataType>(dataType);
  const int64_t bytes = bytes_of(dtype, 1);
  if (value == nullptr || bytes == 0) {
    return answer_null(EntryId::aclCreateScalar,
                       fmt::format("the value is null, or data type {} has no size.", dataType));
  }
  ops::Scalar* scalar = objects().scalars.create();
  if (scalar == nullptr) return answer_null(EntryId::aclCreateScalar, "too many scalars are alive.");
  scalar->dtype = dtype;
  std::memcpy(scalar->bytes.data(), value, static_cast<size_t>(bytes));
  return scalar;
}

void* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return create_array<ops::IntArray>(EntryId::aclCreateIntArray, objects().int_arrays, value, size);
}

void* aclCreateFloatArray(const float* value, uint64_t size) {
  return create_array<ops::FloatArray>(EntryId::aclCreateFloatArray, objects().float_arrays, value, size);
}

void* aclCreateBoolArray(const bool* value, uint64_t size) {
  return create_array<ops::BoolArray>(EntryId::aclCreateBoolArray, objects().bool_arrays, value, size);
}

void* aclCreateTensorList(const void* const* value, uint64_t size) {
  return create_list<ops::TensorList>(EntryId::aclCreateTensorList, objects().tensor_lists, objects().tensors,
                                      &ops::TensorList::tensors, value, size);
}

void* aclCreateScalarList(const void* const* value, uint64_t size) {
  return create_list<ops::ScalarList>(EntryId::aclCreateScalarList, objects().scalar_lists, objects().scalars,
                                      &ops::ScalarList::scalars, value, size);
}

Status aclDestroyTensor(const void* tensor) { return destroy(EntryId::aclDestroyTensor, objects().tensors, tensor); }
Status aclDestroyScalar(const void* scalar) { return destroy(EntryId::aclDestroyScalar, objects().scalars, scalar); }
Status aclDestroyIntArray(const void* array) {
  return destroy(EntryId::aclDestroyIntArray, objects().int_arrays, array);
}
Status aclDestroyFloatArray(const void* array) {
  return destroy(EntryId::aclDestroyFloatArray, objects().float_arrays, array);
}
Status aclDestroyBoolArray(const void* array) {
  return destroy(EntryId::aclDestroyBoolArray, objects().bool_arrays, array);
}

// A list takes its elements along (contract H8).
Status aclDestroyTensorList(const void* array) {
  if (const ops::TensorList* list = objects().tensor_lists.find(array)) {
    for (const ops::Tensor* tensor : list->tensors) {
      if (tensor != nullptr) objects().tensors.destroy(tensor);
    }
  }
  return destroy(EntryId::aclDestroyTensorList, objects().tensor_lists, array);
}

Status aclDestroyScalarList(const void* array) {
  if (const ops::ScalarList* list = objects().scalar_lists.find(array)) {
    for (const ops::Scalar* scalar : list->scalars) {
      if (scalar != nullptr) objects().scalars.destroy(scalar);
    }
  }
  return destroy(EntryId::aclDestroyScalarList, objects().scalar_lists, array);
}

Status aclGetViewShape(const void* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return give_dims_of(EntryId::aclGetViewShape, tensor, false, viewDims, viewDimsNum);
}

Status aclGetViewStrides(const void* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  return give_dims_of(EntryId::aclGetViewStrides, tensor, true, stridesValue, stridesNum);
}

Status aclSetAclOpExecutorRepeatable(void* executor) {
  ops::Executor* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_executor(EntryId::aclSetAclOpExecutorRepeatable, executor, found));
  found->set_repeatable();
  return Status::ok();
}

Status aclDestroyAclOpExecutor(void* executor) {
  ops::Executor* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_executor(EntryId::aclDestroyAclOpExecutor, executor, found));
  ops::executors().destroy(found);
  return Status::ok();
}

}  // namespace drydock::entries
