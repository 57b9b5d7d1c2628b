// What the options of generating text do: those of a call, and every key of generation_config.json.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "easydel/core/log.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/fields/field_visitor.h"
#include "easydel/layers/linear.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/probe.h"
#include "tests/support/setting_probes.h"
#include "tests/support/tensors.h"

namespace easydel::generation_probes {
namespace {

using testing::ElementsAre;
using testing_support::expect_every_setting_acts;
using testing_support::is_refused;
using testing_support::SettingProbe;

// Letters for tokens.
std::string letters(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) text += static_cast<char>('A' + id);
  return text;
}

at::Tensor tokens_of(const GenerateOptions& options, const at::Tensor& prompt = tiny_ids(2, 3)) {
  return generate(*tiny_llama(), prompt, options).sequences;
}

const GenerationConfig kFive{.max_new_tokens = 5};
const GenerationConfig kDrawn{.max_new_tokens = 5, .do_sample = true};

PROBE(GenerateOptions, generation_config) {
  EXPECT_EQ(tokens_of({.generation_config = kFive}).size(1), 3 + 5);
  EXPECT_EQ(tokens_of({}).size(1), 3 + 20);  // transformers' default
}

PROBE(GenerateOptions, prng_key) {
  const auto drawn = [](int key) { return tokens_of({.generation_config = kDrawn, .prng_key = RandomKey(key)}); };
  EXPECT_TRUE(at::equal(drawn(1), drawn(1)));
  EXPECT_FALSE(at::equal(drawn(1), drawn(2)));
}

PROBE(GenerateOptions, fused_decode) {
  std::vector<std::string> lines;
  const log::Level level = log::level();
  log::set_level(log::Level::Debug);
  log::set_sink([&](log::Level, const std::string& line) { lines.push_back(line); });
  for (const bool fused : {true, false}) tokens_of({.generation_config = kFive, .fused_decode = fused}, tiny_ids(1, 3));
  log::set_sink({});
  log::set_level(level);
  EXPECT_THAT(lines, testing::IsSupersetOf({testing::HasSubstr("[decode] layers run fused"),
                                            testing::HasSubstr("operation by operation: it is switched off")}));
}

PROBE(GenerateOptions, logits_processor) {
  class Only : public LogitsProcessor {
   public:
    at::Tensor operator()(const at::Tensor&, const at::Tensor& scores) override {
      at::Tensor changed = at::full_like(scores, -INFINITY);
      changed.select(1, 7).fill_(0);
      return changed;
    }
  };
  const at::Tensor out = tokens_of({.generation_config = kFive, .logits_processor = {std::make_shared<Only>()}});
  EXPECT_TRUE(out.narrow(1, 3, 5).eq(7).all().item<bool>());
}

PROBE(GenerateOptions, stopping_criteria) {
  class AtLength : public StoppingCriteria {
   public:
    at::Tensor operator()(const at::Tensor& ids, const at::Tensor&) override {
      return at::full({ids.size(0)}, ids.size(1) >= 5, at::kBool);
    }
  };
  EXPECT_EQ(tokens_of({.generation_config = kFive, .stopping_criteria = {std::make_shared<AtLength>()}}).size(1), 5);
}

PROBE(GenerateOptions, streamer) {
  std::vector<int64_t> first_row;
  const at::Tensor out =
      tokens_of({.generation_config = kFive, .streamer = [&](auto tokens) { first_row.push_back(tokens[0]); }});
  EXPECT_TRUE(at::equal(at::tensor(first_row), out[0].narrow(0, 3, 5)));
  EXPECT_TRUE(is_refused("streamer", [] {
    tokens_of({.generation_config = {.max_new_tokens = 5, .num_beams = 2}, .streamer = [](auto) {}});
  }));
}

PROBE(GenerateOptions, decode) {
  const at::Tensor free = tokens_of({.generation_config = kFive}, tiny_ids(1, 3));
  const std::string third(1, static_cast<char>('A' + free[0][5].item<int64_t>()));
  const GenerationConfig config{.max_new_tokens = 5, .stop_strings = StopStrings{{third}}};
  EXPECT_LE(tokens_of({.generation_config = config, .decode = letters}, tiny_ids(1, 3)).size(1), 6);
  EXPECT_TRUE(is_refused("decode", [&] { tokens_of({.generation_config = config}); }));
}

PROBE(GenerateOptions, stop_token) {
  std::stop_source stop;
  stop.request_stop();
  const GenerateOutput out =
      generate(*tiny_llama(), tiny_ids(2, 3), {.generation_config = kFive, .stop_token = stop.get_token()});
  EXPECT_THAT(out.finish_reasons, ElementsAre(FinishReason::Cancelled, FinishReason::Cancelled));
  EXPECT_LT(out.sequences.size(1), 8);
}

// Two tokens of padding before a row change nothing where the mask says so.
PROBE(GenerateOptions, inputs) {
  const at::Tensor row = tiny_ids(1, 3);
  const at::Tensor padded = at::cat({at::zeros({1, 2}, at::kLong), row}, 1);
  const at::Tensor mask = at::tensor({0, 0, 1, 1, 1}, at::kLong).view({1, 5});
  const at::Tensor out = tokens_of({.generation_config = kFive, .inputs = {.attention_mask = mask}}, padded);
  EXPECT_TRUE(at::equal(out.narrow(1, 2, 8), tokens_of({.generation_config = kFive}, row)));
  EXPECT_FALSE(at::equal(out, tokens_of({.generation_config = kFive}, padded)));
}

// The second prompt of two draws what it draws alone under the same name.
PROBE(GenerateOptions, streams) {
  const at::Tensor both = tokens_of({.generation_config = kDrawn});
  const at::Tensor second = tiny_ids(2, 3).narrow(0, 1, 1);
  EXPECT_TRUE(at::equal(tokens_of({.generation_config = kDrawn, .streams = {1}}, second)[0], both[1]));
  EXPECT_FALSE(at::equal(tokens_of({.generation_config = kDrawn, .streams = {2}}, second)[0], both[1]));
}

PROBE(GenerationConfig, other) {
  GenerationConfig config = kFive;
  config.other["low_confidence"] = 1;
  EXPECT_EQ(config.to_dict().at("low_confidence"), Json(1));  // written back
  config.other["penalty_alpha"] = 0.6;
  EXPECT_TRUE(is_refused("penalty_alpha", [&] { tokens_of({.generation_config = config}); }));
}

// Every key -----------------------------------------------------------------------------------------------------------

// Counts the rows that a layer is given: with a cache, one for each new token.
class RowCounter : public LinearAdapter {
 public:
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const override {
    rows += x.numel() / x.size(-1);
    return y;
  }
  at::Tensor merged(const at::Tensor& matrix) const override { return matrix; }
  mutable int64_t rows = 0;
};

Json numbers(const at::Tensor& tensor) {
  Json json = Json::array();
  if (!tensor.defined()) return json;
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().flatten();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double value = flat[i].item<double>();
    json.push_back(std::isfinite(value) ? Json(std::round(value * 1e4) / 1e4) : Json(value > 0 ? "inf" : "-inf"));
  }
  return json;
}

