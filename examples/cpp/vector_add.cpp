// out = left + 2 * right with aclnnAdd.
#include <aclnnop/aclnn_add.h>

#include "device.h"

int main() {
  constexpr int64_t kCount = 1000;
  std::vector<float> left(kCount);
  std::vector<float> right(kCount);
  std::vector<float> expected(kCount);
  for (size_t index = 0; index < left.size(); ++index) {
    left[index] = static_cast<float>(index);
    right[index] = 0.5F * static_cast<float>(index % 7);
    expected[index] = left[index] + 2 * right[index];
  }

  const Device device;
  aclrtStream stream = nullptr;
  MUST(aclrtCreateStream(&stream));
  int result = 1;
  {
    const Tensor a({kCount}, left);
    const Tensor b({kCount}, right);
    const Tensor out({kCount});
    float factor = 2;
    aclScalar* alpha = aclCreateScalar(&factor, ACL_FLOAT);

    // An operator has two phases: the first checks the call and says how much workspace it needs, the second starts it.
    uint64_t workspace_bytes = 0;
    aclOpExecutor* executor = nullptr;
    MUST(aclnnAddGetWorkspaceSize(a.get(), b.get(), alpha, out.get(), &workspace_bytes, &executor));
    const Workspace workspace(workspace_bytes);
    MUST(aclnnAdd(workspace.get(), workspace_bytes, executor, stream));
    MUST(aclrtSynchronizeStream(stream));

    aclDestroyScalar(alpha);
    result = compare("vector_add", out.values(), expected, 0);
  }
  MUST(aclrtDestroyStream(stream));
  return result;
}
