#include "easydel/models/mistral3/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/config/decoder_config.h"
#include "easydel/infra/decoder/image_text_config.h"
#include "easydel/infra/parallel/weight_specs.h"
#include "easydel/models/mistral/config.h"
#include "easydel/models/pixtral/config.h"

namespace easydel {
namespace {

PixtralVisionConfig pixtral_tower() {
  PixtralVisionConfig tower;
  tower.patch_size = 14;
  tower.image_size = 1540;
  return tower;
}

MistralConfig mistral_decoder() {
  MistralConfig decoder;
  decoder.vocab_size = 131072;
  decoder.hidden_size = 5120;
  decoder.intermediate_size = 32768;
  decoder.num_hidden_layers = 40;
  decoder.num_attention_heads = 32;
  decoder.num_key_value_heads = 8;
  decoder.head_dim = 128;
  decoder.max_position_embeddings = 131072;
  decoder.norm_eps = 1e-5;
  decoder.rope.rope_theta = 1e9;
  decoder.sliding_window.reset();
  return decoder;
}

}  // namespace

Mistral3Config::Mistral3Config() : vision_config(pixtral_tower()), text_config(mistral_decoder()) {
  tie_word_embeddings = true;
  post_init();
}

void Mistral3Config::fields(FieldVisitor& v) {
  v("vision_config", vision_config, "The vision tower.");
  v("text_config", text_config, "The decoder.");
  v("image_token_index", image_token_index, "Placeholder token for image features.", {"image_token_id"});
  v("projector_hidden_act", projector_hidden_act, "Activation of the projector.");
  v("vision_feature_layer", vision_feature_layer, "Hidden state of the tower that is projected.");
  v("multimodal_projector_bias", multimodal_projector_bias, "Biases in the projector.");
  v("spatial_merge_size", spatial_merge_size, "Patches of a side that become one feature.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

int64_t Mistral3Config::feature_layer() const {
  return vision_feature_layer.is_int() ? vision_feature_layer.as_int() : vision_feature_layer.at(0).as_int();
}

void Mistral3Config::post_init() {
  take_from_decoder(*this, text_config);
  initializer_range = text_config->initializer_range;
}

void Mistral3Config::validate() const {
  BaseConfig::validate();
  vision_config.as<PixtralVisionConfig>().validate();
  text_config.as<DecoderConfig>().validate();
  const ConfigCheck check(*this);
  check.activation("projector_hidden_act", projector_hidden_act);
  check.at_least("image_token_index", image_token_index, 0);
  check.at_least("spatial_merge_size", spatial_merge_size, 1);
  const Json& layer = vision_feature_layer;
  require<ConfigError>(layer.is_int() || (layer.is_array() && layer.size() == 1 && layer.at(0).is_int()), "[",
                       class_name(),
                       "] vision_feature_layer must be the number of a hidden state, alone or in a list: the norm of "
                       "the projector has the size of one; got ",
                       layer.dump(), ".");
  const int64_t states = vision_config->num_hidden_layers + 1;
  require<ConfigError>(feature_layer() >= -states && feature_layer() < states, "[", class_name(),
                       "] vision_feature_layer must be from ", -states, " to ", states - 1, "; got ", feature_layer(),
                       ".");
  // Its embeddings are scaled in a way that a prompt with images would miss.
  require<NotSupportedError>(text_config->model_type() != "gemma3_text", "[", class_name(),
                             "] text_config must be a decoder other than gemma3_text; got gemma3_text.");
}

PartitionRules Mistral3Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return image_rules(*this, {{"vision_tower.", &vision_config}, {"language_model.", &text_config}},
                     {{"multi_modal_projector\\..*(linear_\\d|merging_layer)\\.weight$", specs.shard_second()}},
                     fully_sharded);
}

}  // namespace easydel
