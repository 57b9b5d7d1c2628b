// Letters: B batch, T new tokens, S all tokens, D hidden, N query heads, K key/value heads, H head size.
#include "easydel/layers/attention/attention.h"

#include <algorithm>

#include "easydel/layers/attention/sequence_attention.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

Attention::Attention(AttentionSpec spec) : spec_(std::move(spec)) {
  const Dim embed(spec_.hidden_size);
  const auto options = [&](bool bias, const char* name) {
    return LinearOptions{.bias = bias, .transposed = spec_.transposed, .init_stddev = spec_.init_stddev, .name = name};
  };
  if (spec_.fused_qkv) {
    Dim fused = Dim::fused_heads(heads(), spec_.head_dim);
    if (spec_.qkv_by_head) fused = Dim::query_heads(heads(), 3 * spec_.head_dim);
    qkv_ = &add<Linear>(spec_.qkv_name, embed, fused, options(spec_.qkv_bias, "attn_qkv"));
  } else {
    q_ = &add<Linear>(spec_.q_name, embed, Dim::query_heads(heads(), spec_.head_dim),
                      options(spec_.qkv_bias, "attn_query"));
    k_ = &add<Linear>(spec_.k_name, embed, Dim::kv_heads(heads(), spec_.head_dim), options(spec_.qkv_bias, "attn_key"));
    v_ = &add<Linear>(spec_.v_name, embed, Dim::kv_heads(heads(), spec_.head_dim),
                      options(spec_.qkv_bias, "attn_value"));
  }
  out_ = &add<Linear>(spec_.out_name, Dim::query_heads(heads(), spec_.head_dim), embed,
                      options(spec_.out_bias, "attn_output"));
  if (spec_.qk_norm) {
    q_norm_ = &add<HeadNorm>("q_norm", *spec_.qk_norm, Dim::query_heads(heads(), 1), spec_.head_dim);
    k_norm_ = &add<HeadNorm>("k_norm", *spec_.qk_norm, Dim::kv_heads(heads(), 1), spec_.head_dim);
  }
  if (spec_.sinks)
    sinks_ = add_parameter("sinks", {Dim::query_heads(heads(), 1)}, Initializer::normal(spec_.init_stddev));
}

Attention::Projected Attention::project(const at::Tensor& x_BTD) const {
  // -1 and not the config's counts: on a mesh a rank has only its own heads.
  const int64_t head = spec_.head_dim;
  if (!spec_.fused_qkv) {
    const std::vector<at::Tensor> all = Linear::apply_all(x_BTD, {q_, k_, v_});
    const auto by_head = [&](const at::Tensor& x) {
      return x.view({x.size(0), x.size(1), head > 0 ? x.size(2) / head : 0, head});
    };
    return {by_head(all[0]), by_head(all[1]), by_head(all[2])};
  }
  if (spec_.qkv_by_head) {
    const at::Tensor qkv = (*qkv_)(x_BTD).unflatten(-1, {-1, 3, head});
    return {qkv.select(-2, 0), qkv.select(-2, 1), qkv.select(-2, 2)};
  }
  const at::Tensor qkv = (*qkv_)(x_BTD).unflatten(-1, {-1, head});
  const HeadPart part = head_part();
  const int64_t n = part.query.size(), k = part.kv.size();
  return {qkv.narrow(-2, 0, n), qkv.narrow(-2, n, k), qkv.narrow(-2, n + k, k)};
}

double Attention::own_flops_per_token(double keys) const {
  // The mean of min(i, window) over positions i of a sequence whose mean of i is `keys`.
  const double length = 2 * keys - 1;
  const auto window = static_cast<double>(spec_.sliding_window);
  if (window > 0 && window < length) keys = window - window * (window - 1) / (2 * length);
  return 4.0 * static_cast<double>(spec_.num_heads * spec_.head_dim) * keys;
}

LayerKeys Attention::cached_keys() const {
  const HeadPart part = head_part();
  return {part.is_even() ? part.kv.size() : part.query.size(), spec_.head_dim, spec_.sliding_window};
}

HeadPart Attention::head_part() const {
  const HeadPart all{heads(), {0, spec_.num_heads}, {0, spec_.num_kv_heads}};
  if (!parallel()) return all;
  const AxisNames& axes = split_over(LogicalAxis::Head);
  return all.part(parallel()->mesh().size(axes), parallel()->mesh().index(axes));
}

