// What the three programs share: calls that must succeed, and float tensors on the device.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include <acl/acl.h>
#include <aclnn/acl_meta.h>

inline void must_succeed(int status, const char* call) {
  if (status != ACL_SUCCESS) {
    const char* message = aclGetRecentErrMsg();
    std::fprintf(stderr, "%s returned %d\n%s\n", call, status, message == nullptr ? "" : message);
    std::exit(1);
  }
}

#define MUST(call) must_succeed(call, #call)

/// The device from here to the end of the program's main().
class Device {
 public:
  Device() {
    MUST(aclInit(nullptr));
    MUST(aclrtSetDevice(0));
  }
  ~Device() {
    aclrtResetDevice(0);
    aclFinalize();
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
};

/// A contiguous float32 tensor and its memory on the device.
class Tensor {
 public:
  Tensor(std::vector<int64_t> shape, const std::vector<float>& values) : Tensor(std::move(shape)) {
    MUST(aclrtMemcpy(memory_, bytes(), values.data(), values.size() * sizeof(float), ACL_MEMCPY_HOST_TO_DEVICE));
  }

  explicit Tensor(std::vector<int64_t> shape) : shape_(std::move(shape)) {
    std::vector<int64_t> strides(shape_.size(), 1);
    for (size_t axis = shape_.size(); axis-- > 0;) {
      strides[axis] = static_cast<int64_t>(count_);
      count_ *= static_cast<size_t>(shape_[axis]);
    }
    MUST(aclrtMalloc(&memory_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
    handle_ = aclCreateTensor(shape_.data(), shape_.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_ND, shape_.data(),
                              shape_.size(), memory_);
    must_succeed(handle_ == nullptr ? ACL_ERROR_FAILURE : ACL_SUCCESS, "aclCreateTensor");
  }

  ~Tensor() {
    if (handle_ != nullptr) {
      aclDestroyTensor(handle_);
    }
    aclrtFree(memory_);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  aclTensor* get() const { return handle_; }

  /// The handle, for a list that will destroy it; the memory stays.
  aclTensor* release_handle() { return std::exchange(handle_, nullptr); }

  /// What the device has. The work that makes it must be done.
  std::vector<float> values() const {
    std::vector<float> result(count_);
    MUST(aclrtMemcpy(result.data(), bytes(), memory_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
    return result;
  }

 private:
  size_t bytes() const { return count_ * sizeof(float); }

  std::vector<int64_t> shape_;
  size_t count_ = 1;
  void* memory_ = nullptr;
  aclTensor* handle_ = nullptr;
};

/// Memory that an operator asks for while it works. It must live until the stream is done with the operator.
class Workspace {
 public:
  explicit Workspace(uint64_t size) {
    if (size > 0) {
      MUST(aclrtMalloc(&memory_, size, ACL_MEM_MALLOC_HUGE_FIRST));
    }
  }
  ~Workspace() {
    if (memory_ != nullptr) {
      aclrtFree(memory_);
    }
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

/// Says whether the device's values are the host's, and returns main()'s result.
inline int compare(const char* name, const std::vector<float>& found, const std::vector<float>& expected,
                   float tolerance) {
  for (size_t index = 0; index < expected.size(); ++index) {
    const float difference = found[index] - expected[index];
    if (!(difference <= tolerance && -difference <= tolerance)) {
      std::printf("%s: element %zu is %g, not %g\n", name, index, static_cast<double>(found[index]),
                  static_cast<double>(expected[index]));
      return 1;
    }
  }
  std::printf("%s: %zu elements are right, the last is %g\n", name, expected.size(), static_cast<double>(found.back()));
  return 0;
}
