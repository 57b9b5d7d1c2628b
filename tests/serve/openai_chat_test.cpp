#include "tests/serve/openai_fixture.h"

namespace easydel::serve::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChatTest : public ServiceTest {
 protected:
  ChatTest() {
    RequestOutput first = piece("c ", {7});
    first.cached_tokens = 2;
    RequestOutput last = piece("d", {8, 2}, Finish::Stop);
    last.cached_tokens = 2;
    engine->script = {first, last};
  }
  const std::string tools_ = R"("tools": [{"type": "function", "function": {"name": "f", "parameters":
      {"type": "object", "properties": {"x": {"type": "integer"}}}}},
      {"type": "function", "function": {"name": "g"}}])";
};

TEST_F(ChatTest, AnswersInOpenAisShape) {
  const Answer answer = chat();
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  EXPECT_THAT(answer.json.at("id").as_string(), ::testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(answer.json.at("object"), Json("chat.completion"));
  EXPECT_EQ(answer.json.at("model"), Json("model"));
  EXPECT_TRUE(answer.json.at("system_fingerprint").is_string());
  const Json& choice = answer.json.at("choices").at(0);
  EXPECT_EQ(choice.at("message"), Json::parse(R"({"role": "assistant", "content": "c d", "refusal": null})"));
  EXPECT_EQ(choice.at("finish_reason"), Json("stop"));
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(answer.json.at("usage"), Json::parse(R"({"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7,
                                                     "prompt_tokens_details": {"cached_tokens": 2}})"));
  EXPECT_THAT(engine->last().prompt, ElementsAre(3, 5, 6, 30));  // role, a, b, and the generation prompt
  EXPECT_EQ(engine->last().sampling.max_tokens, 60);             // as many as the context holds
}

TEST_F(ChatTest, PassesEveryParameterOn) {
  const Answer answer = chat(R"("temperature": 0.5, "top_p": 0.25, "top_k": -1, "min_p": 0.125, "typical_p": 0.75,
      "repetition_penalty": 1.5, "presence_penalty": -1, "frequency_penalty": 2, "logit_bias": {"5": -100, "6": 1.5},
      "seed": 9, "max_tokens": 7, "min_tokens": 2, "stop": ["x", "yy"], "stop_token_ids": [4],
      "include_stop_str_in_output": true, "ignore_eos": true, "skip_special_tokens": false, "prompt_logprobs": 3,
      "logprobs": true, "top_logprobs": 2, "priority": -4, "user": "u", "metadata": {"a": "b"}, "store": false,
      "service_tier": "auto", "modalities": ["text"], "request_id": "mine")");
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  EXPECT_EQ(answer.json.at("id"), Json("chatcmpl-mine"));
  const Request request = engine->last();
  const SamplingParams& sampling = request.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.25);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0.125);
  EXPECT_EQ(sampling.typical_p, 0.75);
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.presence_penalty, -1.0);
  EXPECT_EQ(sampling.frequency_penalty, 2.0);
  EXPECT_EQ(sampling.logit_bias, (std::map<int32_t, double>{{5, -100.0}, {6, 1.5}}));
  EXPECT_EQ(sampling.seed, 9U);
  EXPECT_EQ(sampling.max_tokens, 7);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_THAT(sampling.stop, ElementsAre("x", "yy"));
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(4));
  EXPECT_TRUE(sampling.include_stop_str_in_output && sampling.ignore_eos && !sampling.skip_special_tokens);
  EXPECT_EQ(sampling.prompt_logprobs, 3);
  EXPECT_EQ(sampling.logprobs, 2);
  EXPECT_EQ(request.priority, -4);
}

