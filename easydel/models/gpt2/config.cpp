#include "easydel/models/gpt2/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

GPT2Config::GPT2Config() {
  vocab_size = 50257;
  max_position_embeddings = 1024;
  hidden_size = 768;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  hidden_act = "gelu_new";
  bos_token_id = 50256;
  eos_token_id = 50256;
  tie_word_embeddings = true;
}

void GPT2Config::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("n_positions", max_position_embeddings, "Maximum sequence length.", {"max_position_embeddings"});
  v("n_embd", hidden_size, "Width of the residual stream.", {"hidden_size"});
  v("n_layer", num_hidden_layers, "Decoder layers.", {"num_hidden_layers"});
  v("n_head", num_attention_heads, "Heads.", {"num_attention_heads"});
  v("n_inner", n_inner, "Width of the MLP; null: 4 * n_embd.");
  v("activation_function", hidden_act, "Activation of the MLP.");
  v("resid_pdrop", resid_pdrop, "Dropout probability of each layer's outputs.");
  v("embd_pdrop", embd_pdrop, "Dropout probability of the embeddings.");
  v("attn_pdrop", attn_pdrop, "Dropout probability of attention weights.");
  v("layer_norm_epsilon", layer_norm_epsilon, "Epsilon of the norms.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("summary_type", summary_type, "Kept for transformers.");
  v("summary_use_proj", summary_use_proj, "Kept for transformers.");
  v("summary_activation", summary_activation, "Kept for transformers.");
  v("summary_proj_to_labels", summary_proj_to_labels, "Kept for transformers.");
  v("summary_first_dropout", summary_first_dropout, "Kept for transformers.");
  v("scale_attn_weights", scale_attn_weights, "Divide scores by the root of the head size.");
  v("use_cache", use_cache, "Cache keys and values during generation.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("scale_attn_by_inverse_layer_idx", scale_attn_by_inverse_layer_idx, "Divide scores by the layer's number too.");
  v("reorder_and_upcast_attn", reorder_and_upcast_attn, "Kept for transformers: scores are float32 anyway.");
  v("add_cross_attention", add_cross_attention, "Attend to an encoder's states as well.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void GPT2Config::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("vocab_size", vocab_size, 1);
  check.at_least("n_positions", max_position_embeddings, 1);
  check.at_least("n_embd", hidden_size, 1);
  check.at_least("n_layer", num_hidden_layers, 0);
  check.at_least("n_head", num_attention_heads, 1);
  check.at_least("n_inner", n_inner, 1);
  check.activation("activation_function", hidden_act);
  check.multiple("n_embd", hidden_size, "n_head", num_attention_heads);
  check.between_zero_and_one("resid_pdrop", resid_pdrop);
  check.between_zero_and_one("embd_pdrop", embd_pdrop);
  check.between_zero_and_one("attn_pdrop", attn_pdrop);
  check.between_zero_and_one("initializer_range", initializer_range);
  check.above_zero("layer_norm_epsilon", layer_norm_epsilon);
}

PartitionRules GPT2Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"wte\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"wpe\\.weight$", specs.shard_second()},
      // Conv1D stores [in, out].
      {"attn\\.c_attn\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"attn\\.c_attn\\.bias$", specs.bias(LogicalAxis::Head)},
      {"attn\\.c_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"mlp\\.c_fc\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"mlp\\.c_fc\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"mlp\\.c_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
