// Letters: B batch, T new tokens, S all tokens, D hidden, N query heads, K key/value heads, H head size.
#include "easydel/layers/attention/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/caching/transformer_cache.h"
#include "easydel/layers/attention/sequence_attention.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

constexpr int64_t kPositionFeatures = 8;  // three, and zeros: kernels take sizes that are multiples of eight

}  // namespace

std::vector<double> alibi_slopes(int64_t heads, double max) {
  int64_t power = 1;
  while (power < heads) power *= 2;
  std::vector<double> all, slopes;
  for (int64_t i = 1; i <= power; ++i)
    all.push_back(std::exp2(-max * static_cast<double>(i) / static_cast<double>(power)));
  if (power == heads) return all;
  for (const std::size_t first : {std::size_t{1}, std::size_t{0}}) {
    for (std::size_t i = first; i < all.size(); i += 2) slopes.push_back(all[i]);
  }
  slopes.resize(static_cast<std::size_t>(heads));
  return slopes;
}

Attention::Attention(AttentionSpec spec) : spec_(std::move(spec)) {
  const Dim embed(spec_.hidden_size);
  const auto options = [&](bool bias, const char* name, std::optional<double> stddev = {}) {
    return LinearOptions{
        .bias = bias, .transposed = spec_.transposed, .init_stddev = stddev.value_or(spec_.init_stddev), .name = name};
  };
  if (spec_.fused_qkv) {
    Dim fused = Dim::fused_heads(heads(), spec_.head_dim);
    if (spec_.qkv_by_head && spec_.num_heads == spec_.num_kv_heads)
      fused = Dim::query_heads(heads(), 3 * spec_.head_dim);
    if (spec_.qkv_by_head && spec_.num_heads != spec_.num_kv_heads)
      fused = Dim::kv_heads(heads(), (spec_.num_heads / spec_.num_kv_heads + 2) * spec_.head_dim);
    qkv_ = &add<Linear>(spec_.qkv_name, embed, fused, options(spec_.qkv_bias, "attn_qkv"));
  } else {
    q_ = &add<Linear>(spec_.q_name, embed, Dim::query_heads(heads(), spec_.head_dim * (spec_.output_gate ? 2 : 1)),
                      options(spec_.qkv_bias, "attn_query", spec_.q_init_stddev));
    k_ = &add<Linear>(spec_.k_name, embed, Dim::kv_heads(heads(), spec_.head_dim),
                      options(spec_.qkv_bias && spec_.k_bias, "attn_key"));
    v_ = &add<Linear>(spec_.v_name, embed, Dim::kv_heads(heads(), spec_.head_dim),
                      options(spec_.qkv_bias, "attn_value"));
  }
  out_ = &add<Linear>(spec_.out_name, Dim::query_heads(heads(), spec_.head_dim), embed,
                      options(spec_.out_bias, "attn_output", spec_.out_init_stddev));
  if (spec_.qk_norm && spec_.qk_norm->norm.weight) {
    q_norm_ = &add<HeadNorm>(spec_.q_norm_name, *spec_.qk_norm, Dim::query_heads(heads(), 1), spec_.head_dim);
    k_norm_ = &add<HeadNorm>(spec_.k_norm_name, *spec_.qk_norm, Dim::kv_heads(heads(), 1), spec_.head_dim);
  }
  if (spec_.relative_bias)
    relative_ =
        &add<Embedding>("relative_attention_bias", spec_.relative_bias->buckets, spec_.num_heads, spec_.init_stddev);
  if (spec_.sinks)
    sinks_ = add_parameter("sinks", {Dim::query_heads(heads(), 1)}, Initializer::normal(spec_.init_stddev));
}

Attention::Projected Attention::by_head(const std::vector<at::Tensor>& all) const {
  const int64_t head = spec_.head_dim;
  const auto heads = [&](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), head > 0 ? x.size(2) / head : 0, head});
  };
  if (!spec_.output_gate) return {heads(all[0]), heads(all[1]), heads(all[2])};
  const at::Tensor both = all[0].unflatten(-1, {-1, 2 * head});
  return {both.narrow(-1, 0, head), heads(all[1]), heads(all[2]), both.narrow(-1, head, head)};
}

