#include "easydel/models/bart/config.h"

#include "easydel/core/error.h"
#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

BartFamilyConfig::BartFamilyConfig() {
  vocab_size = 50265;
  max_position_embeddings = 1024;
  hidden_size = 1024;
  num_hidden_layers = 12;
  num_attention_heads = 16;
  intermediate_size = 4096;
  hidden_act = "gelu";
  is_encoder_decoder = true;
  tie_word_embeddings = true;
  pad_token_id = 1;
  bos_token_id = 0;
  eos_token_id = 2;
}

BartConfig::BartConfig() {
  decoder_start_token_id = 2;
  set_num_labels(3);
}

void BartFamilyConfig::fields(FieldVisitor& v) {
  seq2seq_fields(v);
  v("classifier_dropout", classifier_dropout, "Dropout probability of a classifier's inputs.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
}

void BartFamilyConfig::seq2seq_fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("max_position_embeddings", max_position_embeddings, "Longest sequence, of either side.");
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
  v("scale_embedding", scale_embedding, "Multiply embeddings by sqrt(d_model).");
  v("use_cache", use_cache, "Cache keys and values during generation.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("is_encoder_decoder", is_encoder_decoder, "Kept for transformers.");
  v("is_decoder", is_decoder, "Kept for transformers.");
  v("decoder_start_token_id", decoder_start_token_id, "First token of the decoder's input.");
  v("forced_eos_token_id", forced_eos_token_id, "The last token when generation reaches its maximum length.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void BartFamilyConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("vocab_size", vocab_size, 1);
  check.at_least("max_position_embeddings", max_position_embeddings, 1);
  check.at_least("d_model", hidden_size, 1);
  check.layers();
  check.at_least("encoder_ffn_dim", intermediate_size, 1);
  check.at_least("encoder_attention_heads", num_attention_heads, 1);
  check.at_least("decoder_layers", decoder_layers, 0);
  check.at_least("decoder_ffn_dim", decoder_ffn_dim, 1);
  check.at_least("decoder_attention_heads", decoder_attention_heads, 1);
  check.multiple("d_model", hidden_size, "encoder_attention_heads", num_attention_heads);
  check.multiple("d_model", hidden_size, "decoder_attention_heads", decoder_attention_heads);
  check.activation("activation_function", hidden_act);
  check.between_zero_and_one("init_std", initializer_range);
  for (const auto& [key, value] :
       {std::pair("encoder_layerdrop", encoder_layerdrop), std::pair("decoder_layerdrop", decoder_layerdrop),
        std::pair("dropout", dropout), std::pair("attention_dropout", attention_dropout),
        std::pair("activation_dropout", activation_dropout), std::pair("classifier_dropout", classifier_dropout)})
    check.between_zero_and_one(key, value);
  require<NotSupportedError>(!is_decoder, "[", class_name(),
                             "] is_decoder must be false; got true. A decoder is supported only with its encoder.");
}

PartitionRules BartFamilyConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"(shared|embed_tokens)\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"embed_positions\\.weight$", specs.shard_second()},
      {"_attn\\.q_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"_attn\\.q_proj\\.bias$", specs.bias(LogicalAxis::Head)},
      {"_attn\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"_attn\\.[kv]_proj\\.bias$", specs.bias(LogicalAxis::KvHead)},
      {"_attn\\.out_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"fc1\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"fc1\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"fc2\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"(qa_outputs|dense|out_proj)\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
