#include "easydel/generation/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

GenerationConfig read(const std::string& text) { return GenerationConfig::from_dict(Json::parse(text)); }

TEST(GenerationConfig, TransformersUnderstandsWhatIsReadAndWrittenAgain) {
  const TemporaryDirectory theirs, ours;
  run_python("generation_peer.py", {"configs", theirs.path().string(), "5"});
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(theirs.path())) {
    const GenerationConfig config = GenerationConfig::from_pretrained(entry.path().string());
    config.save_pretrained(ours / entry.path().filename().string());
    ++count;
  }
  EXPECT_GE(count, 60);
  EXPECT_THAT(run_python("generation_peer.py", {"check_configs", theirs.path().string(), ours.path().string()}),
              HasSubstr(std::to_string(count) + " configs mean the same"));
}

TEST(GenerationConfig, KeepsKeysThatAreNoFields) {
  const GenerationConfig config = read(R"({"top_k": 4, "cache_implementation": "static", "my_key": [1, {"a": 2}]})");
  EXPECT_EQ(config.top_k, 4);
  EXPECT_EQ(config.to_dict(),
            Json::parse(R"({"top_k": 4, "cache_implementation": "static", "my_key": [1, {"a": 2}]})"));
}

TEST(GenerationConfig, WhatACallerSetsWinsOverTheModel) {
  const GenerationConfig model{.do_sample = true, .temperature = 0.6, .top_p = 0.9, .eos_token_id = {2, 3}};
  const GenerationConfig merged = GenerationConfig{.temperature = 1.5, .eos_token_id = 7}.over(model);
  EXPECT_EQ(merged.temperature, 1.5);
  EXPECT_EQ(merged.top_p, 0.9);
  EXPECT_EQ(merged.do_sample, true);
  EXPECT_EQ(merged.eos_token_id, TokenIds(7));
}

TEST(GenerationConfig, ChangesByKeyNameAnUnknownOne) {
  const GenerationConfig config = GenerationConfig().with(
      Json::parse(R"({"early_stopping": "never", "stop_strings": "end", "sequence_bias": [[[1, 2], -3.5]]})"));
  EXPECT_EQ(config.early_stopping, EarlyStopping::Never);
  EXPECT_EQ(config.stop_strings->values, std::vector<std::string>{"end"});
  EXPECT_EQ(config.sequence_bias->at(0), (SequenceBias{{1, 2}, -3.5}));
  EXPECT_THAT([] { GenerationConfig().with(Json::parse(R"({"temprature": 1})")); },
              ThrowsMessage<ConfigError>("[GenerationConfig] unknown key \"temprature\". Did you mean "
                                         "\"temperature\"?"));
}

TEST(GenerationConfig, TemperatureZeroMeansGreedy) {
  EXPECT_FALSE((GenerationConfig{.do_sample = true, .temperature = 0.0}).samples());
  EXPECT_TRUE((GenerationConfig{.do_sample = true}).samples());
  EXPECT_FALSE((GenerationConfig{.temperature = 0.5}).samples());
}

TEST(GenerationConfig, RefusesBadValuesByKey) {
  const std::pair<GenerationConfig, std::string> cases[] = {
      {{.temperature = -0.1}, "temperature must be a finite number that is not negative; got -0.1."},
      {{.temperature = std::nan("")}, "temperature must be a finite number that is not negative; got nan."},
      {{.temperature = INFINITY}, "temperature must be a finite number that is not negative; got inf."},
      {{.top_p = 0.0}, "top_p must lie in (0, 1]; got 0."},
      {{.top_p = 1.5}, "top_p must lie in (0, 1]; got 1.5."},
      {{.top_k = -1}, "top_k must be at least 0; got -1."},
      {{.min_p = std::nan("")}, "min_p must lie in [0, 1]; got nan."},
      {{.top_h = 0.0}, "top_h must lie in (0, 1]; got 0."},
      {{.typical_p = -1.0}, "typical_p must lie in (0, 1]; got -1."},
      {{.epsilon_cutoff = 1.0}, "epsilon_cutoff must lie in [0, 1); got 1."},
      {{.eta_cutoff = -0.5}, "eta_cutoff must lie in [0, 1); got -0.5."},
      {{.repetition_penalty = 0.0}, "repetition_penalty must be positive; got 0."},
      {{.presence_penalty = INFINITY}, "presence_penalty must be a finite number; got inf."},
      {{.length_penalty = std::nan("")}, "length_penalty must be a finite number; got nan."},
      {{.num_beams = 0}, "num_beams must be at least 1; got 0."},
      {{.num_return_sequences = 0}, "num_return_sequences must be at least 1; got 0."},
      {{.num_return_sequences = 2},
       "num_return_sequences must be 1 without sampling or beam search; got 2. Set do_sample or num_beams."},
      {{.num_beams = 2, .num_return_sequences = 3}, "num_return_sequences must not exceed num_beams; got 3 and 2."},
      {{.max_length = 0}, "max_length must be at least 1; got 0."},
      {{.max_new_tokens = 0}, "max_new_tokens must be at least 1; got 0."},
      {{.min_new_tokens = -2}, "min_new_tokens must be at least 0; got -2."},
      {{.max_time = -1.0}, "max_time must not be negative; got -1."},
      {{.stop_strings = StopStrings{{"a", ""}}}, "stop_strings must not contain empty strings."},
      {{.no_repeat_ngram_size = -1}, "no_repeat_ngram_size must be at least 0; got -1."},
      {{.encoder_no_repeat_ngram_size = -1}, "encoder_no_repeat_ngram_size must be at least 0; got -1."},
      {{.bad_words_ids = std::vector<std::vector<int64_t>>(1)}, "bad_words_ids must not contain an empty list."},
      {{.suppress_tokens = {{3, -4}}}, "suppress_tokens must contain token ids, which are not negative; got -4."},
      {{.forced_eos_token_id = {2, 3}, .suppress_tokens = {{2, 3, 4}}},
       "forced_eos_token_id must not all be in suppress_tokens: no token is left."},
      {{.exponential_decay_length_penalty = ExponentialDecay{2, -1.0}},
       "exponential_decay_length_penalty must be a start that is not negative and a positive factor; got [2, -1]."}};
  for (const auto& [config, message] : cases) {
    EXPECT_THAT([&] { config.validate(); }, ThrowsMessage<ConfigError>("[GenerationConfig] " + message));
  }
}

