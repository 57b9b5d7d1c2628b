// Every logits processor against transformers' own class, alone and several in a row.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/generation/logits_processor.h"
#include "easydel/generation/sampling_processors.h"
#include "easydel/infra/config/config_io.h"
#include "easydel/io/safetensors/safetensors.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

std::vector<std::string> names_of(const LogitsProcessorList& list) {
  std::vector<std::string> names;
  for (const LogitsProcessorPtr& processor : list) {
    const LogitsProcessor& reference = *processor;
    names.push_back(short_type_name(typeid(reference)));
  }
  return names;
}

bool identical(const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 0, 0, /*equal_nan=*/true); }

TEST(LogitsProcessors, GiveTheScoresOfTransformersClasses) {
  const TemporaryDirectory directory;
  const char* rounds = std::getenv("EASYDEL_DRAWS");
  run_python("generation_peer.py", {"processors", directory.path().string(), "3", rounds ? rounds : "20"});
  const Json cases = Json::parse_file(directory / "cases.json");
  const auto tensors = SafetensorsFile::open(directory / "cases.safetensors");
  std::map<std::string, int> changed;  // cases in which the processor did something
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json& entry = cases.at(i);
    SCOPED_TRACE(concat(i, ": ", entry.dump()));
    const auto tensor = [&](const char* name) { return tensors->tensor(concat(i, ".", name)); };
    const GenerationConfig config = GenerationConfig::from_dict(entry.at("config")).with_defaults();
    const int64_t prompt = entry.at("prompt").as_int();
    LogitsProcessorList ours =
        make_logits_processors(config, prompt, entry.at("vocab").as_int(), {}, tensor("ids").narrow(1, 0, prompt));
    std::vector<std::string> names = names_of(ours);
    std::erase(names, "FrequencyPenaltyLogitsProcessor");
    EXPECT_EQ(Json(names), entry.at("processors"));

    const at::Tensor scores = tensor("scores");
    const at::Tensor kept = scores.clone();
    const at::Tensor actual = ours(tensor("ids"), scores), expected = tensor("expected");
    EXPECT_TRUE(identical(scores, kept)) << "the given scores were changed";
    EXPECT_TRUE(at::equal(actual.isinf(), expected.isinf()));
    EXPECT_TRUE(at::allclose(actual, expected, 1e-6, 1e-6, /*equal_nan=*/true));
    if (!identical(expected, kept)) ++changed[entry.at("name").as_string()];
    if (HasFailure()) break;
  }
  EXPECT_EQ(changed.size(), 26);
  for (const auto& [name, count] : changed) EXPECT_GE(count, 3) << name;
}

class Halved final : public LogitsProcessor {
 public:
  at::Tensor operator()(const at::Tensor&, const at::Tensor& scores) override { return scores / 2; }
};

TEST(LogitsProcessors, OnesOfACallersOwnComeBeforeThoseOfSampling) {
  const GenerationConfig config =
      GenerationConfig{.do_sample = true, .temperature = 0.5, .repetition_penalty = 2.0}.with_defaults();
  const LogitsProcessorList list = make_logits_processors(config, 3, 10, {std::make_shared<Halved>()});
  EXPECT_THAT(names_of(list),
              ElementsAre("RepetitionPenaltyLogitsProcessor", "Halved", "TemperatureLogitsWarper", "TopKLogitsWarper"));
}

TEST(LogitsProcessors, OneOfACallersOwnTakesThePlaceOfItsClass) {
  const GenerationConfig config =
      GenerationConfig{.suppress_tokens = std::vector<int64_t>{3}, .renormalize_logits = true}.with_defaults();
  const GenerationConfig other = GenerationConfig{.suppress_tokens = std::vector<int64_t>{4}}.with_defaults();
  const LogitsProcessorList theirs = make_logits_processors(other, 3, 10);
  LogitsProcessorList list = make_logits_processors(config, 3, 10, theirs);
  EXPECT_THAT(names_of(list), ElementsAre("SuppressTokensLogitsProcessor", "LogitNormalization"));
  const at::Tensor scores = list(at::zeros({1, 3}, at::kLong), at::zeros({1, 10}));
  EXPECT_FALSE(scores[0][3].isinf().item<bool>());
  EXPECT_TRUE(scores[0][4].isinf().item<bool>());
}

TEST(LogitsProcessors, RefuseIdsOutsideOfTheVocabulary) {
  const auto make = [](GenerationConfig config) {
    return [config] { make_logits_processors(config.with_defaults(), 3, 10); };
  };
  EXPECT_THAT(make({.bad_words_ids = {{{3, 10}}}}),
              ThrowsMessage<ConfigError>("[GenerationConfig] bad_words_ids must hold token ids below the vocabulary's "
                                         "size of 10; got 10."));
  EXPECT_THAT(make({.sequence_bias = {{{{12}, 1.0}}}}),
              ThrowsMessage<ConfigError>("[GenerationConfig] sequence_bias must hold token ids below the vocabulary's "
                                         "size of 10; got 12."));
  EXPECT_THAT(make({.forced_bos_token_id = 10}),
              ThrowsMessage<ConfigError>("[GenerationConfig] forced_bos_token_id must lie below the vocabulary's size "
                                         "of 10; got 10."));
  EXPECT_THAT(make({.forced_eos_token_id = {1, 11}}),
              ThrowsMessage<ConfigError>("[GenerationConfig] forced_eos_token_id must lie below the vocabulary's size "
                                         "of 10; got 11."));
}

}  // namespace
}  // namespace easydel
