#include <deque>
#include <random>

#include "ops_call_builder.h"

// Every kernel that a row names, called with arguments that make little sense together: it must answer, not crash, and
// write nothing outside its outputs. The sanitizer builds make this test sharp.

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;

/// Draws the arguments of one call.
class ArgumentSource {
 public:
  explicit ArgumentSource(uint32_t seed) : random_(seed) {}

  HostTensor& tensor() {
    static const std::vector<Dims> shapes = {{}, {1}, {0}, {3}, {2, 3}, {3, 1}, {0, 3}, {2, 3, 2}, {1, 3, 1}, {6}};
    static const std::vector<DataType> types = {
        DataType::kFloat, DataType::kInt64, DataType::kInt32,     DataType::kBool,   DataType::kFloat16,
        DataType::kUInt8, DataType::kInt64, DataType::kComplex64, DataType::kDouble, DataType::kInt4};
    // One shape and type for the whole call, most of the time: many kernels refuse all else at once.
    const Dims& dims = pick(10) < 6 ? shapes[common_shape_] : shapes[pick(shapes.size())];
    const DataType type = pick(10) < 6 ? types[common_type_] : types[pick(types.size())];
    HostTensor& tensor = tensors_.emplace_back(type, dims);
    if (is_real_element(type)) {
      std::vector<double> values(static_cast<size_t>(dims.product()));
      for (double& value : values) value = static_cast<double>(pick(6)) - 2;
      tensor.set(values);
    } else {
      std::memset(tensor.bytes(), 0, static_cast<size_t>(bytes_of(type, dims.product())));
    }
    return tensor;
  }
  int64_t integer() {
    static constexpr std::array<int64_t, 12> kValues = {
        0, 1, -1, 2, 3, 5, -7, 100, 1000, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 1};
    return kValues[pick(kValues.size())];
  }
  std::vector<int64_t> integers() {
    std::vector<int64_t> values(pick(4));
    for (int64_t& value : values) value = integer();
    return values;
  }
  double number() {
    const std::array<double, 5> values = {0, 1, -0.5, 1e300, std::nan("")};
    return values[pick(values.size())];
  }
  size_t pick(size_t count) { return random_() % count; }
  /// Nothing was written behind any tensor.
  bool is_clean() const {
    for (const HostTensor& tensor : tensors_) {
      if (!tensor.is_clean_behind()) return false;
    }
    return true;
  }

 private:
  std::minstd_rand random_;
  size_t common_shape_ = pick(10);
  size_t common_type_ = pick(10);
  std::deque<HostTensor> tensors_;
};

void add_argument(TestCall& call, ArgumentSource& source, const ArgSpec& spec) {
  const bool absent = source.pick(20) == 0;
  switch (spec.kind) {
    case ArgKind::kTensor:
      if (absent) {
        call.absent(spec.direction);
      } else {
        call.tensor(source.tensor(), spec.direction);
      }
      return;
    case ArgKind::kTensorList: {
      std::vector<HostTensor*> list(source.pick(4));
      for (HostTensor*& element : list) element = source.pick(20) == 0 ? nullptr : &source.tensor();
      call.list(list, spec.direction);
      return;
    }
    case ArgKind::kScalar:
      if (absent) {
        call.no_scalar();
      } else if (source.pick(2) == 0) {
        call.scalar(source.integer());
      } else {
        call.scalar(source.number());
      }
      return;
    case ArgKind::kIntArray: call.ints(source.integers()); return;
    case ArgKind::kInt: call.integer(source.integer()); return;
    case ArgKind::kDouble: call.number(source.number()); return;
    case ArgKind::kBool: call.boolean(source.pick(2) == 0); return;
    default: call.other(spec.kind); return;
  }
}

#if defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kRounds = 100;
#else
constexpr uint32_t kRounds = 300;
#endif

TEST(Robustness, NoArgumentsMakeAKernelCrashOrWriteOutside) {
  int kernels = 0;
  int computed = 0;
  for (const OperatorRow& row : operator_rows()) {
    if (row.kernel == nullptr) continue;
    ++kernels;
    for (uint32_t round = 0; round < kRounds; ++round) {
      ArgumentSource source(round * 7919 + static_cast<uint32_t>(kernels));
      TestCall call{std::string(row.name)};
      for (const ArgSpec& spec : row.args) add_argument(call, source, spec);
      Status status = Status::ok();
      try {
        status = call.run(row.kernel);
      } catch (const std::exception& error) {
        ADD_FAILURE() << row.name << ", round " << round << " threw: " << error.what();
        break;
      }
      EXPECT_TRUE(source.is_clean()) << row.name << ", round " << round;
      if (!source.is_clean()) break;
      if (status.is_ok()) {
        ++computed;
        continue;
      }
      EXPECT_TRUE(status.code() == kParameterInvalid || status.code() == kNotComputed || status.code() == kDeviceFault)
          << row.name;
      EXPECT_EQ(status.message().rfind(row.name, 0), 0U) << status.message();
    }
  }
  EXPECT_GT(kernels, 300);
  EXPECT_GT(computed, kernels * static_cast<int>(kRounds) / 10);  // else the arguments are too wild to test anything
}

}  // namespace
}  // namespace drydock::ops::kernels
