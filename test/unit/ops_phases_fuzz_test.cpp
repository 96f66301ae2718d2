#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "abi/generated/entries.h"
#include "abi/operator_args.h"
#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "device/context.h"
#include "ops/phases.h"
#include "trace_child_process.h"

// Both phases of every operator with what no client should pass: null, dead and foreign handles, impossible tensors,
// wild scalars, arrays and lists, between arguments that fit so that the depths are reached too. Each call must answer
// with a code of the vendor's and a sentence. The sanitizer builds make this test sharp.
//
// DRYDOCK_FUZZ_SECONDS: how long each test goes on, instead of the few rounds of a quick run. DRYDOCK_FUZZ_SEED: where
// the numbers begin; a child that dies names its seed, the operator and the call.

namespace drydock::ops {
namespace {

constexpr uint64_t kMemoryBytes = uint64_t{2} << 20;
constexpr uint64_t kWorkspaceBytes = uint64_t{128} << 20;
constexpr int32_t kHostToDevice = 1;
constexpr uint64_t kRoundsOfAChild = 25;  // calls of each operator in one process
constexpr unsigned kSecondsOfACall = 60;
constexpr size_t kMostDeaths = 200;

// What a child did, in memory that its parent shares; the last call for the sentence about a death.
struct Tally {
  uint64_t first_phases = 0;
  uint64_t accepted = 0;  ///< by the first phase
  uint64_t second_phases = 0;
  uint64_t launched = 0;  ///< by the second phase
  uint64_t faults = 0;    ///< found at the synchronize behind it
  uint32_t operator_index = 0;
  uint64_t round = 0;
};

class Draw {
 public:
  void restart(uint64_t seed) { random_.seed(seed); }
  uint64_t bits() { return random_(); }
  uint64_t below(uint64_t count) { return random_() % count; }
  bool one_in(uint64_t count) { return below(count) == 0; }
  template <class T, size_t N>
  T of(const std::array<T, N>& values) {
    return values[below(N)];
  }

  int64_t size() { return of<int64_t, 10>({0, 1, 1, 2, 2, 3, 4, 5, 8, 16}); }
  int64_t integer() {
    if (one_in(8)) return static_cast<int64_t>(bits());
    return of<int64_t, 20>({0,
                            0,
                            1,
                            1,
                            1,
                            2,
                            2,
                            3,
                            4,
                            5,
                            -1,
                            -1,
                            -2,
                            -7,
                            16,
                            100,
                            1000,
                            int64_t{1} << 31,
                            std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()});
  }
  double number() {
    if (one_in(8)) {
      const uint64_t pattern = bits();
      double value = 0;
      std::memcpy(&value, &pattern, sizeof value);
      return value;
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return of<double, 12>({0, 1, -0.5, 0.5, 2, -1, 1e-30, 1e300, -1e300, kInfinity, -kInfinity, std::nan("")});
  }

 private:
  std::mt19937_64 random_;
};

/// The arguments of one call. The aclnn objects it made die with it.
class Arguments {
 public:
  Arguments(Draw& draw, char* memory) : draw_(draw), memory_(memory) {
    const uint64_t rank = draw_.below(6);
    for (uint64_t axis = 0; axis < rank; ++axis) common_dims_.push_back(draw_.size());
    common_type_ = draw_.below(32);
  }
  ~Arguments() { destroy(); }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void destroy() {
    // Lists take their elements along, so they go first; what is gone then is only refused.
    for (const void* list : tensor_lists_) static_cast<void>(entries::aclDestroyTensorList(list));
    for (const void* list : scalar_lists_) static_cast<void>(entries::aclDestroyScalarList(list));
    for (const void* tensor : tensors_) static_cast<void>(entries::aclDestroyTensor(tensor));
    for (const void* scalar : scalars_) static_cast<void>(entries::aclDestroyScalar(scalar));
    for (const void* array : int_arrays_) static_cast<void>(entries::aclDestroyIntArray(array));
    for (const void* array : float_arrays_) static_cast<void>(entries::aclDestroyFloatArray(array));
    for (const void* array : bool_arrays_) static_cast<void>(entries::aclDestroyBoolArray(array));
    for (auto* handles :
         {&tensor_lists_, &scalar_lists_, &tensors_, &scalars_, &int_arrays_, &float_arrays_, &bool_arrays_})
      handles->clear();
  }

