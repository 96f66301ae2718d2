#include <charconv>
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/tensor.h"
#include "ops/workspace.h"
#include "ops/workspace_call.h"

namespace drydock::ops {
namespace {

constexpr uint32_t kNone = 0xffffffff;

uint32_t index_of(std::string_view name) {
  const auto rows = operator_rows();
  for (uint32_t index = 0; index < rows.size(); ++index)
    if (rows[index].name == name) return index;
  return kNone;
}

Tensor dense(DataType dtype, const std::vector<int64_t>& dims) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims.assign(dims);
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t index = dims.size(); index > 1; --index) strides[index - 2] = strides[index - 1] * dims[index - 1];
  tensor.strides.assign(strides);
  return tensor;
}

/// As if the last two dimensions had been swapped: a view that is not contiguous.
Tensor transposed(Tensor tensor) {
  const int rank = tensor.dims.size();
  tensor.strides[rank - 1] = tensor.dims[rank - 2];
  tensor.strides[rank - 2] = 1;
  return tensor;
}

/// One call from text: `self=bf16[4;8]t dim=-1 layout="BSH" x=(fp32[2],fp32[3])`. What is not named is null or 0.
class WrittenCall {
 public:
  WrittenCall(uint32_t operator_index, std::string_view text) : row_(operator_rows()[operator_index]) {
    for (const ArgSpec& spec : row_.args) {
      Arg arg;
      arg.kind = spec.kind;
      args_.push_back(arg);
    }
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      if (end > 0) take(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  std::span<const Arg> args() const { return args_; }

 private:
  void take(std::string_view word) {
    const size_t equals = word.find('=');
    ASSERT_NE(equals, std::string_view::npos) << word;
    const std::string_view name = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    for (size_t index = 0; index < args_.size(); ++index) {
      if (row_.args[index].name == name) return set(args_[index], value);
    }
    ADD_FAILURE() << row_.name << " has no argument " << name;
  }

  void set(Arg& arg, std::string_view value) {
    switch (arg.kind) {
      case ArgKind::kTensor: arg.tensor = tensor(value); return;
      case ArgKind::kTensorList: {
        TensorList& list = lists_.emplace_back();
        value = value.substr(1, value.size() - 2);
        for (size_t begin = 0; begin < value.size();) {
          const size_t end = std::min(value.find(',', begin), value.size());
          list.tensors.push_back(tensor(value.substr(begin, end - begin)));
          begin = end + 1;
        }
        arg.tensors = &list;
        return;
      }
      case ArgKind::kString: arg.text = texts_.emplace_back(value.substr(1, value.size() - 2)).c_str(); return;
      case ArgKind::kDouble: arg.number = std::stod(std::string(value)); return;
      case ArgKind::kBool: arg.boolean = value == "1"; return;
      case ArgKind::kInt: arg.integer = std::stoll(std::string(value)); return;
      default: ADD_FAILURE() << "no way to write " << value;
    }
  }

  Tensor* tensor(std::string_view text) {
    static const std::map<std::string_view, DataType> kTypes = {
        {"fp32", DataType::kFloat},  {"fp16", DataType::kFloat16}, {"bf16", DataType::kBFloat16},
        {"int8", DataType::kInt8},   {"int16", DataType::kInt16},  {"int32", DataType::kInt32},
        {"int64", DataType::kInt64}, {"uint8", DataType::kUInt8},  {"bool", DataType::kBool}};
    const size_t open = text.find('[');
    const size_t close = text.find(']');
    std::vector<int64_t> dims;
    for (size_t begin = open + 1; begin < close;) {
      const size_t end = std::min(text.find(';', begin), close);
      int64_t size = 0;
      std::from_chars(text.data() + begin, text.data() + end, size);
      dims.push_back(size);
      begin = end + 1;
    }
    const auto type = kTypes.find(text.substr(0, open));
    EXPECT_NE(type, kTypes.end()) << text;
    Tensor made = dense(type == kTypes.end() ? DataType::kFloat : type->second, dims);
    return &tensors_.emplace_back(text.ends_with("]t") ? transposed(made) : made);
  }

  const OperatorRow& row_;
  std::vector<Arg> args_;
  std::deque<Tensor> tensors_;
  std::deque<TensorList> lists_;
  std::deque<std::string> texts_;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t index = 0; index < line.size(); ++index) {
    if (line[index] == '"') {
      const bool doubled = quoted && index + 1 < line.size() && line[index + 1] == '"';
      if (doubled) cells.back() += line[index++];
      quoted = doubled ? quoted : !quoted;
    } else if (line[index] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[index];
    }
  }
  return cells;
}

WorkspaceNeed need_of(std::string_view name, std::string_view arguments, WorkspaceMode mode = WorkspaceMode::kRules) {
  const uint32_t index = index_of(name);
  const WrittenCall call(index, arguments);
  return workspace_of(index, call.args(), mode, {});
}

// Every row is a size that a vendor's test, a measured peak or the sources' own arithmetic gives. Where ours differs,
// the row says why, and a row that says so must differ.
TEST(Workspace, MeetsWhatIsKnown) {
  std::ifstream file(DRYDOCK_TEST_DATA "/workspace_expected.csv");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  size_t rows = 0;
  fmt::print("{:<38} {:>6} {:>14} {:>14} {:>9}  {}\n", "operator", "part", "predicted", "expected", "error",
             "confidence");
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    ASSERT_EQ(cells.size(), 9U) << line;
    const uint32_t index = index_of(cells[0]);
    ASSERT_NE(index, kNone) << cells[0];
    const WrittenCall call(index, cells[3]);
    const WorkspaceMachine machine = {.cube_cores = std::stoll(cells[1]), .vector_cores = std::stoll(cells[2])};
    const WorkspaceNeed need = workspace_of(index, call.args(), WorkspaceMode::kRules, machine);
    const auto predicted = static_cast<int64_t>(cells[5] == "kernel" ? need.kernel_bytes : need.bytes);
    const int64_t expected = std::stoll(cells[4]);
    fmt::print("{:<38} {:>6} {:>14} {:>14} {:>+9}  {}{}\n", cells[0], cells[5], predicted, expected,
               predicted - expected, cells[6], cells[8].empty() ? "" : ": " + cells[8]);
    EXPECT_EQ(predicted == expected, cells[8].empty()) << line;
    EXPECT_EQ(trace::name_of(need.basis), cells[6]) << line;
    ++rows;
  }
  EXPECT_GT(rows, 50U);
}

