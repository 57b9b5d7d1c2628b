#include "easydel/generation/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/models/gpt2/model.h"
#include "easydel/models/llama/model.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ThrowsMessage;

constexpr int64_t kVocab = 50;

LlamaConfig tiny_llama() {
  LlamaConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.max_position_embeddings = 64;
  config.initializer_range = 0.5;
  config.bos_token_id = 1;
  config.eos_token_id = {};
  return config;
}

class Generate : public testing::Test {
 protected:
  std::shared_ptr<BaseModule> model_ = make_model<LlamaForCausalLM>(tiny_llama());
  at::Tensor prompt_ = at::tensor({5, 9, 3, 17, 8, 2}, at::kLong).view({2, 3});
};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(Generate, GreedyIsTheArgmaxOfAWholeForwardPass) {
  const GenerateOutput out =
      generate(*model_, prompt_, {.generation_config = {.max_new_tokens = 7, .output_log_probs = true}});
  ASSERT_EQ(out.sequences.sizes(), (at::IntArrayRef{2, 10}));
  EXPECT_TRUE(at::equal(out.sequences.narrow(1, 0, 3), prompt_));
  const at::NoGradGuard no_grad;
  const at::Tensor logits = (*model_)({.input_ids = out.sequences}).logits.narrow(1, 2, 7);
  const at::Tensor tokens = out.sequences.narrow(1, 3, 7);
  EXPECT_TRUE(at::equal(logits.argmax(-1), tokens));
  EXPECT_TRUE(is_close(out.log_probs, logits.log_softmax(-1).gather(2, tokens.unsqueeze(2)).squeeze(2)));
  EXPECT_THAT(out.finish_reasons, Each(FinishReason::Length));
  EXPECT_THAT(out.lengths, ElementsAre(7, 7));
}

TEST_F(Generate, FusedLayersGiveTheTokensOfSeparateOperations) {
  std::vector<std::string> lines;
  const log::Level level = log::level();
  log::set_level(log::Level::Debug);
  log::set_sink([&](log::Level, const std::string& line) { lines.push_back(line); });
  const auto run = [&](std::optional<bool> fused) {
    return generate(*model_, prompt_.narrow(0, 0, 1),
                    {.generation_config = {.max_new_tokens = 12, .output_log_probs = true}, .fused_decode = fused});
  };
  const GenerateOutput fused = run(true), again = run({}), separate = run(false);
  log::set_sink({});
  log::set_level(level);
  EXPECT_TRUE(at::equal(fused.sequences, separate.sequences));
  EXPECT_TRUE(at::equal(fused.sequences, again.sequences));
  EXPECT_TRUE(is_close(fused.log_probs, separate.log_probs, {1e-4, 1e-5}));
  EXPECT_THAT(lines, testing::IsSupersetOf({testing::HasSubstr("[decode] layers run fused"),
                                            testing::HasSubstr("operation by operation: it is switched off")}));
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.find("[decode]") != std::string::npos; }),
            2);
}

TEST_F(Generate, APaddedRowGetsTheTokensThatItGetsAlone) {
  const at::Tensor padded = at::tensor({0, 0, 5, 9, 3, 17, 8, 2, 4, 6}, at::kLong).view({2, 5});
  const at::Tensor mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 5});
  for (const bool sample : {false, true}) {
    const GenerationConfig config{.max_new_tokens = 8, .do_sample = sample};
    const at::Tensor both =
        generate(*model_, padded, {.generation_config = config, .inputs = {.attention_mask = mask}}).sequences;
    const at::Tensor first =
        generate(*model_, padded.narrow(0, 0, 1).narrow(1, 2, 3), {.generation_config = config}).sequences;
    const at::Tensor second =
        generate(*model_, padded.narrow(0, 1, 1), {.generation_config = config, .streams = {1}}).sequences;
    EXPECT_TRUE(at::equal(both[0].narrow(0, 2, 11), first[0]));
    EXPECT_TRUE(at::equal(both[1], second[0]));
    const at::Tensor starts = at::tensor({2, 0}, at::kLong);
    EXPECT_TRUE(at::equal(
        generate(*model_, padded, {.generation_config = config, .inputs = {.starts = starts}}).sequences, both));
    // The mask follows from the pad token, too.
    GenerationConfig with_pad = config;
    with_pad.pad_token_id = 0;
    EXPECT_TRUE(at::equal(generate(*model_, padded, {.generation_config = with_pad}).sequences, both));
  }
}

