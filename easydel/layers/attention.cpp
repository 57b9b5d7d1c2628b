// Letters: B batch, T new tokens, S all tokens, D hidden, N query heads, K key/value heads, H head size.
#include "easydel/layers/attention.h"

namespace easydel {

Attention::Attention(AttentionSpec spec) : spec_(std::move(spec)) {
  const Dim embed(spec_.hidden_size);
  const int64_t q_size = spec_.num_heads * spec_.head_dim;
  const int64_t kv_size = spec_.num_kv_heads * spec_.head_dim;
  const auto options = [&](bool bias, const char* name) {
    return LinearOptions{.bias = bias, .transposed = spec_.transposed, .init_stddev = spec_.init_stddev, .name = name};
  };
  if (spec_.fused_qkv) {
    qkv_ = &add<Linear>(spec_.qkv_name, embed, Dim(q_size + 2 * kv_size, spec_.head_dim, {q_size, kv_size, kv_size}),
                        options(spec_.qkv_bias, "attn_qkv"));
  } else {
    q_ = &add<Linear>(spec_.q_name, embed, Dim(q_size, spec_.head_dim), options(spec_.qkv_bias, "attn_query"));
    k_ = &add<Linear>(spec_.k_name, embed, Dim(kv_size, spec_.head_dim), options(spec_.qkv_bias, "attn_key"));
    v_ = &add<Linear>(spec_.v_name, embed, Dim(kv_size, spec_.head_dim), options(spec_.qkv_bias, "attn_value"));
  }
  out_ = &add<Linear>(spec_.out_name, Dim(q_size, spec_.head_dim), embed, options(spec_.out_bias, "attn_output"));
}

Attention::Projected Attention::project(const at::Tensor& x_BTD) const {
  const int64_t head = spec_.head_dim;
  if (!spec_.fused_qkv) {
    return {(*q_)(x_BTD).unflatten(-1, {-1, head}), (*k_)(x_BTD).unflatten(-1, {-1, head}),
            (*v_)(x_BTD).unflatten(-1, {-1, head})};
  }
  const at::Tensor qkv = (*qkv_)(x_BTD).unflatten(-1, {-1, head});
  const int64_t heads = spec_.num_heads;
  const int64_t kv_heads = spec_.num_kv_heads;
  return {qkv.narrow(-2, 0, heads), qkv.narrow(-2, heads, kv_heads), qkv.narrow(-2, heads + kv_heads, kv_heads)};
}

double Attention::own_flops_per_token(double keys) const {
  if (spec_.sliding_window > 0) keys = std::min(keys, static_cast<double>(spec_.sliding_window));
  return 4.0 * static_cast<double>(spec_.num_heads * spec_.head_dim) * keys;
}

Attention::Output Attention::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  auto [q_BTNH, k_BTKH, v_BTKH] = project(x_BTD);
  if (spec_.rope)
    std::tie(q_BTNH, k_BTKH) = operations::apply_rotary(q_BTNH, k_BTKH, ctx.rope[*spec_.rope], spec_.rope_style);
  if (ctx.cache) std::tie(k_BTKH, v_BTKH) = ctx.cache->update(spec_.layer_idx, k_BTKH, v_BTKH);

  operations::AttentionOptions options = ctx.attention;
  options.mask = ctx.windowed_mask(spec_.sliding_window);
  options.scale = spec_.scale;
  options.softcap = spec_.softcap;
  options.return_weights = ctx.output_attentions;
  if (spec_.dropout > 0 && ctx.dropout_key) {
    options.dropout_p = spec_.dropout;
    options.dropout_key = ctx.dropout_key->fold("attention").fold(static_cast<uint64_t>(spec_.layer_idx));
  }
  const operations::AttentionOutput attended = operations::attention(q_BTNH, k_BTKH, v_BTKH, options);
  return {(*out_)(attended.out.flatten(-2)), attended.weights};
}

}  // namespace easydel
