#include "easydel/models/qwen2_vl/config.h"

#include <numeric>

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {
namespace {

// Keys of the text that files of the hub have beside vision_config.
constexpr const char* kTextKeys[] = {
    "attention_bias",    "attention_dropout",   "bos_token_id",       "eos_token_id",
    "head_dim",          "hidden_act",          "hidden_size",        "initializer_range",
    "intermediate_size", "layer_types",         "max_window_layers",  "max_position_embeddings",
    "pad_token_id",      "num_attention_heads", "num_hidden_layers",  "num_key_value_heads",
    "rms_norm_eps",      "rope_parameters",     "rope_scaling",       "rope_theta",
    "sliding_window",    "use_cache",           "use_sliding_window", "vocab_size"};

}  // namespace

void list_fields(MropeParameters& rope, FieldVisitor& v) {
  list_fields(static_cast<RopeParameters&>(rope), v);
  v("mrope_section", rope.mrope_section, "Rotary pairs of a head for time, height and width.");
}

QwenVisionConfig::QwenVisionConfig() {
  num_hidden_layers = 32;
  num_attention_heads = 16;
  rope.rope_type = "axial";
}

void QwenVisionConfig::tower_fields(FieldVisitor& v) {
  v("depth", num_hidden_layers, "Layers of the tower.");
  v("num_heads", num_attention_heads, "Heads of the tower.", {"num_attention_heads"});
  v("hidden_act", hidden_act, "Activation of the MLPs.");
  v("in_channels", in_channels, "Color channels of a pixel.");
  v("patch_size", patch_size, "Height and width of a patch.");
  v("temporal_patch_size", temporal_patch_size, "Frames of a patch.");
  v("spatial_merge_size", spatial_merge_size, "Patches on a side of what becomes a token.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("rope_parameters", rope, "Rotary embeddings by row and column: rope_type axial, and rope_theta.");
}

void QwenVisionConfig::post_init() {
  if (rope.rope_type == "default") rope.rope_type = "axial";  // what a block without a type means here
}

void QwenVisionConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.layers();
  for (const auto& [key, value] :
       {std::pair("in_channels", in_channels), std::pair("patch_size", patch_size),
        std::pair("temporal_patch_size", temporal_patch_size), std::pair("spatial_merge_size", spatial_merge_size),
        std::pair("num_heads", num_attention_heads), std::pair("width", width()),
        std::pair("the width of a token", out_width())})
    check.at_least(key, value, 1);
  check.activation("hidden_act", hidden_act);
  require<ConfigError>(width() % (4 * num_attention_heads) == 0, "[", class_name(),
                       "] heads must have dimensions in multiples of 4, two pairs for rows and columns; got ", width(),
                       " in ", num_attention_heads, " heads.");
  check.one_of("rope_parameters.rope_type", rope.rope_type, {"axial"});
  check.above_zero("rope_parameters.rope_theta", rope.rope_theta);
}

PartitionRules QwenVisionConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"attn\\.qkv\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"attn\\.qkv\\.bias$", specs.bias(LogicalAxis::Head)},
      {"attn\\.proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"\\d\\.mlp\\.(fc1|linear_fc1|gate_proj|up_proj)\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"\\d\\.mlp\\.(fc1|linear_fc1|gate_proj|up_proj)\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"\\d\\.mlp\\.(fc2|linear_fc2|down_proj)\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"(mlp\\.\\d|linear_fc\\d|patch_embed\\.proj)\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, positions, and the biases that are added after a row-parallel sum
  };
}

void QwenTextConfig::text_fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
  v("num_attention_heads", num_attention_heads, "Query heads.");
  v("num_key_value_heads", num_key_value_heads,
    "Key/value heads; fewer than the query heads: grouped-query attention.");
  v("hidden_act", hidden_act, "Activation of the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Maximum sequence length.");
  v("initializer_range", initializer_range, "Standard deviation of weight initialization.");
  v("rms_norm_eps", norm_eps, "Epsilon of the norms.");
  v("use_cache", use_cache, "Cache keys and values during generation.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("attention_dropout", attention_dropout, "Dropout probability of attention weights.");
  v("rope_parameters", mrope, "Rotary position embeddings.");
}

void QwenTextConfig::rename_older_keys(Json& given, bool is_whole) const {
  if (!given.is_object()) return;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* block = given.find(key);
    if (!block || !block->is_object()) continue;
    Json renamed = *block;
    for (const char* type : {"rope_type", "type"}) {
      const Json* name = block->find(type);
      if (!name) continue;
      if (*name == Json("mrope")) renamed["rope_type"] = "default";
      break;
    }
    given[key] = std::move(renamed);
  }
}

void QwenTextConfig::post_init() {
  fill_original_length(mrope, max_position_embeddings);
  rope = mrope;
  DecoderConfig::post_init();
}

void QwenTextConfig::validate() const {
  DecoderConfig::validate();
  const std::vector<int64_t> given = sections();
  const auto pairs = std::accumulate(given.begin(), given.end(), int64_t{0});
  bool positive = given.size() == 3;
  for (const int64_t size : given) positive = positive && size >= 0;
  require<ConfigError>(positive && 2 * pairs == head_size(), "[", class_name(),
                       "] rope_parameters.mrope_section must be three numbers that add up to half of a head's ",
                       head_size(), " dimensions; got ", FieldType<std::vector<int64_t>>::to_json(given).dump(), ".");
}

