// Letters: B batch, T tokens, I channels, N state size, R rank of the time steps, H heads, G groups.
#include "easydel/layers/recurrent/mamba.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/operations/norm.h"
#include "easydel/operations/recurrent/causal_conv.h"
#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

using at::Tensor;

constexpr LogicalAxis kMambaInner = LogicalAxis::MlpIntermediate;
constexpr double kTimeStep = 0.01;  // of new weights

double inverse_softplus(double y) { return y + std::log(-std::expm1(-y)); }

// An RMS norm of each of a few equal groups of features.
class GroupedRMSNorm final : public Norm {
 public:
  GroupedRMSNorm(int64_t features, int64_t groups, double eps)
      : groups_(groups), eps_(eps), weight_(add_parameter("weight", {features}, Initializer::ones())) {}

  Tensor operator()(const Tensor& x) const override {
    const Tensor weight =
        collectives::gather_weight(weight_->value(), weight_->value().scalar_type(), weight_->sharding());
    return operations::rms_norm(x.unflatten(-1, {groups_, -1}), {}, {.eps = eps_}).flatten(-2) * weight;
  }
  std::string type_name() const override { return "RMSNorm"; }
  std::string extra_repr() const override { return concat("(", weight_->shape[0], ",), eps=", eps_); }

 private:
  int64_t groups_;
  double eps_;
  std::shared_ptr<Parameter> weight_;
};

Tensor wide(const Tensor& x) { return x.to(at::promote_types(x.scalar_type(), at::kFloat)); }

}  // namespace

MambaMixer::MambaMixer(MambaSpec spec)
    : RecurrentMixer(spec.layer_idx),
      spec_(std::move(spec)),
      act_(operations::find_activation(spec_.act)),
      in_proj_(add<Linear>("in_proj", spec_.hidden_size, Dim::halves(spec_.inner_size, kMambaInner),
                           LinearOptions{.bias = spec_.bias, .init_stddev = spec_.init_stddev, .name = "mixer_in"})),
      x_proj_(add<Linear>("x_proj", Dim(spec_.inner_size, kMambaInner), spec_.time_step_rank + 2 * spec_.state_size,
                          LinearOptions{.init_stddev = spec_.init_stddev, .name = "mixer_x"})),
      dt_proj_(add<Linear>("dt_proj", spec_.time_step_rank, Dim(spec_.inner_size, kMambaInner),
                           LinearOptions{.bias = true, .init_stddev = spec_.init_stddev, .name = "mixer_dt"})),
      out_proj_(add<Linear>("out_proj", Dim(spec_.inner_size, kMambaInner), spec_.hidden_size,
                            LinearOptions{.bias = spec_.bias, .init_stddev = spec_.init_stddev, .name = "mixer_out"})),
      conv1d_(add<CausalConv1d>("conv1d", Dim(spec_.inner_size, kMambaInner), spec_.conv_kernel, spec_.conv_bias)),
      a_log_(add_parameter("A_log", {Dim(spec_.inner_size, kMambaInner), spec_.state_size}, Initializer::zeros())),
      d_(add_parameter("D", {Dim(spec_.inner_size, kMambaInner)}, Initializer::ones())) {
  dt_proj_.bias()->init = {Initializer::Kind::Constant, inverse_softplus(kTimeStep)};
}

double MambaMixer::own_flops_per_token(double) const {
  return 6.0 * static_cast<double>(spec_.inner_size * spec_.state_size);  // decay, input and output of each state
}

Tensor MambaMixer::operator()(const Tensor& x_BTD, const ForwardContext& ctx) const {
  const Rows given = rows(x_BTD, ctx);
  const Group* group = parallel() ? &parallel()->group(split_over(kMambaInner)) : nullptr;
  const auto shared = [&](const Tensor& x) {
    return group ? collectives::identity_forward_sum_backward(x, *group) : x;
  };
  const std::vector<Tensor> halves = in_proj_(shared(given.x)).chunk(2, -1);
  Tensor x_BTI = act_(conv1d_(halves[0], given.state(0), given.runs));
  x_BTI = without_padding(x_BTI, given.keep);
  std::vector<Tensor> parts =
      shared(x_proj_(x_BTI)).split_with_sizes({spec_.time_step_rank, spec_.state_size, spec_.state_size}, -1);
  if (spec_.rms_eps > 0) {
    for (Tensor& part : parts) part = operations::rms_norm(part, {}, {.eps = spec_.rms_eps});
  }
  const Tensor dt_BTI = at::softplus(wide(dt_proj_(parts[0])));
  const Tensor a_IN = wide(gathered(a_log_)).exp().neg();
  const operations::Recurred done =
      operations::selective_scan(x_BTI, dt_BTI, a_IN, parts[1], parts[2], given.state(1), given.runs);
  if (ctx.cache) store(ctx, {operations::last_inputs(halves[0], given.state(0), conv1d_.taps()), done.state});
  const Tensor y_BTI = (done.out + x_BTI * wide(gathered(d_))) * at::silu(halves[1]);
  return own_tokens(out_proj_(y_BTI.to(x_BTD.scalar_type())), ctx, x_BTD.size(1));
}

