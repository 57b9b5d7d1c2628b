#include "easydel/models/dbrx/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {
namespace {

// What a block says; `otherwise` where it says nothing.
template <class T>
T dbrx_value(const Json& block, const std::string& name, const char* key, T otherwise) {
  const Json* found = block.is_object() ? block.find(key) : nullptr;
  if (found && !found->is_null()) FieldType<T>::from_json(*found, otherwise, concat("[DbrxConfig] ", name, ".", key));
  return otherwise;
}

}  // namespace

DbrxConfig::DbrxConfig() {
  hidden_size_key_ = "d_model";
  intermediate_size_key_ = nullptr;
  layers_key_ = "n_layers";
  heads_key_ = "n_heads";
  positions_key_ = "max_seq_len";
  hidden_act_key_ = nullptr;
  norm_eps_key_ = nullptr;
  attention_dropout_key_ = nullptr;
  experts_key_ = "ffn_config.moe_num_experts";
  vocab_size = 32000;
  hidden_size = 2048;
  num_hidden_layers = 24;
  num_attention_heads = 16;
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
}

void DbrxConfig::fields(FieldVisitor& v) {
  common_fields(v);  // num_key_value_heads is attn_config.kv_n_heads; written, never chosen
  rope_field(v);
  v("attn_config", attn_config, "kv_n_heads, clip_qkv and attn_pdrop of the attention.");
  v("ffn_config", ffn_config, "ffn_hidden_size, ffn_act_fn, and the keys moe_… of the experts.");
  v("resid_pdrop", resid_pdrop, "Dropout probability of the outputs of attention and experts.");
  v("emb_pdrop", emb_pdrop, "Kept for transformers.");
  v("output_router_logits", output_router_logits, "Return router logits, and add the balancing loss.");
}

void DbrxConfig::post_init() {
  num_key_value_heads = dbrx_value<int64_t>(attn_config, "attn_config", "kv_n_heads", 1);
  attention_dropout = dbrx_value<double>(attn_config, "attn_config", "attn_pdrop", 0);
  intermediate_size = dbrx_value<int64_t>(ffn_config, "ffn_config", "ffn_hidden_size", 3584);
  num_local_experts = dbrx_value<int64_t>(ffn_config, "ffn_config", "moe_num_experts", 4);
  num_experts_per_tok = dbrx_value<int64_t>(ffn_config, "ffn_config", "moe_top_k", 1);
  router_aux_loss_coef = dbrx_value<double>(ffn_config, "ffn_config", "moe_loss_weight", 0.01);
  const Json* act = ffn_config.is_object() ? ffn_config.find("ffn_act_fn") : nullptr;
  hidden_act = act ? dbrx_value<std::string>(*act, "ffn_config.ffn_act_fn", "name", "silu") : "silu";
  MoeConfig::post_init();
}

double DbrxConfig::clip_qkv() const { return dbrx_value<double>(attn_config, "attn_config", "clip_qkv", 0); }

double DbrxConfig::moe_jitter_eps() const { return dbrx_value<double>(ffn_config, "ffn_config", "moe_jitter_eps", 0); }

bool DbrxConfig::normalizes_weights() const {
  const Json* power = ffn_config.find("moe_normalize_expert_weights");
  return !power || !power->is_null();
}

void DbrxConfig::validate() const {
  require<ConfigError>(attn_config.is_object() && ffn_config.is_object(),
                       "[DbrxConfig] attn_config and ffn_config must be objects; got ", attn_config.dump(), " and ",
                       ffn_config.dump(), ".");
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("ffn_config.ffn_hidden_size", intermediate_size, 1);
  check.activation("ffn_config.ffn_act_fn.name", hidden_act);
  check.between_zero_and_one("attn_config.attn_pdrop", attention_dropout);
  check.between_zero_and_one("ffn_config.moe_jitter_eps", moe_jitter_eps());
  check.between_zero_and_one("resid_pdrop", resid_pdrop);
  require<ConfigError>(clip_qkv() >= 0, "[DbrxConfig] attn_config.clip_qkv must be above 0, or null; got ", clip_qkv(),
                       ".");
  const auto power = dbrx_value<double>(ffn_config, "ffn_config", "moe_normalize_expert_weights", 1);
  require<NotSupportedError>(power == 1, "[DbrxConfig] ffn_config.moe_normalize_expert_weights must be 1 or null; got ",
                             power, ".");
  require<NotSupportedError>(!tie_word_embeddings, "[DbrxConfig] tie_word_embeddings must be false; got true.");
}

// The published files have the base of the frequencies in attn_config alone.
void DbrxConfig::rename_older_keys(Json& given, bool is_whole) const {
  if (!is_whole || !given.is_object()) return;
  for (const char* key : {"rope_parameters", "rope_scaling", "rope_theta"}) {
    if (const Json* said = given.find(key); said && !said->is_null()) return;
  }
  const Json* block = given.find("attn_config");
  const Json* theta = block && block->is_object() ? block->find("rope_theta") : nullptr;
  if (theta && theta->is_number()) given["rope_theta"] = Json(theta->as_double());
}

PartitionRules DbrxConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  std::vector<PartitionRule> rules = {
      {"wte\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"attn\\.Wqkv\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"attn\\.out_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"ffn\\.router\\.weight$", specs.shard_second()},
      {"experts\\.gate_up_proj$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
      {"experts\\.down_proj$", specs.experts_split_first(LogicalAxis::MlpIntermediate)}};  // [expert, in, out]
  return rules_behind(std::move(rules), fully_sharded);
}

}  // namespace easydel