TEST_F(ChatTest, TakesWhatIsLeftOutFromTheModel) {
  options.default_sampling = {.temperature = 0.6, .top_k = 20, .max_tokens = 5};
  chat();
  EXPECT_EQ(engine->last().sampling.temperature, 0.6);
  EXPECT_EQ(engine->last().sampling.max_tokens, 5);
  chat(R"("temperature": 0, "top_k": 3, "max_tokens": 50, "max_completion_tokens": 9)");
  EXPECT_EQ(engine->last().sampling.temperature, 0.0);
  EXPECT_EQ(engine->last().sampling.top_k, 3);
  EXPECT_EQ(engine->last().sampling.max_tokens, 9);
}

TEST_F(ChatTest, NamesTheFieldAtFault) {
  const std::vector<std::pair<std::string, std::string>> cases{{"temperature", "-1"},
                                                               {"temperature", "\"x\""},
                                                               {"top_p", "0"},
                                                               {"top_p", "1.5"},
                                                               {"top_k", "-2"},
                                                               {"min_p", "2"},
                                                               {"repetition_penalty", "0"},
                                                               {"presence_penalty", "3"},
                                                               {"frequency_penalty", "-3"},
                                                               {"logit_bias", R"({"x": 1})"},
                                                               {"logit_bias", R"({"99": 1})"},
                                                               {"logit_bias", R"({"5": 101})"},
                                                               {"seed", "1.5"},
                                                               {"max_tokens", "0"},
                                                               {"min_tokens", "-1"},
                                                               {"min_tokens", "64"},
                                                               {"stop", "[\"\"]"},
                                                               {"stop", "[1]"},
                                                               {"stop_token_ids", "[99]"},
                                                               {"n", "0"},
                                                               {"n", "2000"},
                                                               {"stream", "\"yes\""},
                                                               {"top_logprobs", "3"},
                                                               {"prompt_logprobs", "21"},
                                                               {"messages", "[]"},
                                                               {"messages", "\"hi\""},
                                                               {"tools", "{}"},
                                                               {"tool_choice", "\"required\""},
                                                               {"best_of", "2"},
                                                               {"store", "true"},
                                                               {"service_tier", "\"flex\""},
                                                               {"modalities", "[\"audio\"]"},
                                                               {"verbosity", "\"low\""},
                                                               {"reasoning_effort", "\"low\""},
                                                               {"chat_template", "\"x\""},
                                                               {"use_beam_search", "true"},
                                                               {"continue_final_message", "true"},
                                                               {"response_format", "[]"},
                                                               {"stream_options", "{}"},
                                                               {"audio", "{\"voice\": \"x\"}"},
                                                               {"functions", "[{}]"},
                                                               {"function_call", "\"auto\""},
                                                               {"prediction", "{}"},
                                                               {"web_search_options", "{}"},
                                                               {"bad_words", "[\"x\"]"},
                                                               {"suffix", "\"x\""},
                                                               {"no_such_field", "1"},
                                                               {"guided_choice", "[]"}};
  for (const auto& [field, value] : cases) {
    const Answer answer = chat("\"" + field + "\": " + value);
    EXPECT_EQ(answer.status, 400) << field << ": " << answer.raw.body;
    if (answer.status != 400) continue;
    EXPECT_EQ(answer.error_param(), field) << answer.raw.body;
    EXPECT_THAT(answer.error_message(), HasSubstr(field));
  }
  EXPECT_TRUE(engine->requests().empty());
  EXPECT_EQ(chat(R"("no_such_field": null, "audio": null, "stop": null)").status, 200);
}

TEST_F(ChatTest, RefusesWhatDoesNotFit) {
  const Answer asked = chat(R"("max_tokens": 61)");
  EXPECT_EQ(asked.status, 400);
  EXPECT_EQ(asked.json.at("error").at("code"), Json("context_length_exceeded"));
  const std::string most = chat(R"("max_tokens": 9223372036854775807)").error_message();
  EXPECT_THAT(most, HasSubstr("9223372036854775807 in the completion"));
  EXPECT_THAT(most, testing::Not(HasSubstr("requested -")));
  std::string words;
  for (int i = 0; i < 70; ++i) words += " a";
  const std::string body = R"({"messages": [{"role": "user", "content": ")" + words + R"("}])";
  EXPECT_EQ(post("/v1/chat/completions", body + "}").json.at("error").at("code"), Json("context_length_exceeded"));
  EXPECT_EQ(post("/v1/chat/completions", body + R"(, "truncate_prompt_tokens": 3})").status, 200);
  EXPECT_THAT(engine->last().prompt, ElementsAre(5, 5, 30));
}