TEST(Workspace, NoneAsksForNothing) {
  const WorkspaceNeed need =
      need_of("aclnnMatmul", "self=bf16[24576;4096] mat2=bf16[4096;32000] out=bf16[24576;32000]", WorkspaceMode::kNone);
  EXPECT_EQ(need.bytes, 0U);
}

TEST(Workspace, BoundsAreNeverBelowTheRules) {
  const char* const kCalls[][2] = {
      {"aclnnMatmul", "self=bf16[512;4096] mat2=bf16[4096;4096] out=bf16[512;4096]"},
      {"aclnnTril", "self=bf16[64;64] out=bf16[64;64]"},
      {"aclnnSort", "self=fp32[4;100] valuesOut=fp32[4;100]"},
      {"aclnnApplyAdamWV2", "varRef=fp32[64]"},
  };
  for (const auto& [name, arguments] : kCalls) {
    const WorkspaceNeed rules = need_of(name, arguments);
    const WorkspaceNeed upper = need_of(name, arguments, WorkspaceMode::kUpper);
    EXPECT_GE(upper.bytes, rules.bytes) << name;
  }
  // Nothing is known of this one: the system part, and its half-type input once more as fp32.
  EXPECT_EQ(need_of("aclnnTril", "self=bf16[64;64] out=bf16[64;64]", WorkspaceMode::kUpper).bytes,
            uint64_t(WorkspaceCall::align(16 << 20) + WorkspaceCall::align(4 * 64 * 64)));
  EXPECT_EQ(need_of("aclnnTril", "self=bf16[64;64] out=bf16[64;64]", WorkspaceMode::kUpper).basis,
            trace::WorkspaceBasis::kUpper);
}

