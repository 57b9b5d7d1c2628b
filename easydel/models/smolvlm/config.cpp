#include "easydel/models/smolvlm/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/decoder/image_text_config.h"
#include "easydel/infra/parallel/weight_specs.h"
#include "easydel/models/llama/config.h"

namespace easydel {
namespace {

LlamaConfig smol_decoder() {
  LlamaConfig decoder;
  decoder.norm_eps = 1e-5;
  return decoder;
}

}  // namespace

SmolVLMVisionConfig::SmolVLMVisionConfig() {
  hidden_size = 1152;
  intermediate_size = 3072;
  num_hidden_layers = 12;
  num_attention_heads = 16;
  patch_size = 32;
  hidden_act = "gelu_pytorch_tanh";
  norm_eps = 1e-6;
}

void SmolVLMVisionConfig::fields(FieldVisitor& v) {
  encoder_fields(v);
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  image_fields(v);
}

SmolVLMConfig::SmolVLMConfig() : vision_config(SmolVLMVisionConfig()), text_config(smol_decoder()) { post_init(); }

void SmolVLMConfig::fields(FieldVisitor& v) {
  v("vision_config", vision_config, "The vision tower.");
  v("text_config", text_config, "The decoder.");
  v("image_token_id", image_token_id, "Placeholder token for image features.");
  v("scale_factor", scale_factor, "Patches of a side that become one feature.");
  v("use_cache", use_cache, "Cache keys and values during generation.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void SmolVLMConfig::post_init() {
  take_from_decoder(*this, text_config);
  initializer_range = text_config->initializer_range;
}

void SmolVLMConfig::validate() const {
  BaseConfig::validate();
  vision_config.as<SmolVLMVisionConfig>().validate();
  text_config->validate();
  const ConfigCheck check(*this);
  check.at_least("image_token_id", image_token_id, 0);
  check.at_least("scale_factor", scale_factor, 1);
  // Its embeddings are scaled in a way that a prompt with images would miss.
  require<NotSupportedError>(text_config->model_type() != "gemma3_text", "[", class_name(),
                             "] text_config must be a decoder other than gemma3_text; got gemma3_text.");
}

PartitionRules SmolVLMConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return image_rules(*this, {{"vision_model.", &vision_config}, {"text_model.", &text_config}},
                     {{"modality_projection\\.proj\\.weight$", specs.shard_second()}}, fully_sharded);
}

}  // namespace easydel
