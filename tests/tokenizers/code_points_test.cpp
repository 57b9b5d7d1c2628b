// The normalizers on every code point, against the tokenizers package, whose tables are from older Unicode versions.
#include <gtest/gtest.h>

#include "easydel/core/json/json.h"
#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/pipeline/normalizer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

TEST(CodePoints, AreCleanedAndStrippedAsThePackageDoes) {
  const TemporaryDirectory directory;
  run_python("tokenizers_peer.py", {"code_points", directory.path().string()});
  const Json cases = Json::parse_file((directory / "cases.json").string());
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& one : cases.as_array()) {
    SCOPED_TRACE(one.at("normalizer").dump());
    const auto normalizer = make_normalizer(JsonField(one.at("normalizer"), "test", "normalizer"));
    const Json::Array& changed = one.at("changed").as_array();  // code points and what "a", it and "b" become
    std::size_t next = 0;
    int faults = 0;
    for (char32_t code = 0; code < 0x110000 && faults < 20; ++code) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string given = "a";
      utf8::append(given, code);
      given += "b";
      const bool is_listed = next < changed.size() && changed[next].at(std::size_t{0}).as_int() == code;
      const std::string expected = is_listed ? changed[next++].at(std::size_t{1}).as_string() : given;
      AlignedText text(given, 0, false);
      normalizer->normalize(text);
      faults += text.view() != expected;
      EXPECT_EQ(text.view(), expected) << "U+" << std::hex << static_cast<uint32_t>(code);
    }
    EXPECT_GT(changed.size(), 1000u);
  }
}

}  // namespace
}  // namespace easydel
