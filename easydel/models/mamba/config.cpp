#include "easydel/models/mamba/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

StateSpaceConfig::StateSpaceConfig() {
  num_attention_heads = 1;
  max_position_embeddings = 1 << 20;  // a state has no last position
  hidden_act = "silu";
  initializer_range = 0.1;
}

void StateSpaceConfig::state_space_fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("state_size", state_size, "Numbers in the state of a channel.");
  v("num_hidden_layers", num_hidden_layers, "Layers.");
  v("layer_norm_epsilon", layer_norm_epsilon, "Epsilon of the norms.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("expand", expand, "Channels, as a multiple of hidden_size.");
  v("conv_kernel", conv_kernel, "Kernel size of the convolution.");
  v("use_bias", use_bias, "Biases of the projections.");
  v("use_conv_bias", use_conv_bias, "A bias of the convolution.");
  v("hidden_act", hidden_act, "Activation after the convolution.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("residual_in_fp32", residual_in_fp32, "The residual stream is float32 in any compute dtype.");
  v("time_step_rank", time_step_rank, "Rank of the projection to time steps; auto: hidden_size / 16.");
  v("time_step_min", time_step_min, "Kept for transformers, which draws new weights with it.");
  v("time_step_max", time_step_max, "Kept for transformers, which draws new weights with it.");
  v("time_step_floor", time_step_floor, "Kept for transformers, which draws new weights with it.");
  v("rescale_prenorm_residual", rescale_prenorm_residual, "Kept for transformers, which draws new weights with it.");
  v("use_cache", use_cache, "Cache states during generation.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void StateSpaceConfig::post_init() {
  if (time_step_rank == Json("auto")) time_step_rank = (hidden_size + 15) / 16;
}

void StateSpaceConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("vocab_size", vocab_size, 1);
  check.at_least("hidden_size", hidden_size, 1);
  check.at_least("state_size", state_size, 1);
  check.at_least("num_hidden_layers", num_hidden_layers, 0);
  check.at_least("expand", expand, 1);
  check.at_least("conv_kernel", conv_kernel, 1);
  check.activation("hidden_act", hidden_act);
  check.between_zero_and_one("initializer_range", initializer_range);
  check.above_zero("layer_norm_epsilon", layer_norm_epsilon);
  require<ConfigError>(time_step_rank.is_int(), "[", class_name(),
                       "] time_step_rank must be a number or \"auto\"; got ", time_step_rank.dump(), ".");
  check.at_least("time_step_rank", time_step_rank.as_int(), 1);
  constexpr double kMax = 0x1p56;  // so that their bytes can be counted in 64 bits
  const double width = static_cast<double>(expand) * static_cast<double>(hidden_size);
  const double rows = static_cast<double>(num_hidden_layers) * (4 * width + static_cast<double>(state_size)) +
                      2 * static_cast<double>(vocab_size);
  require<ConfigError>(rows * static_cast<double>(hidden_size) < kMax, "[", class_name(),
                       "] the sizes must make fewer than 2^56 parameters; got about ",
                       rows * static_cast<double>(hidden_size), ".");
}

PartitionRules StateSpaceConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embeddings\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"mixer\\.(in_proj|dt_proj)\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mixer\\.(in_proj|dt_proj)\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"mixer\\.(out_proj|x_proj)\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"mixer\\.(conv1d\\.(weight|bias)|A_log|D)$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

MambaConfig::MambaConfig() {
  vocab_size = 50280;
  hidden_size = 768;
  num_hidden_layers = 32;
  pad_token_id = 0;
  bos_token_id = 0;
  eos_token_id = 0;
  tie_word_embeddings = true;
}

void MambaConfig::fields(FieldVisitor& v) {
  state_space_fields(v);
  v("intermediate_size", intermediate_size, "Channels: expand * hidden_size.");
  v("time_step_scale", time_step_scale, "Kept for transformers, which draws new weights with it.");
  v("time_step_init_scheme", time_step_init_scheme, "Kept for transformers, which draws new weights with it.");
  v("use_mambapy", use_mambapy, "Kept for transformers: which implementation it takes.");
  v("use_associative_scan", use_associative_scan, "Kept for transformers: which implementation it takes.");
}

void MambaConfig::post_init() {
  StateSpaceConfig::post_init();
  intermediate_size = inner_size();
}

}  // namespace easydel
