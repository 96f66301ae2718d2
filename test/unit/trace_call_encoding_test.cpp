#include <cstring>
#include <random>

#include <gmock/gmock.h>

#include "trace/call_encoding.h"

namespace drydock::trace {
namespace {

using ops::ArgKind;

ops::Arg arg_of(ArgKind kind) {
  ops::Arg arg;
  arg.kind = kind;
  return arg;
}

ops::Arg tensor_arg(ops::Tensor* tensor) {
  ops::Arg arg = arg_of(ArgKind::kTensor);
  arg.tensor = tensor;
  return arg;
}

ops::Tensor tensor_of(DataType dtype, std::initializer_list<int64_t> dims, std::initializer_list<int64_t> strides) {
  ops::Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims = ops::Dims(dims);
  tensor.strides = ops::Dims(strides);
  return tensor;
}

template <class T>
ops::Scalar scalar_of(DataType dtype, T value) {
  ops::Scalar scalar;
  scalar.dtype = dtype;
  scalar.bytes.fill(0xcc);  // what the client left there
  std::memcpy(scalar.bytes.data(), &value, sizeof(value));
  return scalar;
}

std::vector<std::byte> encode(uint32_t operator_id, const std::vector<ops::Arg>& args) {
  const std::span<const std::byte> encoded = encode_call(operator_id, args);
  return {encoded.begin(), encoded.end()};
}

std::string print(const std::vector<std::byte>& encoded, std::string_view signature = "aclnnTest") {
  Call call;
  EXPECT_TRUE(decode_call(encoded, call));
  return print_call(call, parse_signature(signature));
}

std::string print_one(const ops::Arg& arg) {
  const std::string text = print(encode(0, {arg}));
  return text.substr(10, text.size() - 11);
}

TEST(TraceCallEncoding, Tensors) {
  ops::Tensor dense = tensor_of(DataType::kBFloat16, {2, 3, 4}, {12, 4, 1});
  EXPECT_EQ(print_one(tensor_arg(&dense)), "bf16[2,3,4]");
  ops::Tensor turned = tensor_of(DataType::kFloat, {3, 2}, {1, 3});
  EXPECT_EQ(print_one(tensor_arg(&turned)), "fp32[3,2;1,3]");
  ops::Tensor expanded = tensor_of(DataType::kInt64, {8, 5}, {0, 1});
  EXPECT_EQ(print_one(tensor_arg(&expanded)), "int64[8,5;0,1]");
  ops::Tensor shifted = tensor_of(DataType::kBool, {4}, {1});
  shifted.offset = 6;
  shifted.format = 29;
  EXPECT_EQ(print_one(tensor_arg(&shifted)), "bool[4]+6@format29");
  ops::Tensor scalar = tensor_of(DataType::kDouble, {}, {});
  EXPECT_EQ(print_one(tensor_arg(&scalar)), "fp64[]");
  ops::Tensor large = tensor_of(DataType::kInt8, {int64_t{1} << 40}, {1});
  EXPECT_EQ(print_one(tensor_arg(&large)), "int8[1099511627776]");
  ops::Tensor backwards = tensor_of(DataType::kInt8, {4}, {-1});
  EXPECT_EQ(print_one(tensor_arg(&backwards)), "int8[4;-1]");
  EXPECT_EQ(print_one(tensor_arg(nullptr)), "none");
}

TEST(TraceCallEncoding, LayoutsThatMeanTheSameAreTheSame) {
  // Strides of dimensions of size 1, and of empty tensors, lead nowhere.
  ops::Tensor one = tensor_of(DataType::kFloat, {1, 4}, {4, 1}), other = tensor_of(DataType::kFloat, {1, 4}, {99, 1});
  EXPECT_EQ(encode(0, {tensor_arg(&one)}), encode(0, {tensor_arg(&other)}));
  ops::Tensor empty = tensor_of(DataType::kFloat, {0, 4}, {4, 1}), turned = tensor_of(DataType::kFloat, {0, 4}, {1, 7});
  EXPECT_EQ(encode(0, {tensor_arg(&empty)}), encode(0, {tensor_arg(&turned)}));
  one.storage = &one;
  EXPECT_EQ(encode(0, {tensor_arg(&one)}), encode(0, {tensor_arg(&other)})) << "addresses must not count";
  EXPECT_NE(encode(0, {tensor_arg(&one)}), encode(1, {tensor_arg(&one)}));
}

TEST(TraceCallEncoding, Scalars) {
  const auto print_scalar = [](const ops::Scalar& scalar) {
    ops::Arg arg = arg_of(ArgKind::kScalar);
    arg.scalar = &scalar;
    return print_one(arg);
  };
  EXPECT_EQ(print_scalar(scalar_of(DataType::kDouble, 0.1)), "0.1");
  EXPECT_EQ(print_scalar(scalar_of(DataType::kFloat, 0.5F)), "0.5");
  EXPECT_EQ(print_scalar(scalar_of(DataType::kInt64, int64_t{-5})), "-5");
  EXPECT_EQ(print_scalar(scalar_of(DataType::kBool, true)), "true");
  EXPECT_EQ(print_scalar(scalar_of(DataType::kComplex128, std::complex<double>(1, -2))), "1-2j");
  EXPECT_EQ(print_scalar(scalar_of(DataType::kComplex64, std::complex<float>(3, 4))), "3+4j");
  EXPECT_EQ(print_scalar(scalar_of(DataType::kComplex32, uint32_t{0x3c00})), "bits 0x3c00");
  ops::Scalar zeroed = scalar_of(DataType::kInt32, 7), left = scalar_of(DataType::kInt32, 7);
  zeroed.bytes.fill(0);
  zeroed.bytes[0] = 7;
  ops::Arg first = arg_of(ArgKind::kScalar), second = first;
  first.scalar = &zeroed;
  second.scalar = &left;
  EXPECT_EQ(encode(0, {first}), encode(0, {second})) << "bytes beyond the value must not count";
  EXPECT_EQ(print_one(arg_of(ArgKind::kScalar)), "none");
}

TEST(TraceCallEncoding, ListsAndPlainValues) {
  ops::Tensor tensor = tensor_of(DataType::kFloat, {2}, {1});
  ops::TensorList tensors{{&tensor, nullptr, &tensor}};
  ops::Arg arg = arg_of(ArgKind::kTensorList);
  arg.tensors = &tensors;
  EXPECT_EQ(print_one(arg), "{fp32[2], none, fp32[2]}");
  EXPECT_EQ(print_one(arg_of(ArgKind::kTensorList)), "none");

  ops::Scalar scalar = scalar_of(DataType::kDouble, 2.5);
  const ops::ScalarList scalars{{&scalar, &scalar}};
  arg = arg_of(ArgKind::kScalarList);
  arg.scalars = &scalars;
  EXPECT_EQ(print_one(arg), "{2.5, 2.5}");

  const ops::IntArray ints{{1, -2}};
  arg = arg_of(ArgKind::kIntArray);
  arg.ints = &ints;
  EXPECT_EQ(print_one(arg), "{1, -2}");
  const ops::IntArray no_ints;
  arg.ints = &no_ints;
  EXPECT_EQ(print_one(arg), "{}");
  arg.ints = nullptr;
  EXPECT_EQ(print_one(arg), "none");

  const ops::FloatArray floats{{0.5F}};
  arg = arg_of(ArgKind::kFloatArray);
  arg.floats = &floats;
  EXPECT_EQ(print_one(arg), "{0.5}");
  const ops::BoolArray bools{{1, 0}};
  arg = arg_of(ArgKind::kBoolArray);
  arg.bools = &bools;
  EXPECT_EQ(print_one(arg), "{1, 0}");

  arg = arg_of(ArgKind::kInt);
  arg.integer = -9;
  EXPECT_EQ(print_one(arg), "-9");
  arg = arg_of(ArgKind::kDouble);
  arg.number = 1e-5;
  EXPECT_EQ(print_one(arg), "1e-05");
  arg = arg_of(ArgKind::kBool);
  arg.boolean = true;
  EXPECT_EQ(print_one(arg), "true");
  arg = arg_of(ArgKind::kDataType);
  arg.integer = 27;
  EXPECT_EQ(print_one(arg), "bf16");
  arg = arg_of(ArgKind::kString);
  arg.text = "BSND";
  EXPECT_EQ(print_one(arg), "\"BSND\"");
  arg.text = nullptr;
  EXPECT_EQ(print_one(arg), "none");
  arg = arg_of(ArgKind::kPointer);
  EXPECT_EQ(print_one(arg), "none");
  arg.pointer = &arg;
  EXPECT_EQ(print_one(arg), "pointer");
}

TEST(TraceCallEncoding, WhatDoesNotFitIsMarked) {
  ops::Tensor tensor = tensor_of(DataType::kFloat, {2, 3}, {3, 1});
  ops::TensorList many{std::vector<ops::Tensor*>(5000, &tensor)};
  ops::Arg list = arg_of(ArgKind::kTensorList);
  list.tensors = &many;
  const std::vector<std::byte> encoded = encode(4, {tensor_arg(&tensor), list, tensor_arg(&tensor)});
  Call call;
  ASSERT_TRUE(decode_call(encoded, call));
  EXPECT_TRUE(call.truncated);
  EXPECT_EQ(call.arguments.size(), 1U);
  EXPECT_EQ(print(encoded, "aclnnTest(self, list, >out)"), "aclnnTest(self=fp32[2,3], ...)");

  for (size_t size = 0; size < 64; ++size) {
    std::vector<std::byte> buffer(size);
    const std::span<const std::byte> part = encode_call(4, std::vector{tensor_arg(&tensor)}, buffer);
    EXPECT_EQ(part.empty(), size < 8) << size;
    if (size < 8) continue;
    EXPECT_TRUE(decode_call(part, call)) << size;
    EXPECT_TRUE(call.truncated) << size;
  }
}

TEST(TraceCallEncoding, DamagedBytesAreNotDecoded) {
  ops::Tensor tensor = tensor_of(DataType::kFloat, {2, 3}, {1, 2});
  ops::TensorList two{{&tensor, &tensor}};
  ops::Arg list = arg_of(ArgKind::kTensorList);
  list.tensors = &two;
  ops::Arg text = arg_of(ArgKind::kString);
  text.text = "text";
  const std::vector<std::byte> encoded = encode(1, {tensor_arg(&tensor), list, text});
  Call call;
  for (size_t size = 0; size < encoded.size(); ++size)
    EXPECT_FALSE(decode_call(std::span(encoded).first(size), call)) << size;
  std::mt19937 random(1);
  for (int turn = 0; turn < 20'000; ++turn) {
    std::vector<std::byte> damaged = encoded;
    damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    static_cast<void>(decode_call(damaged, call));
    static_cast<void>(print_call(call, {}));
  }
}

TEST(TraceCallEncoding, SignaturesComeBack) {
  const Signature signature = parse_signature("aclnnFoo(self, <>selfRef, >out)");
  EXPECT_EQ(signature.name, "aclnnFoo");
  ASSERT_EQ(signature.arguments.size(), 3U);
  EXPECT_EQ(signature.arguments[0].direction, ops::ArgDirection::kIn);
  EXPECT_EQ(signature.arguments[1].name, "selfRef");
  EXPECT_EQ(signature.arguments[1].direction, ops::ArgDirection::kInOut);
  EXPECT_EQ(signature.arguments[2].direction, ops::ArgDirection::kOut);
  EXPECT_TRUE(parse_signature("aclnnBar").arguments.empty());
  EXPECT_TRUE(parse_signature("aclnnBar()").arguments.empty());
  for (const ops::OperatorRow& row : ops::operator_rows()) {
    const Signature read = parse_signature(signature_of(row));
    EXPECT_EQ(read.name, row.name);
    ASSERT_EQ(read.arguments.size(), row.args.size());
    for (size_t index = 0; index < row.args.size(); ++index) {
      EXPECT_EQ(read.arguments[index].name, row.args[index].name);
      EXPECT_EQ(read.arguments[index].direction, row.args[index].direction);
    }
  }
}

}  // namespace
}  // namespace drydock::trace
