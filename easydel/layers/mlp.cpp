#include "easydel/layers/mlp.h"

#include "easydel/layers/layer_scope.h"
#include "easydel/operations/dropout.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;

}  // namespace

MLP::MLP(MlpSpec spec) : spec_(std::move(spec)), act_(operations::find_activation(spec_.act)) {
  const Dim embed(spec_.hidden_size);
  const int64_t inner = spec_.intermediate_size;
  const auto options = [&](const char* name) {
    return LinearOptions{
        .bias = spec_.bias, .transposed = spec_.transposed, .init_stddev = spec_.init_stddev, .name = name};
  };
  if (spec_.gated && spec_.fused_gate_up) {
    gate_up_ = &add<Linear>(spec_.gate_up_name, embed, Dim::halves(inner, kInner), options("mlp_gate_up"));
  } else {
    if (spec_.gated) gate_ = &add<Linear>(spec_.gate_name, embed, Dim(inner, kInner), options("mlp_gate"));
    up_ = &add<Linear>(spec_.up_name, embed, Dim(inner, kInner), options("mlp_up"));
  }
  LinearOptions down = options("mlp_down");
  down.init_stddev = spec_.down_init_stddev.value_or(spec_.init_stddev);
  down_ = &add<Linear>(spec_.down_name, Dim(inner, kInner), embed, down);
}

at::Tensor MLP::operator()(const at::Tensor& x_whole) const {
  const at::Tensor x =
      parallel() ? collectives::identity_forward_sum_backward(x_whole, parallel()->group(split_over(kInner))) : x_whole;
  if (gate_up_) return finish({(*gate_up_)(x)});
  return finish(gate_ ? Linear::apply_all(x, {gate_, up_}) : std::vector<at::Tensor>{(*up_)(x)});
}

at::Tensor MLP::finish(const std::vector<at::Tensor>& projected) const {
  if (!gate_ && !gate_up_) return (*down_)(dropped(act_(projected[0])));
  const auto scaled = [](const at::Tensor& y, double factor) { return factor == 1 ? y : y * factor; };
  std::vector<at::Tensor> gated = projected;
  if (gate_) gated[0] = scaled(gated[0], spec_.gate_scale);
  const double out_scale = gate_ ? spec_.out_scale : 1;
  if (!drops()) {
    if (const auto y = down_->apply_gated(gated, act_)) return scaled(*y, out_scale);
  }
  const at::Tensor inner =
      gate_ ? operations::gated_activation(gated[0], gated[1], act_) : operations::gated_activation(gated[0], act_);
  return scaled((*down_)(dropped(inner)), out_scale);
}

at::Tensor MLP::add_to(const at::Tensor& x, const Norm& norm) const {
  operations::AroundProducts before{.gate = &act_};
  if (!norm.describe(before)) return x + (*this)(norm(x));
  const bool is_scaled = spec_.gate_scale != 1 || spec_.out_scale != 1;
  if (const auto inner = gate_ && !is_scaled ? Linear::apply_around(x, {gate_, up_}, before) : std::nullopt) {
    const at::Tensor kept = dropped((*inner)[0]);
    const auto added = Linear::apply_around(kept, {down_}, {.residual = x});
    return added ? (*added)[0] : x + (*down_)(kept);
  }
  const std::vector<const Linear*> first = gate_      ? std::vector{gate_, up_}
                                           : gate_up_ ? std::vector{gate_up_}
                                                      : std::vector{up_};
  if (const auto normed = Linear::apply_normed(x, first, before)) return normed->x + finish(normed->results);
  return x + (*this)(norm(x));
}

bool MLP::keeps_inner(at::Device device) const {
  return !device.is_cuda() || (!gate_ && !gate_up_) || act_.gated == operations::GatedKernel::None ||
         spec_.dropout > 0 || !down_->is_plain() || parallel();
}

bool MLP::drops() const {
  const ForwardContext* ctx = current_forward();
  return spec_.dropout > 0 && ctx && ctx->dropout_key;
}

at::Tensor MLP::dropped(const at::Tensor& inner) const {
  if (!drops()) return inner;
  const ForwardContext* ctx = current_forward();
  const RandomKey key = ctx->dropout_key->fold("mlp").fold(static_cast<uint64_t>(spec_.layer_idx));
  if (ctx->part.batch == 0) return operations::dropout(inner, spec_.dropout, key);
  // By the place in the whole, so that a mesh drops the same.
  const AxisNames& axes = split_over(kInner);
  const int64_t parts = parallel()->mesh().size(axes), index = parallel()->mesh().index(axes);
  const BatchPart& part = ctx->part;
  const Region region{{part.given_batch, part.given_tokens, spec_.intermediate_size},
                      {part.first_row, part.first_token, even_part(spec_.intermediate_size, parts, index).begin}};
  return operations::dropout(inner, spec_.dropout, key, &region);
}

const char* MLP::describe(operations::DecodeLayer& layer) const {
  if (!gate_) return "the MLP has no separate gate";
  if (spec_.dropout > 0) return "the MLP has dropout";
  if (spec_.gate_scale != 1 || spec_.out_scale != 1) return "the MLP is scaled";
  const auto gate = gate_->decode_map(), up = up_->decode_map(), down = down_->decode_map();
  if (!gate || !up || !down) return "weights of the MLP are neither plain float32 nor packed codes";
  layer.gate = *gate;
  layer.up = *up;
  layer.down = *down;
  layer.act = &act_;
  return nullptr;
}

}  // namespace easydel
