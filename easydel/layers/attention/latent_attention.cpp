// Letters: B batch, T new tokens, D hidden, N heads, R rank of the latent, H head size of q and k, V head size of v.
#include "easydel/layers/attention/latent_attention.h"

#include <ATen/ATen.h>

#include "easydel/layers/attention/sequence_attention.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

using at::Tensor;
using operations::AttentionOptions;
using operations::AttentionOutput;

double latent_attention_scale(int64_t q_head_dim, const RopeParameters& rope) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_head_dim));
  const double all = rope.mscale_all_dim.value_or(0), factor = rope.factor.value_or(1);
  if (rope.rope_type == "default" || all == 0 || factor <= 1) return scale;
  const double mscale = 0.1 * all * std::log(factor) + 1.0;
  return scale * mscale * mscale;
}

LatentAttention::LatentAttention(LatentAttentionSpec spec) : spec_(std::move(spec)) {
  const HeadCounts heads{spec_.num_heads, spec_.num_heads};
  const Dim embed(spec_.hidden_size), q_dim = Dim::query_heads(heads, q_head_dim());
  const auto options = [&](bool bias, const char* name) {
    return LinearOptions{.bias = bias, .init_stddev = spec_.init_stddev, .name = name};
  };
  if (spec_.q_lora_rank) {
    q_a_proj_ = &add<Linear>("q_a_proj", embed, *spec_.q_lora_rank, options(spec_.bias, "attn_query_latent"));
    q_a_layernorm_ = &add<RMSNorm>("q_a_layernorm", *spec_.q_lora_rank, spec_.norm_eps);
    q_b_proj_ = &add<Linear>("q_b_proj", *spec_.q_lora_rank, q_dim, options(false, "attn_query"));
  } else {
    q_proj_ = &add<Linear>("q_proj", embed, q_dim, options(false, "attn_query"));
  }
  kv_a_proj_ = &add<Linear>("kv_a_proj_with_mqa", embed, spec_.kv_lora_rank + spec_.rope_head_dim,
                            options(spec_.bias, "attn_latent"));
  kv_a_layernorm_ = &add<RMSNorm>("kv_a_layernorm", spec_.kv_lora_rank, spec_.norm_eps);
  kv_b_proj_ =
      &add<Linear>("kv_b_proj", spec_.kv_lora_rank, Dim::query_heads(heads, spec_.nope_head_dim + spec_.v_head_dim),
                   options(false, "attn_key_value"));
  o_proj_ =
      &add<Linear>("o_proj", Dim::query_heads(heads, spec_.v_head_dim), embed, options(spec_.bias, "attn_output"));
}

double LatentAttention::own_flops_per_token(double keys) const {
  return 2.0 * static_cast<double>(spec_.num_heads * (q_head_dim() + spec_.v_head_dim)) * keys;
}

LayerKeys LatentAttention::cached_keys() const {
  return {.kv_heads = 1, .head_dim = spec_.kv_lora_rank + spec_.rope_head_dim, .value_dim = spec_.kv_lora_rank};
}

HeadPart LatentAttention::head_part() const {
  const HeadPart all{{spec_.num_heads, spec_.num_heads}, {0, spec_.num_heads}, {0, spec_.num_heads}};
  if (!parallel()) return all;
  const AxisNames& axes = split_over(LogicalAxis::Head);
  return all.part(parallel()->mesh().size(axes), parallel()->mesh().index(axes));
}

Tensor LatentAttention::queries(const Tensor& x_BTD, const Group* heads) const {
  const auto enter = [&](const Tensor& x) { return heads ? collectives::identity_forward_sum_backward(x, *heads) : x; };
  const Tensor q = q_proj_ ? (*q_proj_)(enter(x_BTD)) : (*q_b_proj_)(enter((*q_a_layernorm_)((*q_a_proj_)(x_BTD))));
  return q.unflatten(-1, {-1, q_head_dim()});
}

LatentAttention::Latent LatentAttention::latent(const Tensor& x_BTD) const {
  const Tensor both = (*kv_a_proj_)(x_BTD);
  return {(*kv_a_layernorm_)(both.narrow(-1, 0, spec_.kv_lora_rank)),
          both.narrow(-1, spec_.kv_lora_rank, spec_.rope_head_dim)};
}

