#include "easydel/serve/output/tool_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "tests/serve/call_text.h"

namespace easydel::serve {
namespace {

using testing::ThrowsMessage;

// A short text that a structural tag allows: two calls where it may, and the reasoning where it must.
std::string text_of(const Json& format) {
  const std::string& type = format.at("type").as_string();
  std::string text;
  if (type == "sequence") {
    for (const Json& element : format.at("elements").as_array()) text += text_of(element);
  } else if (type == "or") {
    text = text_of(format.at("elements").as_array().back());
  } else if (type == "tag") {
    text = format.at("begin").as_string() + text_of(format.at("content")) + format.at("end").as_string();
  } else if (type == "tags_with_separator") {
    const Json::Array& tags = format.at("tags").as_array();
    text = text_of(tags.front());
    if (!format.at("stop_after_first").as_bool()) text += format.at("separator").as_string() + text_of(tags.back());
  } else if (type == "triggered_tags") {
    EXPECT_TRUE(text_of(format.at("tags").at(0)).starts_with(format.at("triggers").at(0).as_string()));
    text = "Well. " + text_of(format.at("tags").at(0));
  } else if (type == "json_schema") {
    text = format.at("style").as_string() == "json" ? R"({"a": 1})" : "<parameter=a>\n1\n</parameter>";
  } else if (type == "any_text") {
    text = "hm";
  } else if (type == "const_string") {
    text = format.at("value").as_string();
  } else {
    EXPECT_TRUE(type == "optional" || type == "regex") << type;
  }
  return text;
}

const std::vector<ToolSpec>& two_tools() {
  static const std::vector<ToolSpec> tools = {
      {"f", Json::parse(R"({"type": "object", "properties": {"a": {}}})"), true}, {"g", nullptr, false}};
  return tools;
}

Message message_of(const MessageFormat& format, const GrammarSpec& grammar) {
  EXPECT_EQ(grammar.kind, GrammarSpec::Kind::StructuralTag);
  return read_pieces(format, text_of(Json::parse(grammar.text).at("format")), [] { return 1; });
}

TEST(ToolGrammar, ForcesWhatTheParserReads) {
  const ReadCall f{"f", R"({"a": 1})"}, g{"g", R"({"a": 1})"};
  for (const std::string& tools : tool_formats()) {
    SCOPED_TRACE(tools);
    const bool harmony = tools == "harmony";
    for (const std::string reasoning : {"", "think"}) {
      const MessageFormat format{tools, harmony ? tools : reasoning, !reasoning.empty()};
      const std::string thought = reasoning.empty() ? "" : "hm";
      const auto one = tool_grammar(format, two_tools(), ToolChoice::Required, false);
      ASSERT_TRUE(one);
      EXPECT_EQ(message_of(format, *one), (Message{"", thought, {f}}));
      const auto several = tool_grammar(format, two_tools(), ToolChoice::Required, true);
      EXPECT_EQ(message_of(format, *several), (Message{"", thought, harmony ? std::vector{f} : std::vector{f, g}}));
      const auto named = tool_grammar(format, {two_tools()[1]}, ToolChoice::Named, true);
      EXPECT_EQ(message_of(format, *named), (Message{"", thought, {g}}));
    }
  }
}

TEST(ToolGrammar, LeavesTextFreeWhereCallsAreNotForced) {
  for (const std::string& tools : tool_formats()) {
    SCOPED_TRACE(tools);
    const MessageFormat format{tools};
    const auto grammar = tool_grammar(format, two_tools(), ToolChoice::Auto, false);
    EXPECT_EQ(grammar.has_value(), tools != "pythonic");
    if (!grammar || tools == "llama3_json" || tools == "harmony") continue;  // text before a call is read otherwise
    const std::vector<ReadCall> calls = {{"f", R"({"a": 1})"}};
    EXPECT_EQ(message_of(format, *grammar), (Message{tools == "json" ? "" : "Well.", "", calls}));
  }
}

TEST(ToolGrammar, FollowsTheSchemasOfStrictToolsAlone) {
  const auto grammar = tool_grammar({.tools = "hermes"}, two_tools(), ToolChoice::Auto, true);
  const Json format = Json::parse(grammar->text).at("format");
  EXPECT_EQ(format.at("tags").at(0).at("content").at("json_schema"), two_tools()[0].parameters);
  EXPECT_EQ(format.at("tags").at(1).at("content").at("json_schema"), Json::object({{"type", "object"}}));
}

TEST(ToolGrammar, IsNoneWhereNothingIsForced) {
  EXPECT_FALSE(tool_grammar({.tools = "hermes"}, two_tools(), ToolChoice::None, true));
  EXPECT_FALSE(tool_grammar({.tools = "hermes"}, {two_tools()[1]}, ToolChoice::Auto, true));
  EXPECT_FALSE(tool_grammar({}, two_tools(), ToolChoice::Required, true));
}

TEST(ToolGrammar, NeedsTheToolsThatItForces) {
  EXPECT_THAT([] { tool_grammar({.tools = "hermes"}, {}, ToolChoice::Required, true); },
              ThrowsMessage<ConfigError>("[tool_grammar] a forced tool_choice needs tools; got none."));
  EXPECT_THAT([] { tool_grammar({.tools = "hermes"}, two_tools(), ToolChoice::Named, true); },
              ThrowsMessage<ConfigError>("[tool_grammar] a named tool_choice is of one tool; got 2."));
}

}  // namespace
}  // namespace easydel::serve
