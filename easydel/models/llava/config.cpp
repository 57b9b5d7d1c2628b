#include "easydel/models/llava/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/decoder/image_text_config.h"
#include "easydel/infra/parallel/weight_specs.h"
#include "easydel/models/clip/config.h"
#include "easydel/models/llama/config.h"

namespace easydel {
namespace {

CLIPVisionConfig default_tower() {
  CLIPVisionConfig tower;
  tower.intermediate_size = 4096;
  tower.hidden_size = 1024;
  tower.patch_size = 14;
  tower.image_size = 336;
  tower.num_hidden_layers = 24;
  tower.num_attention_heads = 16;
  tower.projection_dim = 768;
  return tower;
}

}  // namespace

LlavaConfig::LlavaConfig() : vision_config(default_tower()), text_config(LlamaConfig()) { post_init(); }

void LlavaConfig::fields(FieldVisitor& v) {
  v("vision_config", vision_config, "The vision tower.");
  v("text_config", text_config, "The decoder.");
  v("image_token_index", image_token_index, "Placeholder token for image features.", {"image_token_id"});
  v("image_seq_length", image_seq_length, "Kept for transformers.");
  v("projector_hidden_act", projector_hidden_act, "Activation of the projector.");
  v("vision_feature_select_strategy", vision_feature_select_strategy,
    "default: features of the patches; full: of the class token too.");
  v("vision_feature_layer", vision_feature_layer, "Hidden state of the tower that is projected; or a list of them.");
  v("multimodal_projector_bias", multimodal_projector_bias, "Biases in the projector.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

std::vector<int64_t> LlavaConfig::feature_layers() const {
  std::vector<int64_t> layers;
  if (vision_feature_layer.is_int()) return {vision_feature_layer.as_int()};
  for (const Json& layer : vision_feature_layer.as_array()) layers.push_back(layer.as_int());
  return layers;
}

void LlavaConfig::post_init() {
  take_from_decoder(*this, text_config);
  tie_word_embeddings = tie_word_embeddings || text_config->tie_word_embeddings;
  initializer_range = text_config->initializer_range;
}

void LlavaConfig::validate() const {
  BaseConfig::validate();
  vision_config->validate();
  text_config->validate();
  const ConfigCheck check(*this);
  check.activation("projector_hidden_act", projector_hidden_act);
  check.one_of("vision_feature_select_strategy", vision_feature_select_strategy, {"default", "full"});
  check.at_least("image_token_index", image_token_index, 0);
  const std::string rule = "vision_feature_layer must be the number of a hidden state, or a list of them; got ";
  require<ConfigError>(
      vision_feature_layer.is_int() || (vision_feature_layer.is_array() && vision_feature_layer.size() > 0), "[",
      class_name(), "] ", rule, vision_feature_layer.dump(), ".");
  const int64_t states = vision_config->num_hidden_layers + 1;
  if (vision_feature_layer.is_array()) {
    for (const Json& layer : vision_feature_layer.as_array())
      require<ConfigError>(layer.is_int(), "[", class_name(), "] ", rule, vision_feature_layer.dump(), ".");
  }
  for (const int64_t layer : feature_layers()) {
    require<ConfigError>(layer >= -states && layer < states, "[", class_name(), "] vision_feature_layer must be from ",
                         -states, " to ", states - 1, "; got ", layer, ".");
  }
  // Its embeddings are scaled in a way that a prompt with images would miss.
  require<NotSupportedError>(text_config->model_type() != "gemma3_text", "[", class_name(),
                             "] text_config must be a decoder other than gemma3_text; got gemma3_text.");
}

PartitionRules LlavaConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return image_rules(*this, {{"vision_tower.", &vision_config}, {"language_model.", &text_config}},
                     {{"multi_modal_projector\\.linear_\\d\\.weight$", specs.shard_second()}}, fully_sharded);
}

}  // namespace easydel
