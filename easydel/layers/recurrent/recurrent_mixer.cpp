#include "easydel/layers/recurrent/recurrent_mixer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/caching/recurrent_states.h"
#include "easydel/caching/transformer_cache.h"
#include "easydel/core/error.h"
#include "easydel/operations/recurrent/causal_conv.h"
#include "easydel/operations/recurrent/runs.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

using at::Tensor;

// [B, T] bool of the step's tokens; undefined where none is padding.
Tensor kept_tokens(const ForwardContext& ctx, int64_t tokens) {
  if (const Tensor& mask = ctx.mask.padding_mask; mask.defined())
    return mask.narrow(1, mask.size(1) - tokens, tokens).ne(0);
  const auto* cache = dynamic_cast<const TransformerCache*>(ctx.cache);
  if (!cache || cache->is_static() || !cache->starts().defined()) return {};
  const Tensor slots = at::arange(cache->length(), cache->length() + tokens, cache->starts().options());
  return slots.unsqueeze(0).ge(cache->starts().unsqueeze(1));
}

void check_mask(const ForwardContext& ctx) {
  const MaskInfo& mask = ctx.mask;
  require<NotSupportedError>(!mask.explicit_mask.defined() && mask.causal && mask.sliding_window == 0,
                             "[forward] a recurrent layer reads its tokens in order; the mask must be one of padding, "
                             "[batch, tokens], or segment_ids; got one for each pair of tokens.");
  require<NotSupportedError>(!ctx.cache || !ctx.cache->is_ragged(),
                             "[cache] a recurrent layer keeps one state for each row, which pages do not have. Use a "
                             "dense cache: generate, not serve.");
  require<NotSupportedError>(!ctx.cache || !mask.q_segment_ids.defined(),
                             "[cache] packed segments are not supported with a cache. Put each sequence in a separate "
                             "row.");
}

}  // namespace

const Tensor& RecurrentMixer::Rows::state(std::size_t i) const {
  static const Tensor none;
  return i < states.size() ? states[i] : none;
}

Tensor RecurrentMixer::without_padding(const Tensor& x, const Tensor& keep) {
  return keep.defined() ? x.masked_fill(keep.logical_not(), 0) : x;
}

RecurrentMixer::Rows RecurrentMixer::rows(const Tensor& x_BTD, const ForwardContext& ctx) const {
  check_mask(ctx);
  Rows rows{x_BTD, {}, {}, {}};
  if (parallel() && ctx.part.sequence_sharded && !parallel()->sequence().empty()) {
    const Group& group = parallel()->group(parallel()->sequence());
    const std::vector<int64_t> sizes(static_cast<std::size_t>(parallel()->mesh().size(parallel()->sequence())),
                                     x_BTD.size(1));
    // Each rank goes on with other tokens of the result.
    rows.x = collectives::identity_forward_sum_backward(collectives::gather(x_BTD, 1, sizes, group), group);
  }
  if (const Tensor keep = kept_tokens(ctx, rows.x.size(1)); keep.defined()) {
    rows.keep = keep.to(x_BTD.device()).unsqueeze(2);
    rows.x = without_padding(rows.x, rows.keep);
  }
  if (ctx.mask.q_segment_ids.defined())
    rows.runs = operations::document_runs(ctx.mask.q_segment_ids.to(x_BTD.device()));
  if (ctx.cache) rows.states = recurrent_states(*ctx.cache, layer_idx_);
  return rows;
}

void RecurrentMixer::store(const ForwardContext& ctx, const std::vector<Tensor>& states) const {
  if (ctx.cache) store_recurrent_states(*ctx.cache, layer_idx_, states);
}

Tensor RecurrentMixer::own_tokens(const Tensor& y, const ForwardContext& ctx, int64_t tokens) const {
  return y.size(1) == tokens ? y : y.narrow(1, ctx.part.first_token, tokens);
}

Tensor RecurrentMixer::gathered(const std::shared_ptr<Parameter>& parameter) {
  const Tensor& value = parameter->value();
  return collectives::gather_weight(value, value.scalar_type(), parameter->sharding());
}

CausalConv1d::CausalConv1d(const Dim& channels, int64_t taps, bool bias)
    : channels_(channels.size),
      taps_(taps),
      weight_(add_parameter("weight", {channels, 1, taps},
                            {Initializer::Kind::Uniform, 1 / std::sqrt(static_cast<double>(taps))})) {
  if (bias) bias_ = add_parameter("bias", {channels}, Initializer::zeros());
}

Tensor CausalConv1d::operator()(const Tensor& x, const Tensor& before, const Tensor& runs, const Intervals& channels,
                                const AxisNames& axes) const {
  const auto own = [&](const std::shared_ptr<Parameter>& p) {
    if (!p) return Tensor();
    Tensor weight = collectives::gather_weight(p->value(), p->value().scalar_type(), p->sharding());
    if (channels.empty()) return weight;
    weight = collectives::identity_forward_sum_backward(weight, parallel()->group(axes));
    std::vector<Tensor> parts;
    for (const Interval& part : channels) parts.push_back(weight.narrow(0, part.begin, part.size()));
    return at::cat(parts);
  };
  return operations::causal_conv(x, own(weight_), own(bias_), before, runs);
}

std::string CausalConv1d::extra_repr() const {
  return concat(channels_, ", ", channels_, ", kernel_size=(", taps_, ",), stride=(1,), padding=(", taps_ - 1,
                ",), groups=", channels_, bias_ ? "" : ", bias=False");
}

}  // namespace easydel
