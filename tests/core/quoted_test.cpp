#include "easydel/core/text/quoted.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

TEST(Quoted, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(concat(quoted("plain \"name\" \\ grüße")), R"("plain \"name\" \\ grüße")");
  EXPECT_EQ(concat(quoted("a\x1b[2J\n\t\r\x7f")), R"("a\u001b[2J\n\t\r\u007f")");
  EXPECT_EQ(concat(quoted("\xc2\x9b\xe2\x80\xae")), R"("\u009b\u202e")");  // the one-byte CSI, right to left
}

TEST(Quoted, EscapesInvalidUtf8) {
  EXPECT_EQ(concat(quoted("\xff\xc0\x80 \xe2\x82")), R"("\xff\xc0\x80 \xe2\x82")");
  EXPECT_EQ(concat(quoted("\xed\xa0\x80")), R"("\xed\xa0\x80")");  // half of a surrogate pair
}

TEST(Quoted, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(concat(quoted(std::string(101, 'x'))), "\"" + std::string(100, 'x') + "\"…");
  EXPECT_EQ(concat(quoted(std::string(99, 'x') + "üü")), "\"" + std::string(99, 'x') + "\"…");
}

TEST(Printable, KeepsLineBreaksAndEscapesTheRest) {
  EXPECT_EQ(printable("one\n\ttwo\x1b[0m\r"), "one\n\ttwo\\u001b[0m\\r");
  EXPECT_EQ(printable("abcdef", 3), "abc…");
}

}  // namespace
}  // namespace easydel
