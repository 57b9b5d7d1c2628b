#include "easydel/serve/openai/token_logprobs.h"
#include "tests/serve/openai_fixture.h"

namespace easydel::serve::testing_support {
namespace {

using ::testing::ElementsAre;

class CompletionTest : public ServiceTest {
 protected:
  CompletionTest() { engine->script = {piece(" c", {7}), piece(" d", {8}, Finish::Length)}; }
};

TEST_F(CompletionTest, AnswersInOpenAisShape) {
  const Answer answer = complete(R"("prompt": "a b")");
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  EXPECT_EQ(answer.json.at("object"), Json("text_completion"));
  EXPECT_THAT(answer.json.at("id").as_string(), ::testing::StartsWith("cmpl-"));
  EXPECT_EQ(answer.json.at("choices"), Json::parse(R"([{"index": 0, "text": " c d", "logprobs": null,
      "finish_reason": "length", "stop_reason": null}])"));
  EXPECT_EQ(answer.json.at("usage").at("total_tokens"), Json(5));
  EXPECT_THAT(engine->last().prompt, ElementsAre(1, 5, 6));
  EXPECT_EQ(engine->last().sampling.max_tokens, 16);
}

TEST_F(CompletionTest, TakesEveryKindOfPrompt) {
  const auto prompts = [&](const std::string& prompt) {
    const std::size_t before = engine->requests().size();
    EXPECT_EQ(complete("\"prompt\": " + prompt).status, 200) << prompt;
    std::vector<std::vector<int32_t>> found;
    const auto all = engine->requests();
    for (std::size_t i = before; i < all.size(); ++i) found.push_back(all[i].prompt);
    return found;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_THAT(prompts("\"a\""), ElementsAre(Ids{1, 5}));
  EXPECT_THAT(prompts("[\"a\", \"b\"]"), ElementsAre(Ids{1, 5}, Ids{1, 6}));
  EXPECT_THAT(prompts("[5, 6]"), ElementsAre(Ids{5, 6}));
  EXPECT_THAT(prompts("[[5], [6, 7]]"), ElementsAre(Ids{5}, Ids{6, 7}));
  EXPECT_THAT(prompts("\"a\", \"add_special_tokens\": false"), ElementsAre(Ids{5}));
  for (const char* bad : {"[]", "[[]]", "5", "[31]", "[-1]", "[5, \"a\"]", "[[5, \"a\"]]", "null", "{}"}) {
    const Answer answer = complete(std::string("\"prompt\": ") + bad);
    EXPECT_EQ(answer.status, 400) << bad;
    EXPECT_EQ(answer.error_param(), "prompt") << bad;
  }
}

TEST_F(CompletionTest, NumbersChoicesOfAllPrompts) {
  const Answer answer = complete(R"("prompt": ["a", "b c"], "n": 2, "seed": 1, "return_token_ids": true)");
  ASSERT_EQ(answer.json.at("choices").size(), 4U);
  EXPECT_EQ(answer.json.at("choices").at(3).at("index"), Json(3));
  EXPECT_EQ(answer.json.at("choices").at(2).at("prompt_token_ids"), Json::parse("[1, 6, 7]"));
  EXPECT_EQ(answer.json.at("choices").at(2).at("token_ids"), Json::parse("[7, 8]"));
  EXPECT_EQ(answer.json.at("usage").at("prompt_tokens"), Json(5));
  EXPECT_EQ(answer.json.at("usage").at("completion_tokens"), Json(8));
}

TEST_F(CompletionTest, EchoesWithLogprobs) {
  RequestOutput output = piece(" c", {7}, Finish::Length);
  output.logprobs = {logprob(7, -0.5F, {{8, -0.25F}})};
  output.prompt_logprobs = {logprob(5, -2.0F, {{6, -1.0F}}), logprob(6, -3.0F, {{6, -3.0F}})};
  engine->script = {output};
  const Answer answer = complete(R"("prompt": "a b", "echo": true, "logprobs": 1, "max_tokens": 1)");
  EXPECT_EQ(engine->last().sampling.prompt_logprobs, 1);
  const Json& choice = answer.json.at("choices").at(0);
  EXPECT_EQ(choice.at("text"), Json("a b c"));
  EXPECT_EQ(choice.at("logprobs"),
            Json::parse(R"({"text_offset": [0, 3, 4, 5], "token_logprobs": [null, -2.0, -3.0, -0.5],
      "tokens": ["<s>", "a", "b", "c"],
      "top_logprobs": [null, {"b": -1.0, "a": -2.0}, {"b": -3.0}, {"d": -0.25, "c": -0.5}]})"));
  EXPECT_FALSE(choice.contains("prompt_logprobs"));

  const Answer alone = complete(R"("prompt": [5, 6, 5], "echo": true, "logprobs": 1, "max_tokens": 0)");
  EXPECT_EQ(engine->last().sampling.max_tokens, 1);
  EXPECT_EQ(alone.json.at("choices").at(0).at("text"), Json("a b a"));
  EXPECT_EQ(alone.json.at("choices").at(0).at("logprobs").at("tokens").size(), 3U);
  EXPECT_EQ(alone.json.at("choices").at(0).at("finish_reason"), Json("length"));
  EXPECT_EQ(alone.json.at("usage").at("completion_tokens"), Json(0));
  EXPECT_EQ(complete(R"("prompt": "a", "max_tokens": 0)").error_param(), "max_tokens");
}

TEST_F(CompletionTest, StreamsChunks) {
  RequestOutput first = piece(" c", {7});
  first.logprobs = {logprob(7, -0.5F, {})};
  engine->script = {first, piece("", {2}, Finish::Stop)};
  const Answer answer = complete(R"("prompt": ["a", "b"], "stream": true, "echo": true, "logprobs": 0,
                                    "stream_options": {"include_usage": true})");
  EXPECT_TRUE(answer.is_done);
  ASSERT_EQ(answer.events.size(), 5U) << answer.raw.body;
  const Json& choice = answer.events[0].at("choices").at(0);
  EXPECT_EQ(choice.at("text"), Json("a c"));
  EXPECT_EQ(choice.at("logprobs").at("tokens"), Json::parse(R"(["<s>", "c"])"));  // the script has none of the prompt
  EXPECT_EQ(choice.at("logprobs").at("text_offset"), Json::parse("[0, 3]"));
  EXPECT_EQ(answer.events[1].at("choices").at(0).at("finish_reason"), Json("stop"));
  EXPECT_EQ(answer.events[2].at("choices").at(0).at("index"), Json(1));
  EXPECT_TRUE(answer.events[0].at("usage").is_null());
  EXPECT_EQ(answer.events[4].at("usage").at("prompt_tokens"), Json(4));
}

TEST_F(CompletionTest, StreamsTextAlone) {
  const Answer answer = complete(R"("prompt": "a", "stream": true)");
  ASSERT_EQ(answer.events.size(), 2U);
  Json first = answer.events[0], second = answer.events[1];
  EXPECT_EQ(first.at("choices"), Json::parse(R"([{"index": 0, "text": " c", "logprobs": null, "finish_reason": null,
                                                  "stop_reason": null}])"));
  EXPECT_EQ(second.at("choices"), Json::parse(R"([{"index": 0, "text": " d", "logprobs": null,
                                                   "finish_reason": "length", "stop_reason": null}])"));
  first["choices"] = second["choices"] = Json();
  EXPECT_EQ(first, second);
}

