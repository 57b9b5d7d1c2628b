// Bodies that nobody would write: each is answered, and none is the server's fault.
#include <random>

#include "tests/serve/openai_fixture.h"

namespace easydel::serve::testing_support {
namespace {

constexpr int kBodies = 1000;  // of each path

const char* const kChatBody = R"({"model": "model", "messages": [
    {"role": "system", "content": "a"},
    {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
     "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "d"}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": true,
     "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}],
  "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": true,
  "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "typical_p": 0.5, "repetition_penalty": 1.1,
  "presence_penalty": 1, "frequency_penalty": 1, "logit_bias": {"5": 1}, "seed": 3, "n": 2, "max_tokens": 5,
  "max_completion_tokens": 6, "min_tokens": 1, "stop": ["x"], "stop_token_ids": [4], "ignore_eos": true,
  "logprobs": true, "top_logprobs": 2, "stream": true, "stream_options": {"include_usage": true},
  "priority": 1, "user": "u", "metadata": {}, "documents": [{"text": "a"}], "chat_template_kwargs": {"extra": "e"},
  "add_generation_prompt": true, "continue_final_message": false, "truncate_prompt_tokens": 7, "request_id": "r",
  "return_token_ids": true, "echo": false})";
const char* const kCompletionBody = R"({"model": "model", "prompt": ["a b", "c"], "echo": true, "logprobs": 2,
  "max_tokens": 3, "n": 2, "best_of": 2, "seed": -5, "stop": "x", "stream": false, "prompt_logprobs": 1,
  "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
  "add_special_tokens": true, "return_tokens_as_token_ids": true, "temperature": 0})";
const char* const kTokenizeBody = R"({"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": true,
  "add_special_tokens": true, "return_token_strs": true})";

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string body(const char* source) {
    Json json = Json::parse(source);
    for (std::size_t i = 0; i <= below(2); ++i) change(json);
    std::string text = json.dump();
    if (below(4) == 0) text[below(text.size())] = static_cast<char>(below(256));
    if (below(16) == 0) text.resize(below(text.size()));
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  Json value() {
    static const std::vector<Json> values{Json(),
                                          Json(true),
                                          Json(0),
                                          Json(-1),
                                          Json(1),
                                          Json(31),
                                          Json(1e308),
                                          Json(-0.0),
                                          Json(0.3),
                                          Json(""),
                                          Json("a"),
                                          Json("{"),
                                          Json("none"),
                                          Json("required"),
                                          Json("\xF0\x9F\x98\x80"),
                                          Json::array(),
                                          Json::object(),
                                          Json::array({Json::array()}),
                                          Json::array({1, 2}),
                                          Json::array({"a", "a"}),
                                          Json(std::numeric_limits<int64_t>::max()),
                                          Json(std::numeric_limits<int64_t>::min()),
                                          Json(std::string(300, 'a')),
                                          Json::object({{"type", "json_object"}}),
                                          Json::object({{"type", 1}}),
                                          Json::object({{"a", Json::object({{"b", Json::array()}})}})};
    return values[below(values.size())];
  }

  // Goes down at random, and changes what it comes to.
  void change(Json& json) {
    const bool goes_down = json.size() > 0 && below(5) != 0;
    if (!goes_down) {
      json = value();
    } else if (json.is_array()) {
      change(json.as_array()[below(json.size())]);
    } else {
      auto entry = json.as_object().begin() + static_cast<std::ptrdiff_t>(below(json.size()));
      const std::string key = entry->first;
      if (below(6) == 0) {
        json.as_object().erase(key);
      } else {
        change(entry->second);
      }
    }
  }

  std::mt19937_64 random_;
};

class AnyBodyTest : public ServiceTest {
 protected:
  // Answers to `path`, by status.
  std::map<int, int> statuses(const std::string& path, const char* source) {
    std::map<int, int> counts;
    Mutator mutator(11);
    for (int i = 0; i < kBodies; ++i) {
      const std::string body = mutator.body(source);
      const HttpResponse response = start("POST", path, body)->wait();
      ++counts[response.status];
      EXPECT_TRUE(response.status == 200 || response.status == 400 || response.status == 404)
          << response.status << " " << response.body << "\n"
          << body;
      if (response.status == 200) continue;
      EXPECT_FALSE(read_answer(response).error_message().empty());
    }
    EXPECT_GT(counts[200], kBodies / 50) << path;
    EXPECT_GT(counts[400], kBodies / 50) << path;
    return counts;
  }
};

TEST_F(AnyBodyTest, IsAnswered) {
  options.tool_parser = "hermes";
  engine->facts.max_model_len = 1000;
  engine->script = {piece("c", {7}), piece("", {2}, Finish::Stop)};
  statuses("/v1/chat/completions", kChatBody);
  statuses("/v1/completions", kCompletionBody);
  statuses("/tokenize", kTokenizeBody);
}

}  // namespace
}  // namespace easydel::serve::testing_support