// All that can be seen of a call with these keys of the config. "@prompt" is the length of the prompts.
Json observe(const Json& settings) {
  Json keys = Json::object({{"output_scores", true}, {"output_logits", true}, {"output_log_probs", true}});
  if (!settings.contains("max_length")) keys["max_new_tokens"] = 6;
  int64_t prompt = 3;
  for (const auto& [key, value] : settings.as_object()) {
    if (key == "@prompt") {
      prompt = value.as_int();
    } else {
      keys[key] = value;
    }
  }
  const auto model = tiny_llama();
  const auto counter = std::make_shared<RowCounter>();
  for (const auto& [path, module] : model->named_modules()) {
    if (auto* linear = dynamic_cast<Linear*>(module)) linear->set_adapter(counter);
  }
  const at::Tensor ids = prompt == 0 ? at::Tensor() : tiny_ids(6, prompt);
  const GenerateOutput out =
      generate(*model, ids, {.generation_config = GenerationConfig().with(keys), .decode = letters});
  Json seen = Json::object({{"sequences", numbers(out.sequences)},
                            {"shape", Json(out.sequences.sizes().vec())},
                            {"lengths", Json(out.lengths)},
                            {"log_probs", numbers(out.log_probs)},
                            {"sequences_scores", numbers(out.sequences_scores)},
                            {"rows", counter->rows}});
  for (const FinishReason reason : out.finish_reasons) seen["reasons"].push_back(finish_reason_name(reason));
  for (const at::Tensor& scores : out.scores) seen["scores"].push_back(numbers(scores));
  for (const at::Tensor& logits : out.logits) seen["logits"].push_back(numbers(logits));
  return seen;
}