Mamba2Mixer::Mamba2Mixer(Mamba2Spec spec)
    : RecurrentMixer(spec.layer_idx),
      spec_(std::move(spec)),
      inner_(spec_.num_heads * spec_.head_dim),
      bc_(spec_.groups * spec_.state_size),
      act_(operations::find_activation(spec_.act)),
      in_proj_(add<Linear>("in_proj", spec_.hidden_size, 2 * inner_ + 2 * bc_ + spec_.num_heads,
                           LinearOptions{.bias = spec_.bias, .init_stddev = spec_.init_stddev, .name = "mixer_in"})),
      out_proj_(add<Linear>(
          "out_proj", inner_, spec_.hidden_size,
          LinearOptions{
              .bias = spec_.out_bias.value_or(spec_.bias), .init_stddev = spec_.init_stddev, .name = "mixer_out"})),
      conv1d_(add<CausalConv1d>("conv1d", inner_ + 2 * bc_, spec_.conv_kernel, spec_.conv_bias)),
      a_log_(add_parameter("A_log", {spec_.num_heads}, Initializer::zeros())),
      d_(add_parameter("D", {spec_.num_heads}, Initializer::ones())),
      dt_bias_(
          add_parameter("dt_bias", {spec_.num_heads}, {Initializer::Kind::Constant, inverse_softplus(kTimeStep)})) {
  if (spec_.norm == Mamba2Spec::Norm::None) return;
  if (spec_.norm_by_group)
    norm_ = &add<GroupedRMSNorm>("norm", inner_, spec_.groups, spec_.norm_eps);
  else
    norm_ = &add<RMSNorm>("norm", inner_, spec_.norm_eps);
}

Tensor Mamba2Mixer::scaled_parts(const Tensor& projected) const {
  if (spec_.part_scales.empty()) return projected;
  std::vector<Tensor> parts = projected.split_with_sizes({inner_, inner_, bc_, bc_, spec_.num_heads}, -1);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i] * spec_.part_scales[i];
  return at::cat(parts, -1);
}

double Mamba2Mixer::own_flops_per_token(double) const { return 6.0 * static_cast<double>(inner_ * spec_.state_size); }

Tensor Mamba2Mixer::operator()(const Tensor& x_BTD, const ForwardContext& ctx) const {
  const Rows given = rows(x_BTD, ctx);
  const Tensor projected = scaled_parts(in_proj_(spec_.in_scale == 1 ? given.x : given.x * spec_.in_scale));
  const std::vector<Tensor> parts = projected.split_with_sizes({inner_, inner_ + 2 * bc_, spec_.num_heads}, -1);
  const Tensor mixed = without_padding(act_(conv1d_(parts[1], given.state(0), given.runs)), given.keep);
  const std::vector<Tensor> xbc = mixed.split_with_sizes({inner_, bc_, bc_}, -1);
  const auto by_group = [&](const Tensor& x) { return x.unflatten(-1, {spec_.groups, spec_.state_size}); };
  const Tensor x_BTHV = xbc[0].unflatten(-1, {spec_.num_heads, spec_.head_dim});
  Tensor dt_BTH = at::softplus(wide(parts[2]) + wide(gathered(dt_bias_)));
  if (spec_.least_time_step > 0 || std::isfinite(spec_.most_time_step))
    dt_BTH = dt_BTH.clamp(spec_.least_time_step, spec_.most_time_step);
  const operations::Recurred done =
      operations::state_space_duality(x_BTHV, dt_BTH, wide(gathered(a_log_)).exp().neg(), by_group(xbc[1]),
                                      by_group(xbc[2]), given.state(1), given.runs, spec_.chunk_size);
  if (ctx.cache) store(ctx, {operations::last_inputs(parts[1], given.state(0), conv1d_.taps()), done.state});
  const Tensor gate_BTI = at::silu(wide(parts[0]));
  Tensor y_BTI = (done.out + x_BTHV * wide(gathered(d_)).unsqueeze(1)).flatten(2);
  if (spec_.norm == Mamba2Spec::Norm::BeforeGate) y_BTI = (*norm_)(y_BTI);
  y_BTI = y_BTI * gate_BTI;
  if (spec_.norm == Mamba2Spec::Norm::AfterGate) y_BTI = (*norm_)(y_BTI);
  return own_tokens(out_proj_(y_BTI.to(x_BTD.scalar_type())), ctx, x_BTD.size(1));
}

}  // namespace easydel
