// YAML side by side with PyYAML, and what is refused.
#include "easydel/elarge/yaml/yaml.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "tests/support/draw.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;
using testing_support::Draw;

int draws(int usual) {
  const char* more = std::getenv("EASYDEL_DRAWS");
  return more ? std::atoi(more) : usual;
}

Json load(std::string_view text) { return YamlDocument::parse(text, "run.yaml").value(); }

void expect_yaml_refused(std::string_view text, const std::string& message) {
  EXPECT_THAT([&] { load(text); }, ThrowsMessage<FormatError>(message)) << text.substr(0, 200);
}

TEST(YamlScalars, AreWhatPyYamlSays) {
  Draw draw(3);
  std::string lines;
  std::vector<std::string> texts = {"yes",
                                    "No",
                                    "oN",
                                    "OFF",
                                    "tRue",
                                    "True",
                                    "NULL",
                                    "nUll",
                                    "1e-5",
                                    "1e5",
                                    "1.e+5",
                                    "1.0e5",
                                    "1.0e-5",
                                    "08",
                                    "0o7",
                                    "0b_",
                                    "0x",
                                    "0",
                                    "-0",
                                    "+0",
                                    "00",
                                    "017",
                                    "-017",
                                    "0_7",
                                    "1_0",
                                    "1__",
                                    "0b101",
                                    "0xfF",
                                    "1:30",
                                    "1:60",
                                    "01:30",
                                    "0:30",
                                    "1:2:3",
                                    "1:2:3.5",
                                    "1:2.",
                                    ".5",
                                    "-.5",
                                    "5.",
                                    "-5.",
                                    "._5",
                                    ".inf",
                                    "-.INF",
                                    "+.Inf",
                                    ".NaN",
                                    "-.nan",
                                    "nan",
                                    "inf",
                                    "2001-02-03",
                                    "1.5.2",
                                    "+1.5",
                                    "-1_0.2_5e+3",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "1.0e+999",
                                    "1.0e-999",
                                    "~",
                                    "=",
                                    "a",
                                    "y",
                                    "n"};
  const std::string alphabet = "0123456789+-._:eExbfainINFtruyso~";
  for (int i = 0; i < draws(3000); ++i) {
    std::string text;
    for (int64_t n = draw.between(1, 8); n > 0; --n) {
      text += alphabet[static_cast<std::size_t>(draw.between(0, static_cast<int64_t>(alphabet.size()) - 1))];
    }
    const bool digitless = text.find_first_of("123456789abcdefABCDEF", 2) == std::string::npos;
    if ((text.find("0b") != std::string::npos || text.find("0x") != std::string::npos) && digitless) continue;
    if (text == "-" || text == "." || text.back() == ':' || text.find("---") == 0 || text.find("...") == 0) continue;
    texts.push_back(text);
  }
  std::erase_if(texts, [](const std::string& text) { return text == "0b_" || text == "0x" || text == "="; });
  for (const std::string& text : texts) lines += text + "\n";
  const TemporaryDirectory directory;
  write_file_atomically(directory / "scalars", lines);
  const std::string answer = run_python("yaml_peer.py", {"scalars", (directory / "scalars").string()});
  std::size_t at = 0;
  for (const std::string& text : texts) {
    const std::size_t end = answer.find('\n', at);
    ASSERT_NE(end, std::string::npos) << text;
    EXPECT_EQ(resolve_yaml_scalar(text).dump(), Json::parse(answer.substr(at, end - at)).dump()) << text;
    at = end + 1;
  }
  EXPECT_EQ(resolve_yaml_scalar("0x_").dump(), "\"0x_\"");  // where Python fails to make a number, a text
  EXPECT_EQ(resolve_yaml_scalar("99999999999999999999").dump(), "1e+20");
}

