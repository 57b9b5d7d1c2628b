// Letters: B batch, T tokens, S keys, D hidden.
#include "easydel/models/gemma3/vision_model.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/core/error.h"
#include "easydel/models/siglip/config.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

// For each token the last one that it sees, by their places [B, T] in the call: its own, or the last of its image.
// `borders` are where a sequence of a ragged batch ends.
at::Tensor last_seen(const at::Tensor& is_image, const std::vector<int64_t>& borders) {
  const int64_t tokens = is_image.size(1);
  const at::Tensor place = at::arange(tokens, is_image.options().dtype(at::kLong)).expand_as(is_image);
  at::Tensor goes_on = at::zeros_like(is_image);
  goes_on.narrow(1, 0, tokens - 1)
      .copy_(is_image.narrow(1, 0, tokens - 1).logical_and(is_image.narrow(1, 1, tokens - 1)));
  for (const int64_t border : borders) goes_on.select(1, border).fill_(false);
  return std::get<0>(place.masked_fill(goes_on, tokens).flip(1).cummin(1)).flip(1);
}

}  // namespace

Gemma3MultiModalProjector::Gemma3MultiModalProjector(const Gemma3Config& c)
    : side_(c.patches_per_side()),
      pooled_(c.pooled_patches()),
      weight_(add_parameter("mm_input_projection_weight",
                            {Dim(c.vision_config->hidden_size), Dim(c.text_config->hidden_size)},
                            Initializer::zeros())),
      norm_(*add_norm(*this, "mm_soft_emb_norm", c.vision_config->hidden_size,
                      {.eps = c.vision_config.as<SiglipVisionConfig>().norm_eps,
                       .weight_offset = 1,
                       .multiply_before_cast = true})) {}

at::Tensor Gemma3MultiModalProjector::operator()(const at::Tensor& patches) const {
  // Here and not in the config, whose defaults, which are transformers', do not fit.
  require<ConfigError>(pooled_ >= 1, "[Gemma3Model] mm_tokens_per_image must be at most ", side_ * side_,
                       ", the patches of an image; got more.");
  const at::Tensor grid = patches.transpose(1, 2).unflatten(2, {side_, side_}).contiguous();
  const at::Tensor tokens = at::avg_pool2d(grid, {pooled_, pooled_}).flatten(2).transpose(1, 2);
  return at::matmul(norm_(tokens), collectives::gather_weight(weight_->value(), dtype(), weight_->sharding()));
}

Gemma3Model::Gemma3Model(const Gemma3Config& c)
    : ImageTextModel(c, {.image_token = c.image_token_index,
                         .embedding_scale = std::sqrt(static_cast<double>(c.text_config->hidden_size))}) {
  add_tower("vision_tower", c.vision_config);
  projector_ = &add<Gemma3MultiModalProjector>("multi_modal_projector", c);
  add_decoder("language_model", c.text_config);
}

void Gemma3Model::prepare_whole(PreparedInputs& inputs) const {
  ImageTextModel::prepare_whole(inputs);
  MaskInfo& mask = *inputs.mask_info;
  if (!inputs.token_type_ids.defined() || !mask.causal || inputs.token_type_ids.size(1) < 2) return;
  const at::Tensor is_image = inputs.token_type_ids.eq(1);
  if (!is_image.any().item<bool>()) return;
  mask.memory = MaskInfo::make_memory();
  const Cache* cache = inputs.past_key_values.get();
  if (cache && cache->is_ragged()) {
    std::vector<int64_t> borders;
    int64_t end = 0;
    for (const RaggedBatch::Part& part : dynamic_cast<const RaggedBatch&>(*inputs.cache_metadata).parts)
      borders.push_back((end += part.tokens) - 1);
    const at::Tensor seen = last_seen(is_image, borders);
    mask.q_positions = inputs.position_ids + seen - at::arange(seen.size(1), seen.options());
    return;
  }
  const int64_t before = cache ? cache->length() : 0;
  const at::Tensor seen_BT = last_seen(is_image, {}) + before;
  const at::Tensor slots_S = at::arange(before + seen_BT.size(1), seen_BT.options());
  const at::Tensor visible = slots_S.le(seen_BT.unsqueeze(-1)).unsqueeze(1);  // [B, 1, T, S]
  mask.explicit_mask = mask.explicit_mask.defined() ? mask.explicit_mask.logical_and(visible) : visible;
  mask.causal = false;
}

at::Tensor Gemma3Model::image_features(const PreparedInputs& given) const {
  PreparedInputs inputs = tower_inputs(given);
  inputs.output_hidden_states = false;
  return (*projector_)(tower().forward(inputs).last_hidden_state);
}

}  // namespace easydel
