#include "easydel/generation/decode_step.h"

#include "easydel/generation/graph_step.h"

#include <ATen/ATen.h>

namespace easydel {

at::Tensor ForwardStep::run() {
  output_ = module_(inputs_);
  // A copy: a view would keep the logits of the whole prompt alive.
  at::Tensor last = output_.logits.select(1, output_.logits.size(1) - 1).to(at::kFloat, false, /*copy=*/true);
  output_.logits.reset();
  return last;
}

at::Tensor ForwardStep::prefill() {
  // Where ranks share the sequence and there is no cache, the last token is on one of them alone.
  if (inputs_.past_key_values || !module_.parallel()) inputs_.logits_to_keep = 1;
  const at::Tensor logits = run();
  keep_last_positions(output_, inputs_, &module_);
  const auto* cache = dynamic_cast<const TransformerCache*>(inputs_.past_key_values.get());
  if (cache && cache->knows_padding()) inputs_.attention_mask.reset();
  return logits;
}

at::Tensor ForwardStep::next(const at::Tensor& tokens) {
  update_inputs_for_generation(output_, inputs_, tokens.unsqueeze(1));
  return run();
}

void ForwardStep::reorder(const at::Tensor& rows) { reorder_inputs_for_generation(inputs_, rows); }

std::unique_ptr<DecodeStep> make_decode_step(const BaseModule& module, ModelInputs inputs, bool use_cache,
                                             int64_t max_length, bool trace) {
  if (!use_cache) return std::make_unique<ForwardStep>(module, std::move(inputs));
  const int64_t rows = inputs.input_ids.size(0);
  const bool counts_grids = inputs.image_grid_thw.defined() || inputs.video_grid_thw.defined();
  if ((inputs.attention_mask.defined() || inputs.position_ids.defined()) && !counts_grids) {
    // Positions continue; with only a mask the cache would set them, and it counts padding.
    if (!inputs.position_ids.defined()) inputs.position_ids = (inputs.attention_mask.cumsum(-1) - 1).clamp_min(0);
  }
  inputs.past_key_values = module.init_cache(rows, max_length);
  if (trace && can_capture(module, inputs)) return make_graph_step(module, std::move(inputs));
  return std::make_unique<ForwardStep>(module, std::move(inputs));
}

}  // namespace easydel
