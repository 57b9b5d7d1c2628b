// Whisper: steps with a cache give what the whole text gives, on any mesh; new positions are sines; one encoder pass.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>

#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "easydel/generation/speech/transcribe.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/models/whisper/model.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/probe.h"

namespace easydel::whisper_tests {
namespace {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

WhisperConfig tiny() {
  WhisperConfig c;
  c.vocab_size = 40;
  c.hidden_size = 16;
  c.num_hidden_layers = 2;
  c.decoder_layers = 2;
  c.num_attention_heads = c.decoder_attention_heads = 4;
  c.intermediate_size = c.decoder_ffn_dim = 24;
  c.num_mel_bins = 5;
  c.max_source_positions = 7;
  c.max_position_embeddings = 20;
  c.initializer_range = 0.4;
  c.pad_token_id = c.bos_token_id = 1;
  c.eos_token_id = 1;
  c.decoder_start_token_id = 2;
  return c;
}

Tensor sound(int64_t rows, int64_t frames = 14) {
  return at::sin(at::arange(rows * 5 * frames, at::kDouble) * 0.37).view({rows, 5, frames}).to(at::kFloat);
}

std::shared_ptr<WhisperForConditionalGeneration> drawn(const WhisperConfig& config = tiny()) {
  return make_model<WhisperForConditionalGeneration>(config, {.rngs = RandomKey(4)});
}

TEST(Whisper, StepsWithACacheGiveWhatTheWholeTextGivesOnAnyMesh) {
  const at::NoGradGuard no_grad;
  const Tensor features = sound(3), ids = at::arange(3, 27, at::kLong).view({3, 8});
  ModelInputs whole;
  whole.input_features = features;
  whole.decoder_input_ids = ids;
  const Tensor expected = (*drawn())(whole).logits;
  for (const std::vector<int64_t>& dims :
       std::vector<std::vector<int64_t>>{{1, 1, 1, 1, 1}, {1, 1, 1, 2, 1}, {1, 2, 1, 1, 2}, {1, 1, 1, 3, 1}}) {
    const int64_t ranks = dims[1] * dims[3] * dims[4];
    std::mutex mutex;
    double worst = 0;
    run_ranks(ranks, [&](World&) {
      const at::NoGradGuard own_no_grad;
      const auto model = drawn();
      if (ranks > 1) model->shard_model({}, create_mesh({.axis_dims = dims, .device_count = ranks}));
      ModelInputs sounding;
      sounding.input_features = features;
      ModelInputs step;
      step.encoder_outputs = run_encoder(*model, sounding);
      step.past_key_values = model->init_cache(3, 10);
      for (int64_t at = 0; at < 8; at += at == 1 ? 2 : 1) {
        const int64_t count = at == 1 ? 2 : 1;
        step.decoder_input_ids = ids.narrow(1, at, count);
        const double off = ((*model)(step).logits - expected.narrow(1, at, count)).abs().max().item<double>();
        const std::lock_guard lock(mutex);
        worst = std::max(worst, off);
      }
    });
    EXPECT_LT(worst, 1e-4 * expected.abs().max().item<double>()) << at::IntArrayRef(dims);
  }
}

TEST(Whisper, NewPositionsAreSinesAndCosinesOnAnyMeshAndNotTrained) {
  const Tensor table = sinusoids(7, 16);
  EXPECT_TRUE(at::equal(table[0], at::cat({at::zeros({8}), at::ones({8})})));
  EXPECT_NEAR(table[3][0].item<double>(), std::sin(3.0), 1e-6);
  EXPECT_NEAR(table[3][15].item<double>(), std::cos(3.0 / 10000), 1e-6);
  const char* path = "model.encoder.embed_positions.weight";
  const auto model = drawn();
  EXPECT_TRUE(at::equal(model->params().at(path), table));
  EXPECT_FALSE(model->params().at(path).requires_grad());
  run_ranks(2, [&](World&) {
    auto split = lazy_init<WhisperForConditionalGeneration>(tiny());
    split->shard_model({}, create_mesh({.axis_dims = {1, 2, 1, 1, 1}, .device_count = 2}));
    split->initialize({.rngs = RandomKey(4)});
    split->gather_model();
    EXPECT_TRUE(at::equal(split->params().at(path), table));
  });
}

class CountingWhisper : public WhisperForConditionalGeneration {
 public:
  using WhisperForConditionalGeneration::WhisperForConditionalGeneration;
  mutable int passes = 0;
  ModelOutput encode(const PreparedInputs& inputs) const override {
    ++passes;
    return WhisperForConditionalGeneration::encode(inputs);
  }
};

TEST(Whisper, OneEncoderPassForEachGenerate) {
  CountingWhisper model(tiny());
  model.initialize({.rngs = RandomKey(3)});
  const GenerateOutput plain = generate(model, sound(2), {.generation_config = {.max_new_tokens = 6}});
  EXPECT_EQ(model.passes, 1);
  const GenerateOutput slow =
      generate(model, sound(2), {.generation_config = {.max_new_tokens = 6, .use_cache = false}});
  EXPECT_TRUE(at::equal(plain.sequences, slow.sequences));
  generate(model, sound(2), {.generation_config = {.max_new_tokens = 6, .num_beams = 3}});
  EXPECT_EQ(model.passes, 3);
  EXPECT_EQ(plain.sequences.select(1, 0).min().item<int64_t>(), 2);
  EXPECT_THAT([&] { generate(model, at::arange(5, at::kLong)); },
              ThrowsMessage<ShapeError>(HasSubstr("needs input_features, floats [batch, mel features, frames]")));
}

// A model whose files say what Whisper's do.
std::shared_ptr<WhisperForConditionalGeneration> speaking() {
  auto model = drawn();
  set_generation_config(*model,
                        GenerationConfig::from_dict(Json::parse(
                            R"({"decoder_start_token_id": 2, "eos_token_id": 1, "pad_token_id": 1, "max_length": 12,
      "lang_to_id": {"<|en|>": 3, "<|de|>": 4}, "task_to_id": {"transcribe": 5, "translate": 6},
      "no_timestamps_token_id": 19, "is_multilingual": true})")));
  return model;
}

TEST(Transcribe, TakesSoundOfAnyLengthInWindows) {
  const auto model = speaking();
  const Transcription said = transcribe(*model, sound(1, 33));
  ASSERT_GE(said.segments.size(), 3);
  EXPECT_EQ(said.decoder_input_ids.size(), 2);  // no task, and times
  double before = 0;
  for (const SpokenSegment& segment : said.segments) {
    EXPECT_GE(segment.start, before);
    before = segment.start;
    EXPECT_GE(segment.tokens.front(), 20);  // a time
  }
  EXPECT_THAT(
      [&] { transcribe(*model, sound(1, 33), {.return_timestamps = false}); },
      ThrowsMessage<ConfigError>(HasSubstr("33 frames are more than a window of 14, and timestamps determine")));
  EXPECT_THAT(
      [&] { transcribe(*drawn(), sound(1, 33)); },
      ThrowsMessage<ConfigError>(HasSubstr("need no_timestamps_token_id in generation_config.json; it has none.")));
  EXPECT_THAT([&] { transcribe(*model, sound(2)); },
              ThrowsMessage<ShapeError>(HasSubstr("one recording at a time; got 2")));
}

PROBE(TranscribeOptions, generation_config) {
  const auto model = speaking();
  EXPECT_LE(transcribe(*model, sound(1), {.generation_config = {.max_new_tokens = 2}}).tokens.size(), 2);
  EXPECT_GT(transcribe(*model, sound(1)).tokens.size(), 2);
  EXPECT_TRUE(testing_support::is_refused(
      "do_sample", [&] { transcribe(*model, sound(1), {.generation_config = {.do_sample = true}}); }));
}
// Long enough for three windows, with a head that follows the sound.
std::shared_ptr<WhisperForConditionalGeneration> aligned() {
  auto model = speaking();
  GenerationConfig config = generation_config(*model);
  config.other["alignment_heads"] = Json::parse("[[0, 1], [1, 2]]");
  set_generation_config(*model, config);
  return model;
}

TEST(Transcribe, OneEncoderPassForEachWindow) {
  CountingWhisper model(tiny());
  model.initialize({.rngs = RandomKey(4)});
  set_generation_config(model, generation_config(*aligned()));
  transcribe(model, sound(1), {.return_token_timestamps = true, .temperature = {0, 1}, .logprob_threshold = 0});
  EXPECT_EQ(model.passes, 1);  // a language is detected, two tries and times
}
PROBE(TranscribeOptions, return_token_timestamps) {
  const Transcription said =
      transcribe(*aligned(), sound(1, 33), {.return_timestamps = true, .return_token_timestamps = true});
  for (const SpokenSegment& segment : said.segments) {
    ASSERT_EQ(segment.token_times.size(), segment.tokens.size());
    EXPECT_TRUE(std::is_sorted(segment.token_times.begin(), segment.token_times.end()));
  }
  EXPECT_TRUE(transcribe(*aligned(), sound(1)).segments.at(0).token_times.empty());
  EXPECT_TRUE(testing_support::is_refused(
      "alignment_heads", [] { transcribe(*speaking(), sound(1), {.return_token_timestamps = true}); }));
}
PROBE(WhisperConfig, median_filter_width) {
  const auto times = [](int64_t width) {
    WhisperConfig config = tiny();
    config.median_filter_width = width;
    const auto model = drawn(config);
    set_generation_config(*model, generation_config(*aligned()));
    std::vector<double> all;
    for (const SpokenSegment& segment : transcribe(*model, sound(1, 33), {.return_token_timestamps = true}).segments)
      all.insert(all.end(), segment.token_times.begin(), segment.token_times.end());
    return all;
  };
  EXPECT_NE(times(1), times(5));
  EXPECT_TRUE(
      testing_support::is_refused("median_filter_width must be an odd number above 0; got 4", [&] { times(4); }));
}
PROBE(TranscribeOptions, num_frames) {
  const auto times = [](std::optional<int64_t> frames) {
    return transcribe(*aligned(), sound(1), {.return_token_timestamps = true, .num_frames = frames})
        .segments.at(0)
        .token_times;
  };
  EXPECT_EQ(times(14), times({}));
  EXPECT_LT(times(4).back(), 0.03);  // two states
  EXPECT_TRUE(testing_support::is_refused("num_frames", [&] { times(0); }));
}
PROBE(TranscribeOptions, temperature) {
  EXPECT_EQ(transcribe(*speaking(), sound(1), {.temperature = {0.7}}).segments.at(0).temperature, 0.7);
  EXPECT_TRUE(testing_support::is_refused("temperature must be finite and at least 0; got -1",
                                          [] { transcribe(*speaking(), sound(1), {.temperature = {-1}}); }));
}
double last_temperature(const TranscribeOptions& options) {
  return transcribe(*speaking(), sound(1), options).segments.at(0).temperature;
}
PROBE(TranscribeOptions, compression_ratio_threshold) {
  EXPECT_EQ(last_temperature({.temperature = {0, 1}, .compression_ratio_threshold = 0.01}), 1);
  EXPECT_EQ(last_temperature({.temperature = {0, 1}, .compression_ratio_threshold = 100}), 0);
}
PROBE(TranscribeOptions, logprob_threshold) {
  EXPECT_EQ(last_temperature({.temperature = {0, 1}, .logprob_threshold = 0}), 1);
  EXPECT_EQ(last_temperature({.temperature = {0, 1}, .logprob_threshold = -100}), 0);
}
PROBE(TranscribeOptions, no_speech_threshold) {
  EXPECT_TRUE(transcribe(*speaking(), sound(1), {.logprob_threshold = 0, .no_speech_threshold = 0}).segments.empty());
  EXPECT_FALSE(transcribe(*speaking(), sound(1), {.logprob_threshold = 0, .no_speech_threshold = 1}).segments.empty());
  EXPECT_TRUE(testing_support::is_refused("no_speech_threshold needs logprob_threshold",
                                          [] { transcribe(*speaking(), sound(1), {.no_speech_threshold = 0.5}); }));
}
PROBE(TranscribeOptions, condition_on_prev_tokens) {
  EXPECT_NE(transcribe(*speaking(), sound(1, 33), {.condition_on_prev_tokens = true}).tokens,
            transcribe(*speaking(), sound(1, 33)).tokens);
}
PROBE(TranscribeOptions, prompt_ids) {
  const auto model = speaking();
  const Transcription plain = transcribe(*model, sound(1)),
                      prompted = transcribe(*model, sound(1), {.prompt_ids = {9, 10, 11}});
  EXPECT_NE(prompted.tokens, plain.tokens);
  EXPECT_EQ(prompted.decoder_input_ids, plain.decoder_input_ids);  // without the prompt
  EXPECT_TRUE(testing_support::is_refused("prompt_ids must lie in [0, ",
                                          [&] { transcribe(*model, sound(1), {.prompt_ids = {9, 1000}}); }));
  EXPECT_TRUE(testing_support::is_refused(
      "Shorten the prompt", [&] { transcribe(*model, sound(1), {.prompt_ids = std::vector<int64_t>(100, 9)}); }));
}
PROBE(TranscribeOptions, prng_key) {
  const auto drawn_with = [](uint64_t seed) {
    return transcribe(*speaking(), sound(1), {.temperature = {2}, .prng_key = RandomKey(seed)}).tokens;
  };
  EXPECT_EQ(drawn_with(1), drawn_with(1));
  EXPECT_NE(drawn_with(1), drawn_with(2));
}
PROBE(TranscribeOptions, language) {
  const auto model = speaking();
  EXPECT_EQ(transcribe(*model, sound(1), {.language = "de"}).decoder_input_ids, (std::vector<int64_t>{2, 4, 5, 19}));
  EXPECT_EQ(transcribe(*model, sound(1), {.language = "<|en|>"}).decoder_input_ids,
            (std::vector<int64_t>{2, 3, 5, 19}));
  EXPECT_TRUE(testing_support::is_refused("languages are en, de; got \"xx\"",
                                          [&] { transcribe(*model, sound(1), {.language = "xx"}); }));
}
PROBE(TranscribeOptions, task) {
  const auto model = speaking();
  EXPECT_EQ(transcribe(*model, sound(1), {.language = "de", .task = "translate"}).decoder_input_ids,
            (std::vector<int64_t>{2, 4, 6, 19}));
  EXPECT_TRUE(testing_support::is_refused("tasks are transcribe, translate; got \"sing\"",
                                          [&] { transcribe(*model, sound(1), {.task = "sing"}); }));
}
PROBE(TranscribeOptions, return_timestamps) {
  const auto model = speaking();
  EXPECT_EQ(transcribe(*model, sound(1)).decoder_input_ids.back(), 19);
  EXPECT_NE(transcribe(*model, sound(1), {.return_timestamps = true}).decoder_input_ids.back(), 19);
  EXPECT_GE(transcribe(*model, sound(1), {.return_timestamps = true}).tokens.at(0), 20);
}

}  // namespace
}  // namespace easydel::whisper_tests
