// The items and events of /v1/responses, the store of responses, and the form of embeddings.
#include <gtest/gtest.h>

#include "easydel/io/hub/base64.h"
#include "easydel/serve/openai/pooling/pooling.h"
#include "easydel/serve/openai/responses/response_output.h"
#include "easydel/serve/openai/responses/response_store.h"

namespace easydel::serve {
namespace {

struct Events {
  std::vector<std::pair<std::string, Json>> all;

  ResponseOutput::Emit sink() {
    return [this](std::string_view type, Json event) { all.emplace_back(type, std::move(event)); };
  }
  std::vector<std::string> types() const {
    std::vector<std::string> names;
    for (const auto& [type, event] : all) names.push_back(type.substr(std::string("response.").size()));
    return names;
  }
  std::string joined(const std::string& type) const {
    std::string text;
    for (const auto& [name, event] : all) {
      if (name == type) text += event.at("delta").as_string();
    }
    return text;
  }
};

MessageDelta text_delta(std::string text) { return {.content = std::move(text), .reasoning = {}, .tool_calls = {}}; }
MessageDelta thought(std::string text) { return {.content = {}, .reasoning = std::move(text), .tool_calls = {}}; }
MessageDelta call(int64_t index, std::string id, std::string name, std::string arguments) {
  return {.content = {},
          .reasoning = {},
          .tool_calls = {
              {.index = index, .id = std::move(id), .name = std::move(name), .arguments = std::move(arguments)}}};
}

TEST(ResponseOutput, TellsOfAMessageInTheOrderOfTheApi) {
  Events events;
  ResponseOutput output(events.sink());
  output.add(text_delta("Hel"), Json::array());
  output.add(text_delta("lo"), Json::array());
  output.finish(/*is_complete=*/true);
  EXPECT_EQ(events.types(), (std::vector<std::string>{"output_item.added", "content_part.added", "output_text.delta",
                                                      "output_text.delta", "output_text.done", "content_part.done",
                                                      "output_item.done"}));
  EXPECT_EQ(events.joined("response.output_text.delta"), "Hello");
  const Json& item = output.items().at(0);
  EXPECT_EQ(item.at("status").as_string(), "completed");
  EXPECT_EQ(item.at("content").at(0).at("text").as_string(), "Hello");
  EXPECT_EQ(events.all.front().second.at("item").at("id"), item.at("id"));
  EXPECT_EQ(events.all.front().second.at("item").at("status").as_string(), "in_progress");
  EXPECT_EQ(output.message(), Json::object({{"role", "assistant"}, {"content", "Hello"}}));
}

TEST(ResponseOutput, ReasoningTextAndCallsAreItemsOfTheirOwn) {
  Events events;
  ResponseOutput output(events.sink());
  output.add(thought("hm"), Json::array());
  output.add(text_delta("\n\n"), Json::array());
  output.add(call(0, "call_a", "weather", ""), Json::array());
  output.add(call(0, "", "", "{\"city\":"), Json::array());
  output.add(call(0, "", "", "\"Rome\"}"), Json::array());
  output.add(call(1, "call_b", "time", "{}"), Json::array());
  output.finish(/*is_complete=*/true);
  ASSERT_EQ(output.items().size(), 3U);  // the white space between is no message
  EXPECT_EQ(output.items().at(0).at("type").as_string(), "reasoning");
  EXPECT_EQ(output.items().at(0).at("content").at(0).at("text").as_string(), "hm");
  EXPECT_EQ(output.items().at(1).at("arguments").as_string(), R"({"city":"Rome"})");
  EXPECT_EQ(output.items().at(1).at("call_id").as_string(), "call_a");
  EXPECT_EQ(output.items().at(2).at("name").as_string(), "time");
  EXPECT_EQ(events.joined("response.function_call_arguments.delta"), R"({"city":"Rome"}{})");
  const Json message = output.message();
  EXPECT_EQ(message.at("reasoning_content").as_string(), "hm");
  ASSERT_EQ(message.at("tool_calls").size(), 2U);
  EXPECT_EQ(message.at("tool_calls").at(0).at("function").at("arguments").as_string(), R"({"city":"Rome"})");
}

TEST(ResponseOutput, WhiteSpaceBeforeTextIsKept) {
  Events events;
  ResponseOutput output(events.sink());
  output.add(text_delta(" "), Json::array());
  output.add(text_delta("a"), Json::array());
  output.finish(true);
  EXPECT_EQ(events.joined("response.output_text.delta"), " a");

  ResponseOutput blank(events.sink());
  blank.add(text_delta(" \n"), Json::array());
  blank.finish(true);
  EXPECT_EQ(blank.items().at(0).at("content").at(0).at("text").as_string(), " \n");
}

TEST(ResponseOutput, AnAnswerThatBreaksOffLeavesItsLastItemIncomplete) {
  Events events;
  ResponseOutput output(events.sink());
  output.add(thought("a"), Json::array());
  output.add(text_delta("b"), Json::array());
  output.finish(/*is_complete=*/false);
  EXPECT_EQ(output.items().at(0).at("status").as_string(), "completed");
  EXPECT_EQ(output.items().at(1).at("status").as_string(), "incomplete");

  ResponseOutput nothing(events.sink());
  nothing.finish(true);
  EXPECT_EQ(nothing.items().size(), 0U);
  EXPECT_TRUE(nothing.message().is_null());
}

TEST(ResponseOutput, LogProbabilitiesGoWithTheTextOfTheirTokens) {
  Events events;
  ResponseOutput output(events.sink());
  output.add(thought("t"), Json::array({Json("of the reasoning")}));
  output.add({}, Json::array({Json("of the tag that ends it")}));
  output.add(text_delta("a"), Json::array({Json("first")}));
  output.add({}, Json::array({Json("held back")}));  // its text comes with the next one
  output.add(text_delta("bc"), Json::array({Json("third")}));
  output.add({}, Json::array({Json("end")}));
  output.finish(true);
  EXPECT_EQ(output.items().at(1).at("content").at(0).at("logprobs"),
            Json::array({"first", "held back", "third", "end"}));
}

TEST(ResponseStore, ForgetsTheOneThatWasNotUsedForLongest) {
  ResponseStore store(2, 1000);
  const auto stored = [](const char* text) { return StoredResponse{.response = text, .messages = Json::array()}; };
  store.put("a", stored("A"));
  store.put("b", stored("B"));
  EXPECT_TRUE(store.get("a"));
  store.put("c", stored("C"));
  EXPECT_FALSE(store.get("b"));
  EXPECT_EQ(store.get("a")->response, Json("A"));
  EXPECT_EQ(store.size(), 2U);
  store.put("a", stored("again"));
  EXPECT_EQ(store.get("a")->response, Json("again"));
  EXPECT_EQ(store.size(), 2U);
}

TEST(ResponseStore, HoldsNoMoreBytesThanAllowed) {
  ResponseStore store(100, 1000);
  for (int i = 0; i < 50; ++i) {
    store.put(std::to_string(i), {.response = std::string(100, 'x'), .messages = Json::array()});
    EXPECT_LE(store.bytes(), 1000U);
  }
  EXPECT_EQ(store.size(), 9U);
  store.put("large", {.response = std::string(2000, 'x'), .messages = Json::array()});
  EXPECT_FALSE(store.get("large"));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, Erases) {
  ResponseStore store(2, 1000);
  store.put("a", {.response = "A", .messages = Json::array()});
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_FALSE(store.get("a"));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(FloatsBase64, IsLittleEndian) {
  EXPECT_EQ(base64_decode(floats_base64({1.0F, -2.5F})), std::string("\x00\x00\x80\x3F\x00\x00\x20\xC0", 8));
}

}  // namespace
}  // namespace easydel::serve
