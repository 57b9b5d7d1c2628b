#include "easydel/core/json/json.h"
#include "easydel/core/json/strict_json.h"

#include <gmock/gmock.h>

#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

std::string message_of(std::string_view text, JsonParseOptions options = {.where = "config.json"}) {
  try {
    Json::parse(text, options);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, KeepsTheOrderOfKeysAndDistinguishesIntegersFromFloats) {
  const char* text = R"({"b": 1, "a": 1.0, "c": [true, null, "x"], "d": {}})";
  EXPECT_EQ(Json::parse(text).dump(), text);
}

TEST(Json, WritesFloatsAsPythonDoes) {
  EXPECT_EQ(Json(1e-5).dump(), "1e-05");
  EXPECT_EQ(Json(1e-6).dump(), "1e-06");
  EXPECT_EQ(Json(10000.0).dump(), "10000.0");
  EXPECT_EQ(Json(0.0001).dump(), "0.0001");
  EXPECT_EQ(Json(1e16).dump(), "1e+16");
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(-0.0).dump(), "-0.0");
  EXPECT_EQ(Json(INFINITY).dump(), "Infinity");
  EXPECT_EQ(Json(1.7976931348623157e308).dump(), "1.7976931348623157e+308");
}

TEST(Json, IndentsAsPythonDoes) {
  EXPECT_EQ(Json::parse(R"({"a":[1,2],"b":{},"c":[]})").dump(2),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": []\n}");
}

TEST(Json, ReadsNumbersToTheirLimits) {
  EXPECT_EQ(Json::parse("9223372036854775807").as_int(), INT64_MAX);
  EXPECT_EQ(Json::parse("-9223372036854775808").as_int(), INT64_MIN);
  EXPECT_TRUE(Json::parse("9223372036854775808").is_float());
  EXPECT_TRUE(std::isnan(Json::parse("NaN").as_double()));
  EXPECT_EQ(Json::parse("-Infinity").as_double(), -INFINITY);
  EXPECT_EQ(Json::parse("2.0").as_int(), 2);
}

TEST(Json, ReadsEscapesAndSurrogatePairs) {
  EXPECT_EQ(Json::parse(R"("\u00e9\ud83d\ude00\n\/")").as_string(), "é😀\n/");
  EXPECT_EQ(Json::parse(R"("\u0001")").dump(), R"("\u0001")");
}

TEST(Json, NamesLineAndColumnOfWhatIsWrong) {
  EXPECT_EQ(message_of("{\"a\": 1,\n \"b\" 2}"), "[config.json] line 2, column 6: expected ':' after a key; got '2'.");
  EXPECT_EQ(message_of("[1, 2"), "[config.json] line 1, column 6: expected ',' or ']'; got the end of the text.");
  EXPECT_EQ(message_of("[1,]"), "[config.json] line 1, column 4: expected a value; got ']'.");
  EXPECT_EQ(message_of("01"), "[config.json] line 1, column 2: expected the end of the text; got '1'.");
  EXPECT_EQ(message_of("\"a\xff\""), "[config.json] line 1, column 3: invalid UTF-8; got the byte 255.");
  EXPECT_EQ(message_of("\"abc"), "[config.json] line 1, column 1: a string without its closing quote; got '\"'.");
  EXPECT_EQ(message_of(R"("\ud800")"), "[config.json] line 1, column 2: half of a surrogate pair; got '\\'.");
  EXPECT_EQ(message_of("\"\x01\""),
            "[config.json] line 1, column 2: a control character inside a string; got the byte 1.");
  EXPECT_EQ(message_of(""), "[config.json] line 1, column 1: expected a value; got the end of the text.");
  EXPECT_EQ(message_of("1e999"), "[config.json] line 1, column 1: a number out of range for a double; got '1'.");
}

TEST(Json, LimitsDepth) {
  EXPECT_EQ(message_of(std::string(100000, '[')),
            "[config.json] line 1, column 258: nested deeper than 256 levels; got '['.");
}

TEST(Json, RefusesDuplicateKeysOnlyWhenAsked) {
  EXPECT_EQ(Json::parse(R"({"a": 1, "a": 2})").at("a").as_int(), 2);
  EXPECT_EQ(message_of(R"({"a": 1, "a": 2})", {.where = "x", .reject_duplicate_keys = true}),
            "[x] line 1, column 10: the key \"a\" appears twice; got '\"'.");
}

TEST(Json, FindsKeysInLargeObjectsAndAfterErasing) {
  Json object;
  for (int i = 0; i < 1000; ++i) object[std::to_string(i)] = i;
  EXPECT_EQ(object.at("731").as_int(), 731);
  EXPECT_TRUE(object.as_object().erase("500"));
  EXPECT_FALSE(object.contains("500"));
  EXPECT_EQ(object.at("999").as_int(), 999);
  const Json copy = object;
  EXPECT_EQ(copy, object);
  EXPECT_EQ(copy.at("999").as_int(), 999);
}

TEST(Json, AssignsAnObjectsOwnMemberToANewKey) {
  const std::string text(100, 'x');  // on the heap, and so is a list
  Json json = Json::object({{"k0", text}, {"list", Json::array({1, text})}});
  for (int i = 0; i < 100; ++i) {  // more than enough for the object to move, many times
    json["k" + std::to_string(i + 1)] = json.at("k" + std::to_string(i));
    json["list" + std::to_string(i)] = *json.find("list");
  }
  EXPECT_EQ(json.size(), 202);
  EXPECT_EQ(json.at("k100").as_string(), text);
  EXPECT_EQ(json.at("list99"), Json::array({1, text}));
}

TEST(Json, AssignsAPartOfAValueToTheWhole) {
  Json json = Json::parse(R"({"a": {"b": {"c": [1, 2]}}, "d": 1})");
  json = json.at("a");
  EXPECT_EQ(json.dump(), R"({"b": {"c": [1, 2]}})");
  json = std::move(json["b"]);
  EXPECT_EQ(json.dump(), R"({"c": [1, 2]})");
  json = json.at("c");
  json = json.at(1);
  EXPECT_EQ(json, Json(2));
}

TEST(Json, StrictDumpWritesNanAndInfinityAsNull) {
  const Json value = Json::parse(R"({"a": [NaN, 1.5, {"b": -Infinity}], "c": "NaN", "d": Infinity})");
  EXPECT_EQ(dump_strict(value), R"({"a": [null, 1.5, {"b": null}], "c": "NaN", "d": null})");
  EXPECT_EQ(dump_strict(std::nan(""), 2), "null");
  EXPECT_EQ(value.dump(), R"({"a": [NaN, 1.5, {"b": -Infinity}], "c": "NaN", "d": Infinity})");  // as Python writes it
}

TEST(Json, ComparesRegardlessOfOrder) {
  EXPECT_EQ(Json::parse(R"({"a": 1, "b": [1, 2.0]})"), Json::parse(R"({"b": [1.0, 2], "a": 1})"));
  EXPECT_FALSE(Json::parse(R"({"a": 1})") == Json::parse(R"({"a": true})"));
}

TEST(Json, NamesTheActualTypeInTypeErrors) {
  EXPECT_THAT([] { (void)Json("x").as_int(); },
              ThrowsMessage<FormatError>("[Json] expected an integer; got a string."));
  EXPECT_THAT([] { (void)Json(2.5).as_int(); }, ThrowsMessage<FormatError>("[Json] expected an integer; got 2.5."));
  EXPECT_THAT([] { (void)Json::object().at("a"); }, ThrowsMessage<FormatError>("[Json] the key \"a\" is missing."));
}

}  // namespace
}  // namespace easydel
