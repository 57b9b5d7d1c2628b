// Completions in which a policy calls tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/data/rows/example.h"
#include "easydel/trainers/rollouts/completion_rows.h"
#include "easydel/trainers/rollouts/tools/tool_box.h"
#include "easydel/trainers/rollouts/tools/tool_rollouts.h"
#include "easydel/trainers/rollouts/tools/tool_use.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<int64_t>;

// A program of `body`, which has the call as `call` and calls answer() once for each.
Json tool(const std::string& name, const std::string& body, double timeout = 20) {
  const std::string code =
      "import sys, json, time\n"
      "def answer(x): print(json.dumps(x), flush=True)\n"
      "for line in sys.stdin:\n  call = json.loads(line)\n  " +
      body + "\n";
  return Json::object({{"name", name}, {"command", Json::array({"python3", "-c", code})}, {"timeout", timeout}});
}

const Json kAdd = tool("add", "answer(str(call['arguments']['a'] + call['arguments']['b']))");
const Json kBroken = tool("broken", "answer({'error': 'out of order'})");

ToolCall call(const std::string& name, const std::string& arguments) {
  return {.name = name, .arguments = Json::parse(arguments), .problem = ""};
}

TEST(Tools, AnswerCallsInTheirOrder) {
  ToolBox box(Json::array({kAdd, kBroken}));
  const auto answers = box.call({call("add", R"({"a": 1, "b": 2})"), call("broken", "{}"), call("none", "{}"),
                                 call("add", R"({"a": 40, "b": 2})")});
  std::vector<std::string> texts;
  std::vector<bool> failed;
  for (const ToolAnswer& answer : answers) {
    texts.push_back(answer.text);
    failed.push_back(answer.has_failed);
  }
  EXPECT_THAT(texts, ElementsAre("3", R"({"error": "out of order"})", R"({"error": "Tool none not found."})", "42"));
  EXPECT_THAT(failed, ElementsAre(false, true, true, false));
  EXPECT_EQ(box.schemas().at(std::size_t{0}).at("function").at("name"), Json("add"));
}

