#include "easydel/core/text/bytes.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

TEST(ParseBytes, DistinguishesDecimalFromBinaryUnits) {
  EXPECT_EQ(parse_bytes("5GB"), 5'000'000'000);
  EXPECT_EQ(parse_bytes("5GiB"), 5LL << 30);
  EXPECT_EQ(parse_bytes("1.5 KiB"), 1536);
  EXPECT_EQ(parse_bytes("200kb"), 200'000);
  EXPECT_EQ(parse_bytes("17B"), 17);
  EXPECT_EQ(parse_bytes("0B"), 0);
}

TEST(ParseBytes, RejectsInvalidSizes) {
  for (const char* text : {"", "2", "GB", "-1GB", "5XB", "1e30GB", "nan", "inf"}) {
    EXPECT_THAT([&] { parse_bytes(text); },
                ThrowsMessage<ConfigError>(
                    concat("[parse_bytes] a size must be a number and one of B, KB, MB, GB, TB, KiB, MiB, "
                           "GiB, TiB, such as 5GB; got \"",
                           text, "\".")));
  }
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(3LL << 40), "3.0 TiB");
}

TEST(GroupDigits, PutsCommas) {
  EXPECT_EQ(group_digits(0), "0");
  EXPECT_EQ(group_digits(999), "999");
  EXPECT_EQ(group_digits(1000), "1,000");
  EXPECT_EQ(group_digits(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace easydel