TEST(GenerationConfigKeys, ActOrAreRefusedByName) {
  const Json ends = Json::parse(R"({"eos_token_id": [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27]})");
  const Json draws = Json::object({{"do_sample", true}});
  const Json beams = Json::object({{"num_beams", 3}});
  Json ending_beams = ends;
  ending_beams["num_beams"] = 3;
  ending_beams["max_new_tokens"] = 12;
  GenerationConfig config;
  expect_every_setting_acts(
      testing_support::keys_of([&](FieldVisitor& v) { list_fields(config, v); }),
      {{"max_length", 5},
       {"max_new_tokens", 3},
       {"min_length", 8, ends},
       {"min_new_tokens", 5, ends},
       {"early_stopping", true, ending_beams},
       {"max_time", 0.0},
       {"stop_strings", Json::array({"B", "D", "F", "H", "J", "L", "N", "P", "R", "T", "V", "X"})},
       {"do_sample", true},
       {"num_beams", 3},
       {"use_cache", false},
       {"temperature", 0.5, draws},
       {"top_k", 3, draws},
       {"top_p", 0.5, draws},
       {"min_p", 0.3, draws},
       {"top_h", 0.4, draws},
       {"typical_p", 0.3, draws},
       {"epsilon_cutoff", 0.04, draws},
       {"eta_cutoff", 0.3, draws},
       {"repetition_penalty", 1.5},
       {"encoder_repetition_penalty", 3.0},
       {"presence_penalty", 1.0},
       {"frequency_penalty", 1.0},
       {"length_penalty", 3.0, beams},
       {"no_repeat_ngram_size", 1},
       {"encoder_no_repeat_ngram_size", 1},
       {"bad_words_ids", Json::parse("[[5]]")},
       {"sequence_bias", Json::parse("[[[5], 9.0]]")},
       {"forced_bos_token_id", 7, Json::object({{"@prompt", 1}})},
       {"forced_eos_token_id", 7},
       {"suppress_tokens", Json::parse("[5]")},
       {"begin_suppress_tokens", Json::parse("[5]")},
       {"exponential_decay_length_penalty", Json::parse("[1, 2.0]"), ends},
       {"remove_invalid_values", true, Json::parse(R"({"sequence_bias": [[[4], Infinity]]})")},
       {"renormalize_logits", true},
       {"num_return_sequences", 2, draws},
       {"output_scores", false},
       {"output_logits", false},
       {"output_log_probs", false},
       {"pad_token_id", 11, ends},
       {"bos_token_id", 7, Json::object({{"@prompt", 0}, {"bos_token_id", 1}})},
       {"decoder_start_token_id", 3},
       {"eos_token_id", ends.at("eos_token_id")}},
      observe);
}

}  // namespace
}  // namespace easydel::generation_probes
