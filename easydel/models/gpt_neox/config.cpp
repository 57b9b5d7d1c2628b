#include "easydel/models/gpt_neox/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

GPTNeoXConfig::GPTNeoXConfig() {
  norm_eps_key_ = "layer_norm_eps";
  has_kv_heads_ = false;
  vocab_size = 50432;
  hidden_size = 6144;
  intermediate_size = 24576;
  num_hidden_layers = 44;
  num_attention_heads = 64;
  hidden_act = "gelu";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  bos_token_id = 0;
  eos_token_id = 2;
  attention_bias = true;
  rope.partial_rotary_factor = 0.25;
}

void GPTNeoXConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("hidden_dropout", hidden_dropout, "Dropout probability of the embeddings and of each layer's outputs.");
  v("classifier_dropout", classifier_dropout, "Kept for transformers.");
  v("use_parallel_residual", use_parallel_residual, "Parallel attention and MLP: both have the same input.");
  v("is_decoder", is_decoder, "Kept for transformers.");
}

void GPTNeoXConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.between_zero_and_one("hidden_dropout", hidden_dropout);
  check.between_zero_and_one("classifier_dropout", classifier_dropout);
}

// Older files say rotary_emb_base and rotary_pct; without either, a quarter of each head is rotated.
void GPTNeoXConfig::rename_older_keys(Json& given, bool is_whole) const {
  if (!given.is_object()) return;
  const std::pair<const char*, const char*> renamed[] = {{"rotary_emb_base", "rope_theta"},
                                                         {"rotary_pct", "partial_rotary_factor"}};
  if (!is_whole) {
    for (const auto& [older, key] : renamed) {
      if (!given.contains(older)) continue;
      given[key] = given.at(older);
      given.as_object().erase(older);
    }
    return;
  }
  for (const char* source : {"rope_scaling", "rope_parameters"}) {
    const Json* block = given.find(source);
    if (block && !block->is_null() && !block->is_object()) return;  // reading it says what is wrong
  }
  const Json* scaling = given.find("rope_scaling");
  const std::string source =
      scaling && scaling->is_object() && scaling->size() > 0 ? "rope_scaling" : "rope_parameters";
  Json block = given.contains(source) && given.at(source).is_object() ? given.at(source) : Json::object();
  if (!block.contains("partial_rotary_factor")) block["partial_rotary_factor"] = 0.25;
  for (const auto& [older, key] : renamed) {
    if (!given.contains(older)) continue;
    const bool was_given = given.contains(source) && given.at(source).is_object() && given.at(source).contains(key);
    if (!was_given) block[key] = given.at(older);
    given.as_object().erase(older);
  }
  given[source] = std::move(block);
}

PartitionRules GPTNeoXConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_in\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"attention\\.query_key_value\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"attention\\.query_key_value\\.bias$", specs.bias(LogicalAxis::Head)},
      {"attention\\.dense\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"mlp\\.dense_h_to_4h\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.dense_h_to_4h\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"mlp\\.dense_4h_to_h\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
