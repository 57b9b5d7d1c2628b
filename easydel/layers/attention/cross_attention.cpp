// Letters: B batch, T the decoder's tokens, S the encoder's, D hidden, N heads, H head size.
#include "easydel/layers/attention/cross_attention.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

at::Tensor by_head(const at::Tensor& x, int64_t head_dim) {
  return x.view({x.size(0), x.size(1), x.size(2) / head_dim, head_dim});
}

}  // namespace

CrossAttention::CrossAttention(AttentionSpec spec) : spec_(std::move(spec)) {
  const HeadCounts heads{spec_.num_heads, spec_.num_kv_heads};
  const Dim embed(spec_.hidden_size), inner = Dim::query_heads(heads, spec_.head_dim);
  const auto options = [&](bool bias, const char* name, std::optional<double> stddev = {}) {
    return LinearOptions{.bias = bias, .init_stddev = stddev.value_or(spec_.init_stddev), .name = name};
  };
  q_ = &add<Linear>(spec_.q_name, embed, inner, options(spec_.qkv_bias, "attn_query", spec_.q_init_stddev));
  k_ = &add<Linear>(spec_.k_name, embed, Dim::kv_heads(heads, spec_.head_dim),
                    options(spec_.qkv_bias && spec_.k_bias, "attn_key"));
  v_ = &add<Linear>(spec_.v_name, embed, Dim::kv_heads(heads, spec_.head_dim), options(spec_.qkv_bias, "attn_value"));
  out_ = &add<Linear>(spec_.out_name, inner, embed, options(spec_.out_bias, "attn_output", spec_.out_init_stddev));
}

double CrossAttention::own_flops_per_token(double keys) const {
  return 4.0 * static_cast<double>(spec_.num_heads * spec_.head_dim) * keys;
}

HeadPart CrossAttention::head_part() const {
  const HeadPart all{{spec_.num_heads, spec_.num_kv_heads}, {0, spec_.num_heads}, {0, spec_.num_kv_heads}};
  if (!parallel()) return all;
  const AxisNames& axes = split_over(LogicalAxis::Head);
  return all.part(parallel()->mesh().size(axes), parallel()->mesh().index(axes));
}

std::pair<at::Tensor, at::Tensor> CrossAttention::keys_and_values(const ForwardContext& ctx) const {
  std::vector<at::Tensor>* kept = ctx.cache ? &ctx.cache->row_states[spec_.layer_idx] : nullptr;
  if (kept && !kept->empty()) return {kept->at(0), kept->at(1)};
  const std::vector<at::Tensor> both = Linear::apply_all(ctx.encoder_hidden, {k_, v_});
  const at::Tensor k = by_head(both[0], spec_.head_dim), v = by_head(both[1], spec_.head_dim);
  if (kept) *kept = {k.contiguous(), v.contiguous()};
  return {k, v};
}

Attention::Output CrossAttention::operator()(const at::Tensor& x_whole, const ForwardContext& ctx) const {
  const at::Tensor x_BTD =
      parallel() ? collectives::identity_forward_sum_backward(x_whole, parallel()->group(split_over(LogicalAxis::Head)))
                 : x_whole;
  const at::Tensor q_BTNH = by_head((*q_)(x_BTD), spec_.head_dim);
  const auto [k_BSNH, v_BSNH] = keys_and_values(ctx);
  require<ShapeError>(k_BSNH.size(0) == q_BTNH.size(0),
                      "[attention] the encoder's states must have as many rows as the "
                      "decoder's tokens; got ",
                      k_BSNH.size(0), " and ", q_BTNH.size(0), ".");
  operations::AttentionOptions options = ctx.attention;
  options.mask = ctx.cross_mask;
  options.scale = spec_.scale;
  options.return_weights = ctx.output_attentions;
  if (options.mechanism == "ring") options.mechanism = "blockwise";  // every rank has all of the encoder's tokens
  const HeadPart heads = head_part();
  if (spec_.dropout > 0 && ctx.dropout_key) {
    options.dropout_p = spec_.dropout;
    options.dropout_key = ctx.dropout_key->fold("cross_attention").fold(static_cast<uint64_t>(spec_.layer_idx));
    if (parallel()) {
      options.dropout_region =
          Region{{ctx.part.given_batch, spec_.num_heads, ctx.part.given_tokens, ctx.encoder_part.given_tokens},
                 {ctx.part.first_row, heads.query.begin, ctx.part.first_token, 0}};
    }
  }
  operations::AttentionOutput attended;
  if (q_BTNH.size(2) == 0) {  // more ranks than heads; the sums keep this rank's graph the same as the others'
    const at::Tensor nothing = q_BTNH.sum() + k_BSNH.sum() + v_BSNH.sum();
    attended.out = at::zeros_like(q_BTNH) + nothing;
    if (options.return_weights)
      attended.weights = at::zeros({q_BTNH.size(0), 0, q_BTNH.size(1), k_BSNH.size(1)}, q_BTNH.options());
  } else {
    attended = operations::attention(q_BTNH, k_BSNH, v_BSNH, options);
  }
  return {(*out_)(attended.out.flatten(-2)), attended.weights};
}

}  // namespace easydel
