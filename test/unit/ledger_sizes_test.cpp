#include <gtest/gtest.h>

#include "ledger/sizes.h"

namespace drydock::ledger {
namespace {

TEST(Sizes, AreWrittenInBinaryUnitsWithTwoDecimals) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(512), "512 B");
  EXPECT_EQ(human_size(1024), "1.00 KiB");
  EXPECT_EQ(human_size(48 << 20), "48.00 MiB");
  EXPECT_EQ(human_size(54181000000), "50.46 GiB");
  EXPECT_EQ(human_size((1 << 20) - 1), "1.00 MiB");  // never 1024.00 KiB
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(8735112), "8,735,112");
}

TEST(Sizes, AreReadBackFromMessages) {
  const std::string_view message =
      "NPU out of memory. Tried to allocate 48.00 MiB (NPU 0; 61.27 GiB total capacity; 512 bytes free)";
  EXPECT_EQ(size_after(message, "ried to allocate "), 48U << 20);
  EXPECT_EQ(size_after(message, "NPU 0; "), 65788161556U);
  EXPECT_EQ(size_after(message, "capacity; "), 512U);
  EXPECT_EQ(size_after(message, "reserved "), std::nullopt);
  EXPECT_EQ(size_after(message, "Tried to "), std::nullopt);
  EXPECT_EQ(size_after("Tried to allocate ", "allocate "), std::nullopt);
  EXPECT_EQ(size_after("allocate 1e300 GiB", "allocate "), std::nullopt);
  EXPECT_EQ(size_after("allocate nan GiB", "allocate "), std::nullopt);
}

TEST(Sizes, KnowHowFarTheyWereRounded) {
  EXPECT_EQ(rounding_of(512), 0U);
  EXPECT_EQ(rounding_of(48 << 20), 5243U);
  EXPECT_EQ(rounding_of(uint64_t{4} << 30), 5368710U);
}

}  // namespace
}  // namespace drydock::ledger