Qwen2TextWithGrids::Qwen2TextWithGrids() {
  vocab_size = 152064;
  hidden_size = 8192;
  intermediate_size = 29568;
  num_hidden_layers = 80;
  num_attention_heads = 64;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  norm_eps = 1e-5;
  sliding_window = 4096;
  bos_token_id = 151643;
  eos_token_id = 151645;
  mrope.rope_theta = 1000000;
  own_sections_ = {16, 24, 24};
}

void Qwen2TextWithGrids::fields(FieldVisitor& v) {
  text_fields(v);
  v("bos_token_id", bos_token_id, "Beginning-of-sequence token.");
  v("eos_token_id", eos_token_id, "End-of-sequence token or tokens.");
  v("use_sliding_window", use_sliding_window, "Whether layers have windows at all.");
  v("max_window_layers", max_window_layers, "Number of lower layers with full attention, if layer_types is not given.");
  window_fields(v);
  v.only_when_changed();
  v("tie_word_embeddings", tie_word_embeddings,
    "Share one matrix between input and output embeddings, in older files.");
}

void Qwen2TextWithGrids::post_init() {
  QwenTextConfig::post_init();
  upper_windows(use_sliding_window, max_window_layers);
}

QwenVLConfig::QwenVLConfig() : vision_config(Qwen2VLVisionConfig()), text_config(Qwen2VLTextConfig()) {}

void QwenVLConfig::fields(FieldVisitor& v) {
  v("vision_config", vision_config, "The vision tower.");
  v("text_config", text_config, "The decoder.");
  v("image_token_id", image_token_id, "Placeholder token for image features.");
  v("video_token_id", video_token_id, "Placeholder token for video features.");
  v("vision_start_token_id", vision_start_token_id, "Kept for transformers.");
  v("vision_end_token_id", vision_end_token_id, "Kept for transformers.");
  v("tie_word_embeddings", tie_word_embeddings, "Share one matrix between input and output embeddings.");
}

void QwenVLConfig::rename_older_keys(Json& given, bool is_whole) const {
  if (!given.is_object()) return;
  if (const Json* vision = given.find("vision_config"); vision && vision->is_object()) {
    Json renamed = *vision;
    if (renamed.contains("model_type") && renamed.at("model_type") == Json(std::string(model_type())))
      renamed["model_type"] = vision_config.default_type();
    given["vision_config"] = std::move(renamed);
  }
  const Json* nested = given.find("text_config");
  if (!is_whole || (nested && !nested->is_null())) return;
  Json text = Json::object();
  for (const char* key : kTextKeys) {
    if (!given.contains(key)) continue;
    Json value = given.at(key);
    given.as_object().erase(key);
    text[key] = std::move(value);
  }
  given["text_config"] = std::move(text);
}

void QwenVLConfig::post_init() {
  tie_word_embeddings = tie_word_embeddings || text_config->tie_word_embeddings;
  vocab_size = text_config->vocab_size;
  hidden_size = text_config->hidden_size;
  num_attention_heads = text_config->num_attention_heads;
  num_key_value_heads = text_config->num_key_value_heads;
  head_dim = text_config->head_dim;
  num_hidden_layers = text_config->num_hidden_layers;
  max_position_embeddings = text_config->max_position_embeddings;
  initializer_range = text_config->initializer_range;
  bos_token_id = text_config->bos_token_id;
  eos_token_id = text_config->eos_token_id;
  pad_token_id = text_config->pad_token_id;
  rope = text_config->rope;
}

void QwenVLConfig::validate() const {
  BaseConfig::validate();
  vision_config->validate();
  text_config->validate();
  require<ConfigError>(vision_config->model_type() == vision_config.default_type() &&
                           text_config->model_type() == text_config.default_type(),
                       "[", class_name(), "] vision_config and text_config must be of model_type \"",
                       vision_config.default_type(), "\" and \"", text_config.default_type(), "\"; got \"",
                       vision_config->model_type(), "\" and \"", text_config->model_type(), "\".");
  const ConfigCheck check(*this);
  check.at_least("image_token_id", image_token_id, 0);
  check.at_least("video_token_id", video_token_id, 0);
}

PartitionRules QwenVLConfig::get_partition_rules(bool fully_sharded) const {
  std::vector<PartitionRule> rules;
  // Of a base model without the prefix too.
  for (const auto& [sub, prefix] :
       {std::pair(&vision_config, "model.visual."), std::pair(&vision_config, "visual."),
        std::pair(&text_config, "model.language_model."), std::pair(&text_config, "language_model.")}) {
    for (PartitionRule& rule : sub->rules_under(prefix, fully_sharded, *this)) rules.push_back(std::move(rule));
  }
  rules.push_back({"lm_head\\.weight$", WeightSpecs(sharding, fully_sharded).split_first(LogicalAxis::Vocab)});
  rules.push_back({".*", {}});
  return PartitionRules(std::move(rules));
}

Qwen2VLVisionConfig::Qwen2VLVisionConfig() {
  hidden_size = 3584;
  hidden_act = "quick_gelu";
}

void Qwen2VLVisionConfig::fields(FieldVisitor& v) {
  tower_fields(v);
  v("embed_dim", embed_dim, "Width of the tower.");
  v("hidden_size", hidden_size, "Width of a token, which is the decoder's.");
  v("mlp_ratio", mlp_ratio, "How many times wider the MLPs are than the tower.");
}

void Qwen2VLVisionConfig::validate() const {
  QwenVisionConfig::validate();
  ConfigCheck(*this).at_least("mlp_ratio", mlp_ratio, 1);
}

Qwen2VLConfig::Qwen2VLConfig() { post_init(); }

}  // namespace easydel
