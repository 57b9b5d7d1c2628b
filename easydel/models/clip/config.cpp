#include "easydel/models/clip/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

CLIPTextConfig::CLIPTextConfig() {
  vocab_size = 49408;
  hidden_size = 512;
  intermediate_size = 2048;
  num_hidden_layers = 12;
  num_attention_heads = 8;
  max_position_embeddings = 77;
  hidden_act = "quick_gelu";
  pad_token_id = 1;
  bos_token_id = 49406;
  eos_token_id = 49407;
}

void CLIPTextConfig::fields(FieldVisitor& v) {
  encoder_fields(v);
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Longest text.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("initializer_factor", initializer_factor, "Kept for transformers.");
  v("projection_dim", projection_dim, "Size of a text embedding.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "Token that ends a text, whose state is the text's; 2: the largest id in it.");
}

void CLIPTextConfig::validate() const {
  EncoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("vocab_size", vocab_size, 1);
  check.at_least("max_position_embeddings", max_position_embeddings, 1);
  check.at_least("projection_dim", projection_dim, 1);
}

CLIPVisionConfig::CLIPVisionConfig() {
  hidden_size = 768;
  intermediate_size = 3072;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  hidden_act = "quick_gelu";
  patch_size = 32;
}

void CLIPVisionConfig::fields(FieldVisitor& v) {
  encoder_fields(v);
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  image_fields(v);
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("initializer_factor", initializer_factor, "Kept for transformers.");
  v("projection_dim", projection_dim, "Size of an image embedding.");
}

void CLIPVisionConfig::validate() const {
  VisionEncoderConfig::validate();
  ConfigCheck(*this).at_least("projection_dim", projection_dim, 1);
}

CLIPConfig::CLIPConfig() : text_config(CLIPTextConfig()), vision_config(CLIPVisionConfig()) { post_init(); }

void CLIPConfig::fields(FieldVisitor& v) {
  v("text_config", text_config, "The text tower.");
  v("vision_config", vision_config, "The vision tower.");
  v("projection_dim", projection_dim, "Size of text and image embeddings.");
  v("logit_scale_init_value", logit_scale_init_value, "Initial value of logit_scale.");
  v("initializer_factor", initializer_factor, "Kept for transformers.");
}

// Files of the first versions had what changes in text_config_dict, which wins over text_config.
void CLIPConfig::rename_older_keys(Json& given, bool) const {
  const auto merge = [&](const char* older, const char* key, const auto& read) {
    const Json* changes = given.find(older);
    if (!changes) return;
    if (changes->is_object()) {
      const Json full = read(*changes);
      Json inner = given.find(key) && given.at(key).is_object() ? given.at(key) : Json::object();
      for (const auto& [name, value] : full.as_object()) inner[name] = value;
      given[key] = inner;
    }
    given.as_object().erase(older);
  };
  merge("text_config_dict", "text_config", [](const Json& json) { return CLIPTextConfig::from_dict(json).to_dict(); });
  merge("vision_config_dict", "vision_config",
        [](const Json& json) { return CLIPVisionConfig::from_dict(json).to_dict(); });
}

void CLIPConfig::post_init() {
  vocab_size = text_config->vocab_size;
  hidden_size = text_config->hidden_size;
  num_attention_heads = text_config->num_attention_heads;
  max_position_embeddings = text_config->max_position_embeddings;
}

void CLIPConfig::validate() const {
  BaseConfig::validate();
  text_config.as<CLIPTextConfig>().validate();
  vision_config.as<CLIPVisionConfig>().validate();
  ConfigCheck(*this).at_least("projection_dim", projection_dim, 1);
}

PartitionRules CLIPConfig::get_partition_rules(bool fully_sharded) const {
  std::vector<PartitionRule> rules = text_config.rules_under("text_model.", fully_sharded, *this);
  for (PartitionRule& rule : vision_config.rules_under("vision_model.", fully_sharded, *this))
    rules.push_back(std::move(rule));
  const PartitionRules of_texts = text_config->get_partition_rules(fully_sharded);
  rules.insert(rules.end(), of_texts.rules().begin(), of_texts.rules().end());
  return PartitionRules(std::move(rules));
}

}  // namespace easydel
