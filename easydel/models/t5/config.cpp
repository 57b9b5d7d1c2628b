#include "easydel/models/t5/config.h"

#include "easydel/core/error.h"
#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

T5FamilyConfig::T5FamilyConfig() {
  hidden_size = 512;
  head_dim = 64;
  is_encoder_decoder = true;
  tie_word_embeddings = true;
  pad_token_id = 0;
  eos_token_id = 1;
}

T5Config::T5Config() {
  vocab_size = 32128;
  intermediate_size = 2048;
  num_hidden_layers = 6;
  num_attention_heads = 8;
  has_scale_key_ = true;
  has_start_key_ = false;
}

void T5FamilyConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("d_model", hidden_size, "Width of the residual stream.", {"hidden_size"});
  v("d_kv", head_dim, "Size of a head.", {"head_dim"});
  v("d_ff", intermediate_size, "Width of the MLP.");
  v("num_layers", num_hidden_layers, "Layers of the encoder.", {"num_hidden_layers"});
  v("num_decoder_layers", num_decoder_layers, "Layers of the decoder; null: as many.");
  v("num_heads", num_attention_heads, "Heads.", {"num_attention_heads"});
  v("relative_attention_num_buckets", relative_attention_num_buckets, "Buckets of distances, each with its bias.");
  v("relative_attention_max_distance", relative_attention_max_distance,
    "Distance beyond which all distances share a bucket.");
  v("dropout_rate", dropout_rate, "Dropout probability of activations and attention weights.");
  v("layer_norm_epsilon", layer_norm_epsilon, "Epsilon of the norms.");
  v("initializer_factor", initializer_factor, "Factor on the standard deviations of new weights.");
  v("feed_forward_proj", feed_forward_proj, "Activation of the MLP; gated-gelu: with a gate.");
  v("dense_act_fn", dense_act_fn, "Kept for transformers: follows from feed_forward_proj.");
  v("is_gated_act", is_gated_act, "Kept for transformers: follows from feed_forward_proj.");
  v("is_encoder_decoder", is_encoder_decoder, "Kept for transformers: false in the files of an encoder alone.");
  v("is_decoder", is_decoder, "Kept for transformers.");
  v("use_cache", use_cache, "Cache keys and values during generation.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("classifier_dropout", classifier_dropout, "Dropout probability of a classifier's inputs.");
  v("tie_word_embeddings", tie_word_embeddings, "Kept for transformers: the files' weights say whether it is so.");
  if (has_scale_key_) v("scale_decoder_outputs", scale_decoder_outputs, "Divide the head's inputs by sqrt(d_model).");
  if (has_bos_key_) v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  if (has_start_key_) v("decoder_start_token_id", decoder_start_token_id, "First token of the decoder's input.");
  v.only_when_changed();
  if (!has_start_key_) v("decoder_start_token_id", decoder_start_token_id, "First token of the decoder's input.");
}

// Weights are tied unless the files' values differ; what files say of it is whether outputs are scaled, in T5's.
void T5FamilyConfig::rename_older_keys(Json& given, bool) const {
  const Json* tied = given.find("tie_word_embeddings");
  if (!tied || !tied->is_bool()) return;
  if (has_scale_key_ && !tied->as_bool() && !given.contains("scale_decoder_outputs"))
    given["scale_decoder_outputs"] = false;
  given["tie_word_embeddings"] = true;
}

void T5FamilyConfig::post_init() {
  num_decoder_layers = decoder_layers();
  is_gated_act = is_gated();
  dense_act_fn = activation();
}

std::string T5FamilyConfig::activation() const {
  if (feed_forward_proj == "gated-gelu") return "gelu_new";
  return is_gated() ? feed_forward_proj.substr(6) : feed_forward_proj;
}

void T5FamilyConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("vocab_size", vocab_size, 1);
  check.at_least("d_model", hidden_size, 1);
  check.at_least("d_kv", head_dim, 1);
  check.at_least("d_ff", intermediate_size, 1);
  check.layers();
  check.at_least("num_decoder_layers", num_decoder_layers, 0);
  check.at_least("num_heads", num_attention_heads, 1);
  check.at_least("relative_attention_num_buckets", relative_attention_num_buckets, 4);
  require<ConfigError>(
      relative_attention_max_distance > relative_attention_num_buckets / 2, "[", class_name(),
      "] relative_attention_max_distance must be more than half of relative_attention_num_buckets; got ",
      relative_attention_max_distance, " and ", relative_attention_num_buckets, ".");
  check.activation("feed_forward_proj", activation());
  check.between_zero_and_one("dropout_rate", dropout_rate);
  check.between_zero_and_one("classifier_dropout", classifier_dropout);
  check.above_zero("layer_norm_epsilon", layer_norm_epsilon);
  require<NotSupportedError>(!is_decoder, "[", class_name(),
                             "] is_decoder must be false; got true. A decoder is supported only with its encoder.");
}

PartitionRules T5FamilyConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"(shared|embed_tokens)\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"Attention\\.q\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"Attention\\.[kv]\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"Attention\\.o\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"DenseReluDense\\.wi(_[01])?\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"DenseReluDense\\.wo\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"(classifier|qa_outputs|dense|out_proj)\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, the tables of relative positions
  };
}

}  // namespace easydel