TEST(Workspace, NothingIsAskedForEmptyResults) {
  EXPECT_EQ(need_of("aclnnSwiGlu", "x=bf16[0;8192] out=bf16[0;4096]").bytes, 0U);
}

TEST(Workspace, AViewThatIsWrittenAndReadIsCopiedTwice) {
  EXPECT_EQ(need_of("aclnnInplaceAdd", "selfRef=fp32[8;16]t other=fp32[8;16]").bytes, 2U * 1024U);
  EXPECT_EQ(need_of("aclnnInplaceAdd", "selfRef=fp32[8;16] other=fp32[8;16]").bytes, 0U);
}

TEST(Workspace, NoSizeOverflows) {
  const int64_t most = INT64_MAX;
  EXPECT_EQ(WorkspaceCall::up(most, 512), most / 512 * 512);
  EXPECT_GE(WorkspaceCall::align(most), most / 512 * 512 - 512);
  EXPECT_EQ(WorkspaceCall::ceil(5, 0), 0);
  EXPECT_EQ(WorkspaceCall::divide(5, 0), 0);
  const WorkspaceNeed need = need_of("aclnnMatmul",
                                     "self=fp16[4611686018427387904;4611686018427387904] "
                                     "mat2=fp16[4611686018427387904;4611686018427387904] out=fp32[1]");
  EXPECT_LE(need.bytes, uint64_t{1} << 63);
}

// Any operator, with every optional argument null and no tensors: no formula may fail or ask for the absurd.
TEST(Workspace, CallsWithoutTensorsAreHarmless) {
  for (uint32_t index = 0; index < operator_rows().size(); ++index) {
    const WrittenCall call(index, "");
    for (const WorkspaceMode mode : {WorkspaceMode::kRules, WorkspaceMode::kUpper})
      EXPECT_LE(workspace_of(index, call.args(), mode, {}).bytes, uint64_t{1} << 30) << operator_rows()[index].name;
  }
}

TEST(Workspace, DimensionsOfLayouts) {
  const uint32_t attention = index_of("aclnnFlashAttentionScore");
  const WrittenCall call(attention, "query=bf16[7;3;96] headNum=4 inputLayout=\"SBH\"");
  const WorkspaceMachine machine;
  const WorkspaceCall view(call.args(), machine);
  size_t layout = 0;
  while (operator_rows()[attention].args[layout].name != "inputLayout") ++layout;
  EXPECT_EQ(view.axis(0, 'S', layout, 4), 7);
  EXPECT_EQ(view.axis(0, 'B', layout, 4), 3);
  EXPECT_EQ(view.axis(0, 'N', layout, 4), 4);
  EXPECT_EQ(view.axis(0, 'D', layout, 4), 24);
  EXPECT_EQ(view.axis(0, 'D', layout, 0), 0);
}

TEST(Workspace, ATransposedBatchOfMatricesIsTold) {
  EXPECT_TRUE(WorkspaceCall::is_transposed(transposed(dense(DataType::kFloat, {3, 4, 5}))));
  EXPECT_FALSE(WorkspaceCall::is_transposed(dense(DataType::kFloat, {3, 4, 5})));
  Tensor gap = transposed(dense(DataType::kFloat, {3, 4, 5}));
  gap.strides[0] = 100;
  EXPECT_FALSE(WorkspaceCall::is_transposed(gap));
}

}  // namespace
}  // namespace drydock::ops
