// Letters: B batch, T tokens, G key heads, H value heads, K key size, V value size.
#include "easydel/layers/recurrent/gated_delta_net.h"

#include <ATen/ATen.h>

#include "easydel/operations/recurrent/causal_conv.h"
#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

constexpr double kNewDecay = 1.0;  // A_log of new weights: between those that are drawn in training from scratch

}  // namespace

GatedDeltaNet::GatedDeltaNet(GatedDeltaNetSpec spec)
    : RecurrentMixer(spec.layer_idx),
      spec_(std::move(spec)),
      keys_(spec_.key_heads * spec_.key_dim),
      values_(spec_.value_heads * spec_.value_dim),
      act_(operations::find_activation(spec_.act)),
      out_proj_(add<Linear>("out_proj", Dim(values_, axis(), values_ / spec_.key_heads), spec_.hidden_size,
                            LinearOptions{.init_stddev = spec_.init_stddev, .name = "mixer_out"})),
      conv1d_(add<CausalConv1d>("conv1d", 2 * keys_ + values_, spec_.conv_kernel, /*bias=*/false)),
      dt_bias_(add_parameter("dt_bias", {Dim(spec_.value_heads, axis(), spec_.value_heads / spec_.key_heads)},
                             Initializer::ones())),
      a_log_(add_parameter("A_log", {Dim(spec_.value_heads, axis(), spec_.value_heads / spec_.key_heads)},
                           {Initializer::Kind::Constant, kNewDecay})) {
  const auto projection = [&](const char* name, int64_t out) {
    in_.push_back(&add<Linear>(name, spec_.hidden_size, Dim(out, axis(), spec_.by_key_head ? out / spec_.key_heads : 1),
                               LinearOptions{.init_stddev = spec_.init_stddev, .name = "mixer_in"}));
  };
  if (spec_.by_key_head) {
    head_norm_ =
        &add<HeadNorm>("norm", HeadNormSpec{.norm = {.eps = spec_.norm_eps}}, Dim(spec_.value_heads), spec_.value_dim);
    projection("in_proj_qkvz", 2 * keys_ + 2 * values_);
    projection("in_proj_ba", 2 * spec_.value_heads);
  } else {
    norm_ = &add<RMSNorm>("norm", spec_.value_dim, spec_.norm_eps);
    projection("in_proj_qkv", 2 * keys_ + values_);
    projection("in_proj_z", values_);
    projection("in_proj_b", spec_.value_heads);
    projection("in_proj_a", spec_.value_heads);
  }
}

double GatedDeltaNet::own_flops_per_token(double) const {
  // The state's decay, the reading by the key, the update, and the reading by the query.
  return 7.0 * static_cast<double>(spec_.value_heads * spec_.key_dim * spec_.value_dim);
}

Interval GatedDeltaNet::key_heads() const {
  const AxisNames& axes = split_over(axis());
  return axes.empty() ? Interval{0, spec_.key_heads}
                      : even_part(spec_.key_heads, parallel()->mesh().size(axes), parallel()->mesh().index(axes));
}

GatedDeltaNet::Projected GatedDeltaNet::project(const at::Tensor& x, int64_t heads) const {
  const std::vector<at::Tensor> all = Linear::apply_all(x, in_);
  const int64_t each = spec_.value_heads / spec_.key_heads, width = each * spec_.value_dim;
  if (!spec_.by_key_head) return {all[0], all[1].unflatten(-1, {spec_.value_heads, spec_.value_dim}), all[2], all[3]};
  const std::vector<at::Tensor> parts = all[0]
                                            .unflatten(-1, {heads, 2 * spec_.key_dim + 2 * width})
                                            .split_with_sizes({spec_.key_dim, spec_.key_dim, width, width}, -1);
  const std::vector<at::Tensor> ba = all[1].unflatten(-1, {heads, 2 * each}).chunk(2, -1);
  return {at::cat({parts[0].flatten(2), parts[1].flatten(2), parts[2].flatten(2)}, -1),
          parts[3].reshape({x.size(0), x.size(1), heads * each, spec_.value_dim}), ba[0].flatten(2), ba[1].flatten(2)};
}

at::Tensor GatedDeltaNet::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Rows given = rows(x_BTD, ctx);
  const at::ScalarType wide = at::promote_types(x_BTD.scalar_type(), at::kFloat);
  const AxisNames& axes = split_over(axis());
  const Interval own = key_heads();
  const int64_t each = spec_.value_heads / spec_.key_heads, keys = own.size() * spec_.key_dim,
                values = own.size() * each * spec_.value_dim;
  const Projected in =
      project(axes.empty() ? given.x : collectives::identity_forward_sum_backward(given.x, parallel()->group(axes)),
              own.size());
  // This rank's queries, keys and values among the channels of the convolution, which is stored whole.
  Intervals channels;
  if (!axes.empty()) {
    const int64_t first = own.begin * spec_.key_dim, value = 2 * keys_ + own.begin * each * spec_.value_dim;
    channels = {{first, first + keys}, {keys_ + first, keys_ + first + keys}, {value, value + values}};
  }
  const at::Tensor mixed = act_(conv1d_(in.qkv, given.state(0), given.runs, channels, axes));
  const auto heads = [&](int64_t first, int64_t count, int64_t size) {
    return mixed.narrow(-1, first, count * size).unflatten(-1, {count, size});
  };
  const at::Tensor g_BTH =
      gathered(a_log_).to(wide).exp().neg() * at::softplus(in.a.to(wide) + gathered(dt_bias_).to(wide));
  const operations::Recurred done = operations::gated_delta_rule(
      heads(0, own.size(), spec_.key_dim), heads(keys, own.size(), spec_.key_dim),
      heads(2 * keys, own.size() * each, spec_.value_dim), g_BTH, at::sigmoid(in.b), given.state(1), given.runs);
  if (ctx.cache) store(ctx, {operations::last_inputs(in.qkv, given.state(0), conv1d_.taps()), done.state});
  const at::Tensor out_BTHV = done.out.to(x_BTD.scalar_type());
  const at::Tensor normed_BTHV = head_norm_ ? (*head_norm_)(out_BTHV, {0, own.size() * each}) : (*norm_)(out_BTHV);
  const at::Tensor y_BTHV = normed_BTHV * at::silu(in.z.to(wide));
  return own_tokens(out_proj_(y_BTHV.to(x_BTD.scalar_type()).flatten(2)), ctx, x_BTD.size(1));
}

}  // namespace easydel