TEST_F(Generate, SamplingIsDecidedByTheKey) {
  const GenerationConfig config{.max_new_tokens = 12, .do_sample = true, .num_return_sequences = 3};
  const auto draw = [&](uint64_t key) {
    return generate(*model_, prompt_, {.generation_config = config, .prng_key = RandomKey(key)}).sequences;
  };
  const at::Tensor first = draw(1);
  EXPECT_EQ(first.sizes(), (at::IntArrayRef{6, 15}));
  EXPECT_TRUE(at::equal(first, draw(1)));
  EXPECT_FALSE(at::equal(first, draw(2)));
  EXPECT_FALSE(at::equal(first[0], first[1]));
}

TEST_F(Generate, AnEndTokenEndsItsRowAndPaddingFollows) {
  const at::Tensor free = generate(*model_, prompt_, {.generation_config = {.max_new_tokens = 8}}).sequences;
  // The third new token of row 0 ends it; row 1 goes on unless it has the same.
  const int64_t eos = free[0][5].item<int64_t>();
  const GenerateOutput out = generate(
      *model_, prompt_, {.generation_config = {.max_new_tokens = 8, .pad_token_id = 49, .eos_token_id = {48, eos}}});
  const int64_t length = out.lengths[0];
  ASSERT_LE(length, 3);
  EXPECT_EQ(out.finish_reasons[0], FinishReason::Stop);
  EXPECT_EQ(out.sequences[0][2 + length].item<int64_t>(), eos);
  EXPECT_TRUE(at::equal(out.sequences[0].narrow(0, 0, 3 + length), free[0].narrow(0, 0, 3 + length)));
  const at::Tensor rest = out.sequences[0].slice(0, 3 + length);
  EXPECT_TRUE(rest.eq(49).all().item<bool>());
  EXPECT_EQ(out.sequences.size(1), 3 + std::max(out.lengths[0], out.lengths[1]));
}

TEST_F(Generate, StreamsWhatItReturns) {
  std::vector<std::vector<int64_t>> steps;
  const GenerationConfig config{.max_new_tokens = 9, .do_sample = true, .eos_token_id = {3, 7, 11, 30, 31, 32}};
  const GenerateOutput out =
      generate(*model_, prompt_, {.generation_config = config, .prng_key = RandomKey(4), .streamer = [&](auto tokens) {
                                    steps.emplace_back(tokens.begin(), tokens.end());
                                  }});
  ASSERT_EQ(static_cast<int64_t>(steps.size()), out.sequences.size(1) - 3);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t step = 0; step < steps.size(); ++step) {
      const bool running = static_cast<int64_t>(step) < out.lengths[row];
      EXPECT_EQ(
          steps[step][row],
          running ? out.sequences[static_cast<int64_t>(row)][3 + static_cast<int64_t>(step)].item<int64_t>() : -1);
    }
  }
}

