#include "easydel/infra/config/decoder_config.h"

#include <string_view>

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {
namespace {

std::vector<std::string> alternating(int64_t layers, int64_t period) {
  std::vector<std::string> types;
  for (int64_t i = 0; i < layers; ++i)
    types.emplace_back((i + 1) % period ? DecoderConfig::kSliding : DecoderConfig::kFull);
  return types;
}

}  // namespace

RouterBalance router_balance_of(const BaseConfig& config) {
  const auto* decoder = dynamic_cast<const DecoderConfig*>(&config);
  return decoder ? decoder->router_balance() : RouterBalance();
}

bool DecoderConfig::is_sliding(int64_t layer) const {
  return layer_types ? layer_types->at(static_cast<std::size_t>(layer)) == kSliding : sliding_window.has_value();
}

void DecoderConfig::common_fields(FieldVisitor& v) {
  // The usual name is understood as well.
  const auto keyed = [&](const char* usual, const char* key, auto& value, const char* help) {
    if (!key) return;
    if (key == std::string_view(usual))
      v(key, value, help);
    else
      v(key, value, help, {usual});
  };
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  keyed("hidden_size", hidden_size_key_, hidden_size, "Width of the residual stream.");
  keyed("intermediate_size", intermediate_size_key_, intermediate_size, "Width of the MLP.");
  keyed("num_hidden_layers", layers_key_, num_hidden_layers, "Decoder layers.");
  keyed("num_attention_heads", heads_key_, num_attention_heads, "Query heads.");
  if (has_kv_heads_)
    v("num_key_value_heads", num_key_value_heads,
      "Key/value heads; fewer than the query heads: grouped-query attention.");
  if (hidden_act_key_) v(hidden_act_key_, hidden_act, "Activation of the MLP.");
  keyed("max_position_embeddings", positions_key_, max_position_embeddings, "Maximum sequence length.");
  v(initializer_key_, initializer_range, "Standard deviation of weight initialization.");
  if (norm_eps_key_) v(norm_eps_key_, norm_eps, "Epsilon of the norms.");
  v("use_cache", use_cache, "Cache keys and values during generation.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
  if (attention_dropout_key_) v(attention_dropout_key_, attention_dropout, "Dropout probability of attention weights.");
}

void DecoderConfig::head_dim_field(FieldVisitor& v) {
  v("head_dim", head_dim, "Size of a head; null: hidden_size / num_attention_heads.");
}

void DecoderConfig::bias_field(FieldVisitor& v) {
  v("attention_bias", attention_bias, "Biases on the attention's projections.");
}

void DecoderConfig::rope_field(FieldVisitor& v) { v("rope_parameters", rope, "Rotary position embeddings."); }

void DecoderConfig::window_fields(FieldVisitor& v) {
  v("sliding_window", sliding_window, "Sliding window size in layers with one; null: no window.");
  v("layer_types", layer_types, "sliding_attention or full_attention, for each layer.");
}

void DecoderConfig::post_init() {
  if (has_kv_heads_) num_key_value_heads = key_value_heads();
  fill_original_length(rope, max_position_embeddings);
}

void DecoderConfig::upper_windows(bool use, int64_t first) {
  if (!use) sliding_window.reset();
  if (layer_types) return;
  layer_types.emplace();
  for (int64_t i = 0; i < num_hidden_layers; ++i)
    layer_types->emplace_back(sliding_window && i >= first ? kSliding : kFull);
}

void DecoderConfig::alternate_layers(int64_t period) {
  if (!layer_types) layer_types = alternating(num_hidden_layers, period);
}

void DecoderConfig::read_window_pattern(Json& given) const {
  const Json* pattern = given.find("sliding_window_pattern");
  const Json* types = given.find("layer_types");
  if (!pattern || !pattern->is_int() || pattern->as_int() < 1 || (types && !types->is_null())) return;
  const Json* layers = given.find("num_hidden_layers");
  const int64_t count = layers && layers->is_int() ? layers->as_int() : num_hidden_layers;
  if (count < 0 || count > (1 << 20)) return;  // validate() says so
  given["layer_types"] = FieldType<std::vector<std::string>>::to_json(alternating(count, pattern->as_int()));
}

void DecoderConfig::fill_partial_rotary(Json& given, bool is_whole, double otherwise) {
  if (!is_whole || !given.is_object()) return;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* block = given.find(key);
    if (block && !block->is_null() && !block->is_object()) return;  // reading it says what is wrong
  }
  const Json* scaling = given.find("rope_scaling");
  const std::string source =
      scaling && scaling->is_object() && scaling->size() > 0 ? "rope_scaling" : "rope_parameters";
  Json block = given.contains(source) && given.at(source).is_object() ? given.at(source) : Json::object();
  if (block.contains("partial_rotary_factor")) return;
  const Json* outside = given.find("partial_rotary_factor");
  block["partial_rotary_factor"] = outside && !outside->is_null() ? *outside : Json(otherwise);
  given[source] = std::move(block);
}

void DecoderConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder(whole_heads_);
  if (hidden_act_key_) check.activation(hidden_act_key_, hidden_act);
  if (norm_eps_key_) check.above_zero(norm_eps_key_, norm_eps);
  if (attention_dropout_key_) check.between_zero_and_one(attention_dropout_key_, attention_dropout);
  check.at_least("sliding_window", sliding_window, 1);
  check.rope();
  if (!layer_types) return;
  const auto count = static_cast<int64_t>(layer_types->size());
  require<ConfigError>(count == num_hidden_layers, "[", class_name(),
                       "] layer_types must have one entry for each of num_hidden_layers; got ", count, " and ",
                       num_hidden_layers, ".");
  for (const std::string& type : *layer_types)
    check.one_of("layer_types", type, {std::string(kFull), std::string(kSliding)});
  for (int64_t i = 0; i < count; ++i) {
    require<ConfigError>(!is_sliding(i) || sliding_window, "[", class_name(),
                         "] sliding_window must be given where layer_types has sliding_attention; got null.");
  }
}

PartitionRules DecoderConfig::rules_behind(std::vector<PartitionRule> own, bool fully_sharded) const {
  const PartitionRules common = DecoderConfig::get_partition_rules(fully_sharded);
  own.insert(own.end(), common.rules().begin(), common.rules().end());
  return PartitionRules(std::move(own));
}

PartitionRules DecoderConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"self_attn\\.(q|qkv)_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.(q|qkv)_proj\\.bias$", specs.bias(LogicalAxis::Head)},
      {"self_attn\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"self_attn\\.[kv]_proj\\.bias$", specs.bias(LogicalAxis::KvHead)},
      {"self_attn\\.o_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"mlp\\.(gate|up|gate_up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.(gate|up|gate_up)_proj\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"mlp\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"lm_head\\.bias$", specs.bias(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