  Arg draw(const ArgSpec& spec) {
    switch (spec.kind) {
      case ArgKind::kTensor: return abi::pack_tensor(or_bad(tensor(spec)));
      case ArgKind::kTensorList: return abi::pack_tensors(or_bad(tensor_list(spec)));
      case ArgKind::kScalar: return abi::pack_scalar(or_bad(scalar()));
      case ArgKind::kScalarList: return abi::pack_scalars(or_bad(scalar_list()));
      case ArgKind::kIntArray: return abi::pack_ints(or_bad(int_array()));
      case ArgKind::kFloatArray: return abi::pack_floats(or_bad(float_array()));
      case ArgKind::kBoolArray: return abi::pack_bools(or_bad(bool_array()));
      case ArgKind::kInt: return abi::pack_int(tame_ ? draw_.size() % 4 : draw_.integer());
      case ArgKind::kDouble: return abi::pack_double(draw_.number());
      case ArgKind::kBool: return abi::pack_bool(draw_.one_in(2));
      case ArgKind::kString: return abi::pack_text(text());
      case ArgKind::kDataType:
        return abi::pack_data_type(static_cast<int32_t>(draw_.below(tame_ ? 16 : 46)) - (tame_ ? 0 : 2));
      case ArgKind::kPointer: break;
    }
    return abi::pack_pointer(draw_.one_in(2) ? nullptr : wild_pointer());
  }

  const void* wild_pointer() {
    switch (draw_.below(4)) {
      case 0: return this;
      case 1: return memory_;
      case 2: return reinterpret_cast<const void*>(draw_.below(4096));
      default: return reinterpret_cast<const void*>(draw_.bits());
    }
  }

 private:
  /// Half of the calls are tame: their arguments agree with each other, so that kernels get to work.
  bool wild(uint64_t count) { return !tame_ && draw_.one_in(count); }

  // In a few calls one of the arguments is no handle of its kind.
  const void* or_bad(const void* handle) {
    if (!wild(60)) return draw_.one_in(12) ? nullptr : handle;
    switch (draw_.below(4)) {
      case 0: {
        const void* tensor = entries::aclCreateTensor(nullptr, 0, 0, nullptr, 0, 2, nullptr, 0, memory_);
        static_cast<void>(entries::aclDestroyTensor(tensor));
        return tensor;
      }
      case 1: return scalar();
      case 2: return handle == nullptr ? nullptr : static_cast<const char*>(handle) + 8;
      default: return wild_pointer();
    }
  }

  DataType type_for(const ArgSpec& spec) {
    if (wild(16)) return static_cast<DataType>(static_cast<int32_t>(draw_.below(46)) - 2);
    static constexpr std::array<DataType, 13> kUsual = {
        DataType::kFloat, DataType::kFloat,  DataType::kFloat16,   DataType::kBFloat16, DataType::kInt64,
        DataType::kInt64, DataType::kInt32,  DataType::kBool,      DataType::kInt8,     DataType::kUInt8,
        DataType::kInt16, DataType::kDouble, DataType::kComplex64,
    };
    if (spec.dtypes == 0) return wild(3) ? draw_.of(kUsual) : kUsual[common_type_ % kUsual.size()];
    // The same choice among what each tensor may be makes most tensors of a call alike.
    uint64_t choice =
        (wild(6) ? draw_.bits() : common_type_) % static_cast<uint64_t>(__builtin_popcountll(spec.dtypes));
    uint64_t listed = spec.dtypes;
    for (; choice > 0; --choice) listed &= listed - 1;
    return static_cast<DataType>(__builtin_ctzll(listed));
  }

