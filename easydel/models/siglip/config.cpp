#include "easydel/models/siglip/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

SiglipTextConfig::SiglipTextConfig() {
  vocab_size = 32000;
  hidden_size = 768;
  intermediate_size = 3072;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  max_position_embeddings = 64;
  hidden_act = "gelu_pytorch_tanh";
  norm_eps = 1e-6;
  pad_token_id = 1;
  bos_token_id = 49406;
  eos_token_id = 49407;
}

void SiglipTextConfig::fields(FieldVisitor& v) {
  encoder_fields(v);
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Longest text.");
  v("projection_size", projection_size, "Size of a text embedding; null: hidden_size.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token.");
}

void SiglipTextConfig::post_init() {
  if (!projection_size) projection_size = hidden_size;
}

void SiglipTextConfig::validate() const {
  EncoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("vocab_size", vocab_size, 1);
  check.at_least("max_position_embeddings", max_position_embeddings, 1);
  check.at_least("projection_size", projection_size, 1);
}

SiglipVisionConfig::SiglipVisionConfig() {
  hidden_size = 768;
  intermediate_size = 3072;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  hidden_act = "gelu_pytorch_tanh";
  norm_eps = 1e-6;
}

void SiglipVisionConfig::fields(FieldVisitor& v) {
  encoder_fields(v);
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  image_fields(v);
  v.only_when_changed();
  v("vision_use_head", vision_use_head, "A head that pools the patches.");
}

SiglipConfig::SiglipConfig() : text_config(SiglipTextConfig()), vision_config(SiglipVisionConfig()) { post_init(); }

void SiglipConfig::fields(FieldVisitor& v) {
  v("text_config", text_config, "The text tower.");
  v("vision_config", vision_config, "The vision tower.");
  v("initializer_factor", initializer_factor, "Kept for transformers.");
}

void SiglipConfig::post_init() {
  vocab_size = text_config->vocab_size;
  hidden_size = text_config->hidden_size;
  num_attention_heads = text_config->num_attention_heads;
  max_position_embeddings = text_config->max_position_embeddings;
}

void SiglipConfig::validate() const {
  BaseConfig::validate();
  text_config.as<SiglipTextConfig>().validate();
  vision_config.as<SiglipVisionConfig>().validate();
}

PartitionRules SiglipConfig::get_partition_rules(bool fully_sharded) const {
  std::vector<PartitionRule> rules = text_config.rules_under("text_model.", fully_sharded, *this);
  for (PartitionRule& rule : vision_config.rules_under("vision_model.", fully_sharded, *this))
    rules.push_back(std::move(rule));
  const PartitionRules of_texts = text_config->get_partition_rules(fully_sharded);
  rules.insert(rules.end(), of_texts.rules().begin(), of_texts.rules().end());
  return PartitionRules(std::move(rules));
}

}  // namespace easydel
