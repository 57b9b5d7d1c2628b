// A Llama small enough to count by hand, for the tests of what all models share.
#pragma once

#include <ATen/ATen.h>

#include "easydel/models/llama/model.h"

namespace easydel {

inline LlamaConfig tiny_config() {
  LlamaConfig config;
  config.vocab_size = 29;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.max_position_embeddings = 32;
  config.initializer_range = 0.3;  // outputs that differ from token to token
  return config;
}

inline std::shared_ptr<LlamaForCausalLM> tiny_llama(const ModuleOptions& options = {}) {
  return make_model<LlamaForCausalLM>(tiny_config(), options);
}

inline at::Tensor tiny_ids(int64_t batch = 2, int64_t tokens = 7) {
  return at::arange(batch * tokens, at::kLong).mul(11).add(5).remainder(29).view({batch, tokens});
}

inline at::Tensor logits_of(const BaseModule& model, ModelInputs inputs = {.input_ids = tiny_ids()}) {
  return model(inputs).logits.detach();
}

}  // namespace easydel