TEST_F(Generate, ScoresAndLogitsOfEachStepAreReturnedOnRequest) {
  const GenerateOutput out = generate(*model_, prompt_,
                                      {.generation_config = {.max_new_tokens = 4,
                                                             .suppress_tokens = std::vector<int64_t>{6},
                                                             .output_scores = true,
                                                             .output_logits = true}});
  ASSERT_EQ(out.scores.size(), 4);
  ASSERT_EQ(out.logits.size(), 4);
  for (int64_t step = 0; step < 4; ++step) {
    const at::Tensor& scores = out.scores[static_cast<std::size_t>(step)];
    EXPECT_TRUE(at::equal(scores.argmax(-1), out.sequences.select(1, 3 + step)));
    EXPECT_TRUE(scores.select(1, 6).isinf().all().item<bool>());
    EXPECT_FALSE(out.logits[static_cast<std::size_t>(step)].isinf().any().item<bool>());
  }
}

TEST_F(Generate, StopsAtAStopString) {
  const DecodeFunction decode = [](std::span<const int32_t> ids) {
    std::string text;
    for (const int32_t id : ids) text += "<" + std::to_string(id) + ">";
    return text;
  };
  const at::Tensor free = generate(*model_, prompt_, {.generation_config = {.max_new_tokens = 6}}).sequences;
  const auto piece = [&](int64_t at) { return "<" + std::to_string(free[0][at].item<int64_t>()) + ">"; };
  const std::string stop = (piece(5) + piece(6)).substr(1, piece(5).size());
  const GenerateOutput out =
      generate(*model_, prompt_.narrow(0, 0, 1),
               {.generation_config = {.max_new_tokens = 6, .stop_strings = StopStrings{{stop}}}, .decode = decode});
  EXPECT_LE(out.lengths[0], 4);
  EXPECT_EQ(out.finish_reasons[0], FinishReason::Stop);
}

class EndsAtLength final : public StoppingCriteria {
 public:
  explicit EndsAtLength(int64_t length) : length_(length) {}
  at::Tensor operator()(const at::Tensor& ids, const at::Tensor&) override {
    return at::full({ids.size(0)}, ids.size(1) >= length_, at::kBool);
  }

 private:
  int64_t length_;
};

TEST_F(Generate, StopsByACriterionByTimeAndWhenAsked) {
  for (const int64_t beams : {1, 3}) {
    const GenerationConfig config{.max_new_tokens = 20, .num_beams = beams};
    const GenerateOutput custom = generate(
        *model_, prompt_, {.generation_config = config, .stopping_criteria = {std::make_shared<EndsAtLength>(7)}});
    EXPECT_EQ(custom.sequences.size(1), 7);
    EXPECT_THAT(custom.finish_reasons, Each(FinishReason::Stop));

    GenerationConfig timed = config;
    timed.max_time = 0.0;
    const GenerateOutput late = generate(*model_, prompt_, {.generation_config = timed});
    EXPECT_THAT(late.finish_reasons, Each(FinishReason::Time));
    EXPECT_THAT(late.lengths, ElementsAre(1, 1));

    std::stop_source source;
    source.request_stop();
    const GenerateOutput cancelled =
        generate(*model_, prompt_, {.generation_config = config, .stop_token = source.get_token()});
    EXPECT_THAT(cancelled.finish_reasons, Each(FinishReason::Cancelled));
    EXPECT_THAT(cancelled.lengths, ElementsAre(1, 1));
  }
}

TEST_F(Generate, BeginsWithTheBosTokenWhereThereIsNoPrompt) {
  const GenerationConfig config{.max_new_tokens = 3};
  const at::Tensor expected =
      generate(*model_, at::tensor({1}, at::kLong).view({1, 1}), {.generation_config = config}).sequences;
  EXPECT_TRUE(at::equal(generate(*model_, {}, {.generation_config = config}).sequences, expected));
  EXPECT_TRUE(at::equal(generate(*model_, at::empty({2, 0}, at::kLong), {.generation_config = config}).sequences,
                        expected.expand({2, 4})));
  LlamaConfig without = tiny_llama();
  without.bos_token_id = {};
  const auto model = make_model<LlamaForCausalLM>(without);
  EXPECT_THAT([&] { generate(*model, {}, {.generation_config = config}); },
              ThrowsMessage<ConfigError>("[generate] an empty prompt needs a bos_token_id; the config has none."));
}

