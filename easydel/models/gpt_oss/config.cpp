#include "easydel/models/gpt_oss/config.h"

#include "easydel/infra/config_check.h"
#include "easydel/infra/weight_specs.h"

namespace easydel {
namespace {

const std::vector<std::string> kLayerTypes = {"full_attention", "sliding_attention"};

}  // namespace

GptOssConfig::GptOssConfig() {
  vocab_size = 201088;
  hidden_size = 2880;
  intermediate_size = 2880;
  num_hidden_layers = 36;
  num_attention_heads = 64;
  num_key_value_heads = 8;
  head_dim = 64;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  rope.rope_type = "yarn";
  rope.rope_theta = 150000.0;
  rope.factor = 32.0;
  rope.beta_fast = 32.0;
  rope.beta_slow = 1.0;
  rope.truncate = false;
  rope.original_max_position_embeddings = 4096;
}

void GptOssConfig::fields(FieldVisitor& v) {
  v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
  v("num_local_experts", num_local_experts, "Experts in each layer.", {"num_experts"});
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of each expert.");
  v("head_dim", head_dim, "Size of a head; null: hidden_size / num_attention_heads.");
  v("num_attention_heads", num_attention_heads, "Query heads.");
  v("num_key_value_heads", num_key_value_heads, "Fewer than the query heads means grouped attention.");
  v("sliding_window", sliding_window, "Tokens that a query sees back in layers of sliding_attention.");
  v("tie_word_embeddings", tie_word_embeddings, "One matrix for embedding and output.");
  v("hidden_act", hidden_act, "Kept as it is: the experts have a gate of their own.");
  v("initializer_range", initializer_range, "Standard deviation of new weights.");
  v("max_position_embeddings", max_position_embeddings, "Longest sequence.");
  v("rms_norm_eps", rms_norm_eps, "Added under the root of the norms.");
  v("rope_parameters", rope, "Rotary position embeddings.");
  v("attention_dropout", attention_dropout, "Share of attention weights that training drops.");
  v("num_experts_per_tok", num_experts_per_tok, "Experts that each token goes to.");
  v("swiglu_alpha", swiglu_alpha, "Inside the sigmoid of the experts' gate.");
  v("swiglu_limit", swiglu_limit, "Where gate and up are clamped.");
  v("router_aux_loss_coef", router_aux_loss_coef, "Weight of the balancing loss.");
  v("output_router_logits", output_router_logits, "Return router logits, and add the balancing loss.");
  v("use_cache", use_cache, "Keep keys and values while generating.");
  v("layer_types", layer_types, "sliding_attention or full_attention for each layer; null: in turn.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Token that begins a text.");
  v("eos_token_id", eos_token_id, "Token or tokens that end a text.");
  v("attention_bias", attention_bias, "Biases on the projections of the attention.");
}

void GptOssConfig::post_init() {
  num_key_value_heads = key_value_heads();
  head_dim = head_size();
  if (!layer_types) {
    layer_types.emplace();
    for (int64_t i = 0; i < num_hidden_layers; ++i)
      layer_types->push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  }
  fill_original_length(rope, max_position_embeddings);
}

int64_t GptOssConfig::window(int64_t layer) const {
  const bool slides =
      layer_types ? layer_types->at(static_cast<std::size_t>(layer)) == "sliding_attention" : layer % 2 == 0;
  return slides ? sliding_window.value_or(0) : 0;
}

void GptOssConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder();
  check.activation("hidden_act", hidden_act);
  check.above_zero("rms_norm_eps", rms_norm_eps);
  check.between_zero_and_one("attention_dropout", attention_dropout);
  check.at_least("sliding_window", sliding_window, 1);
  check.at_least("num_local_experts", num_local_experts, 1);
  check.top_k(num_experts_per_tok, "num_local_experts", num_local_experts);
  check.above_zero("swiglu_limit", swiglu_limit);
  if (layer_types) {
    require<ConfigError>(static_cast<int64_t>(layer_types->size()) == num_hidden_layers,
                         "[GptOssConfig] layer_types must have one entry for each of the ", num_hidden_layers,
                         " layers; got ", layer_types->size(), ".");
    for (const std::string& type : *layer_types) check.one_of("layer_types", type, kLayerTypes);
  }
  check.rope();
}

PartitionRules GptOssConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"self_attn\\.q_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"self_attn\\.o_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"self_attn\\.(q_proj\\.bias|sinks)$", specs.bias(LogicalAxis::Head)},
      {"self_attn\\.[kv]_proj\\.bias$", specs.bias(LogicalAxis::KvHead)},
      // Experts are stacked: [expert, in, out].
      {"experts\\.gate_up_proj$", specs.experts_split_second(LogicalAxis::MlpIntermediate)},
      {"experts\\.down_proj$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.router\\.weight$", specs.shard_second()},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, biases
  };
}

}  // namespace easydel
