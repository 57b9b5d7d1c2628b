// Letters: B batch, T tokens, D hidden, H heads, K size of a head.
#include "easydel/layers/recurrent/kimi_delta_attention.h"

#include <ATen/ATen.h>

#include "easydel/operations/recurrent/causal_conv.h"
#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

constexpr double kNewRate = 1.0;  // A_log of new weights: between those that are drawn in training from scratch

}  // namespace

KimiDeltaAttention::KimiDeltaAttention(KimiDeltaSpec spec)
    : RecurrentMixer(spec.layer_idx),
      spec_(std::move(spec)),
      width_(spec_.num_heads * spec_.head_dim),
      act_(operations::find_activation(spec_.act)),
      q_proj_(projection("q_proj", spec_.hidden_size, all_heads())),
      k_proj_(projection("k_proj", spec_.hidden_size, all_heads())),
      v_proj_(projection("v_proj", spec_.hidden_size, all_heads())),
      conv1d_(add<CausalConv1d>("conv1d", 3 * width_, spec_.conv_kernel, /*bias=*/false)),
      f_a_proj_(projection("f_a_proj", spec_.hidden_size, spec_.head_dim)),
      f_b_proj_(projection("f_b_proj", spec_.head_dim, all_heads())),
      dt_bias_(add_parameter("dt_bias", {all_heads()}, Initializer::zeros())),
      a_log_(add_parameter("A_log", {1, 1, spec_.num_heads, 1}, {Initializer::Kind::Constant, kNewRate})),
      b_proj_(projection("b_proj", spec_.hidden_size, Dim(spec_.num_heads, LogicalAxis::Head))),
      g_a_proj_(projection("g_a_proj", spec_.hidden_size, spec_.head_dim)),
      g_b_proj_(projection("g_b_proj", spec_.head_dim, all_heads())),
      o_norm_(
          add<HeadNorm>("o_norm", HeadNormSpec{.norm = {.eps = spec_.norm_eps}}, Dim(spec_.num_heads), spec_.head_dim)),
      o_proj_(projection("o_proj", all_heads(), spec_.hidden_size)) {
  conv1d_.named_parameters().front().parameter->file_layout = [width = width_,
                                                               kernel = spec_.conv_kernel](const std::string& path) {
    constexpr std::string_view kName = "conv1d.weight";
    FileLayout layout;
    for (const char* part : {"q_", "k_", "v_"})
      layout.push_back({concat(path.substr(0, path.size() - kName.size()), part, kName),
                        {static_cast<int64_t>(layout.size()) * width, 0, 0},
                        {width, 1, kernel},
                        {width, 1, kernel}});
    return layout;
  };
}

Dim KimiDeltaAttention::all_heads() const { return {width_, LogicalAxis::Head, spec_.head_dim}; }

const Linear& KimiDeltaAttention::projection(const char* name, const Dim& in, const Dim& out) {
  return add<Linear>(name, in, out,
                     LinearOptions{.init_stddev = spec_.init_stddev,
                                   .name = std::string_view(name) == "o_proj" ? "mixer_out" : "mixer_in"});
}

double KimiDeltaAttention::own_flops_per_token(double) const {
  // The state's decay, the reading by the key, the update, and the reading by the query.
  return 7.0 * static_cast<double>(width_ * spec_.head_dim);
}

Interval KimiDeltaAttention::heads() const {
  const AxisNames& axes = split_over(LogicalAxis::Head);
  return axes.empty() ? Interval{0, spec_.num_heads}
                      : even_part(spec_.num_heads, parallel()->mesh().size(axes), parallel()->mesh().index(axes));
}

at::Tensor KimiDeltaAttention::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Rows given = rows(x_BTD, ctx);
  const at::ScalarType wide = at::promote_types(x_BTD.scalar_type(), at::kFloat);
  const AxisNames& axes = split_over(LogicalAxis::Head);
  const auto enter = [&](const at::Tensor& x) {  // what all ranks have, and each goes on with for its own heads
    return axes.empty() ? x : collectives::identity_forward_sum_backward(x, parallel()->group(axes));
  };
  const Interval own = heads();
  const int64_t width = own.size() * spec_.head_dim, first = own.begin * spec_.head_dim;
  const auto by_head = [&](const at::Tensor& x) { return x.unflatten(-1, {own.size(), spec_.head_dim}); };

  const std::vector<at::Tensor> in = Linear::apply_all(enter(given.x), {&q_proj_, &k_proj_, &v_proj_, &b_proj_});
  const at::Tensor qkv = at::cat({in[0], in[1], in[2]}, -1);
  Intervals channels;  // this rank's among those of the convolution, which is stored whole
  if (!axes.empty()) {
    for (int64_t part = 0; part < 3; ++part) channels.push_back({part * width_ + first, part * width_ + first + width});
  }
  const at::Tensor mixed = act_(conv1d_(qkv, given.state(0), given.runs, channels, axes));

  const at::Tensor rate_H1 = enter(gathered(a_log_)).to(wide).exp().view({-1, 1}).narrow(0, own.begin, own.size());
  const at::Tensor step_BTHK = by_head(f_b_proj_(enter(f_a_proj_(given.x))).to(wide) + gathered(dt_bias_).to(wide));
  const at::Tensor g_BTHK = -rate_H1 * at::softplus(step_BTHK);

  const operations::Recurred done = operations::gated_delta_rule(
      by_head(mixed.narrow(-1, 0, width)), by_head(mixed.narrow(-1, width, width)),
      by_head(mixed.narrow(-1, 2 * width, width)), g_BTHK, at::sigmoid(in[3]), given.state(1), given.runs);
  if (ctx.cache) store(ctx, {operations::last_inputs(qkv, given.state(0), conv1d_.taps()), done.state});

  const at::Tensor gate_BTHK = at::sigmoid(by_head(g_b_proj_(enter(g_a_proj_(given.x)))).to(wide));
  const at::Tensor normed_BTHK = o_norm_(done.out.to(x_BTD.scalar_type()), {0, own.size()});
  return own_tokens(o_proj_((normed_BTHK * gate_BTHK).to(x_BTD.scalar_type()).flatten(2)), ctx, x_BTD.size(1));
}

}  // namespace easydel
