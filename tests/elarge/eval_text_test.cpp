// What evaluation does to answers, without a model: regular expressions as Python has them, programs that are run, and
// what a generation config means to the engine.
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/elarge/eval/eval_generate.h"
#include "easydel/elarge/eval/run_code.h"
#include "easydel/generation/generation_config.h"
#include "easydel/serve/engine/generation_params.h"
#include "easydel/text/regex/python_regex.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// As re.findall with at most one group.
std::vector<std::string> findall(const std::string& pattern, const std::string& text) {
  std::vector<std::string> found;
  for (const PythonRegex::Match& match : PythonRegex(pattern, "test").find_all(text))
    found.emplace_back(match.groups.empty() ? text.substr(match.begin, match.end - match.begin) : match.groups[0]);
  return found;
}

TEST(PythonRegex, FindsWhatPythonFinds) {
  EXPECT_THAT(findall("a*", "baac"), ElementsAre("", "aa", "", ""));
  EXPECT_THAT(findall("a{,2}", "aaa"), ElementsAre("aa", "a", ""));
  EXPECT_THAT(findall(R"(#### (\-?[0-9\.\,]+))", "so #### -1,200. #### 7"), ElementsAre("-1,200.", "7"));
  EXPECT_THAT(findall(R"(x\Z)", "x\n"), ElementsAre());
  EXPECT_THAT(findall("x$", "x\n"), ElementsAre("x"));
  EXPECT_THAT(findall("[[]", "a[b"), ElementsAre("["));
  EXPECT_THAT(findall("[]a]", "a]b"), ElementsAre("a", "]"));
  EXPECT_THAT(findall(R"(\u00e9|\U0001f600)", "é😀e"), ElementsAre("é", "😀"));
  EXPECT_THAT(findall(R"(\w+)", "über 東京_1"), ElementsAre("über", "東京_1"));
  EXPECT_THAT(findall("a.b", "a\rb a\nb"), ElementsAre("a\rb"));
  const std::string text = "12 b";
  const auto matches = PythonRegex("(b)|([0-9])", "test").find_all(text);
  ASSERT_EQ(matches.size(), 3U);
  EXPECT_THAT(matches[0].groups, ElementsAre("", "1"));
  EXPECT_THAT(matches[2].groups, ElementsAre("b", ""));
}

TEST(PythonRegex, RemovesAndSplits) {
  EXPECT_EQ(PythonRegex("(?s).*#### ", "test").removed_from("a\nb #### 7"), "7");
  EXPECT_EQ(PythonRegex("\\.$", "test").removed_from("7."), "7");
  EXPECT_THAT(PythonRegex("\\s?\\*\\*\\*\\s?", "test").split("a *** b***"), ElementsAre("a", "b", ""));
  EXPECT_THAT([] { PythonRegex("(", "here"); }, ThrowsMessage<FormatError>(HasSubstr("here is not a valid")));
}

TEST(RunPrograms, PassOnlyWhenTheyEndWithoutAnException) {
  const auto python = find_python();
  if (!python) GTEST_SKIP() << "no python3 here";
  const std::vector<bool> passed =
      run_programs(*python,
                   {"def f(a): return a + 1\nassert f(1) == 2", "assert False", "import sys; sys.exit(0)",
                    "import os; os._exit(0)", "while True: pass", "print('1' * 100000)", "if", "raise SystemExit",
                    "if __name__ == '__main__': raise ValueError", "open('x', 'w').write('a'); open('x').read()",
                    "x = bytearray(8 << 30)", "import subprocess; subprocess.Popen(['sleep', '100'])"},
                   std::chrono::milliseconds(500));
  EXPECT_THAT(passed, ElementsAre(true, false, false, false, false, true, false, false, true, true, false, true));
}

TEST(RunPrograms, PassAtKIsHumanEvalsEstimate) {
  EXPECT_DOUBLE_EQ(pass_at_k(5, 2, 1), 0.4);
  EXPECT_DOUBLE_EQ(pass_at_k(5, 2, 3), 0.9);
  EXPECT_DOUBLE_EQ(pass_at_k(5, 3, 3), 1.0);
  EXPECT_DOUBLE_EQ(pass_at_k(1, 0, 1), 0.0);
}

TEST(GenKwargs, AreReadFromAFlag) {
  EXPECT_EQ(parse_gen_kwargs("temperature=0.5,do_sample=True,until=x,max_gen_toks=3"),
            Json::object({{"temperature", 0.5}, {"do_sample", true}, {"until", "x"}, {"max_gen_toks", 3}}));
  EXPECT_EQ(parse_gen_kwargs(R"({"until": ["a", "b"]})"), Json::parse(R"({"until": ["a", "b"]})"));
  EXPECT_EQ(parse_gen_kwargs(""), Json::object());
  EXPECT_THROW(parse_gen_kwargs("temperature"), UsageError);
}

TEST(GenKwargs, WinOverTheTaskByWhateverName) {
  EvalTask task;
  task.generation_kwargs = Json::parse(R"({"until": ["\n"], "max_new_tokens": 7, "temperature": 0.7})");
  EvalGeneration generation = read_generation(task, Json::object({{"max_gen_toks", 3}, {"do_sample", false}}), {});
  EXPECT_EQ(generation.max_tokens, 3);
  EXPECT_EQ(generation.sampling.temperature, 0.0);
  EXPECT_THAT(generation.sampling.stop, ElementsAre("\n"));
  generation = read_generation(task, Json::object({{"max_tokens", 5}}), {});
  EXPECT_EQ(generation.max_tokens, 5);
  EXPECT_EQ(generation.sampling.temperature, 0.7);
}

TEST(GenerationParams, MeanTheSameToTheEngine) {
  const serve::SamplingParams greedy = serve::to_sampling_params({.max_new_tokens = 9, .temperature = 0.7});
  EXPECT_EQ(greedy.temperature, 0.0);
  EXPECT_EQ(greedy.max_tokens, 9);
  EXPECT_FALSE(greedy.ignore_eos);
  const serve::SamplingParams sampled = serve::to_sampling_params({.stop_strings = StopStrings{{"x"}},
                                                                   .do_sample = true,
                                                                   .temperature = 0.7,
                                                                   .top_p = 0.9,
                                                                   .repetition_penalty = 1.2,
                                                                   .eos_token_id = {4, 5}});
  EXPECT_EQ(sampled.temperature, 0.7);
  EXPECT_EQ(sampled.top_k, 50);
  EXPECT_EQ(sampled.top_p, 0.9);
  EXPECT_EQ(sampled.repetition_penalty, 1.2);
  EXPECT_TRUE(sampled.ignore_eos && sampled.include_stop_str_in_output);
  EXPECT_THAT(sampled.stop_token_ids, ElementsAre(4, 5));
  EXPECT_EQ(serve::unsupported_key({.max_new_tokens = 4, .do_sample = true, .top_k = 3}), std::nullopt);
  EXPECT_EQ(serve::unsupported_key({.num_beams = 2}), "num_beams");
  EXPECT_EQ(serve::unsupported_key({.no_repeat_ngram_size = 2}), "no_repeat_ngram_size");
}

}  // namespace
}  // namespace easydel
