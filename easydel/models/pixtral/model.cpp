// Letters: P patches of all images, D hidden.
#include "easydel/models/pixtral/model.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/decoder.h"

namespace easydel {
namespace {

NormSpec pixtral_norm(const PixtralVisionConfig& c) { return {.eps = c.norm_eps}; }

BlockSpec pixtral_block(const PixtralVisionConfig& c, int64_t layer_idx) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .num_heads = c.num_attention_heads,
                        .num_kv_heads = c.num_attention_heads,
                        .head_dim = c.head_size(),
                        .layer_idx = layer_idx,
                        .cached = false,
                        .scale = {},
                        .dropout = c.attention_dropout,
                        .init_stddev = c.initializer_range},
          .mlp = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.intermediate_size,
                  .act = c.hidden_act,
                  .init_stddev = c.initializer_range},
          .norm = pixtral_norm(c),
          .attention_name = "attention",
          .mlp_name = "feed_forward",
          .before_attention = "attention_norm",
          .before_mlp = "ffn_norm"};
}

}  // namespace

PixtralAttentionLayer::PixtralAttentionLayer(const PixtralVisionConfig& c, int64_t layer_idx)
    : DecoderBlock(pixtral_block(c, layer_idx)) {}

PixtralTransformer::PixtralTransformer(const PixtralVisionConfig& c)
    : layers_(add<ModuleList<PixtralAttentionLayer>>("layers")) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(c, i);
}

PixtralVisionModel::PixtralVisionModel(const PixtralVisionConfig& c)
    : ImageModule(c),
      patch_(c.patch_size),
      patch_conv_(add<PatchProjection>("patch_conv", c.num_channels, c.patch_size, c.hidden_size, /*bias=*/false,
                                       c.initializer_range)),
      ln_pre_(*add_norm(*this, "ln_pre", c.hidden_size, pixtral_norm(c))),
      transformer_(add<PixtralTransformer>("transformer", c)) {}

void PixtralVisionModel::prepare_whole(PreparedInputs&) const {
  require<NotSupportedError>(!parallel() || parallel()->is_single(),
                             "[PixtralVisionModel] images of different sizes are one row, which a mesh does not "
                             "split. Use one device, or the tower inside of mistral3.");
}

operations::RopeTable PixtralVisionModel::rope_table(const std::vector<ImageGrid>& grids, at::Device device) const {
  const auto& c = static_cast<const PixtralVisionConfig&>(config());
  const auto numbers = at::TensorOptions(at::kFloat);
  const at::Tensor exponents = at::arange(0, c.head_size(), 2, numbers) / static_cast<double>(c.head_size());
  const at::Tensor inv_freq = at::pow(c.rope_parameters.rope_theta, exponents).reciprocal();
  std::vector<at::Tensor> angles;
  for (const ImageGrid& grid : grids) {
    const at::Tensor rows = at::arange(grid.rows, numbers).repeat_interleave(grid.columns).unsqueeze(1);
    const at::Tensor columns = at::arange(grid.columns, numbers).repeat({grid.rows}).unsqueeze(1);
    angles.push_back(at::cat({rows * inv_freq.slice(0, 0, {}, 2), columns * inv_freq.slice(0, 1, {}, 2)}, 1));
  }
  const at::Tensor all = at::cat(angles).unsqueeze(0).to(device, dtype() == float64 ? at::kDouble : at::kFloat);
  return {all.cos(), all.sin()};
}

ModelOutput PixtralVisionModel::forward(const PreparedInputs& given) const {
  const at::Tensor& pixels = given.pixel_values;
  const auto& c = static_cast<const PixtralVisionConfig&>(config());
  require<ShapeError>(pixels.size(1) == c.num_channels, "[forward] pixel_values must have ", c.num_channels,
                      " channels (num_channels); got ", pixels.size(1), ".");
  const std::vector<ImageGrid> grids = patch_grids(given, patch_);
  std::vector<at::Tensor> rows, numbers;
  for (std::size_t i = 0; i < grids.size(); ++i) {
    const at::Tensor own = pixels.narrow(0, static_cast<int64_t>(i), 1)
                               .narrow(2, 0, grids[i].rows * patch_)
                               .narrow(3, 0, grids[i].columns * patch_);
    rows.push_back(patch_conv_.patches(own.to(dtype())));
    numbers.push_back(at::full({1, grids[i].patches()}, static_cast<int64_t>(i), at::kLong));
  }
  PreparedInputs inputs{ModelInputs{}};
  inputs.output_attentions = given.output_attentions;
  inputs.output_hidden_states = given.output_hidden_states;
  inputs.dropout_key = given.dropout_key;
  MaskInfo mask;
  mask.causal = false;
  if (grids.size() > 1) mask.q_segment_ids = at::cat(numbers, 1).to(pixels.device());
  inputs.mask_info = mask;
  const at::Tensor x_1PD = ln_pre_(at::cat(rows, 1));
  if (given.part) {
    BatchPart part;
    part.batch = part.given_batch = 1;
    part.tokens = part.given_tokens = x_1PD.size(1);
    part.batch_sharded = part.sequence_sharded = false;
    inputs.part = part;
  }
  const std::shared_ptr<ForwardContext> context = make_context(*this, inputs);
  context->rope.push_back(rope_table(grids, pixels.device()));
  StackOutput stack = run_layers(transformer_.layers(), x_1PD, context);
  ModelOutput out;
  out.last_hidden_state = stack.hidden;
  out.hidden_states = std::move(stack.hidden_states);
  if (context->output_hidden_states) out.hidden_states.push_back(out.last_hidden_state);
  out.attentions = std::move(stack.attentions);
  return out;
}

}  // namespace easydel
