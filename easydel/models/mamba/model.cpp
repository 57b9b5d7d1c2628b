// The mixer: layers/recurrent/mamba.cpp.
#include "easydel/models/mamba/model.h"

namespace easydel {

ModelOutput run_state_space(const BaseModule& module, const PreparedInputs& inputs, const Embedding& embeddings,
                            const std::vector<const DecoderLayer*>& layers, const RMSNorm& norm) {
  const auto context = make_context(module, inputs);
  StackOutput stack = run_layers(layers, embed(inputs, embeddings), context);
  if (context->cache) context->cache->end();
  ModelOutput out;
  out.last_hidden_state = norm(stack.hidden).to(module.dtype());
  if (context->output_hidden_states) {
    out.hidden_states.assign(stack.hidden_states.begin() + (layers.empty() ? 0 : 1), stack.hidden_states.end());
    if (!layers.empty()) out.hidden_states.push_back(stack.hidden);
    out.hidden_states.push_back(out.last_hidden_state);
  }
  out.past_key_values = inputs.past_key_values;
  return out;
}

MambaSpec mamba_spec(const MambaConfig& c, int64_t layer_idx) {
  return {.hidden_size = c.hidden_size,
          .inner_size = c.inner_size(),
          .state_size = c.state_size,
          .conv_kernel = c.conv_kernel,
          .time_step_rank = c.time_steps(),
          .bias = c.use_bias,
          .conv_bias = c.use_conv_bias,
          .act = c.hidden_act,
          .layer_idx = layer_idx,
          .init_stddev = c.initializer_range};
}

MambaBlock::MambaBlock(const MambaConfig& c, int64_t layer_idx) : StateSpaceBlock(c, mamba_spec(c, layer_idx)) {}

}  // namespace easydel
