#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "easydel/core/dtype.h"
#include "easydel/operations/attention/blockwise.h"
#include "easydel/operations/dropout.h"

namespace easydel::operations::blockwise {
namespace {

using at::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Batched product with results in float32 or better.
Tensor product(const Tensor& a, const Tensor& b) {
  if (a.element_size() > 2) return at::bmm(a, b);
  return a.is_cuda() ? at::bmm(a, b, at::kFloat) : at::bmm(a.to(at::kFloat), b.to(at::kFloat));
}

struct Sizes {
  int64_t batch, queries, heads, kv_heads, group, keys;
  Sizes(const Tensor& q, const Tensor& k)
      : batch(q.size(0)),
        queries(q.size(1)),
        heads(q.size(2)),
        kv_heads(k.size(2)),
        group(heads / kv_heads),
        keys(k.size(1)) {}
};

// Queries [at, at + count) of all heads as [B * K, G * count, H], so that a group needs one product with its keys.
Tensor query_block(const Tensor& x, const Sizes& s, int64_t at, int64_t count) {
  return x.narrow(1, at, count)
      .view({s.batch, count, s.kv_heads, s.group, x.size(3)})
      .permute({0, 2, 3, 1, 4})
      .reshape({s.batch * s.kv_heads, s.group * count, x.size(3)});
}
Tensor back_to_queries(const Tensor& x, const Sizes& s, int64_t count) {
  return x.view({s.batch, s.kv_heads, s.group, count, x.size(-1)})
      .permute({0, 3, 1, 2, 4})
      .reshape({s.batch, count, s.heads, x.size(-1)});
}
Tensor key_block(const Tensor& x, const Sizes& s, int64_t at, int64_t count) {
  return x.narrow(1, at, count).transpose(1, 2).reshape({s.batch * s.kv_heads, count, x.size(3)});
}
Tensor back_to_keys(const Tensor& x, const Sizes& s) {
  return x.view({s.batch, s.kv_heads, x.size(1), x.size(2)}).transpose(1, 2);
}

struct Scores {
  Tensor value;  // [B, N, queries, keys], -inf where hidden
  Tensor slope;  // d value / d raw without the scale; undefined without a soft cap
};

Scores scores_of(const Tensor& q_block, const Tensor& k_block, const AttentionOptions& options, const Sizes& s,
                 int64_t q_at, int64_t q_count, int64_t k_at, int64_t k_count) {
  Scores scores;
  Tensor& x = scores.value;
  x = product(q_block, k_block.transpose(1, 2)).view({s.batch, s.heads, q_count, k_count}).mul_(*options.scale);
  if (options.softcap != 0.0) {
    x = x.div_(options.softcap).tanh_();
    scores.slope = 1 - x.square();
    x.mul_(options.softcap);
  }
  if (options.bias.defined()) {
    Tensor bias = options.bias;
    if (bias.size(2) != 1) bias = bias.narrow(2, q_at, q_count);
    if (bias.size(3) != 1) bias = bias.narrow(3, k_at, k_count);
    x = x + bias;
  }
  const MaskInfo mask = options.mask.slice(s.queries, s.keys, q_at, q_count, k_at, k_count);
  if (!mask.sees_everything(q_count, k_count)) {
    x.masked_fill_(mask.to_bool(q_count, k_count, x.device()).logical_not(), -kInfinity);
  }
  return scores;
}

// Zero or 1 / (1 - p) for each weight of this block; undefined without dropout.
Tensor block_factors(const AttentionOptions& options, const Sizes& s, const Tensor& like, int64_t q_at, int64_t k_at) {
  if (options.dropout_p == 0.0) return {};
  Region region = options.dropout_region.value_or(Region{{s.batch, s.heads, s.queries, s.keys}, {0, 0, 0, 0}});
  region.offset[2] += q_at;
  region.offset[3] += k_at;
  return dropout_factors(like, options.dropout_p, *options.dropout_key, &region);
}

// The bias is added behind the soft cap, so its gradient is that of the scores, summed where it was broadcast.
void add_bias_gradient(Tensor& d_bias, const Tensor& d_scores, int64_t q_at, int64_t k_at) {
  Tensor part = d_bias;
  if (part.size(2) != 1) part = part.narrow(2, q_at, d_scores.size(2));
  if (part.size(3) != 1) part = part.narrow(3, k_at, d_scores.size(3));
  part.add_(d_scores.sum_to_size(part.sizes()));
}

template <class F>
void for_blocks(int64_t begin, int64_t end, int64_t size, const F& f) {
  for (int64_t at = begin; at < end; at += size) f(at, std::min(size, end - at));
}

}  // namespace

Forward forward_composed(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                         OutType out_type) {
  const Sizes s(q, k);
  const auto acc = q.options().dtype(acc_type(q.scalar_type()));
  Forward result{at::empty({s.batch, s.queries, s.heads, v.size(3)}, out_type == OutType::Same ? q.options() : acc),
                 at::empty({s.batch, s.heads, s.queries}, acc)};
  for_blocks(0, s.queries, options.blocksize_q, [&](int64_t q_at, int64_t q_count) {
    const Tensor q_block = query_block(q, s, q_at, q_count);
    Tensor out = at::zeros({s.batch, s.heads, q_count, v.size(3)}, acc);
    Tensor maximum = at::full({s.batch, s.heads, q_count, 1}, -kInfinity, acc), sum = at::zeros_like(maximum);
    if (options.sinks.defined()) {
      maximum.copy_(options.sinks.view({1, -1, 1, 1}));
      sum.fill_(1.0);
    }
    const auto range = options.mask.key_range(s.queries, s.keys, q_at, q_count);
    for_blocks(range.begin, range.end, options.blocksize_k, [&](int64_t k_at, int64_t k_count) {
      Tensor p = scores_of(q_block, key_block(k, s, k_at, k_count), options, s, q_at, q_count, k_at, k_count).value;
      const Tensor next = at::maximum(maximum, p.amax(-1, true));
      const Tensor shift = next.masked_fill(next == -kInfinity, 0.0);
      p.sub_(shift).exp_();
      const Tensor correction = (maximum - shift).exp_();
      maximum = next;
      sum = sum * correction + p.sum(-1, true);
      if (const Tensor factors = block_factors(options, s, p, q_at, k_at); factors.defined()) p.mul_(factors);
      const Tensor rows = p.to(v.scalar_type()).view({s.batch * s.kv_heads, s.group * q_count, k_count});
      out.mul_(correction).add_(product(rows, key_block(v, s, k_at, k_count)).view(out.sizes()));
    });
    const Tensor nothing = sum == 0;
    out.div_(sum.masked_fill(nothing, 1.0));
    result.out.narrow(1, q_at, q_count).copy_(out.transpose(1, 2));
    result.lse.narrow(2, q_at, q_count).copy_((maximum + sum.log()).squeeze(-1));
  });
  return result;
}

Backward backward_composed(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                           const Forward& forward, const Tensor& d_out, bool bias_grad) {
  const Sizes s(q, k);
  const auto acc = q.options().dtype(acc_type(q.scalar_type()));
  const Tensor delta = delta_of(forward, d_out);
  Backward d{at::zeros(q.sizes(), acc), at::zeros(k.sizes(), acc), at::zeros(v.sizes(), acc),
             sinks_gradient(options, forward, delta), bias_grad ? at::zeros(options.bias.sizes(), acc) : Tensor()};
  for_blocks(0, s.queries, options.blocksize_q, [&](int64_t q_at, int64_t q_count) {
    const Tensor q_block = query_block(q, s, q_at, q_count);
    const Tensor d_out_block = query_block(d_out.to(q.scalar_type()), s, q_at, q_count);
    const Tensor lse = forward.lse.narrow(2, q_at, q_count).unsqueeze(-1);
    const Tensor shift = lse.masked_fill(lse == -kInfinity, 0.0);
    const Tensor row_delta = delta.narrow(2, q_at, q_count).unsqueeze(-1);
    const auto range = options.mask.key_range(s.queries, s.keys, q_at, q_count);
    for_blocks(range.begin, range.end, options.blocksize_k, [&](int64_t k_at, int64_t k_count) {
      const Tensor k_block = key_block(k, s, k_at, k_count), v_block = key_block(v, s, k_at, k_count);
      const Scores scores = scores_of(q_block, k_block, options, s, q_at, q_count, k_at, k_count);
      const Tensor p = (scores.value - shift).exp_();
      const Tensor factors = block_factors(options, s, p, q_at, k_at);
      const auto rows = [&](const Tensor& x) {
        return x.to(q.scalar_type()).reshape({s.batch * s.kv_heads, s.group * q_count, k_count});
      };
      Tensor d_p = product(d_out_block, v_block.transpose(1, 2)).view(p.sizes());
      if (factors.defined()) d_p = d_p * factors;
      const Tensor dropped = rows(factors.defined() ? p * factors : p);
      d.d_v.narrow(1, k_at, k_count).add_(back_to_keys(product(dropped.transpose(1, 2), d_out_block), s));
      Tensor d_scores = p * (d_p - row_delta);
      if (bias_grad) add_bias_gradient(d.d_bias, d_scores, q_at, k_at);
      d_scores = d_scores * *options.scale;
      if (scores.slope.defined()) d_scores = d_scores * scores.slope;
      const Tensor d_rows = rows(d_scores);
      d.d_q.narrow(1, q_at, q_count).add_(back_to_queries(product(d_rows, k_block), s, q_count));
      d.d_k.narrow(1, k_at, k_count).add_(back_to_keys(product(d_rows.transpose(1, 2), q_block), s));
    });
  });
  return d;
}

}  // namespace easydel::operations::blockwise
