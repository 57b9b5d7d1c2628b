#include "easydel/models/bert/config.h"

#include "easydel/core/error.h"
#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

BertFamilyConfig::BertFamilyConfig() {
  vocab_size = 30522;
  hidden_size = 768;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  intermediate_size = 3072;
  hidden_act = "gelu";
  max_position_embeddings = 512;
  tie_word_embeddings = true;
  pad_token_id = 0;
}

void BertFamilyConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("num_hidden_layers", num_hidden_layers, "Layers.");
  v("num_attention_heads", num_attention_heads, "Heads.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("hidden_act", hidden_act, "Activation of the MLP.");
  v("hidden_dropout_prob", hidden_dropout_prob, "Dropout probability of each layer's outputs and of the embeddings.");
  v("attention_probs_dropout_prob", attention_probs_dropout_prob, "Dropout probability of attention weights.");
  v("max_position_embeddings", max_position_embeddings, "Size of the position embedding table.");
  v("type_vocab_size", type_vocab_size, "Number of token types.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("layer_norm_eps", layer_norm_eps, "Epsilon of the norms.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("use_cache", use_cache, "Kept for transformers.");
  v("classifier_dropout", classifier_dropout, "Dropout probability of a head's inputs; null: hidden_dropout_prob.");
  v("is_decoder", is_decoder, "Kept for transformers.");
  v("add_cross_attention", add_cross_attention, "Kept for transformers.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void BertFamilyConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder();
  check.at_least("type_vocab_size", type_vocab_size, 1);
  check.activation("hidden_act", hidden_act);
  check.between_zero_and_one("hidden_dropout_prob", hidden_dropout_prob);
  check.between_zero_and_one("attention_probs_dropout_prob", attention_probs_dropout_prob);
  check.between_zero_and_one("classifier_dropout", classifier_dropout.value_or(0));
  check.above_zero("layer_norm_eps", layer_norm_eps);
  require<NotSupportedError>(
      !is_decoder && !add_cross_attention, "[", class_name(),
      "] is_decoder and add_cross_attention must be false; got true. Only bidirectional encoders are supported.");
  require<ConfigError>(!is_roberta() || pad_token_id.has_value(), "[", class_name(),
                       "] pad_token_id must be given, since positions are counted from it; got null.");
}

PartitionRules BertFamilyConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"word_embeddings\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"(position|token_type)_embeddings\\.weight$", specs.shard_second()},
      {"self\\.query\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self\\.query\\.bias$", specs.bias(LogicalAxis::Head)},
      {"self\\.(key|value)\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"self\\.(key|value)\\.bias$", specs.bias(LogicalAxis::KvHead)},
      {"attention\\.output\\.dense\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"intermediate\\.dense\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"intermediate\\.dense\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"layer\\.\\d+\\.output\\.dense\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"(lm_head|predictions)\\.decoder\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"(lm_head|predictions)\\.(decoder\\.)?bias$", specs.bias(LogicalAxis::Vocab)},
      {"(dense|classifier|qa_outputs|out_proj)\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
