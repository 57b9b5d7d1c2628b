// Every case is fed at once, byte by byte and at random cuts, and gives the same message each time.
#include "easydel/serve/output/message_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "tests/serve/call_text.h"

namespace easydel::serve {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct ParserCase {
  std::string name, tools, reasoning, text;
  Message expected;
  bool starts_in_reasoning = false;
};

std::vector<ParserCase> json_cases() {
  const ReadCall weather{"get_weather", R"({"city": "Paris"})"};
  const ReadCall time{"get_time", "{}"};
  return {
      {"text", "hermes", "", "Hello <b>world</b> \n", {"Hello <b>world</b> \n", "", {}}},
      {"no format", "", "", "<tool_call>{}</tool_call> ", {"<tool_call>{}</tool_call> ", "", {}}},
      {"one call",
       "hermes",
       "",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
       {"", "", {weather}}},
      {"two calls and text around",
       "qwen",
       "",
       "Let me see.\n<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}</tool_call>\nand "
       "<tool_call>{\"name\":\"get_time\"}</tool_call>\n Done.",
       {"Let me see.\nand\n Done.", "", {weather, time}}},
      {"arguments before the name",
       "hermes",
       "",
       "<tool_call>{\"arguments\": {\"city\": \"Paris\"}, \"name\": \"get_weather\"}</tool_call>",
       {"", "", {weather}}},
      {"arguments as a string",
       "hermes",
       "",
       R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>)",
       {"", "", {weather}}},
      {"tag within a string",
       "hermes",
       "",
       R"(<tool_call>{"name": "f", "arguments": {"a": "}</tool_call>{\"<tool_call>"}}</tool_call>)",
       {"", "", {{"f", R"({"a": "}</tool_call>{\"<tool_call>"})"}}}},
      {"no closing tag", "hermes", "", R"(<tool_call>{"name": "get_time", "arguments": {}})", {"", "", {time}}},
      {"no call", "hermes", "", "<tool_call>hello</tool_call> ", {"<tool_call>hello</tool_call> ", "", {}}},
      {"breaks before the name",
       "hermes",
       "",
       " <tool_call>{\"name\": \"get_wea",
       {" <tool_call>{\"name\": \"get_wea", "", {}}},
      {"breaks within the arguments",
       "hermes",
       "",
       R"(<tool_call>{"name": "f", "arguments": {"a": oops}}</tool_call>)",
       {"oops}}</tool_call>", "", {{"f", R"({"a": )"}}}},
      {"arguments that are no object",
       "hermes",
       "",
       R"(<tool_call>{"name": "f", "arguments": [1]}</tool_call>)",
       {R"(<tool_call>{"name": "f", "arguments": [1]}</tool_call>)", "", {}}},
      {"a call after a tag that opens nothing",
       "hermes",
       "",
       R"(<tool_call><tool_call>{"name": "get_time", "arguments": {}}</tool_call>)",
       {"<tool_call>", "", {time}}},
      {"python tag",
       "llama3_json",
       "",
       R"(<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}<|eom_id|>)",
       {"", "", {weather}}},
      {"bare and several",
       "llama3_json",
       "",
       R"({"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {}})",
       {"", "", {weather, time}}},
      {"JSON that is no call",
       "llama3_json",
       "",
       R"({"name": "Ann", "age": 3} )",
       {R"({"name": "Ann", "age": 3} )", "", {}}},
      {"JSON within text",
       "llama3_json",
       "",
       R"(See {"name": "f", "parameters": {}})",
       {R"(See {"name": "f", "parameters": {}})", "", {}}},
      {"python code", "llama3_json", "", "<|python_tag|>print(1)", {"<|python_tag|>print(1)", "", {}}},
      {"list",
       "mistral",
       "",
       R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time", "arguments": {}}]</s>)",
       {"", "", {weather, time}}},
      {"name and arguments",
       "mistral_v11",
       "",
       "Sure. [TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]get_time[CALL_ID]abcdef123[ARGS]{}",
       {"Sure.", "", {weather, time}}},
      {"name without arguments", "mistral", "", "[TOOL_CALLS]get_time now", {"[TOOL_CALLS]get_time now", "", {}}},
      {"second is no call",
       "mistral",
       "",
       R"([TOOL_CALLS] [{"name": "get_time", "arguments": {}}, {"nam": 1}])",
       {R"(, {"nam": 1}])", "", {time}}},
      {"object", "json", "", R"( {"name": "get_weather", "arguments": {"city": "Paris"}} )", {"", "", {weather}}},
      {"list of objects",
       "json",
       "",
       R"([{"name": "get_weather", "parameters": {"city": "Paris"}},{"name":"get_time","arguments":null}] ok)",
       {" ok", "", {weather, time}}},
      {"an answer in JSON", "json", "", R"([{"name": "Ann"}])", {R"([{"name": "Ann"}])", "", {}}},
  };
}