TEST_F(Generate, TwentyTokensAreTheDefault) {
  EXPECT_EQ(generate(*model_, prompt_).sequences.size(1), 23);
  EXPECT_EQ(generate(*model_, prompt_, {.generation_config = {.max_length = 9}}).sequences.size(1), 9);
  // Up to the end of the context.
  const at::Tensor long_prompt = at::ones({1, 60}, at::kLong);
  EXPECT_EQ(generate(*model_, long_prompt).sequences.size(1), 64);
}

TEST_F(Generate, RefusesWhatItCannotDo) {
  const auto refusal = [&](const at::Tensor& ids, const GenerateOptions& options = {}) {
    return message_of([&] { generate(*model_, ids, options); });
  };
  EXPECT_EQ(refusal(at::tensor({1, 2, 3, 4, 50, 6}, at::kLong).view({2, 3})),
            "[generate] input_ids must lie in [0, 50); got 50 in row 1, position 1.");
  EXPECT_EQ(refusal(at::tensor({-1, 2}, at::kLong).view({1, 2})),
            "[generate] input_ids must lie in [0, 50); got -1 in row 0, position 0.");
  EXPECT_EQ(refusal(at::zeros({1, 2})), "[generate] input_ids must be integers; got Float.");
  EXPECT_EQ(refusal(at::zeros({1, 2, 3}, at::kLong)), "[generate] input_ids must be [batch, tokens]; got [1, 2, 3].");
  EXPECT_EQ(refusal(at::zeros({0, 2}, at::kLong)), "[generate] input_ids must have at least one row; got none.");
  EXPECT_EQ(refusal(prompt_, {.generation_config = {.max_length = 3}}),
            "[generate] the prompt has 3 tokens, and max_length is 3: no room for a new one. Shorten the prompt or set "
            "max_new_tokens.");
  EXPECT_EQ(refusal(at::ones({1, 64}, at::kLong)),
            "[generate] the prompt has 64 tokens, and max_length is 64, the model's context: no room for a new one. "
            "Shorten the prompt or set max_new_tokens.");
  EXPECT_EQ(refusal(prompt_, {.inputs = {.attention_mask = at::ones({2, 4}, at::kLong)}}),
            "[generate] attention_mask must be [2, 3] like input_ids; got [2, 4].");
  EXPECT_EQ(refusal(prompt_, {.inputs = {.attention_mask = at::tensor({1, 1, 1, 1, 1, 0}, at::kLong).view({2, 3})}}),
            "[generate] row 1 is padded on the right, where generation continues. Pad on the left.");
  EXPECT_EQ(refusal(prompt_, {.inputs = {.attention_mask = at::tensor({0, 0, 0, 1, 1, 1}, at::kLong).view({2, 3})}}),
            "[generate] row 0 of attention_mask masks all of 3 tokens; a prompt needs one.");
  EXPECT_EQ(refusal(prompt_, {.generation_config = {.num_beams = 2}, .streamer = [](auto) {}}),
            "[generate] a streamer is not supported with beam search, whose tokens are known only at the end.");
  EXPECT_EQ(refusal(prompt_, {.streams = {1}}), "[generate] streams must have one entry for each of 2 prompts; got 1.");
  EXPECT_EQ(refusal(prompt_, {.generation_config = {.num_beams = 60, .eos_token_id = {1, 2}}}), "");
  EXPECT_EQ(refusal(prompt_, {.generation_config = {.num_beams = int64_t{1} << 60}}),
            "[generate] 2 prompts with num_beams 1152921504606846976 make more than 65536 rows.");
  EXPECT_EQ(refusal(prompt_, {.generation_config = {.do_sample = true, .num_return_sequences = 40000}}),
            "[generate] 2 prompts with num_return_sequences 40000 make more than 65536 rows.");
  std::vector<int64_t> ends(60, 1);
  EXPECT_EQ(refusal(prompt_, {.generation_config = {.num_beams = 2, .eos_token_id = TokenIds(ends)}}),
            "[generate] num_beams 2 with 60 end tokens needs 122 continuations; the vocabulary has only 50 tokens.");
  const GenerationConfig asked = GenerationConfig::from_dict(Json::parse(R"({"penalty_alpha": 0.6})"));
  EXPECT_THROW(generate(*model_, prompt_, {.generation_config = asked}), NotSupportedError);
}

