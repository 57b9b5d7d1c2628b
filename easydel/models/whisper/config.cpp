#include "easydel/models/whisper/config.h"

#include "easydel/core/error.h"
#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

WhisperConfig::WhisperConfig() {
  vocab_size = 51865;
  max_position_embeddings = 448;
  hidden_size = 384;
  num_hidden_layers = 4;
  num_attention_heads = 6;
  intermediate_size = 1536;
  hidden_act = "gelu";
  is_encoder_decoder = true;
  tie_word_embeddings = true;
  pad_token_id = 50256;
  bos_token_id = 50256;
  eos_token_id = 50256;
}

void WhisperConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("num_mel_bins", num_mel_bins, "Mel features of a frame of sound.");
  v("d_model", hidden_size, "Width of the residual stream.", {"hidden_size"});
  v("encoder_layers", num_hidden_layers, "Layers of the encoder.", {"num_hidden_layers"});
  v("encoder_ffn_dim", intermediate_size, "Width of the encoder's MLP.");
  v("encoder_attention_heads", num_attention_heads, "Heads of the encoder.", {"num_attention_heads"});
  v("decoder_layers", decoder_layers, "Layers of the decoder.");
  v("decoder_ffn_dim", decoder_ffn_dim, "Width of the decoder's MLP.");
  v("decoder_attention_heads", decoder_attention_heads, "Heads of the decoder.");
  v("encoder_layerdrop", encoder_layerdrop, "LayerDrop probability of the encoder's layers.");
  v("decoder_layerdrop", decoder_layerdrop, "LayerDrop probability of the decoder's layers.");
  v("activation_function", hidden_act, "Activation of the MLP.");
  v("dropout", dropout, "Dropout probability of each layer's outputs and of the embeddings.");
  v("attention_dropout", attention_dropout, "Dropout probability of attention weights.");
  v("activation_dropout", activation_dropout, "Dropout probability of the MLP's inner activations.");
  v("init_std", initializer_range, "Standard deviation of weight initialization.");
  v("scale_embedding", scale_embedding, "Kept for transformers, whose Whisper does not scale its embeddings either.");
  v("max_source_positions", max_source_positions, "Positions of the encoder, each of two mel frames.");
  v("max_target_positions", max_position_embeddings, "Longest text in tokens, with what it begins with.");
  v("use_cache", use_cache, "Cache keys and values during generation.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("is_encoder_decoder", is_encoder_decoder, "Kept for transformers.");
  v("decoder_start_token_id", decoder_start_token_id, "First token of the decoder's input.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
  v("suppress_tokens", suppress_tokens, "Kept for transformers: generation reads those of generation_config.json.");
  v("begin_suppress_tokens", begin_suppress_tokens,
    "Kept for transformers: generation reads those of generation_config.json.");
  v("use_weighted_layer_sum", use_weighted_layer_sum, "A classifier reads a weighted sum of all layers' states.");
  v("classifier_proj_size", classifier_proj_size, "Features of the projection in front of a classifier.");
  v("apply_spec_augment", apply_spec_augment, "Training hides parts of the sound; refused in training.");
  v("mask_time_prob", mask_time_prob, "Kept for transformers: of apply_spec_augment.");
  v("mask_time_length", mask_time_length, "Kept for transformers: of apply_spec_augment.");
  v("mask_time_min_masks", mask_time_min_masks, "Kept for transformers: of apply_spec_augment.");
  v("mask_feature_prob", mask_feature_prob, "Kept for transformers: of apply_spec_augment.");
  v("mask_feature_length", mask_feature_length, "Kept for transformers: of apply_spec_augment.");
  v("mask_feature_min_masks", mask_feature_min_masks, "Kept for transformers: of apply_spec_augment.");
  v("median_filter_width", median_filter_width,
    "How many weights the times of words are smoothed over: an odd number.");
}

void WhisperConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("vocab_size", vocab_size, 1);
  check.at_least("num_mel_bins", num_mel_bins, 1);
  check.at_least("max_source_positions", max_source_positions, 1);
  check.at_least("max_target_positions", max_position_embeddings, 1);
  check.at_least("d_model", hidden_size, 4);
  require<ConfigError>(hidden_size % 2 == 0, "[WhisperConfig] d_model must be even, for sines and cosines; got ",
                       hidden_size, ".");
  check.layers();
  check.at_least("encoder_ffn_dim", intermediate_size, 1);
  check.at_least("encoder_attention_heads", num_attention_heads, 1);
  check.at_least("decoder_layers", decoder_layers, 0);
  check.at_least("decoder_ffn_dim", decoder_ffn_dim, 1);
  check.at_least("decoder_attention_heads", decoder_attention_heads, 1);
  check.at_least("classifier_proj_size", classifier_proj_size, 1);
  check.multiple("d_model", hidden_size, "encoder_attention_heads", num_attention_heads);
  check.multiple("d_model", hidden_size, "decoder_attention_heads", decoder_attention_heads);
  check.activation("activation_function", hidden_act);
  check.between_zero_and_one("init_std", initializer_range);
  for (const auto& [key, value] :
       {std::pair("encoder_layerdrop", encoder_layerdrop), std::pair("decoder_layerdrop", decoder_layerdrop),
        std::pair("dropout", dropout), std::pair("attention_dropout", attention_dropout),
        std::pair("activation_dropout", activation_dropout)})
    check.between_zero_and_one(key, value);
}

PartitionRules WhisperConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"embed_positions\\.weight$", specs.shard_second()},
      {"conv[12]\\.weight$", specs.shard_second()},
      {"_attn\\.q_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"_attn\\.q_proj\\.bias$", specs.bias(LogicalAxis::Head)},
      {"_attn\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"_attn\\.v_proj\\.bias$", specs.bias(LogicalAxis::KvHead)},
      {"_attn\\.out_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"fc1\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"fc1\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"fc2\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"proj_out\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"(projector|classifier)\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
