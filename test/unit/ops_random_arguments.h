#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "abi/generated/entries.h"
#include "abi/operator_args.h"

// Arguments of an operator drawn at random: good ones, odd ones and impossible ones.

namespace drydock::ops::testing {

/// Device memory that tensors lie in; what follows it is not accessible.
inline constexpr uint64_t kFuzzedBytes = uint64_t{2} << 20;

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
      case 2: return memory_ + draw_.below(kFuzzedBytes);  // not aligned, or too near the end
      case 3:
      case 4:
      case 5:
      case 6:
        // As far back as it fits: behind it nothing is accessible.
        if (bytes >= 0 && bytes <= static_cast<int64_t>(kFuzzedBytes)) {
          return memory_ + (kFuzzedBytes - static_cast<uint64_t>(bytes)) / 16 * 16;
        }
        return memory_;
      default: return memory_ + draw_.below(kFuzzedBytes / 512 - 64) * 512;
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

}  // namespace drydock::ops::testing
