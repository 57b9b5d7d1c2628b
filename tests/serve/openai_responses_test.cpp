// /v1/responses with an engine that follows a script.
#include "tests/serve/openai_fixture.h"

namespace easydel::serve::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResponsesTest : public ServiceTest {
 protected:
  ResponsesTest() { engine->script = {piece("c ", {7}), piece("d", {8, 2}, Finish::Stop)}; }

  Answer respond(const std::string& fields) { return post("/v1/responses", "{" + fields + "}"); }

  // Events of a stream; the name in "event:" must be the type in "data:".
  std::vector<Json> stream(const std::string& fields) {
    const HttpResponse response = start("POST", "/v1/responses", "{\"stream\": true, " + fields + "}")->wait();
    EXPECT_THAT(response.content_type, HasSubstr("text/event-stream")) << response.body;
    std::vector<Json> events;
    for (std::size_t at = 0; at < response.body.size();) {
      const std::size_t end = response.body.find("\n\n", at);
      const std::string block = response.body.substr(at, end - at);
      const std::size_t line = block.find("\ndata: ");
      EXPECT_TRUE(block.starts_with("event: ") && line != std::string::npos) << block;
      events.push_back(Json::parse(block.substr(line + 7)));
      EXPECT_EQ(events.back().at("type"), Json(block.substr(7, line - 7)));
      EXPECT_EQ(events.back().at("sequence_number"), Json(events.size() - 1));
      at = end + 2;
    }
    return events;
  }

  static std::vector<std::string> types(const std::vector<Json>& events) {
    std::vector<std::string> names;
    for (const Json& event : events) names.push_back(event.at("type").as_string().substr(9));
    return names;
  }
};

TEST_F(ResponsesTest, ATextIsAnsweredByAMessage) {
  const Answer answer =
      respond(R"("input": "a b", "instructions": "s", "metadata": {"k": "v"}, "max_output_tokens": 9)");
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  EXPECT_EQ(answer.json.at("object"), Json("response"));
  EXPECT_EQ(answer.json.at("status"), Json("completed"));
  EXPECT_EQ(answer.json.at("instructions"), Json("s"));
  EXPECT_EQ(answer.json.at("metadata"), Json::parse(R"({"k": "v"})"));
  const Json& item = answer.json.at("output").at(0);
  EXPECT_EQ(item.at("type"), Json("message"));
  EXPECT_EQ(item.at("content").at(0).at("text"), Json("c d"));
  EXPECT_EQ(answer.json.at("usage").at("input_tokens"), Json(6));
  EXPECT_EQ(answer.json.at("usage").at("output_tokens"), Json(3));
  EXPECT_THAT(engine->last().prompt, ElementsAre(3, 23, 3, 5, 6, 30));  // system s user a b z
  EXPECT_EQ(engine->last().sampling.max_tokens, 9);
}

TEST_F(ResponsesTest, AStreamHasTheTypedEvents) {
  const auto events = stream(R"("input": "a")");
  EXPECT_EQ(types(events),
            (std::vector<std::string>{"created", "in_progress", "output_item.added", "content_part.added",
                                      "output_text.delta", "output_text.delta", "output_text.done", "content_part.done",
                                      "output_item.done", "completed"}));
  EXPECT_EQ(events.front().at("response").at("status"), Json("in_progress"));
  EXPECT_EQ(events.back().at("response").at("output").at(0).at("content").at(0).at("text"), Json("c d"));
  EXPECT_EQ(events.front().at("response").at("id"), events.back().at("response").at("id"));
}

TEST_F(ResponsesTest, AnAnswerThatReachesItsLimitIsIncomplete) {
  engine->script = {piece("c", {7}, Finish::Length)};
  const Answer answer = respond(R"("input": "a", "max_output_tokens": 1)");
  EXPECT_EQ(answer.json.at("status"), Json("incomplete"));
  EXPECT_EQ(answer.json.at("incomplete_details"), Json::parse(R"({"reason": "max_output_tokens"})"));
  EXPECT_EQ(stream(R"("input": "a")").back().at("type"), Json("response.incomplete"));
}

TEST_F(ResponsesTest, AStreamThatFailsSaysSo) {
  RequestOutput broken = piece("", {}, Finish::Error);
  broken.error = "no luck";
  engine->script = {piece("c", {7}), broken};
  const auto events = stream(R"("input": "a")");
  EXPECT_EQ(events.back().at("type"), Json("response.failed"));
  EXPECT_EQ(events.back().at("response").at("error").at("message"), Json("no luck"));
  EXPECT_EQ(respond(R"("input": "a")").status, 500);
}