TEST(Tools, ThatFailAreNamed) {
  const auto error_of = [](const Json& given, const std::string& text) {
    EXPECT_THAT([&] { ToolBox(Json::array({given})).call({call("t", "{}")}); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  error_of(tool("t", "time.sleep(60)", 0.5), "did not answer within its timeout of 0.5 seconds. Nothing was trained");
  error_of(tool("t", "sys.exit(3)"), "ended with status 3 after 0 answers");
  error_of(tool("t", "print('well', flush=True)"), "must reply to each call with a line of JSON; got \"well\"");
  error_of(Json::object({{"name", "t"}, {"command", "no-such-program"}}),
           "[tools] \"no-such-program\" cannot be started: ");
  error_of(Json::object({{"name", "t"}}), "[tools] t needs command.");
  error_of(Json::object({{"name", "t"}, {"command", "x"}, {"args", 1}}), "[tools] args is not a setting of t; known: ");
  EXPECT_THAT([] { ToolBox(Json::array({kAdd, kAdd})); },
              ThrowsMessage<ConfigError>(HasSubstr("two tools named \"add\"")));
}

// Words apart by spaces. A turn is "role words </s>"; the words of a call are tokens.
class ToolRolloutsTest : public testing::Test {
 protected:
  static constexpr const char* kCall =
      R"(<tool_call> {"name": "add", "arguments": {"a": 1, "b": 2}} </tool_call> </s>)";

  void SetUp() override {
    words_ = {"<pad>", "<s>", "</s>", "<unk>", "user", "assistant", "tool", "x", "3", "so", "it", "is"};
    for (const std::string& each : split(std::string(kCall) + R"( "broken", {}} {"error": "out of order"})")) {
      if (std::find(words_.begin(), words_.end(), each) == words_.end()) words_.push_back(each);
    }
    Json vocabulary = Json::object(), added = Json::array();
    for (std::size_t i = 0; i < words_.size(); ++i) vocabulary[words_[i]] = static_cast<int64_t>(i);
    for (const char* token : {"<pad>", "<s>", "</s>", "<unk>"})
      added.push_back(Json::object({{"id", vocabulary.at(token)},
                                    {"content", token},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}}));
    const Json file =
        Json::object({{"version", "1.0"},
                      {"truncation", Json()},
                      {"padding", Json()},
                      {"added_tokens", added},
                      {"normalizer", Json()},
                      {"pre_tokenizer", Json::object({{"type", "WhitespaceSplit"}})},
                      {"post_processor", Json()},
                      {"decoder", Json()},
                      {"model", Json::object({{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}})}});
    write_file_atomically(directory_ / "tokenizer.json", file.dump());
    write_tokenizer_config(
        "{% for m in messages %}{{ m.role }} {{ m.content }} {% if m.tool_calls %}<tool_call> </tool_call> {% endif %}"
        "</s> {% endfor %}{% if add_generation_prompt %}assistant {% endif %}");
    arguments_.max_completion_length = 24;
  }

  void write_tokenizer_config(const std::string& chat_template) {
    const Json config = Json::object(
        {{"pad_token", "<pad>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", chat_template}});
    write_file_atomically(directory_ / "tokenizer_config.json", config.dump());
  }

  static std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> words(1);
    for (const char c : text) {
      if (c != ' ') {
        words.back() += c;
      } else if (!words.back().empty()) {
        words.emplace_back();
      }
    }
    return words;
  }
  Ids ids(const std::string& text) const {
    Ids found;
    for (const std::string& word : split(text))
      found.push_back(std::find(words_.begin(), words_.end(), word) - words_.begin());
    return found;
  }

  // The policy writes `texts`, one after the other, whatever it is asked for; what does not end with </s> was cut off.
  RolloutResult roll(const std::vector<std::string>& texts, const Json& tools = Json::array({kAdd, kBroken})) {
    std::size_t next = 0;
    const LimitedRollouts policy = [&](const std::vector<Ids>& prompts, int64_t group, const RandomKey&,
                                       const std::vector<int64_t>& limits, CompletionSink*) {
      RolloutResult result;
      for (std::size_t p = 0; p < prompts.size(); ++p) {
        asked.push_back(prompts[p]);
        if (!limits.empty()) this->limits.push_back(limits[p]);
        std::vector<Completion> completions;
        for (int64_t i = 0; i < group; ++i) {
          Completion completion{.ids = ids(texts.at(next++))};
          completion.logps.assign(completion.ids.size(), -1.0);
          completion.is_truncated = completion.ids.back() != 2;
          completions.push_back(std::move(completion));
        }
        result.completions.push_back(std::move(completions));
      }
      return result;
    };
    const auto tokenizer = AutoTokenizer::from_directory(directory_.path());
    const auto rollouts =
        make_tool_rollouts(policy, std::make_shared<ToolBox>(tools), tiny_llama(), tokenizer, arguments_);
    const RolloutResult result =
        rollouts({ids("user x </s> assistant")}, static_cast<int64_t>(group_), RandomKey(1), nullptr);
    EXPECT_EQ(next, texts.size());
    return result;
  }

  TemporaryDirectory directory_;
  std::vector<std::string> words_;
  RolloutArguments arguments_;
  std::size_t group_ = 1;
  std::vector<Ids> asked;
  std::vector<int64_t> limits;
};

TEST_F(ToolRolloutsTest, GoOnAfterTheAnswers) {
  group_ = 2;
  const RolloutResult result = roll({kCall, "so 3 </s>", "so it is 3 </s>"});
  const Completion& called = result.completions[0][0];
  const std::string behind = "tool 3 </s> assistant";
  EXPECT_EQ(called.ids, ids(std::string(kCall) + " " + behind + " so it is 3 </s>"));
  const auto first = static_cast<std::ptrdiff_t>(ids(kCall).size());
  std::vector<double> own(called.ids.size(), 1);
  std::fill(own.begin() + first, own.begin() + first + 4, 0);
  EXPECT_EQ(called.own, own);
  EXPECT_EQ(called.own_tokens(), static_cast<double>(called.ids.size()) - 4);
  EXPECT_EQ(called.logps.size(), called.ids.size());
  EXPECT_EQ(called.logps[static_cast<std::size_t>(first)], 0);
  EXPECT_FALSE(called.is_truncated);
  EXPECT_THAT(called.text, HasSubstr("so it is 3"));
  EXPECT_EQ(result.completions[0][1].ids, ids("so 3 </s>"));
  EXPECT_EQ(asked[1], ids("user x </s> assistant " + std::string(kCall) + " " + behind));
  EXPECT_THAT(limits, ElementsAre(24 - static_cast<int64_t>(ids(kCall).size()) - 4));
  EXPECT_EQ(result.metrics.at("tools/call_frequency"), 0.5);
  EXPECT_EQ(result.metrics.at("tools/failure_frequency"), 0);
  // Tokens of tools have no label and no weight.
  const Ids prompt = ids("user x </s> assistant");
  const BatchRow row = completion_row(prompt, called, arguments_);
  EXPECT_EQ(row.numbers.at("tokens"), called.own_tokens());
  for (std::size_t i = 0; i < called.ids.size(); ++i) {
    EXPECT_EQ(row.labels[prompt.size() + i], own[i] > 0 ? called.ids[i] : data::kNoLoss);
    EXPECT_EQ(row.series.at("mask")[prompt.size() - 1 + i], own[i]);
  }
}

TEST_F(ToolRolloutsTest, TellThePolicyOfFailures) {
  const RolloutResult result =
      roll({R"(<tool_call> {"name": "broken", "arguments": {}} </tool_call> </s>)", "so </s>"});
  EXPECT_THAT(result.completions[0][0].text, HasSubstr(R"(tool {"error": "out of order"})"));
  EXPECT_EQ(result.metrics.at("tools/failure_frequency"), 1);
}

TEST_F(ToolRolloutsTest, EndAtTheLimits) {
  arguments_.max_tool_calling_iterations = 1;
  EXPECT_EQ(roll({kCall, kCall}).completions[0][0].own_tokens(), 2 * static_cast<double>(ids(kCall).size()));
  arguments_.max_tool_calling_iterations = std::nullopt;
  // No room for the answer: the completion ends as it is.
  arguments_.max_completion_length = static_cast<int64_t>(ids(kCall).size()) + 4;
  EXPECT_EQ(roll({kCall}).completions[0][0].ids, ids(kCall));
  // What was cut off calls nothing.
  EXPECT_EQ(roll({R"(<tool_call> {"name": "add",)"}).completions[0][0].own_tokens(), 3);
}

TEST_F(ToolRolloutsTest, NeedATemplateThatKnowsTools) {
  write_tokenizer_config("{% for m in messages %}{{ m.content }} {% endfor %}");
  EXPECT_THAT([&] { roll({}); }, ThrowsMessage<ConfigError>(HasSubstr("chat template writes no tool calls")));
  TrainingArguments arguments = TrainingArguments::for_trainer("grpo");
  arguments.rollout.tools = Json::array({kAdd});
  const auto tokenizer = AutoTokenizer::from_directory(directory_.path());
  const data::Transform read = policy_prompts(tokenizer, arguments);
  const data::Row row{.values = Json::object({{"prompt", "x"}}), .source = nullptr, .index = 0};
  EXPECT_THAT([&] { read(row); }, ThrowsMessage<FormatError>(HasSubstr("\"prompt\" must be a list of messages")));
}

}  // namespace
}  // namespace easydel