Attention::Output LatentAttention::operator()(const Tensor& x_BTD, const ForwardContext& ctx) const {
  // Every rank has the full latent; each continues with its own heads.
  const Group* heads = parallel() ? &parallel()->group(split_over(LogicalAxis::Head)) : nullptr;
  const Tensor q = queries(x_BTD, heads);
  Latent kv = latent(x_BTD);
  if (heads)
    kv = {collectives::identity_forward_sum_backward(kv.kv_BTR, *heads),
          collectives::identity_forward_sum_backward(kv.rope_BTH, *heads)};

  Tensor q_BTNH = q;
  if (spec_.rotated) {
    const auto [q_rope, k_rope] = operations::apply_rotary(q.narrow(-1, spec_.nope_head_dim, spec_.rope_head_dim),
                                                           kv.rope_BTH.unsqueeze(2), ctx.rope[0], spec_.rope_style);
    q_BTNH = at::cat({q.narrow(-1, 0, spec_.nope_head_dim), q_rope}, -1);
    kv.rope_BTH = k_rope.squeeze(2);
  }

  AttentionOptions options = ctx.attention;
  options.mask = ctx.windowed_mask(0);
  options.scale = spec_.scale.value_or(1.0 / std::sqrt(static_cast<double>(q_head_dim())));
  options.return_weights = ctx.output_attentions;
  if (spec_.dropout > 0 && ctx.dropout_key) {
    options.dropout_p = spec_.dropout;
    options.dropout_key = ctx.dropout_key->fold("attention").fold(static_cast<uint64_t>(spec_.layer_idx));
  }
  const AttentionOutput attended =
      ctx.cache ? attend_latent(q_BTNH, kv, options, ctx) : attend_expanded(q_BTNH, kv, options, ctx);
  return {(*o_proj_)(attended.out.flatten(-2)), attended.weights};
}

AttentionOutput LatentAttention::attend_expanded(const Tensor& q_BTNH, const Latent& kv,
                                                 const AttentionOptions& options, const ForwardContext& ctx) const {
  const Tensor expanded = (*kv_b_proj_)(kv.kv_BTR).unflatten(-1, {-1, spec_.nope_head_dim + spec_.v_head_dim});
  const Tensor shared = kv.rope_BTH.unsqueeze(2).expand({-1, -1, expanded.size(2), -1});
  const Tensor k_BTNH = at::cat({expanded.narrow(-1, 0, spec_.nope_head_dim), shared}, -1);
  const Tensor v_BTNV = expanded.narrow(-1, spec_.nope_head_dim, spec_.v_head_dim);
  return parallel() ? parallel_attention(q_BTNH, k_BTNH, v_BTNV, options, {*parallel(), ctx.part, head_part()})
                    : operations::attention(q_BTNH, k_BTNH, v_BTNV, options);
}

AttentionOutput LatentAttention::attend_latent(const Tensor& q_BTNH, const Latent& kv, const AttentionOptions& options,
                                               const ForwardContext& ctx) const {
  const int64_t nope = spec_.nope_head_dim, rank = spec_.kv_lora_rank;
  // [N, nope + V, R] of this rank's heads: the projections to keys and to values.
  const Tensor expand =
      kv_b_proj_->matrix(kv.kv_BTR.scalar_type()).view({q_BTNH.size(2), nope + spec_.v_head_dim, rank});
  // [B, T, N, ...] times a matrix for each head.
  const auto by_head = [](const Tensor& x, const Tensor& matrices) {
    const Tensor rows = x.flatten(0, 1).transpose(0, 1);
    return at::bmm(rows, matrices).transpose(0, 1).unflatten(0, {x.size(0), x.size(1)});
  };
  const Tensor q_latent = by_head(q_BTNH.narrow(-1, 0, nope), expand.narrow(1, 0, nope));
  const Tensor q_all = at::cat({q_latent, q_BTNH.narrow(-1, nope, spec_.rope_head_dim)}, -1);
  const Tensor keys = at::cat({kv.kv_BTR, kv.rope_BTH}, -1).unsqueeze(2);
  const HeadPart own = head_part();
  const AttentionOutput attended =
      cached_attention(*ctx.cache, spec_.layer_idx, q_all, keys, keys.narrow(-1, 0, rank), options,
                       {{spec_.num_heads, 1}, own.query, own.query.size() > 0 ? Interval{0, 1} : Interval{}});
  return {by_head(attended.out, expand.narrow(1, nope, spec_.v_head_dim).transpose(1, 2)), attended.weights};
}

}  // namespace easydel