std::optional<Attention::Projected> Attention::project_around(const at::Tensor& x_BTD, const Norm& norm,
                                                              const ForwardContext& ctx) const {
  operations::AroundProducts around;
  if (spec_.fused_qkv || !norm.describe(around)) return std::nullopt;
  if (rotates_results() && !spec_.output_gate) {
    around.rope = &ctx.rope[*spec_.rope];
    around.rope_style = spec_.rope_style;
    around.head_size = spec_.head_dim;
    around.rotated = 2;
  }
  const auto all = Linear::apply_around(x_BTD, {q_, k_, v_}, around);
  if (!all) return std::nullopt;
  Projected projected = by_head(*all);
  if (!around.rope) prepare(projected, ctx);
  return projected;
}

Attention::Projected Attention::project(const at::Tensor& x_BTD) const {
  if (!spec_.fused_qkv) return by_head(Linear::apply_all(x_BTD, {q_, k_, v_}));
  return split((*qkv_)(x_BTD));
}

Attention::Projected Attention::split(const at::Tensor& result) const {
  // -1 and not the config's counts: on a mesh a rank has only its own heads.
  const int64_t head = spec_.head_dim;
  const HeadPart part = head_part();
  if (spec_.qkv_by_head) {
    // Ranks that share a group have all of its queries, and take their own.
    const int64_t group = spec_.num_heads / spec_.num_kv_heads;
    const at::Tensor qkv = result.unflatten(-1, {part.kv.size(), group + 2, head});
    const at::Tensor q = qkv.narrow(-2, 0, group).flatten(-3, -2);
    return {q.narrow(-2, part.query.size() > 0 ? part.query.begin - part.kv.begin * group : 0, part.query.size()),
            qkv.select(-2, group), qkv.select(-2, group + 1)};
  }
  const at::Tensor qkv = result.unflatten(-1, {-1, head});
  const int64_t n = part.query.size(), k = part.kv.size();
  return {qkv.narrow(-2, 0, n), qkv.narrow(-2, n, k), qkv.narrow(-2, n + k, k)};
}

at::Tensor Attention::position_bias(const ForwardContext& ctx) const {
  if (!relative_) return {};
  const int64_t tokens = ctx.part.batch > 0 ? ctx.part.tokens : ctx.positions.size(1);
  const int64_t past = ctx.cache ? ctx.cache->length() : 0;
  const at::Tensor buckets =
      relative_buckets(tokens, past + tokens, past, *spec_.relative_bias, ctx.positions.device());
  const at::Tensor bias = (*relative_)(buckets).permute({2, 0, 1}).unsqueeze(0);
  return parallel() ? collectives::identity_forward_sum_backward(bias, parallel()->group(split_over(LogicalAxis::Head)))
                    : bias;
}

void Attention::normalize(Projected& x) const {
  if (!spec_.qk_norm) return;
  if (!q_norm_) {
    for (at::Tensor* each : {&x.q_BTNH, &x.k_BTKH})
      *each = operations::rms_norm(*each, {}, {.eps = spec_.qk_norm->norm.eps});
    return;
  }
  x.q_BTNH = (*q_norm_)(x.q_BTNH, {0, x.q_BTNH.size(2)});
  x.k_BTKH = (*k_norm_)(x.k_BTKH, counted_kv());
}

