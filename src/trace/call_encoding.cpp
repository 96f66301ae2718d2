#include "trace/call_encoding.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace drydock::trace {
namespace {

// Layout: u32 operator id, u16 argument count, u8 call flags, u8 0; then per argument u8 kind and its content:
//   tensor   u8 flags, i8 dtype, u8 rank, u8 0; [i32 format]; dims; [strides]; [i64 offset]; dims and strides are u32,
//            or i64 with kWide
//   scalar   u8 flags, i8 dtype; i64 (integral), double, two doubles (complex) or u32 (complex32, as it is)
//   lists    u8 flags; u32 count; elements
//   int, double 8 bytes; bool 1; data type i32; string u8 flags, u8 length, bytes; pointer u8 flags
constexpr uint8_t kTruncated = 1;  // call flag

constexpr uint8_t kDefined = 1;  // element flags
constexpr uint8_t kWide = 2;
constexpr uint8_t kStrided = 4;
constexpr uint8_t kOffset = 8;
constexpr uint8_t kFormatted = 16;

constexpr int32_t kFormatNd = 2;
constexpr size_t kHeadBytes = 8;
constexpr size_t kMostTensorBytes = 4 + 4 + 2 * 8 * ops::kMaxRank + 8;
constexpr size_t kMostScalarBytes = 2 + 16;

bool is_complex(DataType type) { return type == DataType::kComplex64 || type == DataType::kComplex128; }

double imaginary_of(const ops::Scalar& scalar) {
  std::array<float, 2> single{};
  std::array<double, 2> wide{};
  std::memcpy(single.data(), scalar.bytes.data(), sizeof(single));
  std::memcpy(wide.data(), scalar.bytes.data(), sizeof(wide));
  return scalar.dtype == DataType::kComplex64 ? static_cast<double>(single[1]) : wide[1];
}

class Encoder {
 public:
  explicit Encoder(std::span<std::byte> buffer)
      : begin_(buffer.data()), cursor_(begin_), end_(begin_ + buffer.size()) {}

  bool has_room(size_t bytes) const { return static_cast<size_t>(end_ - cursor_) >= bytes; }

  template <class T>
  void put(T value) {
    std::memcpy(cursor_, &value, sizeof(T));
    cursor_ += sizeof(T);
  }
  void put_bytes(const void* bytes, size_t count) {
    if (count > 0) std::memcpy(cursor_, bytes, count);
    cursor_ += count;
  }

  // False: no room; nothing was written.
  bool argument(const ops::Arg& arg);
  std::byte* cursor() const { return cursor_; }
  void rewind(std::byte* cursor) { cursor_ = cursor; }

 private:
  bool tensor(const ops::Tensor* tensor);
  bool scalar(const ops::Scalar* scalar);
  template <class List, class Element>
  bool list(const List* values, Element&& element);

