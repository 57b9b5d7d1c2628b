// Letters: B batch, T tokens, H heads, K size of a head.
#include "easydel/layers/recurrent/lightning_attention.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/operations/recurrent/recurrences.h"

namespace easydel {

using at::Tensor;

LightningAttention::LightningAttention(LightningAttentionSpec spec)
    : RecurrentMixer(spec.layer_idx),
      spec_(std::move(spec)),
      act_(operations::find_activation(spec_.act)),
      norm_(add<RMSNorm>("norm", spec_.num_heads * spec_.head_dim, spec_.norm_eps)),
      qkv_proj_(add<Linear>("qkv_proj", spec_.hidden_size, 3 * spec_.num_heads * spec_.head_dim,
                            LinearOptions{.init_stddev = spec_.init_stddev, .name = "mixer_in"})),
      out_proj_(add<Linear>("out_proj", spec_.num_heads * spec_.head_dim, spec_.hidden_size,
                            LinearOptions{.init_stddev = spec_.init_stddev, .name = "mixer_out"})),
      output_gate_(add<Linear>("output_gate", spec_.hidden_size, spec_.num_heads * spec_.head_dim,
                               LinearOptions{.init_stddev = spec_.init_stddev, .name = "mixer_gate"})) {
  const int64_t heads = spec_.num_heads, block = spec_.block_size;
  const auto constant = [&](const char* name, std::vector<Dim> dims) {
    std::shared_ptr<Parameter> parameter = add_parameter(name, std::move(dims), Initializer::zeros());
    parameter->trainable = false;
    return parameter;
  };
  slope_rate_ = constant("slope_rate", {heads, 1, 1});
  query_decay_ = constant("query_decay", {heads, block, 1});
  key_decay_ = constant("key_decay", {heads, block, 1});
  diagonal_decay_ = constant("diagonal_decay", {1, heads, block, block});
}

Tensor LightningAttention::slopes() const {
  const double layer = static_cast<double>(spec_.layer_idx), layers = static_cast<double>(spec_.num_layers);
  const double factor = 1 - layer / (layers - 1 + 1e-5) + 1e-5;
  std::vector<double> rates;
  for (int64_t h = 1; h <= spec_.num_heads; ++h)
    rates.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(spec_.num_heads)) * factor);
  return at::tensor(rates, at::kDouble);
}

void LightningAttention::fill(at::TensorOptions options) {
  const Tensor rate = slopes().view({-1, 1, 1});
  const Tensor place = at::arange(1, spec_.block_size + 1, at::kDouble);
  const Tensor apart = place.unsqueeze(1) - place.unsqueeze(0);
  ComputedWeights::fill(*slope_rate_, rate, options);
  ComputedWeights::fill(*query_decay_, at::exp(-rate * place.unsqueeze(1)), options);
  ComputedWeights::fill(*key_decay_, at::exp(-rate * (static_cast<double>(spec_.block_size) - place.unsqueeze(1))),
                        options);
  ComputedWeights::fill(*diagonal_decay_,
                        at::exp((-rate * apart).masked_fill(apart.lt(0), -INFINITY)).unsqueeze(0).contiguous(),
                        options);
}

double LightningAttention::own_flops_per_token(double) const {
  return 6.0 * static_cast<double>(spec_.num_heads * spec_.head_dim * spec_.head_dim);
}

Tensor LightningAttention::operator()(const Tensor& x_BTD, const ForwardContext& ctx) const {
  const Rows given = rows(x_BTD, ctx);
  const Tensor qkv = without_padding(act_(qkv_proj_(given.x)), given.keep);
  const std::vector<Tensor> parts = qkv.unflatten(-1, {spec_.num_heads, 3 * spec_.head_dim}).chunk(3, -1);
  const auto wide = qkv.options().dtype(at::promote_types(qkv.scalar_type(), at::kFloat));
  const Tensor steps_BTH = at::ones({qkv.size(0), qkv.size(1), spec_.num_heads}, wide);
  const operations::Recurred done = operations::state_space_duality(
      parts[2], steps_BTH, slopes().neg().to(wide), parts[1], parts[0], given.state(0), given.runs, spec_.block_size);
  if (ctx.cache) store(ctx, {done.state});
  const Tensor y = norm_(done.out.to(x_BTD.scalar_type()).flatten(2));
  return own_tokens(out_proj_(at::sigmoid(output_gate_(given.x)) * y), ctx, x_BTD.size(1));
}

}  // namespace easydel
