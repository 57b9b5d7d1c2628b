#include "easydel/models/smollm3/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

SmolLM3Config::SmolLM3Config() {
  vocab_size = 128256;
  hidden_size = 2048;
  intermediate_size = 11008;
  num_hidden_layers = 36;
  num_attention_heads = 16;
  num_key_value_heads = 4;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  pad_token_id = 128004;
  bos_token_id = 128000;
  eos_token_id = 128001;
  tie_word_embeddings = true;
  rope.rope_theta = 2e6;
}

void SmolLM3Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
  v("use_sliding_window", use_sliding_window, "Windows in the layers without rotary embeddings.");
  window_fields(v);
  v("no_rope_layers", no_rope_layers, "For each layer 1 where it has rotary embeddings, 0 where it has none.");
  v("no_rope_layer_interval", no_rope_layer_interval, "By default, every n-th layer has no rotary embedding.");
  v.only_when_changed();
  head_dim_field(v);
}

void SmolLM3Config::post_init() {
  DecoderConfig::post_init();
  if (num_hidden_layers < 0 || no_rope_layer_interval < 1) return;  // validate() says so
  if (!no_rope_layers) {
    no_rope_layers.emplace();
    for (int64_t i = 0; i < num_hidden_layers; ++i) no_rope_layers->push_back((i + 1) % no_rope_layer_interval != 0);
  }
  if (layer_types) return;
  layer_types.emplace();
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    const bool has_rope =
        i >= static_cast<int64_t>(no_rope_layers->size()) || no_rope_layers->at(static_cast<std::size_t>(i));
    layer_types->emplace_back(use_sliding_window && sliding_window && !has_rope ? kSliding : kFull);
  }
}

void SmolLM3Config::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("no_rope_layer_interval", no_rope_layer_interval, 1);
  const auto count = no_rope_layers ? static_cast<int64_t>(no_rope_layers->size()) : 0;
  require<ConfigError>(count >= num_hidden_layers,
                       "[SmolLM3Config] no_rope_layers must have an entry for each of num_hidden_layers; got ", count,
                       " and ", num_hidden_layers, ".");
}

}  // namespace easydel