TEST(Yaml, ReadsWhatPyYamlWrites) {
  const TemporaryDirectory directory;
  const int count = draws(400);
  run_python("yaml_peer.py", {"draw", directory.path().string(), "11", concat(count)});
  for (int i = 0; i < count; ++i) {
    const std::string text = read_file(directory / concat(i, ".yaml"));
    const Json expected = Json::parse_file((directory / concat(i, ".json")).string());
    try {
      EXPECT_EQ(load(text).dump(), expected.dump()) << text;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n" << text;
    }
  }
}

Json drawn_value(Draw& draw, int depth) {
  static const std::vector<std::string> pieces = {"a",
                                                  "B",
                                                  "1",
                                                  ".",
                                                  "-",
                                                  " ",
                                                  ":",
                                                  "#",
                                                  "\n",
                                                  "\t",
                                                  "'",
                                                  "\"",
                                                  "\\",
                                                  "e-5",
                                                  "é",
                                                  "日",
                                                  "😀",
                                                  "\xc2\x85",
                                                  "\x07",
                                                  "\x7f",
                                                  "{",
                                                  "[",
                                                  "&",
                                                  "*",
                                                  "!",
                                                  "|",
                                                  ">",
                                                  "%",
                                                  "@",
                                                  "\xe2\x80\xa8",
                                                  "\xef\xbb\xbf",
                                                  "yes",
                                                  "~",
                                                  "0x",
                                                  "_",
                                                  "/",
                                                  ",",
                                                  "?",
                                                  "\r",
                                                  "\xc2\x9f"};
  const auto text = [&] {
    std::string out;
    for (int64_t n = draw.between(0, 6); n > 0; --n) out += draw.one_of(pieces);
    return out;
  };
  if (depth > 0 && draw.chance(0.3)) {
    Json object = Json::object();
    for (int64_t n = draw.between(0, 5); n > 0; --n) object[text()] = drawn_value(draw, depth - 1);
    return object;
  }
  if (depth > 0 && draw.chance(0.35)) {
    Json list = Json::array();
    for (int64_t n = draw.between(0, 5); n > 0; --n) list.push_back(drawn_value(draw, depth - 1));
    return list;
  }
  if (draw.chance(0.2)) return draw.one_of<Json>({Json(), Json(true), Json(false), Json(0), Json(-5), Json(1.0)});
  if (draw.chance(0.2)) return draw.one_of<double>({1e-5, 1e300, 0.1, -0.0, 1e16, 123456.75, 5e-324});
  return text();
}

TEST(Yaml, IsReadByPyYamlAndByItselfAsWhatWasWritten) {
  const TemporaryDirectory directory;
  Draw draw(29);
  for (int i = 0; i < draws(400); ++i) {
    const Json value = drawn_value(draw, 4);
    const std::string text = to_yaml(value);
    write_file_atomically(directory / concat(i, ".yaml"), text);
    write_file_atomically(directory / concat(i, ".json"), value.dump());
    EXPECT_EQ(load(text).dump(), value.dump()) << text;
  }
  EXPECT_EQ(run_python("yaml_peer.py", {"load", directory.path().string()}), "ok\n");
}

TEST(Yaml, IsWrittenForPeople) {
  const Json value = Json::parse(R"({"model": {"name_or_path": "Qwen/Qwen2.5-0.5B", "note": "a: b"},
    "axis_dims": [1, -1, 1], "rate": 1e-05, "list": [{"a": 1, "b": {"c": []}}, [[2]]], "none": null, "on": "on"})");
  EXPECT_EQ(to_yaml(value),
            "model:\n"
            "  name_or_path: Qwen/Qwen2.5-0.5B\n"
            "  note: \"a: b\"\n"
            "axis_dims: [1, -1, 1]\n"
            "rate: 1.0e-05\n"
            "list:\n"
            "  - a: 1\n"
            "    b:\n"
            "      c: []\n"
            "  - - [2]\n"
            "none: null\n"
            "\"on\": \"on\"\n");
  EXPECT_EQ(to_yaml(Json::object()), "{}\n");
}