  std::vector<int64_t> impossible_dims() {
    std::vector<int64_t> dims(draw_.below(30));
    for (int64_t& size : dims) size = draw_.one_in(2) ? draw_.size() : draw_.integer();
    return dims;
  }

  std::vector<int64_t> dims_for(const ArgSpec& spec) {
    if (wild(50)) return impossible_dims();
    std::vector<int64_t> dims = common_dims_;
    if (draw_.one_in(tame_ ? 20 : 3)) {
      const uint64_t most = std::min<uint64_t>(spec.max_rank, draw_.one_in(20) ? 25 : 6);
      dims.resize(draw_.below(most + 1));
      for (int64_t& size : dims) size = dims.size() > 6 ? static_cast<int64_t>(draw_.below(3)) : draw_.size();
    } else if (!dims.empty() && draw_.one_in(tame_ ? 20 : 4)) {
      dims[draw_.below(dims.size())] = draw_.size();
    }
    while (elements_of(dims) > 4096) dims.pop_back();
    return dims;
  }

  static int64_t elements_of(const std::vector<int64_t>& dims) {
    int64_t elements = 1;
    for (const int64_t size : dims) {
      if (__builtin_mul_overflow(elements, size, &elements)) return -1;
    }
    return elements;
  }

  /// Dense, permuted, broadcast or (seldom) anything. Empty for none.
  std::vector<int64_t> strides_for(const std::vector<int64_t>& dims) {
    std::vector<int64_t> strides(dims.size());
    if (strides.empty() || draw_.one_in(2)) return {};
    const bool reversed = draw_.one_in(2);
    uint64_t stride = 1;
    for (size_t place = 0; place < dims.size(); ++place) {
      const size_t axis = reversed ? place : dims.size() - 1 - place;
      strides[axis] = static_cast<int64_t>(stride);
      stride *= static_cast<uint64_t>(dims[axis]);
    }
    if (draw_.one_in(8)) strides[draw_.below(strides.size())] = 0;
    if (draw_.one_in(8)) strides[draw_.below(strides.size())] = static_cast<int64_t>(draw_.below(40));
    if (wild(60)) strides[draw_.below(strides.size())] = draw_.integer();
    return strides;
  }

  void* place(int64_t bytes) {
    switch (tame_ ? draw_.below(40) + 3 : draw_.below(50)) {
      case 0: return nullptr;
      case 1: return const_cast<void*>(wild_pointer());
      case 2: return memory_ + draw_.below(kMemoryBytes);  // not aligned, or too near the end
      case 3:
      case 4:
      case 5:
      case 6:
        // As far back as it fits: behind it nothing is accessible.
        if (bytes >= 0 && bytes <= static_cast<int64_t>(kMemoryBytes)) {
          return memory_ + (kMemoryBytes - static_cast<uint64_t>(bytes)) / 16 * 16;
        }
        return memory_;
      default: return memory_ + draw_.below(kMemoryBytes / 512 - 64) * 512;
    }
  }

  const void* tensor(const ArgSpec& spec) {
    const DataType type = type_for(spec);
    const std::vector<int64_t> dims = dims_for(spec);
    const std::vector<int64_t> strides = strides_for(dims);
    const int64_t elements = elements_of(dims);
    const int64_t offset = draw_.one_in(6) ? (wild(8) ? draw_.integer() : draw_.size()) : 0;
    std::vector<int64_t> storage = {std::max<int64_t>(elements, 0)};
    if (wild(20)) storage = impossible_dims();
    static constexpr std::array<int32_t, 12> kFormats = {0, 1, 3, 4, 29, 30, 32, 33, 50, 51, -1, 1000};
    const int32_t format = wild(12) ? draw_.of(kFormats) : 2;
    const int64_t bytes = elements < 0 ? -1 : bytes_of(type, std::min<int64_t>(elements, int64_t{1} << 40));
    const void* made = entries::aclCreateTensor(wild(200) ? nullptr : dims.data(), dims.size(),
                                                static_cast<int32_t>(type), strides.empty() ? nullptr : strides.data(),
                                                offset, format, storage.data(), storage.size(), place(bytes));
    if (made != nullptr) tensors_.push_back(made);
    return made;
  }