std::vector<ParserCase> other_cases() {
  const ReadCall weather{"get_weather", R"({"city": "Paris"})"};
  const ReadCall time{"get_time", "{}"};
  const std::string calls = "<｜tool▁calls▁begin｜>", calls_end = "<｜tool▁calls▁end｜>";
  const std::string call = "<｜tool▁call▁begin｜>", call_end = "<｜tool▁call▁end｜>", sep = "<｜tool▁sep｜>";
  return {
      {"xml",
       "qwen3_coder",
       "",
       "I look.\n<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n\"y\"\n</parameter>\n"
       "<parameter=c>\n{\"k\": [true]}\n</parameter>\n</function>\n</tool_call>",
       {"I look.", "", {{"f", R"({"a": 1, "b": "x\n\"y\"", "c": {"k": [true]}})"}}}},
      {"xml without parameters and without the outer tag",
       "qwen3_coder",
       "",
       "<function=get_time>\n</function>",
       {"", "", {time}}},
      {"two values are a string",
       "qwen3_coder",
       "",
       "<function=f><parameter=a>1, \"b\": 2</parameter></function>",
       {"", "", {{"f", R"({"a": "1, \"b\": 2"})"}}}},
      {"xml that breaks",
       "qwen3_coder",
       "",
       "<tool_call><function=f><parameter=a>1</parameter>oops",
       {"oops", "", {{"f", R"({"a": 1)"}}}},
      {"no function", "qwen3_coder", "", "<tool_call> {}", {"<tool_call> {}", "", {}}},
      {"python",
       "pythonic",
       "",
       R"([get_weather(city='Paris'), get_time(), m.f(a=[1, -2.5, (True, None)], b={"k": 'it\'s "x"\u00e9\n'}, c=.5,)])",
       {"",
        "",
        {weather, time, {"m.f", R"({"a": [1, -2.5, [true, null]], "b": {"k": "it's \"x\"\u00e9\n"}, "c": 0.5})"}}}},
      {"python with tags", "pythonic", "", "<|python_start|>[get_time()]<|python_end|><|eot|>", {"", "", {time}}},
      {"a link", "pythonic", "", "[text](link) and [f(x)]", {"[text](link) and [f(x)]", "", {}}},
      {"positional arguments", "pythonic", "", "[f(1)]", {"[f(1)]", "", {}}},
      {"python that breaks", "pythonic", "", "[f(a=1, b=x)]", {"x)]", "", {{"f", R"({"a": 1, "b": )"}}}},
      {"JSON instead of python",
       "pythonic",
       "",
       R"([{"name": "get_weather", "parameters": {"city": "Paris"}}])",
       {"", "", {weather}}},
      {"deepseek v3",
       "deepseek_v3",
       "",
       "Yes." + calls + call + "function" + sep + "get_weather\n```json\n{\"city\": \"Paris\"}\n```" + call_end + "\n" +
           call + "function" + sep + "get_time\n```json\n{}\n```" + call_end + calls_end + "<｜end▁of▁sentence｜>",
       {"Yes.", "", {weather, time}}},
      {"deepseek v3.1",
       "deepseek_v31",
       "",
       calls + call + "get_weather" + sep + "{\"city\": \"Paris\"}" + call_end + call + "get_time" + sep + "{}" +
           call_end + calls_end,
       {"", "", {weather, time}}},
      {"deepseek without a name", "deepseek_v3", "", calls + call + "f\n{}", {calls + call + "f\n{}", "", {}}},
      {"character that begins like a tag", "deepseek_v3", "", "<｜tool▁Ｘ", {"<｜tool▁Ｘ", "", {}}},
      {"harmony",
       "harmony",
       "harmony",
       "<|channel|>analysis<|message|>Need weather.<|end|><|start|>assistant<|channel|>commentary<|message|>One moment."
       "<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": "
       "\"Paris\"}<|call|>",
       {"One moment.", "Need weather.", {weather}}},
      {"harmony with the recipient before the channel",
       "harmony",
       "harmony",
       " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Paris\"}<|call|><|start|>assistant"
       "<|channel|>final<|message|>It is < 5.<|return|>",
       {"It is < 5.", "", {weather}}},
      {"harmony from within the analysis",
       "harmony",
       "harmony",
       "thinking<|end|><|start|>assistant<|channel|>final<|message|>Hi",
       {"Hi", "thinking", {}},
       true},
      {"harmony without calls",
       "",
       "harmony",
       "<|channel|>commentary to=functions.f<|message|>{}<|call|>",
       {"{}", "", {}}},
      {"harmony whose arguments are none",
       "harmony",
       "harmony",
       "<|channel|>commentary to=functions.f<|message|>hello<|call|>",
       {"<|channel|>commentary to=functions.f<|message|>hello", "", {}}},
      {"harmony whose header breaks off", "harmony", "harmony", "<|channel|>fin", {"<|channel|>fin", "", {}}},
      {"think", "", "think", "<think>\na < b\n\nso\n</think>\n\nYes.\n", {"Yes.\n", "a < b\n\nso", {}}},
      {"opened by the prompt", "", "think", "hm\n</think>Yes.", {"Yes.", "hm", {}}, true},
      {"opened twice", "", "think", "<think>hm</think>Yes.", {"Yes.", "hm", {}}, true},
      {"nothing thought", "hermes", "think", "<think>\n\n</think>\n\nYes.", {"Yes.", "", {}}},
      {"not opened", "", "think", " Yes </think> <think>", {" Yes </think> <think>", "", {}}},
      {"not closed", "", "think", "<think>hm\n</thin", {"", "hm\n</thin", {}}},
      {"r1", "", "deepseek_r1", "hm</think>Yes.", {"Yes.", "hm", {}}},
      {"mistral's", "", "mistral", "[THINK]hm[/THINK]Yes.", {"Yes.", "hm", {}}},
      {"granite's", "", "granite", "Here is my thought process:\nhm\nHere is my response:\nYes.", {"Yes.", "hm", {}}},
      {"think, then call",
       "hermes",
       "think",
       "<think>I call <tool_call>.</think>\n\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>",
       {"", "I call <tool_call>.", {time}}},
      {"think, then JSON",
       "json",
       "think",
       "<think>a</think>\n{\"name\":\"get_time\",\"arguments\":{}}",
       {"", "a", {time}}},
  };
}

void expect_case(const ParserCase& one) {
  SCOPED_TRACE(one.name + " as " + one.tools + "/" + one.reasoning);
  const MessageFormat format{one.tools, one.reasoning, one.starts_in_reasoning};
  EXPECT_EQ(read_whole(format, one.text), one.expected);
  EXPECT_EQ(read_pieces(format, one.text, [] { return 1; }), one.expected) << "byte by byte";
  std::mt19937 random(7);
  for (int repeat = 0; repeat < 20; ++repeat) {
    EXPECT_EQ(read_pieces(format, one.text, [&] { return random() % 9; }), one.expected) << "at random cuts";
  }
}

TEST(MessageParser, ReadsCallsInJson) {
  for (const ParserCase& one : json_cases()) expect_case(one);
}

TEST(MessageParser, ReadsOtherCallsAndReasoning) {
  for (const ParserCase& one : other_cases()) expect_case(one);
}

TEST(MessageParser, ReadsRandomCallsOfEachFormat) {
  std::mt19937 random(26);
  for (const std::string& format : tool_formats()) {
    SCOPED_TRACE(format);
    for (int repeat = 0; repeat < 1000; ++repeat) {
      const std::vector<RandomCall> calls = random_calls(random);
      const std::string text = write_calls(calls, format);
      const auto cut = [&] { return random() % 12; };
      const Message message = read_pieces({.tools = format}, text, cut, tools_of(calls));
      ASSERT_EQ(message.calls.size(), calls.size()) << text;
      ASSERT_EQ(message.content + message.reasoning, "") << text;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        ASSERT_EQ(message.calls[i].name, calls[i].name) << text;
        ASSERT_EQ(Json::parse(message.calls[i].arguments), calls[i].arguments) << text;
      }
    }
  }
}

TEST(MessageParser, TellsTheNameBeforeTheArgumentsAndThoseAsTheyCome) {
  const auto parser = make_message_parser({.tools = "hermes"});
  EXPECT_TRUE(parser->feed("<tool_call>{\"name\": \"f\", \"arguments\": ").empty());
  const MessageDelta first = parser->feed("{\"a\": \"lo");
  ASSERT_EQ(first.tool_calls.size(), 1U);
  EXPECT_EQ(first.tool_calls[0].name, "f");
  EXPECT_EQ(first.tool_calls[0].id.size(), 29U);
  EXPECT_EQ(first.tool_calls[0].arguments, "{\"a\": \"lo");
  const MessageDelta second = parser->feed("ng\"");
  ASSERT_EQ(second.tool_calls.size(), 1U);
  EXPECT_EQ(second.tool_calls[0].index, 0);
  EXPECT_EQ(second.tool_calls[0].id + second.tool_calls[0].name, "");
  EXPECT_EQ(second.tool_calls[0].arguments, "ng\"");
}

TEST(MessageParser, HoldsBackNoMoreThanMayBeATag) {
  const auto parser = make_message_parser({.tools = "hermes", .reasoning = "think"});
  EXPECT_EQ(parser->feed("<thi").reasoning, "");
  EXPECT_EQ(parser->feed("nk>abc</t").reasoning, "abc");
  EXPECT_EQ(parser->feed("x").reasoning, "</tx");
  EXPECT_EQ(parser->feed("</think>Hello <tool").content, "Hello");
  EXPECT_EQ(parser->feed("box").content, " <toolbox");
}

TEST(MessageParser, GivesEachCallItsId) {
  std::set<std::string> ids;
  for (const std::string format : {"hermes", "mistral"}) {
    const auto parser = make_message_parser({.tools = format});
    const std::vector<RandomCall> calls(50, RandomCall{"f", Json::object()});
    for (const ToolCallDelta& call : parser->feed(write_calls(calls, format)).tool_calls) {
      if (call.name.empty()) continue;
      ids.insert(call.id);
      EXPECT_EQ(call.id.size(), format == "mistral" ? 9U : 29U);
      EXPECT_EQ(call.id.starts_with("call_"), format == "hermes");
    }
  }
  EXPECT_EQ(ids.size(), 100U);
  const MessageDelta own = make_message_parser({.tools = "mistral"})->feed("[TOOL_CALLS]f[CALL_ID]abcdef123[ARGS]{}");
  EXPECT_EQ(own.tool_calls.at(0).id, "abcdef123");
}

TEST(MessageParser, TakesTypesFromTheSchema) {
  const Json schema = Json::parse(
      R"({"properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": ["string", "null"]},
          "b": {"type": "boolean"}}})");
  const std::string text =
      "<function=f><parameter=s>12</parameter><parameter=n>12</parameter><parameter=o>null</parameter>"
      "<parameter=b>True</parameter></function>";
  const Message message = read_pieces({.tools = "qwen3_coder"}, text, [] { return 1; }, {{"f", schema}});
  EXPECT_EQ(message.calls.at(0).arguments, R"({"s": "12", "n": 12, "o": null, "b": true})");
}

// Pieces of tags and of calls, bytes that have no meaning, and numbered words of which none may be lost.
std::string random_text(std::mt19937& random, const std::vector<std::string>& pieces) {
  std::string text;
  for (std::size_t i = random() % 30; i > 0; --i) {
    const std::string& piece = pieces[random() % pieces.size()];
    switch (random() % 8) {
      case 0: text += piece.substr(0, random() % (piece.size() + 1)); break;
      case 1: text += static_cast<char>(random() % 256); break;
      case 2: text += "Word" + std::to_string(i) + "."; break;
      default: text += piece; break;
    }
  }
  return text;
}

std::string first_lost_word(const Message& message, const std::string& text) {
  std::string told = message.content + message.reasoning;
  for (const ReadCall& call : message.calls) told += call.name + call.arguments;
  for (std::size_t at = text.find("Word"); at != std::string::npos; at = text.find("Word", at + 1)) {
    const std::string word = text.substr(at, text.find('.', at) - at + 1);
    if (told.find(word) == std::string::npos) return word;
  }
  return "";
}

bool is_end_token(std::string_view text) { return text == "<|eot_id|>" || text == "</s>"; }

TEST(MessageParser, LosesNothingOfRandomText) {
  std::mt19937 random(3);
  for (const std::string& tools : tool_formats()) {
    SCOPED_TRACE(tools);
    int with_calls = 0, without = 0;
    for (int repeat = 0; repeat < 2000; ++repeat) {
      const std::string text = random_text(random, markup_pieces(tools));
      const bool reasons = random() % 2 == 0;
      const std::string reasoning = tools == "harmony" ? "harmony" : reasons ? "think" : "";
      const MessageFormat format{tools, reasoning, random() % 4 == 0 && reasons};
      const Message whole = read_whole(format, text);
      ASSERT_EQ(read_pieces(format, text, [&] { return random() % 5; }), whole) << text;
      ++(whole.calls.empty() ? without : with_calls);
      if (tools == "harmony") continue;  // what else stands in the header of a message is no text
      ASSERT_EQ(first_lost_word(whole, text), "") << text << "\n" << whole;
      if (reasons || !whole.calls.empty()) continue;
      ASSERT_TRUE(text.starts_with(whole.content)) << text << "\n" << whole;
      const std::string_view rest = std::string_view(text).substr(whole.content.size());
      ASSERT_TRUE(rest.empty() || is_end_token(rest)) << text << "\n" << whole;
    }
    EXPECT_GT(with_calls, 100);
    EXPECT_GT(without, 100);
  }
}

TEST(MessageParser, LosesNothingOfBytesWithoutMeaning) {
  std::mt19937 random(4);
  for (const std::string& tools : tool_formats()) {
    for (int repeat = 0; repeat < 300; ++repeat) {
      std::string text(random() % 200, ' ');
      for (char& byte : text) byte = static_cast<char>(random() % 256);
      const Message message = read_pieces({.tools = tools}, text, [&] { return random() % 7; });
      ASSERT_EQ(message.content, text) << tools;
    }
  }
}

TEST(MessageParser, ReadsLongTextInLinearTime) {
  for (const std::string& tools : tool_formats()) {
    std::string text;
    for (const std::string& piece : markup_pieces(tools)) text += piece;
    while (text.size() < (1U << 16)) text += text;
    const Message message = read_pieces({.tools = tools}, text, [] { return 64; });
    EXPECT_FALSE(message.content.empty() && message.calls.empty());
  }
}

TEST(MessageParser, NamesTheFormatsThatItKnows) {
  EXPECT_THAT(
      [] { make_message_parser({.tools = "hermess"}); },
      ThrowsMessage<ConfigError>(
          "[MessageFormat] unknown format of tools \"hermess\"; known: hermes, qwen, qwen3_coder, llama3_json, "
          "pythonic, mistral, mistral_v11, deepseek_v3, deepseek_v31, harmony, json. Did you mean \"hermes\"?"));
  EXPECT_THAT([] { make_message_parser({.reasoning = "thoughts"}); },
              ThrowsMessage<ConfigError>(HasSubstr("known: think, deepseek_r1, mistral, granite, harmony")));
  EXPECT_THAT(([] { make_message_parser({.tools = "hermes", .reasoning = "harmony"}); }),
              ThrowsMessage<ConfigError>(HasSubstr("harmony must be used for both")));
}

TEST(MessageFormat, IsDetectedFromTheTemplate) {
  const auto expect = [](std::string_view text, std::string tools, std::string reasoning, bool inside) {
    SCOPED_TRACE(text);
    const MessageFormat format = detect_message_format(text);
    EXPECT_EQ(format.tools, tools);
    EXPECT_EQ(format.reasoning, reasoning);
    EXPECT_EQ(format.starts_in_reasoning, inside);
    EXPECT_NO_THROW(make_message_parser(format));
  };
  const std::string qwen =
      "'<tool_call>\\n{\"name\": \"' {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}";
  expect("{{ messages[0].content }}", "", "", false);
  expect(qwen, "hermes", "", false);
  expect(qwen + "{% if not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}", "hermes", "think", false);
  expect(qwen + "{{ '<think>\\n' }}{% endif %}", "hermes", "think", true);
  expect(qwen + "<function=", "qwen3_coder", "", false);
  expect(qwen + "<arg_key>", "", "", false);
  expect("<|start_header_id|>ipython {\"name\": f, \"parameters\": d}", "llama3_json", "", false);
  expect("{{ \"<|start_header_id|>\" }}{{ '\"parameters\": ' }}<|python_tag|>", "llama3_json", "", false);
  expect("<|header_start|><|python_start|>", "pythonic", "", false);
  expect("[AVAILABLE_TOOLS][TOOL_CALLS] [", "mistral", "", false);
  expect("[TOOL_CALLS]name[ARGS][THINK]", "mistral_v11", "mistral", false);
  expect("<｜tool▁calls▁begin｜>\\n```json split('</think>')", "deepseek_v3", "deepseek_r1", false);
  expect("<｜tool▁calls▁begin｜> <think> </think>", "deepseek_v31", "think", false);
  expect("<|start|>assistant<|channel|>final<|message|>", "harmony", "harmony", false);
}

TEST(MessageFormat, KnowsWhetherThePromptOpensTheReasoning) {
  EXPECT_TRUE(ends_in_reasoning({.reasoning = "think"}, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(ends_in_reasoning({.reasoning = "think"}, "assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends_in_reasoning({}, "assistant\n<think>\n"));
  EXPECT_TRUE(ends_in_reasoning({.reasoning = "harmony"}, "<|start|>assistant<|channel|>analysis<|message|>"));
}

TEST(MessageFormat, SaysWhetherSpecialTokensMustStay) {
  EXPECT_FALSE((MessageFormat{"hermes", "think"}.needs_special_tokens()));
  EXPECT_FALSE(MessageFormat{}.needs_special_tokens());
  for (const char* tools : {"llama3_json", "mistral", "deepseek_v3", "harmony", "pythonic"}) {
    EXPECT_TRUE(MessageFormat{tools}.needs_special_tokens()) << tools;
  }
  EXPECT_TRUE((MessageFormat{"", "mistral"}.needs_special_tokens()));
}

}  // namespace
}  // namespace easydel::serve