TEST_F(ChatTest, ReadsMessages) {
  const auto prompt = [&](const std::string& messages) {
    const Answer answer = post("/v1/chat/completions", R"({"messages": )" + messages + "}");
    EXPECT_EQ(answer.status, 200) << answer.raw.body;
    return engine->last().prompt;
  };
  EXPECT_THAT(
      prompt(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])"),
      ElementsAre(3, 5, 6, 30));
  // Arguments are an object for the template, which writes x.
  EXPECT_THAT(prompt(R"([{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
      "function": {"name": "f", "arguments": "{\"x\": \"c\"}"}}]}, {"role": "tool", "tool_call_id": "1",
      "content": "d"}])"),
              ElementsAre(3, 7, 3, 8, 30));
  const auto refused = [&](const std::string& message) {
    const Answer answer = post("/v1/chat/completions", R"({"messages": [)" + message + "]}");
    EXPECT_EQ(answer.status, 400) << answer.raw.body;
    return answer.error_param();
  };
  EXPECT_EQ(refused(R"({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(refused(R"({"role": "robot", "content": "a"})"), "messages[0].role");
  EXPECT_EQ(refused(R"({"role": "user"})"), "messages[0].content");
  EXPECT_EQ(refused(R"({"role": "user", "content": 5})"), "messages[0].content");
  EXPECT_EQ(refused(R"({"role": "assistant", "audio": {"id": "x"}, "content": "a"})"), "messages[0].audio");
}

TEST_F(ChatTest, PassesVariablesToTheTemplate) {
  chat(R"("chat_template_kwargs": {"extra": "e "}, "add_generation_prompt": false, "add_special_tokens": true)");
  EXPECT_THAT(engine->last().prompt, ElementsAre(1, 3, 5, 6, 9));
  const Answer echo = post("/v1/chat/completions", R"({"messages": [{"role": "assistant", "content": "a b"}],
      "continue_final_message": true, "add_generation_prompt": false, "echo": true})");
  EXPECT_THAT(engine->last().prompt, ElementsAre(3, 5, 6));
  EXPECT_EQ(echo.json.at("choices").at(0).at("message").at("content"), Json("a bc d"));
  options.trust_request_chat_template = true;
  restart();
  chat(R"("chat_template": "q r")");
  EXPECT_THAT(engine->last().prompt, ElementsAre(21, 22));
}

TEST_F(ChatTest, StreamsChunks) {
  const Answer answer = chat(R"("stream": true)");
  EXPECT_TRUE(answer.is_done);
  ASSERT_EQ(answer.events.size(), 3U);
  const auto delta = [&](std::size_t i) { return answer.events[i].at("choices").at(0).at("delta"); };
  EXPECT_EQ(delta(0), Json::parse(R"({"role": "assistant", "content": ""})"));
  EXPECT_EQ(delta(1), Json::parse(R"({"content": "c "})"));
  EXPECT_EQ(delta(2), Json::parse(R"({"content": "d"})"));
  EXPECT_TRUE(answer.events[1].at("choices").at(0).at("finish_reason").is_null());
  EXPECT_EQ(answer.events[2].at("choices").at(0).at("finish_reason"), Json("stop"));
  EXPECT_EQ(answer.events[0].at("object"), Json("chat.completion.chunk"));
  EXPECT_EQ(answer.events[0].at("id"), answer.events[2].at("id"));
  EXPECT_FALSE(answer.events[0].contains("usage"));
  for (const Json& event : answer.events) {
    EXPECT_EQ(event.at("id"), answer.events[0].at("id"));
    EXPECT_EQ(event.at("object"), Json("chat.completion.chunk"));
    EXPECT_EQ(event.at("model"), Json("model"));
    EXPECT_TRUE(event.at("choices").at(0).at("logprobs").is_null());
    EXPECT_EQ(event.at("choices").at(0).at("index"), Json(0));
  }
}