TEST_F(Generate, ScoresThatAllowNoTokenAreAnError) {
  std::vector<int64_t> all(kVocab);
  for (int64_t id = 0; id < kVocab; ++id) all[static_cast<std::size_t>(id)] = id;
  for (const bool sample : {false, true}) {
    EXPECT_EQ(message_of([&] {
                generate(*model_, prompt_, {.generation_config = {.do_sample = sample, .suppress_tokens = all}});
              }),
              "[generate] the scores of row 0 are NaN, or leave no possible token, at new token 1. "
              "Set remove_invalid_values to replace them.");
  }
  class Broken final : public LogitsProcessor {
   public:
    at::Tensor operator()(const at::Tensor& ids, const at::Tensor& scores) override {
      return ids.size(1) < 5 ? scores : scores.index_fill(0, at::tensor({1}, at::kLong), std::nan(""));
    }
  };
  for (const bool sample : {false, true}) {
    EXPECT_EQ(message_of([&] {
                generate(
                    *model_, prompt_,
                    {.generation_config = {.do_sample = sample}, .logits_processor = {std::make_shared<Broken>()}});
              }),
              "[generate] the scores of row 1 are NaN, or leave no possible token, at new token 3. "
              "Set remove_invalid_values to replace them.");
  }
  EXPECT_EQ(message_of([&] {
              generate(*model_, prompt_,
                       {.generation_config = {.num_beams = 2}, .logits_processor = {std::make_shared<Broken>()}});
            }),
            "[generate] the scores of new token 3 are NaN. Set remove_invalid_values to replace them.");
}

TEST_F(Generate, ProcessorsAndCriteriaMustReturnWhatTheyWereAskedFor) {
  class Narrow final : public LogitsProcessor {
   public:
    at::Tensor operator()(const at::Tensor&, const at::Tensor& scores) override { return scores.narrow(1, 0, 7); }
  };
  class Single final : public StoppingCriteria {
   public:
    at::Tensor operator()(const at::Tensor&, const at::Tensor&) override { return at::zeros({1}, at::kBool); }
  };
  EXPECT_EQ(message_of([&] { generate(*model_, prompt_, {.logits_processor = {std::make_shared<Narrow>()}}); }),
            "[generate] Narrow must return scores of [2, 50]; got [2, 7].");
  for (const int64_t beams : {1, 2}) {
    EXPECT_EQ(message_of([&] {
                generate(
                    *model_, prompt_,
                    {.generation_config = {.num_beams = beams}, .stopping_criteria = {std::make_shared<Single>()}});
              }),
              concat("[generate] Single must return bool of [", beams == 1 ? 2 : 8, "]; got bool of [1]."));
  }
}

TEST(GenerateWithATableOfPositions, StopsBeforeItsEnd) {
  GPT2Config config;
  config.vocab_size = kVocab;
  config.hidden_size = 16;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.max_position_embeddings = 12;
  const auto model = make_model<GPT2LMHeadModel>(config);
  const at::Tensor prompt = at::ones({1, 5}, at::kLong);
  const GenerationConfig fits{.max_new_tokens = 7, .eos_token_id = 49};
  EXPECT_LE(generate(*model, prompt, {.generation_config = fits}).sequences.size(1), 12);
  const GenerationConfig exceeds{.max_new_tokens = 8, .eos_token_id = 49};
  EXPECT_EQ(message_of([&] { generate(*model, prompt, {.generation_config = exceeds}); }),
            "[generate] a prompt of 5 tokens and up to 8 new ones exceed the 12 positions of the model. Set "
            "max_new_tokens to at most 7.");
}

