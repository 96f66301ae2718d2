// Two matrix products on two streams: the second takes the first one's result, and an event makes it wait.
#include <aclnnop/aclnn_matmul.h>

#include "device.h"

namespace {

constexpr int64_t kSize = 64;
constexpr size_t kCount = kSize * kSize;

std::vector<float> multiply(const std::vector<float>& left, const std::vector<float>& right) {
  std::vector<float> out(kCount);
  for (size_t row = 0; row < kSize; ++row) {
    for (size_t inner = 0; inner < kSize; ++inner) {
      for (size_t column = 0; column < kSize; ++column) {
        out[row * kSize + column] += left[row * kSize + inner] * right[inner * kSize + column];
      }
    }
  }
  return out;
}

/// A product in two phases: made ready here, started later.
struct Product {
  Product(const Tensor& left, const Tensor& right, const Tensor& out) {
    constexpr int8_t kKeepType = 0;  // float32 is multiplied as float32
    MUST(aclnnMatmulGetWorkspaceSize(left.get(), right.get(), out.get(), kKeepType, &workspace_bytes, &executor));
  }

  uint64_t workspace_bytes = 0;
  aclOpExecutor* executor = nullptr;
};

}  // namespace

int main() {
  std::vector<float> a(kCount);
  std::vector<float> b(kCount);
  std::vector<float> c(kCount);
  for (size_t index = 0; index < kCount; ++index) {
    a[index] = static_cast<float>(index % 5) - 2;
    b[index] = static_cast<float>(index % 7) - 3;
    c[index] = static_cast<float>(index % 3) - 1;
  }

  const Device device;
  aclrtStream first = nullptr;
  aclrtStream second = nullptr;
  aclrtEvent product_is_ready = nullptr;
  aclrtEvent end = nullptr;
  MUST(aclrtCreateStream(&first));
  MUST(aclrtCreateStream(&second));
  MUST(aclrtCreateEvent(&product_is_ready));
  MUST(aclrtCreateEvent(&end));
  int result = 1;
  {
    const Tensor device_a({kSize, kSize}, a);
    const Tensor device_b({kSize, kSize}, b);
    const Tensor device_c({kSize, kSize}, c);
    const Tensor product({kSize, kSize});
    const Tensor out({kSize, kSize});

    const Product ab(device_a, device_b, product);
    const Product abc(product, device_c, out);
    const Workspace ab_workspace(ab.workspace_bytes);
    const Workspace abc_workspace(abc.workspace_bytes);
    MUST(aclnnMatmul(ab_workspace.get(), ab.workspace_bytes, ab.executor, first));
    MUST(aclrtRecordEvent(product_is_ready, first));
    MUST(aclrtStreamWaitEvent(second, product_is_ready));
    MUST(aclnnMatmul(abc_workspace.get(), abc.workspace_bytes, abc.executor, second));
    MUST(aclrtRecordEvent(end, second));
    MUST(aclrtSynchronizeEvent(end));

    float milliseconds = -1;
    MUST(aclrtEventElapsedTime(&milliseconds, product_is_ready, end));
    must_succeed(milliseconds < 0 ? ACL_ERROR_FAILURE : ACL_SUCCESS, "aclrtEventElapsedTime");
    // Small integers: every sum is exact.
    result = compare("matmul_streams", out.values(), multiply(multiply(a, b), c), 0);
  }
  MUST(aclrtDestroyEvent(end));
  MUST(aclrtDestroyEvent(product_is_ready));
  MUST(aclrtDestroyStream(second));
  MUST(aclrtDestroyStream(first));
  return result;
}