TEST(Yaml, KnowsTheLineOfEveryKey) {
  const auto document = YamlDocument::parse(
      "# a comment\n"
      "base: &base\n"
      "  rate: 1\n"
      "trainer:\n"
      "  <<: *base\n"
      "  steps: 5\n"
      "list:\n"
      "  - {a: 1,\n"
      "     b: 2}\n"
      "  - c\n");
  EXPECT_EQ(document.line({}), 2);
  EXPECT_EQ(document.line({"trainer"}), 4);
  EXPECT_EQ(document.line({"trainer", "steps"}), 6);
  EXPECT_EQ(document.line({"trainer", "rate"}), 3);
  EXPECT_EQ(document.line({"list", "0", "b"}), 9);
  EXPECT_EQ(document.line({"list", "1"}), 10);
  EXPECT_EQ(document.line({"list", "7"}), 0);
  EXPECT_EQ(document.line({"list", "x"}), 0);
  EXPECT_EQ(document.line({"none", "at", "all"}), 0);
  EXPECT_EQ(document.value().dump(),
            R"({"base": {"rate": 1}, "trainer": {"steps": 5, "rate": 1}, "list": [{"a": 1, "b": 2}, "c"]})");
  EXPECT_TRUE(load("").is_null());
  EXPECT_TRUE(load("# nothing\n").is_null());
  EXPECT_EQ(YamlDocument::parse("").line({"a"}), 0);
}

TEST(Yaml, MergesAsPyYamlDoes) {
  EXPECT_EQ(load("a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], x: 9}").at("c"),
            Json::parse(R"({"x": 9, "y": 2, "z": 4})"));
  EXPECT_EQ(load("\"<<\": 1"), Json::parse(R"({"<<": 1})"));
  EXPECT_EQ(load("!!str 12"), Json("12"));
  EXPECT_EQ(load("!!float 12"), Json(12.0));
}

TEST(Yaml, SaysWhatIsWrongAndWhere) {
  expect_yaml_refused("a: 1\nb: 2\na: 3\n",
                      "[yaml] run.yaml:3: the key \"a\" is here and in line 1. Remove one of them.");
  expect_yaml_refused("a: [1, 2\nb: 3\n", "[yaml] run.yaml:2: end of sequence flow not found (column 2).");
  // Newer versions of the parser name the anchor as well.
  EXPECT_THAT([&] { load("a: *none\n"); },
              testing::ThrowsMessage<FormatError>(
                  testing::AnyOf("[yaml] run.yaml:1: the referenced anchor is not defined (column 4).",
                                 "[yaml] run.yaml:1: the referenced anchor is not defined: none (column 4).")));
  expect_yaml_refused("a: &a [*a]\n", "[yaml] run.yaml:1: an alias must not occur inside its own anchor.");
  expect_yaml_refused("{a: 1}: 2\n", "[yaml] run.yaml:1: a key must be a single value.");
  expect_yaml_refused("? [a]\n: 2\n", "[yaml] run.yaml:1: a key must be a single value.");
  expect_yaml_refused("a: 1\n---\nb: 2\n", "[yaml] run.yaml:3: a second document begins here; only one is allowed.");
  expect_yaml_refused(
      "a: !!python/object:os.system x\n",
      "[yaml] run.yaml:1: the tag tag:yaml.org,2002:python/object:os.system is not supported; got \"x\".");
  expect_yaml_refused("a: !mine {b: 1}\n", "[yaml] run.yaml:1: the tag !mine is not supported.");
  expect_yaml_refused("a: !!int many\n",
                      "[yaml] run.yaml:1: the tag tag:yaml.org,2002:int is not supported; got \"many\".");
  expect_yaml_refused("a: {<<: 3}\n", "[yaml] run.yaml:1: << must merge a mapping or a list of mappings.");
  expect_yaml_refused("a: {<<: [{b: 1}, 3]}\n", "[yaml] run.yaml:1: << must merge a mapping or a list of mappings.");
  expect_yaml_refused("a: \xff\n", "[yaml] run.yaml must be UTF-8; byte 3 is not.");
  expect_yaml_refused(std::string("a: 1\nb: \0\n", 10),
                      "[yaml] run.yaml:2: control characters are not allowed in YAML; got the byte 0.");
  expect_yaml_refused(std::string(65, '[') + std::string(65, ']'),
                      "[yaml] run.yaml:1: values must not be nested deeper than 64.");
  expect_yaml_refused(std::string(5 << 20, 'a'), "[yaml] run.yaml must not be larger than 4194304 bytes; got 5242880.");
}