// Further features of q and k whose product, scaled, is slope * (position of the key - position of the query), so that
// every mechanism and every cache has ALiBi. A key's position is two numbers below 256, which bf16 holds exactly.
void Attention::add_positions(Projected& x, const ForwardContext& ctx) const {
  const HeadPart part = head_part();
  const double scale = operations::score_scale({.scale = spec_.scale}, spec_.head_dim);
  std::vector<double> own;
  for (int64_t h = part.query.begin; h < part.query.end; ++h)
    own.push_back(spec_.alibi[static_cast<std::size_t>(h)] / scale);
  const int64_t batch = x.q_BTNH.size(0), tokens = x.q_BTNH.size(1);
  const auto wide = x.q_BTNH.options().dtype(x.q_BTNH.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor slope_N = at::tensor(own, at::kDouble).to(wide);
  const at::Tensor at_BT1 = ctx.positions.to(wide.device()).expand({batch, tokens}).unsqueeze(-1);
  const auto join = [&](const at::Tensor& given, std::vector<at::Tensor> features) {
    at::Tensor padding = at::zeros({batch, tokens, given.size(2), kPositionFeatures - 3}, wide);
    features.push_back(std::move(padding));
    return at::cat({given, at::cat(features, -1).to(given.scalar_type())}, -1);
  };
  const auto column = [&](const at::Tensor& of_head, int64_t heads) {
    return of_head.expand({batch, tokens, heads}).unsqueeze(-1);
  };
  const int64_t heads = x.q_BTNH.size(2), kv_heads = x.k_BTKH.size(2);
  x.q_BTNH = join(
      x.q_BTNH, {column(slope_N * 256, heads), column(slope_N, heads), column(at_BT1.to(wide) * slope_N.neg(), heads)});
  x.k_BTKH =
      join(x.k_BTKH, {column(at_BT1.div(256, "floor").to(wide), kv_heads),
                      column(at_BT1.remainder(256).to(wide), kv_heads), at::ones({batch, tokens, kv_heads, 1}, wide)});
  // Keys and values have one size, as a cache stores them.
  x.v_BTKH = at::cat({x.v_BTKH, at::zeros({batch, tokens, kv_heads, kPositionFeatures}, x.v_BTKH.options())}, -1);
}

at::Tensor Attention::warmed(const at::Tensor& q_BTNH, const ForwardContext& ctx) const {
  // The place is that in the row, padding included, as transformers has it; in a document, that in the document.
  const auto* dense = dynamic_cast<const TransformerCache*>(ctx.cache);
  const bool by_position = ctx.mask.q_segment_ids.defined() || (ctx.cache && (!dense || dense->is_static()));
  const int64_t first = ctx.cache ? ctx.cache->length() : ctx.part.first_token, tokens = q_BTNH.size(1);
  const at::Tensor place =
      by_position ? ctx.positions : at::arange(first, first + tokens, ctx.positions.options()).unsqueeze(0);
  const at::Tensor periods = place.add(1).div(spec_.temperature->period, "floor");
  const at::Tensor factor =
      at::log1p(periods.to(at::promote_types(q_BTNH.scalar_type(), at::kFloat))) * spec_.temperature->scale + 1.0;
  return (q_BTNH * factor.to(q_BTNH.device()).unsqueeze(-1).unsqueeze(-1)).to(q_BTNH.scalar_type());
}

// A cache knows the layer's chunks.
const MaskInfo& Attention::mask_of(const ForwardContext& ctx) const {
  if (spec_.chunk == 0) return ctx.windowed_mask(spec_.sliding_window);
  return ctx.cache ? ctx.windowed_mask(spec_.chunk) : ctx.chunked_mask(spec_.chunk);
}

double Attention::own_flops_per_token(double keys) const {
  // The mean of min(i, window) over positions i of a sequence whose mean of i is `keys`.
  const double length = 2 * keys - 1;
  const auto window = static_cast<double>(spec_.sliding_window);
  if (window > 0 && window < length) keys = window - window * (window - 1) / (2 * length);
  if (const auto chunk = static_cast<double>(spec_.chunk); chunk > 0 && chunk < length) keys = (chunk + 1) / 2;
  return 4.0 * static_cast<double>(spec_.num_heads * spec_.head_dim) * keys;
}

LayerKeys Attention::cached_keys() const {
  const HeadPart part = head_part();
  return {part.is_even() ? part.kv.size() : part.query.size(),
          spec_.head_dim + (spec_.alibi.empty() ? 0 : kPositionFeatures),
          spec_.chunk > 0 ? spec_.chunk : spec_.sliding_window, 0, spec_.chunk};
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
  if (spec_.qk_norm) return "queries and keys are normalized";
  if (spec_.temperature) return "queries are scaled by their place";
  if (spec_.output_gate) return "the attention has a gate";
  if (sinks_) return "the attention has sinks";
  if (relative_ || ctx.position_bias.defined()) return "scores have a bias";
  if (spec_.clip > 0) return "queries, keys and values are clipped";
  if (!spec_.alibi.empty()) return "scores depend on distances";
  if (!ctx.cache) return "there is no cache";
  if (ctx.output_attentions) return "attention weights are requested";
  if (ctx.dropout_key && spec_.dropout > 0) return "there is dropout";
  const auto q = q_->decode_map(), k = k_->decode_map(), v = v_->decode_map(), out = out_->decode_map();
  if (!q || !k || !v || !out) return "weights of the attention are neither plain float32 nor packed codes";
  operations::AttentionOptions options = ctx.attention;
  options.mask = mask_of(ctx);
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

bool Attention::norm_and_rotate(Projected& x, const ForwardContext& ctx) const {
  if (!x.q_BTNH.is_cuda() || !q_norm_ || !spec_.rope || spec_.norm_after_rope || spec_.clip > 0) return false;
  const auto q = q_norm_->plain_rms(), k = k_norm_->plain_rms();
  if (!q || !k) return false;
  const auto done = operations::norm_and_rotate(x.q_BTNH, x.k_BTKH, {q->first, k->first, q->second},
                                                ctx.rope[*spec_.rope], spec_.rope_style);
  if (done) std::tie(x.q_BTNH, x.k_BTKH) = *done;
  return done.has_value();
}

void Attention::prepare(Projected& x, const ForwardContext& ctx) const {
  if (norm_and_rotate(x, ctx)) {
    if (spec_.temperature) x.q_BTNH = warmed(x.q_BTNH, ctx);
    return;
  }
  if (!spec_.norm_after_rope) normalize(x);
  if (spec_.clip > 0) {
    for (at::Tensor* part : {&x.q_BTNH, &x.k_BTKH, &x.v_BTKH}) *part = part->clamp(-spec_.clip, spec_.clip);
  }
  if (spec_.rope)
    std::tie(x.q_BTNH, x.k_BTKH) =
        operations::apply_rotary(x.q_BTNH, x.k_BTKH, ctx.rope[*spec_.rope], spec_.rope_style);
  if (spec_.norm_after_rope) normalize(x);
  if (spec_.temperature) x.q_BTNH = warmed(x.q_BTNH, ctx);
}

Attention::Output Attention::attend(Projected& projected, const ForwardContext& ctx) const {
  auto& [q_BTNH, k_BTKH, v_BTKH, gate_BTNH] = projected;
  operations::AttentionOptions options = ctx.attention;
  options.mask = mask_of(ctx);
  options.scale = spec_.scale;
  if (!spec_.alibi.empty()) {
    options.scale = operations::score_scale(options, spec_.head_dim);
    add_positions(projected, ctx);
  }
  options.softcap = spec_.softcap;
  options.return_weights = ctx.output_attentions;
  options.bias = relative_ && !ctx.position_bias.defined() ? position_bias(ctx) : ctx.position_bias;
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
  at::Tensor out = spec_.alibi.empty() ? attended.out : attended.out.narrow(-1, 0, spec_.head_dim);
  if (gate_BTNH.defined()) out = out * at::sigmoid(gate_BTNH);
  return {out.flatten(-2), attended.weights};
}

Attention::Output Attention::operator()(const at::Tensor& x_whole, const ForwardContext& ctx) const {
  const at::Tensor x_BTD =
      parallel() ? collectives::identity_forward_sum_backward(x_whole, parallel()->group(split_over(LogicalAxis::Head)))
                 : x_whole;
  Projected projected = project(x_BTD);
  prepare(projected, ctx);
  const Output attended = attend(projected, ctx);
  return {(*out_)(attended.hidden), attended.weights};
}

Attention::Output Attention::add_to(const at::Tensor& x_BTD, const Norm& norm, const ForwardContext& ctx) const {
  std::optional<Projected> projected = parallel() ? std::nullopt : project_around(x_BTD, norm, ctx);
  operations::AroundProducts before;
  if (!projected && !parallel() && norm.describe(before)) {
    const std::vector<const Linear*> maps = qkv_ ? std::vector{qkv_} : std::vector{q_, k_, v_};
    if (const auto normed = Linear::apply_normed(x_BTD, maps, before)) {
      Projected prepared = qkv_ ? split(normed->results[0]) : by_head(normed->results);
      prepare(prepared, ctx);
      const Output attended = attend(prepared, ctx);
      return {normed->x + (*out_)(attended.hidden), attended.weights};
    }
  }
  if (!projected) {
    const Output attended = (*this)(norm(x_BTD), ctx);
    return {x_BTD + attended.hidden, attended.weights};
  }
  const Output attended = attend(*projected, ctx);
  const auto added = Linear::apply_around(attended.hidden, {out_}, {.residual = x_BTD});
  return {added ? (*added)[0] : x_BTD + (*out_)(attended.hidden), attended.weights};
}

}  // namespace easydel