  const void* tensor_list(const ArgSpec& spec) {
    std::vector<const void*> elements(draw_.below(5));
    for (const void*& element : elements) element = draw_.one_in(12) ? nullptr : tensor(spec);
    if (elements.size() > 1 && wild(30)) elements[0] = elements[1];
    const void* made = entries::aclCreateTensorList(elements.data(), elements.size());
    if (made != nullptr) tensor_lists_.push_back(made);
    return made;
  }

  const void* scalar() {
    alignas(16) std::array<unsigned char, 16> bytes{};
    int32_t type = static_cast<int32_t>(DataType::kDouble);
    if (draw_.one_in(2)) {
      const double value = draw_.number();
      std::memcpy(bytes.data(), &value, sizeof value);
    } else {
      const int64_t value = draw_.integer();
      std::memcpy(bytes.data(), &value, sizeof value);
      type = static_cast<int32_t>(DataType::kInt64);
    }
    if (wild(5)) type = static_cast<int32_t>(draw_.below(46)) - 2;
    const void* made = entries::aclCreateScalar(bytes.data(), type);
    if (made != nullptr) scalars_.push_back(made);
    return made;
  }

  const void* scalar_list() {
    std::vector<const void*> elements(draw_.below(5));
    for (const void*& element : elements) element = draw_.one_in(12) ? nullptr : scalar();
    const void* made = entries::aclCreateScalarList(elements.data(), elements.size());
    if (made != nullptr) scalar_lists_.push_back(made);
    return made;
  }

  const void* int_array() {
    std::vector<int64_t> values(draw_.below(draw_.one_in(10) ? 40 : 6));
    for (int64_t& value : values) value = wild(2) ? draw_.integer() : draw_.size();
    if (draw_.one_in(3)) values = common_dims_;
    const void* made = entries::aclCreateIntArray(values.data(), values.size());
    if (made != nullptr) int_arrays_.push_back(made);
    return made;
  }

  const void* float_array() {
    std::vector<float> values(draw_.below(6));
    for (float& value : values) value = static_cast<float>(std::clamp(draw_.number(), -3e38, 3e38));
    const void* made = entries::aclCreateFloatArray(values.data(), values.size());
    if (made != nullptr) float_arrays_.push_back(made);
    return made;
  }

  const void* bool_array() {
    const std::array<bool, 6> values = {draw_.one_in(2), draw_.one_in(2), true, false, draw_.one_in(2), true};
    const void* made = entries::aclCreateBoolArray(values.data(), draw_.below(7));
    if (made != nullptr) bool_arrays_.push_back(made);
    return made;
  }

  const char* text() {
    static const std::string& endless = *new std::string(100'000, 'x');
    static constexpr std::array<const char*, 14> kTexts = {"",     "mean", "sum",      "none",     "BSH",
                                                           "BNSD", "TND",  "BSND",     "constant", "reflect",
                                                           "gelu", "%s%n", "\xff\xfe", "round"};
    if (draw_.one_in(12)) return nullptr;
    return draw_.one_in(30) ? endless.c_str() : draw_.of(kTexts);
  }

  Draw& draw_;
  char* const memory_;
  const bool tame_ = draw_.one_in(2);
  std::vector<int64_t> common_dims_;
  uint64_t common_type_ = 0;
  std::vector<const void*> tensors_, tensor_lists_, scalars_, scalar_lists_, int_arrays_, float_arrays_, bool_arrays_;
};

class Fuzz {
 public:
  Fuzz(uint64_t seed, Tally& tally) : seed_(seed), tally_(tally) {}