TEST_F(ChatTest, StreamsUsage) {
  const Answer once = chat(R"("stream": true, "n": 2, "stream_options": {"include_usage": true})");
  for (std::size_t i = 0; i + 1 < once.events.size(); ++i) EXPECT_TRUE(once.events[i].at("usage").is_null());
  EXPECT_EQ(once.events.back().at("choices").size(), 0U);
  EXPECT_EQ(once.events.back().at("usage").at("prompt_tokens"), Json(4));
  EXPECT_EQ(once.events.back().at("usage").at("completion_tokens"), Json(6));
  const Answer always =
      chat(R"("stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true})");
  EXPECT_EQ(always.events[1].at("usage").at("completion_tokens"), Json(1));
  EXPECT_EQ(always.events[2].at("usage").at("completion_tokens"), Json(3));
  EXPECT_EQ(chat(R"("stream": true, "stream_options": {"other": 1})").error_param(), "stream_options.other");
}

TEST_F(ChatTest, GivesSeveralChoicesWithSeedsOfTheirOwn) {
  const Answer answer = chat(R"("n": 3, "seed": 5)");
  ASSERT_EQ(answer.json.at("choices").size(), 3U);
  EXPECT_EQ(answer.json.at("choices").at(2).at("index"), Json(2));
  EXPECT_EQ(answer.json.at("usage").at("prompt_tokens"), Json(4));
  EXPECT_EQ(answer.json.at("usage").at("completion_tokens"), Json(9));
  std::vector<uint64_t> seeds;
  for (const Request& request : engine->requests()) seeds.push_back(*request.sampling.seed);
  EXPECT_THAT(seeds, ElementsAre(5, 6, 7));
}

TEST_F(ChatTest, TellsLogprobs) {
  RequestOutput output = piece("c", {7}, Finish::Length);
  output.logprobs = {logprob(7, -0.5F, {{7, -0.5F}, {8, -1.0F}})};
  output.prompt_logprobs = {logprob(5, -2.0F, {{6, -1.0F}})};
  engine->script = {output};
  const Answer answer = chat(R"("logprobs": true, "top_logprobs": 2, "prompt_logprobs": 1, "return_token_ids": true)");
  const Json& choice = answer.json.at("choices").at(0);
  EXPECT_EQ(choice.at("logprobs").at("content"),
            Json::parse(R"([{"token": "c", "logprob": -0.5, "bytes": [99], "top_logprobs": [
                {"token": "c", "logprob": -0.5, "bytes": [99]}, {"token": "d", "logprob": -1.0, "bytes": [100]}]}])"));
  EXPECT_EQ(choice.at("finish_reason"), Json("length"));
  EXPECT_EQ(choice.at("token_ids"), Json::parse("[7]"));
  EXPECT_EQ(answer.json.at("prompt_token_ids"), Json::parse("[3, 5, 6, 30]"));
  EXPECT_EQ(answer.json.at("prompt_logprobs"),
            Json::parse(R"([null, {"5": {"logprob": -2.0, "rank": 1, "decoded_token": "a"},
                                   "6": {"logprob": -1.0, "rank": 1, "decoded_token": "b"}}])"));
  const Answer ids = chat(R"("logprobs": true, "return_tokens_as_token_ids": true, "stream": true)");
  const Json& chunk = ids.events.back().at("choices").at(0);
  EXPECT_EQ(chunk.at("logprobs").at("content").at(0).at("token"), Json("token_id:7"));
}

