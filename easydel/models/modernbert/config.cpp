#include "easydel/models/modernbert/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {
namespace {

constexpr int64_t kInterval = 3;
constexpr double kFullTheta = 160'000, kSlidingTheta = 10'000;

bool is_given(const Json& object, const char* key) { return object.find(key) && !object.at(key).is_null(); }

}  // namespace

ModernBertConfig::ModernBertConfig() {
  norm_eps_key_ = "norm_eps";
  hidden_act_key_ = "hidden_activation";
  has_kv_heads_ = false;
  vocab_size = 50368;
  hidden_size = 768;
  intermediate_size = 1152;
  num_hidden_layers = 22;
  num_attention_heads = 12;
  hidden_act = "gelu";
  max_position_embeddings = 8192;
  norm_eps = 1e-5;
  pad_token_id = 50283;
  bos_token_id = 50281;
  eos_token_id = 50282;
  tie_word_embeddings = true;
  rope_by_type.full_attention.rope_theta = kFullTheta;
  rope_by_type.sliding_attention.rope_theta = kSlidingTheta;
}

void ModernBertConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("num_hidden_layers", num_hidden_layers, "Layers.");
  v("num_attention_heads", num_attention_heads, "Heads.");
  v("hidden_activation", hidden_act, "Activation of the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Maximum sequence length.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("initializer_cutoff_factor", initializer_cutoff_factor, "Kept for transformers, which draws new weights with it.");
  v("norm_eps", norm_eps, "Epsilon of the norms.");
  v("norm_bias", norm_bias, "Biases of the norms.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("cls_token_id", cls_token_id, "Kept for transformers' tokenizer.");
  v("sep_token_id", sep_token_id, "Kept for transformers' tokenizer.");
  bias_field(v);
  v("attention_dropout", attention_dropout,
    "Dropout probability of attention weights and of the outputs of attention.");
  v("layer_types", layer_types, "sliding_attention or full_attention, for each layer.");
  v("rope_parameters", rope_by_type, "Rotary position embeddings of each kind of layer.");
  v("local_attention", local_attention, "Tokens that a layer with a window sees, half of them on each side.");
  v("embedding_dropout", embedding_dropout, "Dropout probability of the embeddings.");
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
  v("mlp_dropout", mlp_dropout, "Dropout probability of the MLP's inner activations.");
  v("decoder_bias", decoder_bias, "A bias on the logits of a masked language model.");
  v("classifier_pooling", classifier_pooling, "Pooling: cls, the first token, or mean, over all tokens.");
  v("classifier_dropout", classifier_dropout, "Dropout probability of a classifier's inputs.");
  v("classifier_bias", classifier_bias, "A bias in the heads.");
  v("classifier_activation", classifier_activation, "Activation of the heads.");
  v("deterministic_flash_attn", deterministic_flash_attn, "Kept for transformers: how its attention computes.");
  v("sparse_prediction", sparse_prediction, "Must be false: logits are those of all tokens.");
  v("sparse_pred_ignore_index", sparse_pred_ignore_index, "Kept for transformers' sparse_prediction.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void ModernBertConfig::post_init() {
  rope = rope_by_type.full_attention;
  DecoderConfig::post_init();
  fill_original_length(rope_by_type.full_attention, max_position_embeddings);
  fill_original_length(rope_by_type.sliding_attention, max_position_embeddings);
  sliding_window = local_attention / 2 + 1;  // on either side, with the token itself
  if (layer_types || num_hidden_layers < 0 || num_hidden_layers > (1 << 20)) return;
  layer_types.emplace();
  for (int64_t i = 0; i < num_hidden_layers; ++i) layer_types->emplace_back(i % kInterval ? kSliding : kFull);
}

void ModernBertConfig::validate() const {
  const ConfigCheck check(*this);
  check.at_least("local_attention", local_attention, 0);
  DecoderConfig::validate();
  check_rope(rope_by_type.full_attention, "[ModernBertConfig] ", head_size(), "rope_parameters.full_attention");
  check_rope(rope_by_type.sliding_attention, "[ModernBertConfig] ", head_size(), "rope_parameters.sliding_attention");
  check.one_of("classifier_pooling", classifier_pooling, {"cls", "mean"});
  check.activation("classifier_activation", classifier_activation);
  for (const auto& [key, value] :
       {std::pair("embedding_dropout", embedding_dropout), std::pair("mlp_dropout", mlp_dropout),
        std::pair("classifier_dropout", classifier_dropout)})
    check.between_zero_and_one(key, value);
  require<NotSupportedError>(!sparse_prediction,
                             "[ModernBertConfig] sparse_prediction must be false; got true. The loss is the same.");
}

// The hub's files have a period in place of layer_types, and a base of each kind of layer in place of rope_parameters.
void ModernBertConfig::rename_older_keys(Json& given, bool is_whole) const {
  if (!is_whole || !given.is_object()) return;
  const Json* period = given.find("global_attn_every_n_layers");
  if (period && period->is_int() && period->as_int() > 0 && !is_given(given, "layer_types")) {
    const Json* layers = given.find("num_hidden_layers");
    const int64_t count = layers && layers->is_int() ? layers->as_int() : num_hidden_layers;
    std::vector<std::string> types;
    for (int64_t i = 0; i < count && count <= (1 << 20); ++i)
      types.emplace_back(i % period->as_int() ? kSliding : kFull);
    given["layer_types"] = FieldType<std::vector<std::string>>::to_json(types);
  }
  if (is_given(given, "global_rope_theta")) given["rope_theta"] = given.at("global_rope_theta");
  if (is_given(given, "local_rope_theta")) given["rope_local_base_freq"] = given.at("local_rope_theta");
  for (const char* key : {"global_rope_theta", "local_rope_theta"}) given.as_object().erase(key);
  split_rope_by_layer_type(given, kFullTheta, kSlidingTheta);
}

PartitionRules ModernBertConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;
  return {
      {"tok_embeddings\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"attn\\.Wqkv\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"attn\\.Wqkv\\.bias$", specs.bias(LogicalAxis::Head)},
      {"attn\\.Wo\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"mlp\\.Wi\\.weight$", specs.split_first(kInner)},
      {"mlp\\.Wi\\.bias$", specs.bias(kInner)},
      {"mlp\\.Wo\\.weight$", specs.split_second(kInner)},
      {"decoder\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"decoder\\.bias$", specs.bias(LogicalAxis::Vocab)},
      {"(dense|classifier)\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
