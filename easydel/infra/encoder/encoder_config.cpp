#include "easydel/infra/encoder/encoder_config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

void EncoderConfig::encoder_fields(FieldVisitor& v) {
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("num_hidden_layers", num_hidden_layers, "Encoder layers.");
  v("num_attention_heads", num_attention_heads, "Heads.");
  v("hidden_act", hidden_act, "Activation of the MLP.");
  v("layer_norm_eps", norm_eps, "Epsilon of the norms.");
  v(attention_dropout_key_, attention_dropout, "Dropout probability of attention weights.");
}

void EncoderConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.layers();
  check.at_least("hidden_size", hidden_size, 1);
  check.at_least("intermediate_size", intermediate_size, 1);
  check.at_least("num_attention_heads", num_attention_heads, 1);
  check.multiple("hidden_size", hidden_size, "num_attention_heads", num_attention_heads);
  check.activation("hidden_act", hidden_act);
  check.above_zero("layer_norm_eps", norm_eps);
  check.between_zero_and_one(attention_dropout_key_, attention_dropout);
  check.between_zero_and_one("hidden_dropout_prob", hidden_dropout);
}

PartitionRules EncoderConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"token_embedding\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"(self_attn|layers?\\.\\d+\\.attention)\\.q_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"(self_attn|layers?\\.\\d+\\.attention)\\.q_proj\\.bias$", specs.bias(LogicalAxis::Head)},
      {"(self_attn|layers?\\.\\d+\\.attention)\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"(self_attn|layers?\\.\\d+\\.attention)\\.[kv]_proj\\.bias$", specs.bias(LogicalAxis::KvHead)},
      {"(self_attn|layers?\\.\\d+\\.attention)\\.(o|out)_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"mlp\\.(fc1|weights_in)\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.(fc1|weights_in)\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"mlp\\.(fc2|weights_out)\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"(classifier|projection|patch_embedding|pooler\\.dense)\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, tokens, positions, and the biases that are added after a row-parallel sum
  };
}

void VisionEncoderConfig::image_fields(FieldVisitor& v) {
  v("image_size", image_size, "Height and width of the images.");
  v("patch_size", patch_size, "Height and width of a patch.");
  v("num_channels", num_channels, "Color channels of a pixel.");
}

void VisionEncoderConfig::validate() const {
  EncoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("patch_size", patch_size, 1);
  check.at_least("num_channels", num_channels, 1);
  check.at_least("image_size", image_size, patch_size);
}

}  // namespace easydel