  std::byte* begin_;
  std::byte* cursor_;
  std::byte* end_;
};

bool Encoder::tensor(const ops::Tensor* tensor) {
  if (tensor == nullptr) {
    if (!has_room(1)) return false;
    put(uint8_t{0});
    return true;
  }
  if (!has_room(kMostTensorBytes)) return false;
  const int rank = tensor->dims.size();
  const int64_t* dims = tensor->dims.data();
  const int64_t* strides = tensor->strides.data();
  uint8_t flags = kDefined;
  uint64_t every_bit = 0;
  int64_t dense_stride = 1;
  bool is_dense = true, is_empty = false;
  for (int axis = rank - 1; axis >= 0; --axis) {
    every_bit |= static_cast<uint64_t>(dims[axis]);
    is_empty |= dims[axis] == 0;
    // A client may give fewer strides than sizes only by mistake; the doors refuse that.
    if (axis < tensor->strides.size() && dims[axis] != 1 && strides[axis] != dense_stride) is_dense = false;
    dense_stride *= dims[axis];
  }
  if (!is_dense && !is_empty) {
    flags |= kStrided;
    for (int axis = 0; axis < rank; ++axis) every_bit |= static_cast<uint64_t>(strides[axis]);
  }
  if (every_bit > 0xffffffffU) flags |= kWide;
  if (tensor->offset != 0) flags |= kOffset;
  if (tensor->format != kFormatNd) flags |= kFormatted;

  const std::array<uint8_t, 4> head = {flags, static_cast<uint8_t>(tensor->dtype), static_cast<uint8_t>(rank), 0};
  put(head);
  if ((flags & kFormatted) != 0) put(tensor->format);
  const auto put_dims = [&](const int64_t* values) {
    if ((flags & kWide) != 0) {
      put_bytes(values, static_cast<size_t>(rank) * 8);
    } else {
      for (int axis = 0; axis < rank; ++axis) put(static_cast<uint32_t>(values[axis]));
    }
  };
  put_dims(dims);
  if ((flags & kStrided) != 0) put_dims(strides);
  if ((flags & kOffset) != 0) put(tensor->offset);
  return true;
}

bool Encoder::scalar(const ops::Scalar* scalar) {
  if (!has_room(kMostScalarBytes)) return false;
  if (scalar == nullptr) {
    put(uint8_t{0});
    return true;
  }
  put(kDefined);
  put(static_cast<int8_t>(scalar->dtype));
  // Bytes beyond the type's size are whatever the client left there, so only the value itself counts.
  if (scalar->dtype == DataType::kComplex32) {
    uint32_t bits = 0;
    std::memcpy(&bits, scalar->bytes.data(), sizeof(bits));
    put(bits);
  } else if (is_complex(scalar->dtype)) {
    put(scalar->as_double());
    put(imaginary_of(*scalar));
  } else if (is_integral(scalar->dtype)) {
    put(scalar->as_int64());
  } else {
    put(scalar->as_double());
  }
  return true;
}

template <class List, class Element>
bool Encoder::list(const List* values, Element&& element) {
  if (!has_room(5)) return false;
  if (values == nullptr) {
    put(uint8_t{0});
    return true;
  }
  put(kDefined);
  put(static_cast<uint32_t>(values->size()));
  for (const auto& value : *values)
    if (!element(value)) return false;
  return true;
}

bool Encoder::argument(const ops::Arg& arg) {
  if (!has_room(16)) return false;
  put(static_cast<uint8_t>(arg.kind));
  const auto plain = [this](auto value) {
    if (!has_room(sizeof(value))) return false;
    put(value);
    return true;
  };
  switch (arg.kind) {
    case ops::ArgKind::kTensor: return tensor(arg.tensor);
    case ops::ArgKind::kTensorList:
      return list(arg.tensors == nullptr ? nullptr : &arg.tensors->tensors,
                  [this](const ops::Tensor* element) { return tensor(element); });
    case ops::ArgKind::kScalar: return scalar(arg.scalar);
    case ops::ArgKind::kScalarList:
      return list(arg.scalars == nullptr ? nullptr : &arg.scalars->scalars,
                  [this](const ops::Scalar* element) { return scalar(element); });
    case ops::ArgKind::kIntArray: return list(arg.ints == nullptr ? nullptr : &arg.ints->values, plain);
    case ops::ArgKind::kFloatArray: return list(arg.floats == nullptr ? nullptr : &arg.floats->values, plain);
    case ops::ArgKind::kBoolArray: return list(arg.bools == nullptr ? nullptr : &arg.bools->values, plain);
    case ops::ArgKind::kInt: put(arg.integer); return true;
    case ops::ArgKind::kDouble: put(arg.number); return true;
    case ops::ArgKind::kBool: put(static_cast<uint8_t>(arg.boolean)); return true;
    case ops::ArgKind::kDataType: put(static_cast<int32_t>(arg.integer)); return true;
    case ops::ArgKind::kString: {
      const size_t length = arg.text == nullptr ? 0 : strnlen(arg.text, 255);
      if (!has_room(2 + length)) return false;
      put(static_cast<uint8_t>(arg.text != nullptr ? kDefined : 0));
      put(static_cast<uint8_t>(length));
      put_bytes(arg.text, length);
      return true;
    }
    case ops::ArgKind::kPointer: put(static_cast<uint8_t>(arg.pointer != nullptr ? kDefined : 0)); return true;
  }
  return false;
}

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  bool get(T& value) {
    if (bytes_.size() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return true;
  }
  bool get_text(std::string& text, size_t length) {
    if (bytes_.size() < length) return false;
    text.assign(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length);
    return true;
  }
  bool is_empty() const { return bytes_.empty(); }
  bool argument(CallArgument& argument);

 private:
  bool tensor(CallTensor& tensor);
  bool scalar(CallScalar& scalar);
  bool dims(std::vector<int64_t>& values, int rank, bool wide);
  template <class Read>
  bool list(CallArgument& argument, Read&& read);

  std::span<const std::byte> bytes_;
};

bool Decoder::dims(std::vector<int64_t>& values, int rank, bool wide) {
  for (int axis = 0; axis < rank; ++axis) {
    int64_t value = 0;
    uint32_t narrow = 0;
    if (wide ? !get(value) : !get(narrow)) return false;
    values.push_back(wide ? value : narrow);
  }
  return true;
}

bool Decoder::tensor(CallTensor& tensor) {
  uint8_t flags = 0, rank = 0, zero = 0;
  int8_t dtype = 0;
  if (!get(flags)) return false;
  tensor.defined = (flags & kDefined) != 0;
  if (!tensor.defined) return true;
  if (!get(dtype) || !get(rank) || !get(zero) || rank > ops::kMaxRank) return false;
  tensor.dtype = static_cast<DataType>(dtype);
  if ((flags & kFormatted) != 0 && !get(tensor.format)) return false;
  const bool wide = (flags & kWide) != 0;
  if (!dims(tensor.dims, rank, wide)) return false;
  if ((flags & kStrided) != 0 && !dims(tensor.strides, rank, wide)) return false;
  return (flags & kOffset) == 0 || get(tensor.offset);
}

bool Decoder::scalar(CallScalar& scalar) {
  uint8_t flags = 0;
  int8_t dtype = 0;
  if (!get(flags)) return false;
  scalar.defined = (flags & kDefined) != 0;
  if (!scalar.defined) return true;
  if (!get(dtype)) return false;
  scalar.dtype = static_cast<DataType>(dtype);
  if (is_integral(scalar.dtype)) return get(scalar.integer);
  if (scalar.dtype == DataType::kComplex32) {
    uint32_t bits = 0;
    if (!get(bits)) return false;
    scalar.integer = bits;
    return true;
  }
  double real = 0, imaginary = 0;
  if (!get(real) || (is_complex(scalar.dtype) && !get(imaginary))) return false;
  scalar.value = {real, imaginary};
  return true;
}

template <class Read>
bool Decoder::list(CallArgument& argument, Read&& read) {
  uint8_t flags = 0;
  uint32_t count = 0;
  if (!get(flags)) return false;
  argument.present = (flags & kDefined) != 0;
  if (!argument.present) return true;
  if (!get(count)) return false;
  for (uint32_t index = 0; index < count; ++index)
    if (bytes_.empty() || !read()) return false;
  return true;
}

bool Decoder::argument(CallArgument& argument) {
  uint8_t kind = 0;
  if (!get(kind) || kind > static_cast<uint8_t>(ops::ArgKind::kPointer)) return false;
  argument.kind = static_cast<ops::ArgKind>(kind);
  argument.present = true;
  const auto add_tensor = [&] { return tensor(argument.tensors.emplace_back()); };
  const auto add_scalar = [&] { return scalar(argument.scalars.emplace_back()); };
  switch (argument.kind) {
    case ops::ArgKind::kTensor: {
      const bool read = add_tensor();
      argument.present = argument.tensors.back().defined;
      return read;
    }
    case ops::ArgKind::kScalar: {
      const bool read = add_scalar();
      argument.present = argument.scalars.back().defined;
      return read;
    }
    case ops::ArgKind::kTensorList: return list(argument, add_tensor);
    case ops::ArgKind::kScalarList: return list(argument, add_scalar);
    case ops::ArgKind::kIntArray: return list(argument, [&] { return get(argument.integers.emplace_back()); });
    case ops::ArgKind::kFloatArray:
      return list(argument, [&] {
        float value = 0;
        if (!get(value)) return false;
        argument.numbers.push_back(value);
        return true;
      });
    case ops::ArgKind::kBoolArray:
      return list(argument, [&] {
        uint8_t value = 0;
        if (!get(value)) return false;
        argument.integers.push_back(value);
        return true;
      });
    case ops::ArgKind::kInt: return get(argument.integers.emplace_back());
    case ops::ArgKind::kDouble: return get(argument.numbers.emplace_back());
    case ops::ArgKind::kBool: {
      uint8_t value = 0;
      if (!get(value)) return false;
      argument.integers.push_back(value);
      return true;
    }
    case ops::ArgKind::kDataType: {
      int32_t value = 0;
      if (!get(value)) return false;
      argument.integers.push_back(value);
      return true;
    }
    case ops::ArgKind::kString: {
      uint8_t flags = 0, length = 0;
      if (!get(flags) || !get(length)) return false;
      argument.present = (flags & kDefined) != 0;
      return get_text(argument.text, length);
    }
    case ops::ArgKind::kPointer: {
      uint8_t flags = 0;
      if (!get(flags)) return false;
      argument.present = (flags & kDefined) != 0;
      return true;
    }
  }
  return false;
}

}  // namespace