TEST(Yaml, IsNotBlownUpByAliases) {
  std::string laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n";
  for (int i = 1; i < 12; ++i) {
    laughs += concat("a", i, ": &a", i, " [");
    for (int n = 0; n < 10; ++n) laughs += concat(n ? ", " : "", "*a", i - 1);
    laughs += "]\n";
  }
  const std::string too_many =
      "[yaml] run.yaml: with its aliases expanded it must not contain more than 200000 values or 16777216 bytes of "
      "text.";
  const auto started = std::chrono::steady_clock::now();
  expect_yaml_refused(laughs, too_many);
  std::string long_text = "a: &a " + std::string(100'000, 'x') + "\nb: [*a";
  for (int i = 0; i < 500; ++i) long_text += ", *a";
  expect_yaml_refused(long_text + "]\n", too_many);

  std::string merges = "m0: &m0 {";
  for (int i = 0; i < 1000; ++i) merges += concat(i ? ", " : "", "k", i, ": 1");
  merges += "}\n";
  for (int i = 0; i < 1000; ++i) merges += concat("n", i, ": {<<: *m0}\n");
  expect_yaml_refused(merges, "[yaml] run.yaml:22: merges must not copy more than 20000 keys.");
  std::string keys;
  for (int i = 0; i < 3000; ++i) keys += concat("k", i, ": 1\n");
  expect_yaml_refused(keys, "[yaml] run.yaml:2001: a mapping must not have more than 2000 keys.");
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(5));
}

// Any bytes give a value or a FormatError, soon.
TEST(Yaml, TakesAnyText) {
  const std::string seed =
      "a: &x [1, 'q', \"d\\n\", {b: !!str c}]\nk: |+\n  text\n? e\n: *x\n<<: {z: 1}\n- \n--- \n...\n%YAML 1.1\n# "
      "c\n>-\n\t";
  Draw draw(97);
  const std::string alphabet = "abz01:-?#&*!|>'\"%@`{}[],\n\n  \t<=~._\\/\xc3\xa9";
  int read = 0;
  for (int i = 0; i < draws(20'000); ++i) {
    std::string text = draw.chance(0.5) ? seed.substr(static_cast<std::size_t>(draw.between(0, 80)),
                                                      static_cast<std::size_t>(draw.between(1, 60)))
                                        : std::string();
    for (int64_t n = draw.between(1, 30); n > 0; --n) {
      const auto at = static_cast<std::size_t>(draw.between(0, static_cast<int64_t>(text.size())));
      text.insert(at, 1,
                  alphabet[static_cast<std::size_t>(draw.between(0, static_cast<int64_t>(alphabet.size()) - 1))]);
    }
    try {
      const Json value = load(text);
      ASSERT_EQ(load(to_yaml(value)).dump(), value.dump()) << text;
      ++read;
    } catch (const FormatError&) {
    }
  }
  EXPECT_GT(read, draws(20'000) / 100);
  for (const char* piece :
       {"[",    "{",   "- ",  "? ",  "! ", "&a ",  "\"",     "'",  "|\n", "%T ", "a:\n ", "*a ", "#",
        "--- ", "[a,", "{a:", "a: ", ": ", "<<: ", "!!str ", "\n", " ",   "!<",  "\\",    ","}) {
    std::string text;
    while (text.size() < 100'000) text += piece;
    const auto started = std::chrono::steady_clock::now();
    try {
      load(text);
    } catch (const FormatError&) {
    }
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(5)) << piece;
  }
}

}  // namespace
}  // namespace easydel