TEST(GenerationConfig, RefusesValuesOfAnotherTypeByKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"top_k": "many"})", "top_k must be an integer; got \"many\"."},
      {R"({"early_stopping": "soon"})", "early_stopping must be true, false or \"never\"; got \"soon\"."},
      {R"({"stop_strings": [1]})", "stop_strings[0] must be a string; got 1."},
      {R"x({"sequence_bias": {"(1, 2)": 3.0}})x",
       "sequence_bias must be a list of pairs of a list of token ids and a number; got {\"(1, 2)\": 3.0}."},
      {R"({"exponential_decay_length_penalty": [1]})",
       "exponential_decay_length_penalty must be a list of an integer and a number; got [1]."},
      {R"([1])", "a generation config must be an object; got [1]."}};
  for (const auto& [text, message] : cases) {
    EXPECT_THAT([&] { read(text); }, ThrowsMessage<ConfigError>(std::string("[GenerationConfig] ") + message));
  }
}

TEST(GenerationConfig, RefusesWaysOfGeneratingThatItDoesNotKnow) {
  for (const char* text :
       {R"({"penalty_alpha": 0.6})", R"({"dola_layers": "high"})", R"({"num_beam_groups": 2})",
        R"({"diversity_penalty": 0.5})", R"({"constraints": [1]})", R"({"force_words_ids": [[1]]})",
        R"({"prompt_lookup_num_tokens": 3})", R"({"assistant_early_exit": 4})", R"({"use_mtp": true})",
        R"({"guidance_scale": 1.5})", R"({"watermarking_config": {"bias": 2.0}})", R"({"token_healing": true})"}) {
    EXPECT_THROW(read(text).require_supported(), NotSupportedError) << text;
    EXPECT_THROW(GenerationConfig().with(Json::parse(text)), NotSupportedError) << text;
  }
  read(R"({"penalty_alpha": null, "num_beam_groups": 1, "diversity_penalty": 0.0, "guidance_scale": 1.0,
           "encoder_repetition_penalty": 1.0, "token_healing": false, "use_mtp": false})")
      .require_supported();
  EXPECT_THAT([] { read(R"({"penalty_alpha": 0.6})").require_supported(); },
              ThrowsMessage<NotSupportedError>("[GenerationConfig] penalty_alpha enables contrastive search, which is "
                                               "not supported; got 0.6."));
}

TEST(GenerationConfig, IsTakenFromConfigJsonWhereItHasNoFileOfItsOwn) {
  const TemporaryDirectory directory;
  write_file_atomically(
      directory / "config.json",
      R"({"model_type": "gpt2", "eos_token_id": [5, 6], "do_sample": true, "top_k": 9, "n_embd": 8})");
  const GenerationConfig config = GenerationConfig::from_pretrained(directory.path().string());
  EXPECT_EQ(config.eos_token_id, (TokenIds{5, 6}));
  EXPECT_EQ(config.top_k, 9);
  EXPECT_EQ(config.to_dict(), Json::parse(R"({"do_sample": true, "top_k": 9, "eos_token_id": [5, 6]})"));
}

}  // namespace
}  // namespace easydel