  void open() {
    ASSERT_TRUE(entries::aclInit(nullptr).is_ok());
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    ASSERT_TRUE(entries::aclrtMalloc(&workspace_, kWorkspaceBytes, 0).is_ok());
    void* memory = nullptr;
    ASSERT_TRUE(entries::aclrtMalloc(&memory, kMemoryBytes - 32, 0).is_ok());  // the door adds 32
    memory_ = static_cast<char*>(memory);
    new_stream();
  }

  /// Calls each operator from number `first` on.
  void round(uint64_t round, uint32_t first) {
    tally_.round = round;
    draw_.restart(seed_ * 1000 + round);
    write_memory();
    const auto rows = operator_rows();
    for (uint32_t index = first; index < rows.size(); ++index) {
      if (!rows[index].name.starts_with("aclnn")) continue;
      tally_.operator_index = index;
      draw_.restart((seed_ * 1000 + round) * 100'003 + index);
      alarm(kSecondsOfACall);
      call(index, rows[index]);
      if (testing::Test::HasFailure()) return;
    }
    alarm(0);
  }

 private:
  // Small integers where they are read as 8 bytes, with a few of everything else; the last quarter stays a ghost until
  // an operator writes there.
  void write_memory() {
    std::vector<int64_t> host(kMemoryBytes / 4 * 3 / sizeof(int64_t));
    for (int64_t& value : host) value = draw_.one_in(16) ? static_cast<int64_t>(draw_.bits()) : draw_.size() - 2;
    const size_t bytes = host.size() * sizeof(int64_t);
    ASSERT_TRUE(entries::aclrtMemcpy(memory_, bytes, host.data(), bytes, kHostToDevice).is_ok());
  }

  void new_stream() {
    if (stream_ != nullptr) {
      ASSERT_TRUE(entries::aclrtDestroyStreamForce(stream_).is_ok());
    }
    ASSERT_TRUE(entries::aclrtCreateStream(&stream_).is_ok());
  }

  void expect_sentence(const OperatorRow& row, int32_t code) const {
    const std::string said = peek_recent_error();
    EXPECT_NE(said.find(row.name), std::string::npos) << code << " from " << row.name << " says: " << said;
  }

  void call(uint32_t index, const OperatorRow& row) {
    Arguments arguments(draw_, memory_);
    std::vector<Arg> args;
    for (const ArgSpec& spec : row.args) args.push_back(arguments.draw(spec));
    uint64_t workspace_size = 99;
    void* executor = this;
    ++tally_.first_phases;
    if (draw_.one_in(200)) {
      EXPECT_EQ(phase1(index, args.data(), static_cast<uint32_t>(args.size()), nullptr, &executor),
                code::ACLNN_ERR_PARAM_NULLPTR);
      EXPECT_EQ(phase1(index, args.data(), static_cast<uint32_t>(args.size()), &workspace_size, nullptr),
                code::ACLNN_ERR_PARAM_NULLPTR);
      return;
    }
    const int32_t code = phase1(index, args.data(), static_cast<uint32_t>(args.size()), &workspace_size, &executor);
    if (code != 0) {
      EXPECT_TRUE(code == code::ACLNN_ERR_PARAM_NULLPTR || code == code::ACLNN_ERR_PARAM_INVALID)
          << row.name << " answers " << code << ": " << peek_recent_error();
      EXPECT_EQ(workspace_size, 0U) << row.name;
      EXPECT_EQ(executor, nullptr) << row.name;
      expect_sentence(row, code);
      return;
    }
    ++tally_.accepted;
    second_phase(index, row, arguments, workspace_size, executor);
  }

  void second_phase(uint32_t index, const OperatorRow& row, Arguments& arguments, uint64_t workspace_size,
                    void* executor) {
    if (draw_.one_in(100)) {
      EXPECT_TRUE(entries::aclDestroyAclOpExecutor(executor).is_ok());
      return;
    }
    if (draw_.one_in(100)) arguments.destroy();
    const bool repeatable = draw_.one_in(50);
    if (repeatable) {
      EXPECT_TRUE(entries::aclSetAclOpExecutorRepeatable(executor).is_ok());
    }
    const void* stream = draw_.one_in(100) ? arguments.wild_pointer() : draw_.one_in(20) ? nullptr : stream_;
    const void* workspace = draw_.one_in(100) ? arguments.wild_pointer() : workspace_;
    const uint64_t given_size = draw_.one_in(100) ? draw_.bits() : workspace_size;
    for (int time = 0; time < (repeatable ? 2 : 1); ++time) {
      ++tally_.second_phases;
      const int32_t code = phase2(index, const_cast<void*>(workspace), given_size, executor, const_cast<void*>(stream));
      if (code != 0) {
        EXPECT_NE(code, code::ACLNN_ERR_INNER) << row.name << ": " << peek_recent_error();
        EXPECT_NE(code, code::ACL_ERROR_BAD_ALLOC) << row.name;
        expect_sentence(row, code);
      } else {
        ++tally_.launched;
      }
    }
    if (repeatable) {
      EXPECT_TRUE(entries::aclDestroyAclOpExecutor(executor).is_ok());
    }
    for (void* used : {stream_, static_cast<void*>(nullptr)}) {
      const Status status = entries::aclrtSynchronizeStream(used);
      if (status.is_ok()) continue;
      ++tally_.faults;
      EXPECT_EQ(status.code(), code::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION) << row.name << ": " << status.message();
      if (used != nullptr) new_stream();
    }
  }

  const uint64_t seed_;
  Tally& tally_;
  Draw draw_;
  void* workspace_ = nullptr;
  char* memory_ = nullptr;
  void* stream_ = nullptr;
};

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// A child per seed: traces stay small, each mode of values has its process, and behind a death a new child goes on with
// the next operator.
void fuzz(const char* values) {
  const uint64_t seconds = number_of("DRYDOCK_FUZZ_SECONDS", 0);
  const uint64_t first_seed = number_of("DRYDOCK_FUZZ_SEED", 1);
  const uint64_t rounds = seconds > 0 ? kRoundsOfAChild : 3;
  void* shared = mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Tally& tally = *new (shared) Tally;
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  uint64_t seed = first_seed;
  std::vector<std::string> deaths;  // told at the end: a child that is born after a failure would inherit it
  do {
    uint64_t next_round = 0;
    uint32_t next_operator = 0;
    while (next_round < rounds) {
      const trace::RunFolder run;
      const int ended = trace::run_child(run.path(), [&] {
        setenv("DRYDOCK_VALUES", values, 1);
        Fuzz fuzz(seed, tally);
        fuzz.open();
        for (; next_round < rounds && !testing::Test::HasFailure(); ++next_round, next_operator = 0) {
          fuzz.round(next_round, next_operator);
        }
      });
      if (ended == 0) break;
      deaths.push_back("seed " + std::to_string(seed) + ", round " + std::to_string(tally.round) + ": " +
                       std::string(operator_rows()[tally.operator_index].name) +
                       (ended == 128 + SIGALRM ? " takes too long" : " ended the process or answered wrongly"));
      if (deaths.size() == kMostDeaths) break;
      next_round = tally.round;
      next_operator = tally.operator_index + 1;
    }
    ++seed;
  } while (passed() < static_cast<double>(seconds) && deaths.size() < kMostDeaths);
  for (const std::string& death : deaths) ADD_FAILURE() << death;
  std::printf(
      "values %s: seeds %lu to %lu, %lu first phases (%lu accepted), %lu second phases (%lu launched), %lu faults "
      "of the device, %.1f s\n",
      values, first_seed, seed - 1, tally.first_phases, tally.accepted, tally.second_phases, tally.launched,
      tally.faults, passed());
  EXPECT_GT(tally.launched, tally.first_phases / 8);  // else the arguments are too wild to test anything
  munmap(shared, sizeof(Tally));
}

TEST(PhaseFuzz, NothingCrashesOrGoesWithoutASentence) { fuzz("auto"); }
TEST(PhaseFuzz, NothingCrashesWhereEverythingIsComputed) { fuzz("full"); }

}  // namespace
}  // namespace drydock::ops
