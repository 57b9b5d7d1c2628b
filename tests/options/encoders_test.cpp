// What the keys of encoders' and encoder-decoders' configs do that no comparison with transformers shows: dropout.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "tests/support/probe.h"

namespace easydel::encoders_probes {
namespace {

using testing_support::is_refused;

// A small model of a family without dropout, but for what the changes say.
std::shared_ptr<BaseModule> small_model(const std::string& family, TaskType task, const Json& changes) {
  Json dict = Json::parse(
      family == "t5" ? R"({"vocab_size": 29, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4,
                                    "decoder_start_token_id": 0, "dropout_rate": 0.0})"
      : family == "whisper"
          ? R"({"vocab_size": 29, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "num_mel_bins": 4,
                                    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
                                    "decoder_ffn_dim": 24, "max_source_positions": 5, "max_target_positions": 8, "init_std": 0.3,
                                    "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 2, "decoder_start_token_id": 2})"
      : family == "bart"
          ? R"({"vocab_size": 29, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
                                    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
                                    "decoder_ffn_dim": 24, "max_position_embeddings": 32, "init_std": 0.3})"
          : R"({"vocab_size": 29, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                                    "intermediate_size": 24, "max_position_embeddings": 32, "hidden_dropout_prob": 0.0,
                                    "attention_probs_dropout_prob": 0.0, "initializer_range": 0.3})");
  dict["model_type"] = family;
  if (family == "modernbert") dict["pad_token_id"] = 0, dict["bos_token_id"] = 1, dict["eos_token_id"] = 2;
  for (const auto& [key, value] : changes.as_object()) dict[key] = value;
  return init_model(*AutoConfig::from_dict(dict), task, {.rngs = RandomKey(1)});
}

at::Tensor logits_of(const BaseModule& model, bool training) {
  const at::NoGradGuard no_grad;
  ModelInputs inputs{.input_ids = at::arange(3, 13, at::kLong).view({2, 5})};
  if (!model.config().eos_token_id.empty()) inputs.input_ids.select(1, 4).fill_(*model.config().eos_token_id.begin());
  if (model.model_task() == TaskType::SequenceToSequence) inputs.decoder_input_ids = inputs.input_ids;
  if (model.main_input_name() == "input_features") {
    inputs.decoder_input_ids = std::exchange(inputs.input_ids, {});
    inputs.input_features = at::linspace(-2, 2, 80).view({2, 4, 10});
  }
  if (training) inputs.dropout_key = RandomKey(5);
  return model(inputs).logits;
}

// Training computes other numbers than inference with this key, and the same without it.
void expect_only_training_changes(const std::string& family, TaskType task, const char* key) {
  const auto plain = small_model(family, task, Json::object());
  const auto dropping = small_model(family, task, Json::object({{key, 0.5}}));
  EXPECT_TRUE(at::equal(logits_of(*plain, true), logits_of(*plain, false)));
  EXPECT_TRUE(at::equal(logits_of(*dropping, false), logits_of(*plain, false)));
  EXPECT_FALSE(at::allclose(logits_of(*dropping, true), logits_of(*dropping, false)));
}

PROBE(T5FamilyConfig, dropout_rate) {
  expect_only_training_changes("t5", TaskType::SequenceToSequence, "dropout_rate");
}
PROBE(T5FamilyConfig, classifier_dropout) {
  expect_only_training_changes("t5", TaskType::TokenClassification, "classifier_dropout");
  expect_only_training_changes("t5", TaskType::SequenceClassification, "classifier_dropout");
}
PROBE(BartFamilyConfig, dropout) { expect_only_training_changes("bart", TaskType::SequenceToSequence, "dropout"); }
PROBE(BartFamilyConfig, attention_dropout) {
  expect_only_training_changes("bart", TaskType::SequenceToSequence, "attention_dropout");
}
PROBE(BartFamilyConfig, activation_dropout) {
  expect_only_training_changes("bart", TaskType::SequenceToSequence, "activation_dropout");
}
PROBE(BartFamilyConfig, classifier_dropout) {
  expect_only_training_changes("bart", TaskType::SequenceClassification, "classifier_dropout");
}
PROBE(BartFamilyConfig, encoder_layerdrop) {
  const auto model = small_model("bart", TaskType::SequenceToSequence, Json::object({{"encoder_layerdrop", 0.1}}));
  EXPECT_TRUE(is_refused("encoder_layerdrop", [&] { logits_of(*model, true); }));
}
PROBE(BartFamilyConfig, decoder_layerdrop) {
  const auto model = small_model("bart", TaskType::SequenceToSequence, Json::object({{"decoder_layerdrop", 0.1}}));
  EXPECT_TRUE(is_refused("decoder_layerdrop", [&] { logits_of(*model, true); }));
}
PROBE(ModernBertConfig, embedding_dropout) {
  expect_only_training_changes("modernbert", TaskType::MaskedLM, "embedding_dropout");
}
PROBE(ModernBertConfig, mlp_dropout) { expect_only_training_changes("modernbert", TaskType::MaskedLM, "mlp_dropout"); }
PROBE(ModernBertConfig, classifier_dropout) {
  expect_only_training_changes("modernbert", TaskType::TokenClassification, "classifier_dropout");
  expect_only_training_changes("modernbert", TaskType::SequenceClassification, "classifier_dropout");
}
PROBE(ModernBertConfig, sparse_prediction) {
  EXPECT_TRUE(is_refused("sparse_prediction", [] {
    small_model("modernbert", TaskType::MaskedLM, Json::object({{"sparse_prediction", true}}));
  }));
}
PROBE(WhisperConfig, dropout) {
  expect_only_training_changes("whisper", TaskType::SpeechSequenceToSequence, "dropout");
}
PROBE(WhisperConfig, attention_dropout) {
  expect_only_training_changes("whisper", TaskType::SpeechSequenceToSequence, "attention_dropout");
}
PROBE(WhisperConfig, activation_dropout) {
  expect_only_training_changes("whisper", TaskType::SpeechSequenceToSequence, "activation_dropout");
}
void expect_no_training(const char* key, const Json& value) {
  const auto model = small_model("whisper", TaskType::SpeechSequenceToSequence, Json::object({{key, value}}));
  EXPECT_TRUE(is_refused(key, [&] { logits_of(*model, true); }));
  EXPECT_TRUE(logits_of(*model, false).defined());
}
PROBE(WhisperConfig, encoder_layerdrop) { expect_no_training("encoder_layerdrop", 0.1); }
PROBE(WhisperConfig, decoder_layerdrop) { expect_no_training("decoder_layerdrop", 0.1); }
PROBE(WhisperConfig, apply_spec_augment) { expect_no_training("apply_spec_augment", true); }
PROBE(BertFamilyConfig, hidden_dropout_prob) {
  expect_only_training_changes("bert", TaskType::MaskedLM, "hidden_dropout_prob");
}
PROBE(BertFamilyConfig, attention_probs_dropout_prob) {
  expect_only_training_changes("bert", TaskType::MaskedLM, "attention_probs_dropout_prob");
}
PROBE(BertFamilyConfig, classifier_dropout) {
  expect_only_training_changes("bert", TaskType::TokenClassification, "classifier_dropout");
  expect_only_training_changes("roberta", TaskType::SequenceClassification, "classifier_dropout");
}

}  // namespace
}  // namespace easydel::encoders_probes