std::span<const std::byte> encode_call(uint32_t operator_id, std::span<const ops::Arg> args,
                                       std::span<std::byte> buffer) noexcept {
  if (buffer.size() < kHeadBytes) return {};
  Encoder encoder(buffer);
  encoder.put(operator_id);
  encoder.put(static_cast<uint16_t>(args.size()));
  encoder.put(uint16_t{0});
  for (const ops::Arg& arg : args) {
    std::byte* start = encoder.cursor();
    if (encoder.argument(arg)) continue;
    encoder.rewind(start);
    buffer[6] = std::byte{kTruncated};
    break;
  }
  return buffer.first(static_cast<size_t>(encoder.cursor() - buffer.data()));
}

std::span<const std::byte> encode_call(uint32_t operator_id, std::span<const ops::Arg> args) noexcept {
  thread_local std::array<std::byte, 8192> buffer;
  return encode_call(operator_id, args, std::span(buffer));
}

uint32_t operator_of(std::span<const std::byte> encoded) noexcept {
  uint32_t operator_id = 0xffffffffU;
  if (encoded.size() >= kHeadBytes) std::memcpy(&operator_id, encoded.data(), sizeof(operator_id));
  return operator_id;
}

bool decode_call(std::span<const std::byte> encoded, Call& call) {
  Decoder decoder(encoded);
  uint16_t count = 0;
  uint8_t flags = 0, zero = 0;
  call = Call{};
  if (!decoder.get(call.operator_id) || !decoder.get(count) || !decoder.get(flags) || !decoder.get(zero)) return false;
  call.truncated = (flags & kTruncated) != 0;
  while (!decoder.is_empty()) {
    CallArgument argument;
    if (!decoder.argument(argument)) return false;
    call.arguments.push_back(std::move(argument));
  }
  return call.truncated ? call.arguments.size() < count : call.arguments.size() == count;
}

}  // namespace drydock::trace
