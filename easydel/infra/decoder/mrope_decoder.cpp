#include "easydel/infra/decoder/mrope_decoder.h"

#include <ATen/ATen.h>

namespace easydel {

MropeDecoder::MropeDecoder(const DecoderConfig& c, MropeAxes axes, const std::function<BlockSpec(int64_t)>& layer)
    : BaseModule(c),
      axes_(std::move(axes)),
      embed_tokens_(
          add<Embedding>("embed_tokens", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_range)),
      layers_(add<ModuleList<DecoderBlock>>("layers")),
      norm_(*add_norm(*this, "norm", c.hidden_size, {.eps = c.norm_eps})) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(layer(i));
}

ModelOutput MropeDecoder::forward(const PreparedInputs& inputs, const std::vector<at::Tensor>& added) const {
  at::Tensor x_BTD = embed(inputs, embed_tokens_);
  const auto context = make_context(*this, inputs);
  const RopeParameters& rope = config().rope;
  std::optional<int64_t> length;
  const at::Tensor& all = inputs.part ? inputs.all_position_ids : inputs.position_ids;
  if (operations::rope_depends_on_length(rope) && all.numel() > 0) length = all.max().item<int64_t>() + 1;
  operations::RopeFrequencies frequencies =
      operations::rope_frequencies(rope, config().head_size(), config().max_position_embeddings, length);
  // A cache keeps them on its device, so that a step that is captured copies nothing.
  if (Cache* cache = context->cache; cache && !length) {
    if (cache->rope.empty()) cache->rope.push_back({frequencies.inv_freq.to(inputs.position_ids.device()), {}});
    frequencies.inv_freq = cache->rope[0].cos;
  }
  context->rope.push_back(
      mrope_table(frequencies, axes_, inputs.position_ids, dtype() == float64 ? at::kDouble : at::kFloat));
  if (added.empty()) return run_stack(context, inputs, std::move(x_BTD), layers_, norm_);

  StackOutput whole;
  const std::vector<const DecoderLayer*> layers(layers_.begin(), layers_.end());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    // The rest has nothing to add.
    const bool is_last = i >= added.size();
    StackOutput part = run_layers(
        is_last ? std::vector(layers.begin() + static_cast<std::ptrdiff_t>(i), layers.end()) : std::vector{layers[i]},
        std::move(x_BTD), context);
    x_BTD = is_last ? part.hidden : part.hidden + added[i];
    whole.hidden_states.insert(whole.hidden_states.end(), part.hidden_states.begin(), part.hidden_states.end());
    whole.attentions.insert(whole.attentions.end(), part.attentions.begin(), part.attentions.end());
    if (is_last) break;
  }
  if (context->cache) context->cache->end();
  ModelOutput out;
  out.last_hidden_state = norm_(x_BTD);
  out.hidden_states = std::move(whole.hidden_states);
  if (context->output_hidden_states) out.hidden_states.push_back(out.last_hidden_state);
  out.attentions = std::move(whole.attentions);
  out.past_key_values = inputs.past_key_values;
  return out;
}

}  // namespace easydel
