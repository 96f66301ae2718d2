// Operators of lists of tensors: aclnnForeachAddScalarV2 adds a number to each of three, aclnnCat joins the results.
#include <memory>

#include <aclnnop/aclnn_cat.h>
#include <aclnnop/aclnn_foreach_add_scalar_v2.h>

#include "device.h"

namespace {

using Tensors = std::vector<std::unique_ptr<Tensor>>;

struct ListDeleter {
  // The list takes its tensors with it.
  void operator()(aclTensorList* list) const { aclDestroyTensorList(list); }
};

}  // namespace

int main() {
  const std::vector<int64_t> rows = {1, 3, 2};
  constexpr int64_t kColumns = 4;
  constexpr float kAdded = 0.25F;

  const Device device;
  aclrtStream stream = nullptr;
  MUST(aclrtCreateStream(&stream));
  int result = 1;
  {
    std::vector<float> expected;
    Tensors inputs;
    Tensors sums;
    std::vector<aclTensor*> input_handles;
    std::vector<aclTensor*> sum_handles;
    for (const int64_t count : rows) {
      std::vector<float> values;
      for (int64_t index = 0; index < count * kColumns; ++index) {
        values.push_back(static_cast<float>(expected.size()));
        expected.push_back(values.back() + kAdded);
      }
      inputs.push_back(std::make_unique<Tensor>(std::vector<int64_t>{count, kColumns}, values));
      sums.push_back(std::make_unique<Tensor>(std::vector<int64_t>{count, kColumns}));
      input_handles.push_back(inputs.back()->release_handle());
      sum_handles.push_back(sums.back()->release_handle());
    }
    const Tensor joined({static_cast<int64_t>(expected.size()) / kColumns, kColumns});
    const std::unique_ptr<aclTensorList, ListDeleter> input_list(
        aclCreateTensorList(input_handles.data(), input_handles.size()));
    const std::unique_ptr<aclTensorList, ListDeleter> sum_list(
        aclCreateTensorList(sum_handles.data(), sum_handles.size()));
    float added = kAdded;
    aclScalar* scalar = aclCreateScalar(&added, ACL_FLOAT);

    uint64_t add_bytes = 0;
    aclOpExecutor* add = nullptr;
    MUST(aclnnForeachAddScalarV2GetWorkspaceSize(input_list.get(), scalar, sum_list.get(), &add_bytes, &add));
    const Workspace add_workspace(add_bytes);
    MUST(aclnnForeachAddScalarV2(add_workspace.get(), add_bytes, add, stream));

    uint64_t join_bytes = 0;
    aclOpExecutor* join = nullptr;
    MUST(aclnnCatGetWorkspaceSize(sum_list.get(), 0, joined.get(), &join_bytes, &join));
    const Workspace join_workspace(join_bytes);
    MUST(aclnnCat(join_workspace.get(), join_bytes, join, stream));
    MUST(aclrtSynchronizeStream(stream));

    aclDestroyScalar(scalar);
    result = compare("tensor_lists", joined.values(), expected, 0);
  }
  MUST(aclrtDestroyStream(stream));
  return result;
}
