// Encoder-decoders: steps with a cache give what the whole sequence gives, on any mesh; the encoder runs once.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <mutex>

#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/models/models.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/one_answer.h"

namespace easydel {
namespace {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Problem;

// A drawn problem of an encoder-decoder's language model.
Problem draw_seq2seq(uint64_t seed) {
  for (uint64_t n = 0;; ++n) {
    Problem p = testing_support::draw_problem(seed + 1000003 * n);
    if (p.task == TaskType::SequenceToSequence) return p;
  }
}

std::string difference(const char* what, const Tensor& got, const Tensor& want) {
  if (got.sizes() != want.sizes()) return concat("\n  ", what, ": shape ", got.sizes(), " for ", want.sizes());
  const double error = (got - want).abs().max().item<double>() / std::max(want.abs().max().item<double>(), 1e-300);
  return error < 1e-9 ? "" : concat("\n  ", what, ": off by ", error);
}

// The decoder's tokens one after another, and two at once, behind one pass of the encoder.
std::string run_steps(const Problem& p, const ModelInputs& whole, const Tensor& expected) {
  const at::NoGradGuard no_grad;
  const auto model = testing_support::make_model(p);
  if (p.mesh.size() > 1) model->shard_model(p.rules, p.mesh);
  const Tensor& ids = whole.decoder_input_ids;
  ModelInputs step;
  step.encoder_outputs = run_encoder(*model, {.input_ids = whole.input_ids, .attention_mask = whole.attention_mask});
  step.attention_mask = whole.attention_mask;
  step.past_key_values = model->init_cache(ids.size(0), ids.size(1) + 2);
  std::string wrong;
  for (int64_t at = 0; at < ids.size(1);) {
    const int64_t count = at == 1 ? std::min<int64_t>(2, ids.size(1) - at) : 1;
    step.decoder_input_ids = ids.narrow(1, at, count);
    wrong += difference("a step", (*model)(step).logits, expected.narrow(1, at, count));
    at += count;
  }
  return wrong;
}

TEST(Seq2Seq, StepsWithACacheGiveWhatTheWholeSequenceGivesOnAnyMesh) {
  for (uint64_t seed = 1; seed <= 24 && !HasFailure(); ++seed) {
    const Problem p = draw_seq2seq(seed);
    const at::NoGradGuard no_grad;
    ModelInputs whole{.input_ids = p.inputs.input_ids, .attention_mask = p.inputs.attention_mask};
    whole.decoder_input_ids = p.inputs.labels;
    const Tensor expected = (*testing_support::make_model(p))(whole).logits;
    std::mutex mutex;
    std::string wrong;
    try {
      run_ranks(p.mesh.size(), [&](World& world) {
        const std::string found = run_steps(p, whole, expected);
        const std::lock_guard lock(mutex);
        if (!found.empty()) wrong += concat("\nrank ", world.rank(), ":", found);
      });
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    EXPECT_TRUE(wrong.empty()) << p.to_string() << wrong;
  }
}

T5Config tiny_t5() {
  T5Config c;
  c.vocab_size = 31;
  c.hidden_size = 16;
  c.head_dim = 4;
  c.intermediate_size = 24;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.decoder_start_token_id = 0;
  return c;
}

class CountingT5 : public T5ForConditionalGeneration {
 public:
  using T5ForConditionalGeneration::T5ForConditionalGeneration;
  mutable int passes = 0;

 protected:
  ModelOutput encoder_forward(const PreparedInputs& inputs) const override {
    ++passes;
    return T5ForConditionalGeneration::encoder_forward(inputs);
  }
};

TEST(Seq2Seq, OneEncoderPassForEachGenerate) {
  CountingT5 model(tiny_t5());
  model.initialize({.rngs = RandomKey(3)});
  const Tensor ids = at::arange(2, 12, at::kLong).view({2, 5});
  int expected = 0;
  for (const bool use_cache : {true, false}) {
    for (const int64_t beams : {1, 4}) {
      GenerationConfig config{.max_new_tokens = 6, .num_beams = beams, .use_cache = use_cache};
      const GenerateOutput out = generate(model, ids, {.generation_config = config});
      EXPECT_GT(out.sequences.size(1), 1);
      EXPECT_EQ(model.passes, ++expected) << "cache " << use_cache << ", beams " << beams;
    }
  }
}

TEST(Seq2Seq, SamplingDrawsBehindOneEncoderPass) {
  CountingT5 model(tiny_t5());
  model.initialize({.rngs = RandomKey(3)});
  const Tensor ids = at::arange(2, 12, at::kLong).view({2, 5});
  const auto drawn = [&](uint64_t seed, int64_t top_k) {
    const GenerationConfig config{.max_new_tokens = 6, .do_sample = true, .top_k = top_k, .num_return_sequences = 3};
    return generate(model, ids, {.generation_config = config, .prng_key = RandomKey(seed)}).sequences;
  };
  const Tensor greedy = generate(model, ids, {.generation_config = {.max_new_tokens = 6}}).sequences;
  model.passes = 0;
  const Tensor likeliest = drawn(1, 1), some = drawn(1, 0);
  EXPECT_EQ(model.passes, 2);
  EXPECT_TRUE(at::equal(likeliest, greedy.repeat_interleave(3, 0)));
  EXPECT_EQ(some.size(0), 6);
  EXPECT_FALSE(at::equal(some, drawn(2, 0)));
  const Tensor again = drawn(1, 0);
  EXPECT_TRUE(at::equal(some, again));
}

TEST(Seq2Seq, TheCacheHoldsTheKeysOfTheDecoderAndThoseOfTheEncoderOnce) {
  CountingT5 model(tiny_t5());
  model.initialize({.rngs = RandomKey(3)});
  const Tensor ids = at::arange(2, 12, at::kLong).view({2, 5});
  const auto cache = model.init_cache(2, 8);
  EXPECT_EQ(cache->metadata().layers.size(), 2U);
  ModelInputs step;
  step.encoder_outputs = run_encoder(model, {.input_ids = ids});
  step.decoder_input_ids = at::zeros({2, 1}, at::kLong);
  step.past_key_values = cache;
  const at::NoGradGuard no_grad;
  model(step);
  ASSERT_EQ(cache->row_states.size(), 2U);
  const Tensor keys = cache->row_states.at(0).at(0).clone();
  EXPECT_EQ(keys.sizes(), at::IntArrayRef({2, 5, 2, 4}));
  model(step);
  EXPECT_TRUE(at::equal(cache->row_states.at(0).at(0), keys));
  cache->reorder(at::tensor({1, 0}, at::kLong));
  EXPECT_TRUE(at::equal(cache->row_states.at(0).at(0), keys.flip(0)));
}

TEST(Seq2Seq, SaysWhatIsMissingOrWrong) {
  const auto model = make_model<T5ForConditionalGeneration>(tiny_t5());
  const Tensor ids = at::ones({2, 3}, at::kLong);
  const auto call = [&](const std::function<void(ModelInputs&)>& change) {
    return [&, change] {
      ModelInputs inputs{.input_ids = ids};
      change(inputs);
      (*model)(inputs);
    };
  };
  EXPECT_THAT(call([](ModelInputs&) {}),
              ThrowsMessage<ConfigError>(HasSubstr("decoder_input_ids or decoder_inputs_embeds")));
  EXPECT_THAT(call([&](ModelInputs& in) { in.encoder_outputs = at::zeros({2, 3, 16}); }),
              ThrowsMessage<ConfigError>(HasSubstr("exactly one of input_ids, inputs_embeds and encoder_outputs")));
  EXPECT_THAT(call([&](ModelInputs& in) { in.decoder_input_ids = at::ones({3, 1}, at::kLong); }),
              ThrowsMessage<ShapeError>(HasSubstr("as many rows as the encoder; got 3 and 2")));
  EXPECT_THAT(call([&](ModelInputs& in) { in.segment_ids = at::zeros_like(ids); }),
              ThrowsMessage<NotSupportedError>(HasSubstr("does not accept segment_ids")));
  EXPECT_THAT(call([&](ModelInputs& in) { in.attention_mask = at::ones({2, 4}, at::kLong); }),
              ThrowsMessage<ShapeError>(HasSubstr("attention_mask must be [2, 3]; got [2, 4]")));
  T5Config without = tiny_t5();
  without.decoder_start_token_id.reset();
  const auto other = make_model<T5ForConditionalGeneration>(without);
  ModelInputs labelled{.input_ids = ids, .labels = ids};
  EXPECT_THAT([&] { (*other)(labelled); },
              ThrowsMessage<ConfigError>(HasSubstr("decoder_start_token_id must be in the config")));
  EXPECT_THAT([&] { generate(*other, ids); },
              ThrowsMessage<ConfigError>(HasSubstr("needs a decoder_start_token_id or a bos_token_id")));
  const auto decoder = make_model<GPT2LMHeadModel>([] {
    GPT2Config c;
    c.hidden_size = 8;
    c.num_attention_heads = 2;
    c.num_hidden_layers = 1;
    return c;
  }());
  EXPECT_THAT([&] { generate(*decoder, ids, {.generation_config = {.decoder_start_token_id = 3}}); },
              ThrowsMessage<ConfigError>(HasSubstr("has no encoder")));
  ModelInputs extra{.input_ids = ids};
  extra.decoder_input_ids = ids;
  EXPECT_THAT([&] { (*decoder)(extra); }, ThrowsMessage<ConfigError>(HasSubstr("does not accept decoder_input_ids")));
}

}  // namespace
}  // namespace easydel
