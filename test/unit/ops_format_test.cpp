#include <numeric>

#include "abi/generated/entries.h"
#include "ops/format/private_format.h"
#include "ops_call_builder.h"

namespace drydock::ops::testing {
namespace {

std::vector<int16_t> counting(const Dims& dims) {
  std::vector<int16_t> values(static_cast<size_t>(dims.product()));
  std::iota(values.begin(), values.end(), int16_t{1});
  return values;
}

/// Casts there and back; returns the storage in between.
std::vector<int16_t> there_and_back(Format format, const Dims& dims, const Dims& storage_dims) {
  std::vector<int16_t> plain = counting(dims), back(plain.size());
  std::vector<int16_t> storage(static_cast<size_t>(storage_dims.product()), 99);
  const auto elements = [&](std::vector<int16_t>& values, Format in, const Dims& sizes) {
    return FormattedElements{reinterpret_cast<char*>(values.data()), DataType::kInt16, static_cast<int32_t>(in), dims,
                             sizes};
  };
  EXPECT_TRUE(trans_data(elements(plain, Format::kNd, dims), elements(storage, format, storage_dims)).is_ok());
  EXPECT_TRUE(trans_data(elements(storage, format, storage_dims), elements(back, Format::kNd, dims)).is_ok());
  EXPECT_EQ(plain, back);
  return storage;
}

TEST(PrivateFormat, PutsColumnBlocksOneBehindTheOther) {
  const std::vector<int16_t> storage = there_and_back(Format::kFractalNz, {2, 18}, {2, 1, 16, 16});
  EXPECT_EQ(storage[0], 1);
  EXPECT_EQ(storage[15], 16);
  EXPECT_EQ(storage[16], 19);   // second row of the first block
  EXPECT_EQ(storage[32], 0);    // padding
  EXPECT_EQ(storage[256], 17);  // second block
  EXPECT_EQ(storage[257], 18);
  EXPECT_EQ(storage[258], 0);
  EXPECT_EQ(storage[256 + 16], 35);
}

TEST(PrivateFormat, PutsChannelsOfOnePlaceSideBySide) {
  const std::vector<int16_t> storage = there_and_back(Format::kNc1hwc0, {1, 17, 1, 2}, {1, 2, 1, 2, 16});
  EXPECT_EQ(storage[0], 1);
  EXPECT_EQ(storage[1], 3);    // next channel, same place
  EXPECT_EQ(storage[16], 2);   // next place
  EXPECT_EQ(storage[32], 33);  // channel 16
  EXPECT_EQ(storage[33], 0);
}

TEST(PrivateFormat, LosesNothing) {
  there_and_back(Format::kFractalNz, {3, 20, 33}, {3, 3, 2, 16, 16});
  there_and_back(Format::kFractalNz, {5}, {1, 1, 16, 16});
  there_and_back(Format::kFractalZ, {5, 17, 3, 2}, {12, 1, 16, 16});
  there_and_back(Format::kNdc1hwc0, {2, 18, 3, 2, 2}, {2, 3, 2, 2, 2, 16});
  there_and_back(Format::kFractalZ3d, {17, 3, 2, 2, 1}, {4, 2, 16, 16});
}

TEST(PrivateFormat, MovesFourBitElementsInPairs) {
  const Dims dims = {3, 70}, storage_dims = {2, 1, 16, 64};
  std::vector<uint8_t> plain(3 * 35), storage(2 * 16 * 32, 0xFF), back(plain.size());
  for (size_t byte = 0; byte < plain.size(); ++byte) plain[byte] = static_cast<uint8_t>(byte + 1);
  const auto elements = [&](std::vector<uint8_t>& bytes, Format format, const Dims& of, const Dims& sizes) {
    return FormattedElements{reinterpret_cast<char*>(bytes.data()), DataType::kInt4, static_cast<int32_t>(format), of,
                             sizes};
  };
  const FormattedElements blocked = elements(storage, Format::kFractalNz, dims, storage_dims);
  ASSERT_TRUE(trans_data(elements(plain, Format::kNd, dims, dims), blocked).is_ok());
  EXPECT_EQ(storage[0], 1);
  EXPECT_EQ(storage[31], 32);
  EXPECT_EQ(storage[32], 36);       // second row of the first block
  EXPECT_EQ(storage[16 * 32], 33);  // second block: the last three bytes of the first row
  EXPECT_EQ(storage[16 * 32 + 3], 0);
  ASSERT_TRUE(trans_data(blocked, elements(back, Format::kNd, dims, dims)).is_ok());
  EXPECT_EQ(plain, back);
  const Dims odd = {3, 69};
  EXPECT_EQ(trans_data(elements(plain, Format::kNd, odd, odd), elements(storage, Format::kFractalNz, odd, storage_dims))
                .code(),
            161002);
}

TEST(PrivateFormat, RefusesAStorageThatIsTooSmall) {
  std::vector<int16_t> values(256);
  const FormattedElements plain{reinterpret_cast<char*>(values.data()), DataType::kInt16, 2, {2, 18}, {36}};
  FormattedElements small = plain;
  small.format = static_cast<int32_t>(Format::kFractalNz);
  small.storage_dims = Dims{1, 1, 16, 16};
  EXPECT_EQ(trans_data(plain, small).code(), 161002);
  FormattedElements filters = plain;
  filters.format = static_cast<int32_t>(Format::kFractalZ3d);
  EXPECT_EQ(trans_data(plain, filters).code(), 161002);
}

TEST(FormatCastSizes, FollowTheTypeThatIsAskedFor) {
  const int64_t dims[] = {20, 40};
  const int64_t strides[] = {40, 1};
  void* tensor = entries::aclCreateTensor(dims, 2, 0, strides, 0, 2, dims, 2, nullptr);
  int64_t* shape = nullptr;
  uint64_t rank = 0;
  int format = 0;
  ASSERT_TRUE(entries::aclnnNpuFormatCastCalculateSizeAndFormat(tensor, 29, 1, &shape, &rank, &format).is_ok());
  EXPECT_EQ(format, 29);
  EXPECT_EQ(std::vector<int64_t>(shape, shape + rank), (std::vector<int64_t>{3, 2, 16, 16}));
  delete[] shape;
  ASSERT_TRUE(entries::aclnnNpuFormatCastCalculateSizeAndFormat(tensor, 29, -1, &shape, &rank, &format).is_ok());
  EXPECT_EQ(std::vector<int64_t>(shape, shape + rank), (std::vector<int64_t>{5, 2, 16, 8}));
  delete[] shape;
  EXPECT_EQ(entries::aclnnNpuFormatCastCalculateSizeAndFormat(tensor, 3, 1, &shape, &rank, &format).code(), 361001);
  EXPECT_EQ(entries::aclnnNpuFormatCastCalculateSizeAndFormat(tensor, 29, 12345, &shape, &rank, &format).code(),
            161002);
  EXPECT_EQ(entries::aclnnNpuFormatCastCalculateSizeAndFormat(nullptr, 29, 1, &shape, &rank, &format).code(), 161001);
  EXPECT_EQ(entries::aclnnNpuFormatCastCalculateSizeAndFormat(&format, 29, 1, &shape, &rank, &format).code(), 161002);
  EXPECT_TRUE(entries::aclDestroyTensor(tensor).is_ok());
}

}  // namespace
}  // namespace drydock::ops::testing