TEST_F(ChatTest, TellsWhyItStopped) {
  RequestOutput output = piece("c", {7}, Finish::Stop);
  output.stop_reason = std::string("xx");
  engine->script = {output};
  EXPECT_EQ(chat().json.at("choices").at(0).at("stop_reason"), Json("xx"));
  output.stop_reason = int32_t{4};
  engine->script = {output};
  EXPECT_EQ(chat(R"("stream": true)").events.back().at("choices").at(0).at("stop_reason"), Json(4));
}

TEST_F(ChatTest, SplitsToolCalls) {
  options.chat_template = kToolTemplate;
  engine->script = {piece("e <tool_call>\n{\"name\": \"f\", \"argu", {5}),
                    piece("ments\": {\"x\": 1}}\n</tool_call>", {6}, Finish::Stop)};
  const Answer answer = chat(tools_);
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  const Json& message = answer.json.at("choices").at(0).at("message");
  ASSERT_EQ(message.at("tool_calls").size(), 1U) << answer.raw.body;
  const Json& call = message.at("tool_calls").at(0);
  EXPECT_EQ(call.at("function"), Json::parse(R"({"name": "f", "arguments": "{\"x\": 1}"})"));
  EXPECT_FALSE(call.at("id").as_string().empty());
  EXPECT_EQ(answer.json.at("choices").at(0).at("finish_reason"), Json("tool_calls"));
  EXPECT_FALSE(engine->last().sampling.grammar);

  const Answer stream = chat(tools_ + R"(, "stream": true)");
  std::string name, arguments, content;
  for (const Json& event : stream.events) {
    const Json& delta = event.at("choices").at(0).at("delta");
    if (const Json* text = delta.find("content")) content += text->as_string();
    const Json* calls = delta.find("tool_calls");
    if (!calls) continue;
    EXPECT_EQ(calls->at(0).at("index"), Json(0));
    if (const Json* given = calls->at(0).at("function").find("name")) name += given->as_string();
    arguments += calls->at(0).at("function").at("arguments").as_string();
  }
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, "{\"x\": 1}");
  EXPECT_THAT(content, ::testing::StartsWith("e"));
  EXPECT_EQ(stream.events.back().at("choices").at(0).at("finish_reason"), Json("tool_calls"));
}

TEST_F(ChatTest, ForcesToolCallsByAGrammar) {
  engine->script = {
      piece(R"([{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}])", {5}, Finish::Stop)};
  const Answer required = chat(tools_ + R"(, "tool_choice": "required")");
  ASSERT_EQ(required.status, 200) << required.raw.body;
  EXPECT_EQ(required.json.at("choices").at(0).at("message").at("tool_calls").size(), 2U) << required.raw.body;
  EXPECT_EQ(required.json.at("choices").at(0).at("finish_reason"), Json("tool_calls"));
  ASSERT_TRUE(engine->last().sampling.grammar);
  EXPECT_THAT(engine->last().sampling.grammar->text, HasSubstr("\\\"g\\\""));
  const Answer one = chat(tools_ + R"(, "tool_choice": "required", "parallel_tool_calls": false)");
  EXPECT_EQ(one.json.at("choices").at(0).at("message").at("tool_calls").size(), 1U);

  engine->script = {piece(R"({"name": "f", "arguments": {"x": 1}})", {5}, Finish::Stop)};
  const Answer named = chat(tools_ + R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(named.json.at("choices").at(0).at("message").at("tool_calls").size(), 1U) << named.raw.body;
  EXPECT_EQ(named.json.at("choices").at(0).at("finish_reason"), Json("stop"));
  EXPECT_THAT(engine->last().sampling.grammar->text, ::testing::Not(HasSubstr("\\\"g\\\"")));
  const auto param = [&](const std::string& rest) { return chat(tools_ + rest).error_param(); };
  EXPECT_EQ(param(R"(, "tool_choice": {"type": "function", "function": {"name": "h"}})"), "tool_choice");
  EXPECT_EQ(param(R"(, "tool_choice": "maybe")"), "tool_choice");
  EXPECT_EQ(param(""), "tool_choice");  // auto, and the template has no format of calls
  EXPECT_EQ(param(R"(, "tool_choice": "required", "response_format": {"type": "json_object"})"), "tool_choice");
}

TEST_F(ChatTest, LeavesToolsOutWhenNoneMayBeCalled) {
  EXPECT_EQ(chat(tools_ + R"(, "tool_choice": "none")").status, 200);
  EXPECT_THAT(engine->last().prompt, ElementsAre(3, 5, 6, 30));
  EXPECT_FALSE(engine->last().sampling.grammar);
}

TEST_F(ChatTest, SplitsReasoning) {
  options.chat_template = kThinkTemplate;
  engine->script = {piece("e f", {9}), piece("</think>c", {10}, Finish::Stop)};
  const Json message = chat().json.at("choices").at(0).at("message");
  EXPECT_EQ(message.at("reasoning_content"), Json("e f"));
  EXPECT_EQ(message.at("reasoning"), Json("e f"));
  EXPECT_EQ(message.at("content"), Json("c"));
  EXPECT_FALSE(chat(R"("include_reasoning": false)").json.at("choices").at(0).at("message").contains("reasoning"));
  chat(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}})");
  const GrammarSpec grammar = *engine->last().sampling.grammar;
  EXPECT_EQ(grammar.kind, GrammarSpec::Kind::StructuralTag);
  const Json elements = Json::parse(grammar.text).at("format").at("elements");
  EXPECT_EQ(elements.at(0).at("elements").at(0).at("end"), Json("</think>"));
  EXPECT_EQ(elements.at(1).at("json_schema"), Json::parse(R"({"type": "array"})"));
}