TEST_F(CompletionTest, TellsPromptLogprobs) {
  RequestOutput output = piece(" c", {7}, Finish::Stop);
  output.prompt_logprobs = {logprob(5, -2.0F, {})};
  engine->script = {output};
  const Answer answer = complete(R"("prompt": "a", "prompt_logprobs": 0)");
  EXPECT_EQ(answer.json.at("choices").at(0).at("prompt_logprobs"),
            Json::parse(R"([null, {"5": {"logprob": -2.0, "rank": 1, "decoded_token": "a"}}])"));
  EXPECT_EQ(complete(R"("prompt": "a", "prompt_logprobs": 0, "stream": true)").error_param(), "prompt_logprobs");
}

TEST_F(CompletionTest, NamesTheFieldAtFault) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{{"suffix", "\"x\""},
                                                                                     {"best_of", "2"},
                                                                                     {"logprobs", "21"},
                                                                                     {"logprobs", "true"},
                                                                                     {"echo", "1"},
                                                                                     {"max_tokens", "-1"},
                                                                                     {"max_tokens", "63"},
                                                                                     {"messages", "[]"},
                                                                                     {"tools", "[1]"},
                                                                                     {"prompt_embeds", "\"\""}}) {
    const Answer answer = complete("\"prompt\": \"a\", \"" + field + "\": " + value);
    EXPECT_EQ(answer.status, 400) << field;
    if (answer.status != 400) continue;
    EXPECT_EQ(answer.error_param(), field);
  }
  EXPECT_EQ(complete(R"("prompt": "a", "best_of": 2, "n": 2)").status, 200);
  EXPECT_EQ(complete(R"("model": "model")").error_param(), "prompt");
}

// A vocabulary of single bytes and pieces, as byte-level and sentencepiece ones have them.
class PieceTokenizer : public Tokenizer {
 public:
  explicit PieceTokenizer(std::string token, std::string decoded)
      : token_(std::move(token)), decoded_(std::move(decoded)) {}
  Encoding encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::string decode(std::span<const int32_t>, bool) const override { return decoded_; }
  std::optional<int32_t> token_to_id(std::string_view) const override { return 0; }
  std::optional<std::string> id_to_token(int32_t) const override { return token_; }
  int64_t vocab_size() const override { return 1; }
  bool is_special(int32_t) const override { return false; }

 private:
  std::string token_, decoded_;
};

TEST(TokenBytes, AreThoseOfTheToken) {
  EXPECT_EQ(token_bytes(PieceTokenizer("Ġa", " a"), 0), " a");
  EXPECT_EQ(token_bytes(PieceTokenizer("â", "\xEF\xBF\xBD"), 0), "\xE2");
  EXPECT_EQ(token_text(PieceTokenizer("â", "\xEF\xBF\xBD"), 0), "\xEF\xBF\xBD");
  EXPECT_EQ(token_bytes(PieceTokenizer("ł", "\xEF\xBF\xBD"), 0), "\xA0");
  EXPECT_EQ(token_bytes(PieceTokenizer("<0xE2>", "\xEF\xBF\xBD"), 0), "\xE2");
  EXPECT_EQ(token_bytes(PieceTokenizer("\xE2\x96\x81hi", "hi"), 0), " hi");
}

}  // namespace
}  // namespace easydel::serve::testing_support