Interval Attention::counted_kv() const {
  const HeadPart own = head_part();
  int64_t begin = own.kv.begin;
  if (parallel()) {
    const AxisNames& axes = split_over(LogicalAxis::Head);
    const HeadPart all{heads(), {0, spec_.num_heads}, {0, spec_.num_kv_heads}};
    const int64_t parts = parallel()->mesh().size(axes), index = parallel()->mesh().index(axes);
    for (int64_t r = 0; r < index; ++r) begin = std::max(begin, all.part(parts, r).kv.end);
  }
  return {std::min(begin, own.kv.end) - own.kv.begin, own.kv.size()};
}

const char* Attention::describe(operations::DecodeLayer& layer, const ForwardContext& ctx) const {
  if (!q_) return "queries, keys and values have one weight";
  if (q_norm_) return "queries and keys are normalized";
  if (sinks_) return "the attention has sinks";
  if (!ctx.cache) return "there is no cache";
  if (ctx.output_attentions) return "attention weights are asked for";
  if (ctx.dropout_key && spec_.dropout > 0) return "there is dropout";
  const auto q = q_->decode_map(), k = k_->decode_map(), v = v_->decode_map(), out = out_->decode_map();
  if (!q || !k || !v || !out) return "weights of the attention are neither plain float32 nor packed codes";
  operations::AttentionOptions options = ctx.attention;
  options.mask = ctx.windowed_mask(spec_.sliding_window);
  std::optional<CacheSlot> slot = ctx.cache->slot_of_token(spec_.layer_idx, options);
  if (!slot) return "the cache or the mask is not plain";
  layer.q = *q;
  layer.k = *k;
  layer.v = *v;
  layer.out = *out;
  layer.heads = spec_.num_heads;
  layer.kv_heads = spec_.num_kv_heads;
  layer.head_dim = spec_.head_dim;
  options.scale = spec_.scale;
  layer.scale = operations::score_scale(options, spec_.head_dim);
  layer.softcap = spec_.softcap;
  layer.rope = spec_.rope ? &ctx.rope[*spec_.rope] : nullptr;
  layer.rope_style = spec_.rope_style;
  layer.keys = std::move(slot->keys);
  layer.span = slot->span;
  return nullptr;
}

Attention::Output Attention::operator()(const at::Tensor& x_whole, const ForwardContext& ctx) const {
  const at::Tensor x_BTD =
      parallel() ? collectives::identity_forward_sum_backward(x_whole, parallel()->group(split_over(LogicalAxis::Head)))
                 : x_whole;
  auto [q_BTNH, k_BTKH, v_BTKH] = project(x_BTD);
  if (q_norm_) {
    q_BTNH = (*q_norm_)(q_BTNH, {0, q_BTNH.size(2)});
    k_BTKH = (*k_norm_)(k_BTKH, counted_kv());
  }
  if (spec_.rope)
    std::tie(q_BTNH, k_BTKH) = operations::apply_rotary(q_BTNH, k_BTKH, ctx.rope[*spec_.rope], spec_.rope_style);

  operations::AttentionOptions options = ctx.attention;
  options.mask = ctx.windowed_mask(spec_.sliding_window);
  options.scale = spec_.scale;
  options.softcap = spec_.softcap;
  options.return_weights = ctx.output_attentions;
  if (sinks_)
    options.sinks = collectives::gather_weight(sinks_->value(), sinks_->value().scalar_type(), sinks_->sharding());
  if (spec_.dropout > 0 && ctx.dropout_key) {
    options.dropout_p = spec_.dropout;
    options.dropout_key = ctx.dropout_key->fold("attention").fold(static_cast<uint64_t>(spec_.layer_idx));
  }
  const operations::AttentionOutput attended =
      ctx.cache    ? cached_attention(*ctx.cache, spec_.layer_idx, q_BTNH, k_BTKH, v_BTKH, options, head_part())
      : parallel() ? parallel_attention(q_BTNH, k_BTKH, v_BTKH, options, {*parallel(), ctx.part, head_part()})
                   : operations::attention(q_BTNH, k_BTKH, v_BTKH, options);
  return {(*out_)(attended.out.flatten(-2)), attended.weights};
}

}  // namespace easydel