TEST_F(Generate, TrainingGoesOnAfterwards) {
  const at::Tensor ids = generate(*model_, prompt_, {.generation_config = {.max_new_tokens = 4}}).sequences;
  const ModelOutput out = (*model_)({.input_ids = ids, .labels = ids});
  out.loss.backward();
  for (const auto& [path, parameter] : model_->named_parameters())
    EXPECT_TRUE(parameter->value().grad().defined()) << path;
}

TEST_F(Generate, BeamsFindABetterRowThanGreedySearch) {
  const GenerationConfig greedy{.max_new_tokens = 6, .output_log_probs = true};
  const GenerationConfig beams{
      .max_new_tokens = 6, .num_beams = 8, .length_penalty = 0.0, .num_return_sequences = 8, .output_log_probs = true};
  const GenerateOutput one = generate(*model_, prompt_, {.generation_config = greedy});
  const GenerateOutput many = generate(*model_, prompt_, {.generation_config = beams});
  ASSERT_EQ(many.sequences.size(0), 16);
  EXPECT_TRUE(is_close(many.sequences_scores, many.log_probs.sum(1)));
  for (int64_t row = 0; row < 2; ++row) {
    EXPECT_GE(many.sequences_scores[row * 8].item<double>(), one.log_probs[row].sum().item<double>() - 1e-5);
    for (int64_t i = 1; i < 8; ++i) {
      EXPECT_GE(many.sequences_scores[row * 8 + i - 1].item<double>(),
                many.sequences_scores[row * 8 + i].item<double>());
    }
  }
  std::set<std::string> different;
  for (int64_t i = 0; i < 8; ++i) different.insert(concat(many.sequences[i]));
  EXPECT_EQ(different.size(), 8);
}

TEST(GenerateOnAMesh, GivesTheTokensOfOneDevice) {
  const at::Tensor ids = at::tensor({0, 9, 3, 17, 8, 2}, at::kLong).view({2, 3});
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 1}, at::kLong).view({2, 3});
  const GenerationConfig greedy{.max_new_tokens = 5, .max_time = 1e6}, beams{.max_new_tokens = 5, .num_beams = 3},
      drawn{.max_new_tokens = 5, .do_sample = true}, uncached{.max_new_tokens = 5, .use_cache = false};
  const auto model = wide_llama();
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1, 2, 1, 2, 1}, {2, 1, 1, 1, 2}}) {
    for (const GenerationConfig& config : {greedy, beams, drawn, uncached}) {
      const GenerateOptions options{.generation_config = config, .inputs = {.attention_mask = mask}};
      const at::Tensor expected = generate(*model, ids, options).sequences;
      on_mesh(dims, [&](const Mesh& mesh, World&) {
        const auto sharded = wide_llama();
        sharded->shard_model({}, mesh);
        const at::Tensor sequences = generate(*sharded, ids, options).sequences;
        EXPECT_TRUE(at::equal(sequences, expected)) << mesh.to_string();
        (*sharded)({.input_ids = sequences, .labels = sequences}).loss.backward();
      });
    }
  }
}

TEST_F(Generate, BeamSamplingIsDecidedByTheKey) {
  const GenerationConfig config{.max_new_tokens = 6, .do_sample = true, .num_beams = 3};
  const auto draw = [&](uint64_t key) {
    return generate(*model_, prompt_, {.generation_config = config, .prng_key = RandomKey(key)}).sequences;
  };
  EXPECT_TRUE(at::equal(draw(1), draw(1)));
  EXPECT_FALSE(at::equal(draw(1), draw(2)));
}

}  // namespace
}  // namespace easydel