TEST_F(ResponsesTest, ReasoningIsAnItemOfItsOwn) {
  options.chat_template = kThinkTemplate;
  options.reasoning_parser = "think";
  restart();
  engine->script = {piece("hm", {7}), piece("</think>", {8}), piece("c", {9, 2}, Finish::Stop)};
  const Answer answer = respond(R"("input": "a")");
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  ASSERT_EQ(answer.json.at("output").size(), 2U) << answer.raw.body;
  EXPECT_EQ(answer.json.at("output").at(0).at("type"), Json("reasoning"));
  EXPECT_EQ(answer.json.at("output").at(0).at("content").at(0).at("text"), Json("hm"));
  EXPECT_EQ(answer.json.at("output").at(1).at("content").at(0).at("text"), Json("c"));
  EXPECT_EQ(answer.json.at("usage").at("output_tokens_details").at("reasoning_tokens"), Json(1));
}

TEST_F(ResponsesTest, ItemsBecomeMessages) {
  const Answer answer = respond(R"("input": [
      {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
      {"type": "function_call", "call_id": "k", "name": "f", "arguments": "{\"x\": \"b\"}"},
      {"type": "function_call_output", "call_id": "k", "output": "c"},
      {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
       "content": [{"type": "output_text", "text": "d", "annotations": []}]},
      {"role": "user", "content": "e"}])");
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  // user a assistant (no content) b tool c assistant d user e z
  EXPECT_THAT(engine->last().prompt, ElementsAre(3, 5, 3, 6, 3, 7, 3, 8, 3, 9, 30));
}

TEST_F(ResponsesTest, AKeptResponseIsContinuedUntilItIsDeleted) {
  const std::string id = respond(R"("input": "a", "instructions": "s")").json.at("id").as_string();
  EXPECT_EQ(get("/v1/responses/" + id).json.at("output").at(0).at("content").at(0).at("text"), Json("c d"));
  const Answer next = respond(R"("input": "b", "previous_response_id": ")" + id + "\"");
  ASSERT_EQ(next.status, 200) << next.raw.body;
  EXPECT_THAT(engine->last().prompt, ElementsAre(3, 5, 3, 7, 8, 3, 6, 30));  // user a assistant c d user b z
  EXPECT_EQ(read_answer(start("DELETE", "/v1/responses/" + id)->wait()).json.at("deleted"), Json(true));
  EXPECT_EQ(get("/v1/responses/" + id).status, 404);
  const Answer gone = respond(R"("input": "b", "previous_response_id": ")" + id + "\"");
  EXPECT_EQ(gone.status, 400);
  EXPECT_EQ(gone.error_param(), "previous_response_id");
  const std::string unkept = respond(R"("input": "a", "store": false)").json.at("id").as_string();
  EXPECT_EQ(get("/v1/responses/" + unkept).status, 404);
}

TEST_F(ResponsesTest, WhatIsNotSupportedIsRefusedByName) {
  const std::vector<std::array<std::string, 2>> cases{
      {R"("model": "model")", "input is required."},
      {R"("input": [])", "input must have at least one item."},
      {R"("input": [{"type": "item_reference", "id": "x"}])",
       "input[0].type \"item_reference\" is not supported; it must be message, function_call, function_call_output or "
       "reasoning."},
      {R"("input": [{"type": "function_call_output", "call_id": "x", "output": "y"}])",
       "there is no function call with call_id \"x\"."},
      {R"("input": "a", "background": true)", "background must be false: responses do not run in the background."},
      {R"("input": "a", "conversation": "x")",
       "conversation is not supported: use previous_response_id, or send the items again."},
      {R"("input": "a", "tools": [{"type": "web_search"}])",
       "tools[0].type \"web_search\" is not supported; tools must be functions."},
      {R"("input": "a", "truncation": "auto")", "truncation must be disabled; got \"auto\"."},
      {R"("input": "a", "include": ["reasoning.encrypted_content"])",
       "include \"reasoning.encrypted_content\" is not supported; it may have message.output_text.logprobs."},
      {R"("input": "a", "text": {"verbosity": "low"})", "text.verbosity must be medium; got \"low\"."},
      {R"("input": "a", "reasoning": {"summary": "auto"})",
       "reasoning.summary is not supported: reasoning is answered as it is."},
      {R"("input": "a", "metadata": {"k": 3})", "metadata.k must be a string; got an integer."},
      {R"("input": "a", "max_tokens": 3)", "max_tokens is not supported: its name is max_output_tokens here."},
      {R"("input": "a", "n": 2)", "Unrecognized request argument supplied: n"}};
  for (const auto& [fields, message] : cases) {
    const Answer answer = respond(fields);
    EXPECT_EQ(answer.status, 400) << fields;
    EXPECT_EQ(answer.error_message(), message);
  }
}

TEST_F(ResponsesTest, AClientThatLeavesStopsItsRequest) {
  engine->script.clear();
  const auto reply = start("POST", "/v1/responses", R"({"input": "a", "stream": true})");
  engine->wait_for_requests(1);
  reply->leave();
  EXPECT_THAT(engine->wait_for_cancelled(1), ElementsAre(1U));
}

}  // namespace
}  // namespace easydel::serve::testing_support