TEST_F(ChatTest, BindsAnswersToGrammars) {
  using Kind = GrammarSpec::Kind;
  const auto grammar = [&](const std::string& fields) {
    const Answer answer = chat(fields);
    EXPECT_EQ(answer.status, 200) << answer.raw.body;
    return engine->last().sampling.grammar.value_or(
        GrammarSpec{.kind = Kind::JsonObject, .text = "none", .choices = {}});
  };
  EXPECT_EQ(grammar(R"("response_format": {"type": "text"})").text, "none");
  EXPECT_EQ(grammar(R"("response_format": {"type": "json_object"})"), (GrammarSpec{}));
  const GrammarSpec schema = grammar(
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"a": 1}}})");
  EXPECT_EQ(schema.kind, Kind::JsonSchema);
  EXPECT_EQ(Json::parse(schema.text), Json::parse(R"({"a": 1})"));
  EXPECT_EQ(grammar(R"("guided_regex": "a+")"), (GrammarSpec{.kind = Kind::Regex, .text = "a+", .choices = {}}));
  EXPECT_EQ(grammar(R"("guided_choice": ["a", "b"])"),
            (GrammarSpec{.kind = Kind::Choice, .text = {}, .choices = {"a", "b"}}));
  EXPECT_EQ(grammar(R"("guided_grammar": "root ::= x")").kind, Kind::Ebnf);
  EXPECT_EQ(grammar(R"("guided_json": "{}")"), (GrammarSpec{.kind = Kind::JsonSchema, .text = "{}", .choices = {}}));
  EXPECT_EQ(grammar(R"("structured_outputs": {"regex": "b"})").text, "b");
  EXPECT_EQ(grammar(R"("structured_outputs": {"json_object": true})"), (GrammarSpec{}));
  EXPECT_EQ(chat(R"("guided_regex": "a", "guided_choice": ["a"])").status, 400);
  EXPECT_EQ(chat(R"("structured_outputs": {"other": 1})").error_param(), "structured_outputs.other");
  EXPECT_EQ(chat(R"("response_format": {"type": "xml"})").error_param(), "response_format.type");
  EXPECT_EQ(chat(R"("response_format": {"type": "json_schema"})").error_param(), "response_format.json_schema");
}

}  // namespace
}  // namespace easydel::serve::testing_support
