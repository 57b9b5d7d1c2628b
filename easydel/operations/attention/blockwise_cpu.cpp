#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/operations/attention/attend_parts.h"
#include "easydel/operations/attention/blockwise.h"
#include "easydel/operations/dropout.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/linear/product.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations::blockwise {
namespace {

using at::Tensor;

// The maximum number of scores of one task, to stay in a core's cache. Fewer queries waste less on the diagonal of a
// causal mask, more give better matrix products.
constexpr int64_t kMaxKeys = 512;
int64_t max_queries(int64_t queries) { return queries > 1024 ? 128 : 64; }

// Which keys a query sees, row by row.
class Visibility {
 public:
  Visibility(const MaskInfo& mask, int64_t queries, int64_t keys)
      : mask_(mask), queries_(queries), keys_(keys), first_slot_(mask.first_slot(queries, keys)) {
    if (mask.padding_mask.defined()) padding_ = mask.padding_mask.ne(0).to(at::kByte).contiguous();
    if (mask.q_positions.defined()) positions_ = mask.q_positions.to(at::kLong).contiguous();
    if (mask.q_segment_ids.defined()) {
      q_segments_ = mask.q_segment_ids.to(at::kLong).contiguous();
      k_segments_ = mask.kv_segment_ids.defined() ? mask.kv_segment_ids.to(at::kLong).contiguous() : q_segments_;
    }
    if (mask.explicit_mask.defined()) explicit_ = mask.explicit_mask.to(at::kByte).contiguous();
  }

  // Keys [k_at, k_at + count) for one query: the range that it may see, and bytes within it (null: all of the range).
  struct Row {
    int64_t low, high;
    const uint8_t* bytes;
  };
  Row row(int64_t batch, int64_t head, int64_t query, int64_t k_at, int64_t count, uint8_t* scratch) const {
    const int64_t slot = positions_.defined() ? at(positions_, batch, query)[0] : first_slot_ + query;
    Row out{0, keys_, nullptr};
    if (mask_.sliding_window > 0) out.low = slot - mask_.sliding_window + 1;
    if (mask_.causal) {
      out.high = slot + 1;
    } else if (mask_.sliding_window > 0) {
      out.high = slot + mask_.sliding_window;
    }
    out.low = std::clamp<int64_t>(out.low - k_at, 0, count);
    out.high = std::clamp<int64_t>(out.high - k_at, out.low, count);
    if (padding_.defined()) {
      const Tensor& p = padding_;
      out.bytes = p.const_data_ptr<uint8_t>() + (p.size(0) == 1 ? 0 : batch) * p.size(1) + k_at;
    }
    if (!q_segments_.defined() && !explicit_.defined()) return out;

    for (int64_t i = out.low; i < out.high; ++i) scratch[i] = out.bytes ? out.bytes[i] : 1;
    if (q_segments_.defined()) {
      const int64_t segment = at(q_segments_, batch, query)[0];
      const int64_t* keys = at(k_segments_, batch, k_at);
      for (int64_t i = out.low; i < out.high; ++i) scratch[i] &= keys[i] == segment && segment >= 0;
    }
    if (explicit_.defined()) {
      const Tensor& e = explicit_;
      const auto index = [&](int64_t d, int64_t i) { return e.size(d) == 1 ? 0 : i * e.stride(d); };
      const uint8_t* bytes = e.const_data_ptr<uint8_t>() + index(0, batch) + index(1, head) + index(2, query);
      for (int64_t i = out.low; i < out.high; ++i) scratch[i] &= bytes[index(3, k_at + i)];
    }
    out.bytes = scratch;
    return out;
  }

 private:
  static const int64_t* at(const Tensor& t, int64_t batch, int64_t index) {
    return t.const_data_ptr<int64_t>() + (t.size(0) == 1 ? 0 : batch) * t.size(1) + index;
  }

  const MaskInfo& mask_;
  int64_t queries_, keys_, first_slot_;
  Tensor padding_, positions_, q_segments_, k_segments_, explicit_;
};

// Shared by forward and backward: dense float32 or float64 inputs, sizes, and rows of blocks.
struct Problem {
  const AttentionOptions& options;
  at::ScalarType acc;
  Tensor q, k, v, bias;
  int64_t batch, queries, heads, kv_heads, group, keys, head_size, value_size;
  int64_t block_q, block_k;
  Visibility visibility;
  const kernels::AccKernels& kernels;

  static Tensor dense(const Tensor& t, at::ScalarType type) {
    const Tensor cast = t.to(type);
    return cast.stride(-1) == 1 ? cast : cast.contiguous();
  }
  Problem(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const AttentionOptions& o)
      : options(o),
        acc(acc_type(q_in.scalar_type())),
        q(dense(q_in, acc)),
        k(dense(k_in, acc)),
        v(dense(v_in, acc)),
        batch(q.size(0)),
        queries(q.size(1)),
        heads(q.size(2)),
        kv_heads(k.size(2)),
        group(heads / kv_heads),
        keys(k.size(1)),
        head_size(q.size(3)),
        value_size(v.size(3)),
        block_q(std::min({o.blocksize_q, max_queries(queries), queries})),
        block_k(std::min({o.blocksize_k, kMaxKeys, keys})),
        visibility(o.mask, queries, keys),
        kernels(kernels::for_acc(acc)) {
    if (o.bias.defined()) {
      const Tensor cast = o.bias.to(acc);
      bias = (cast.size(3) == 1 ? cast.expand({-1, -1, -1, keys}) : cast).contiguous();
    }
  }

  const void* bias_row(int64_t b, int64_t head, int64_t query, int64_t k_at) const {
    if (!bias.defined()) return nullptr;
    const auto index = [&](int64_t d, int64_t i) { return bias.size(d) == 1 ? 0 : i * bias.stride(d); };
    return static_cast<const char*>(bias.const_data_ptr()) +
           (index(0, b) + index(1, head) + index(2, query) + k_at) * bias.element_size();
  }

  kernels::ScoreArgs score_args(int64_t columns) const { return {columns, *options.scale, options.softcap}; }

  // Zero or 1 / (1 - p) for each weight of a block [queries, keys].
  Tensor block_factors(const Tensor& block, int64_t b, int64_t head, int64_t q_at, int64_t k_at) const {
    Region region = options.dropout_region.value_or(Region{{batch, heads, queries, keys}, {0, 0, 0, 0}});
    const int64_t at[] = {b, head, q_at, k_at};
    for (int d = 0; d < 4; ++d) region.offset[d] += at[d];
    return dropout_factors(block.view({1, 1, block.size(0), block.size(1)}), options.dropout_p, *options.dropout_key,
                           &region)
        .view(block.sizes());
  }

  template <class F>
  void for_keys(int64_t q_at, int64_t q_count, const F& f) const {
    const auto range = options.mask.key_range(queries, keys, q_at, q_count);
    for (int64_t at = range.begin; at < range.end; at += block_k) f(at, std::min(block_k, range.end - at));
  }
};

// Rows [at, at + count) of one head.
Tensor head_rows(const Tensor& x, int64_t batch, int64_t head, int64_t at, int64_t count) {
  return x.select(0, batch).select(1, head).narrow(0, at, count);
}

template <class A>
Forward run_blocks(const Problem& p) {
  const auto options = p.q.options();
  Forward result{at::empty({p.batch, p.queries, p.heads, p.value_size}, options),
                 at::empty({p.batch, p.heads, p.queries}, options)};
  const Tensor sinks = p.options.sinks.defined() ? p.options.sinks.to(p.acc).contiguous() : Tensor();
  const int64_t blocks = at::divup(p.queries, p.block_q);
  at::parallel_for(0, p.batch * p.heads * blocks, 1, [&](int64_t begin, int64_t end) {
    const c10::InferenceMode no_graph;
    const Tensor score_memory = at::empty({p.block_q * p.block_k}, options);
    const Tensor out_memory = at::empty({p.block_q * p.value_size}, options);
    std::vector<A> maximum(p.block_q), sum(p.block_q);
    std::vector<uint8_t> bytes(p.block_k);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t b = task / blocks / p.heads, head = task / blocks % p.heads, q_at = task % blocks * p.block_q;
      const int64_t q_count = std::min(p.block_q, p.queries - q_at);
      const Tensor q = head_rows(p.q, b, head, q_at, q_count);
      Tensor out = out_memory.narrow(0, 0, q_count * p.value_size).view({q_count, p.value_size}).zero_();
      A* const out_data = out.mutable_data_ptr<A>();
      std::fill(maximum.begin(), maximum.end(),
                sinks.defined() ? sinks.const_data_ptr<A>()[head] : -std::numeric_limits<A>::infinity());
      std::fill(sum.begin(), sum.end(), sinks.defined() ? A(1) : A(0));
      p.for_keys(q_at, q_count, [&](int64_t k_at, int64_t k_count) {
        Tensor scores = score_memory.narrow(0, 0, q_count * k_count).view({q_count, k_count});
        multiply_into({{scores, q, head_rows(p.k, b, head / p.group, k_at, k_count).t()}});
        const auto args = p.score_args(k_count);
        A* const rows = scores.mutable_data_ptr<A>();
        for (int64_t r = 0; r < q_count; ++r) {
          const auto seen = p.visibility.row(b, head, q_at + r, k_at, k_count, bytes.data());
          const A correction =
              static_cast<A>(p.kernels.softmax_step(args, rows + r * k_count, seen.low, seen.high, seen.bytes,
                                                    p.bias_row(b, head, q_at + r, k_at), &maximum[r], &sum[r]));
          if (correction != A(1)) {
            for (int64_t i = 0; i < p.value_size; ++i) out_data[r * p.value_size + i] *= correction;
          }
        }
        if (p.options.dropout_p > 0.0) scores.mul_(p.block_factors(scores, b, head, q_at, k_at));
        multiply_into({{out, scores, head_rows(p.v, b, head / p.group, k_at, k_count), /*adds=*/true}});
      });
      A* const lse = result.lse.mutable_data_ptr<A>() + (b * p.heads + head) * p.queries + q_at;
      for (int64_t r = 0; r < q_count; ++r) {
        const A factor = sum[r] > A(0) ? A(1) / sum[r] : A(0);
        for (int64_t i = 0; i < p.value_size; ++i) out_data[r * p.value_size + i] *= factor;
        lse[r] = sum[r] > A(0) ? maximum[r] + std::log(sum[r]) : -std::numeric_limits<A>::infinity();
      }
      head_rows(result.out, b, head, q_at, q_count).copy_(out);
    }
  });
  return result;
}

constexpr int64_t kFewQueries = 4;

// Whether all query heads of a key head can be computed together.
bool are_few(const Problem& p) {
  const Tensor& mask = p.options.mask.explicit_mask;
  return p.queries <= kFewQueries && p.options.dropout_p == 0.0 && p.group <= kernels::kMaxSharedHeads &&
         p.head_size <= kernels::kMaxHeadDim && p.value_size <= kernels::kMaxHeadDim &&
         (p.group == 1 || !mask.defined() || mask.size(1) == 1);
}

// For few queries, as when decoding: a kernel over the keys as they lie in memory. Blocks of scores, each with tensors
// and two matrix products, take several times as long.
template <class A>
Forward run_few(const Problem& p) {
  const auto options = p.q.options();
  Forward result{at::zeros({p.batch, p.queries, p.heads, p.value_size}, options),
                 at::empty({p.batch, p.heads, p.queries}, options)};
  const Tensor sinks = p.options.sinks.defined() ? p.options.sinks.to(p.acc).contiguous() : Tensor();
  const Tensor q = p.q.contiguous();
  const auto kernel = kernels::for_elements(p.acc).attend_run;
  const A *const q_data = q.const_data_ptr<A>(), *const k_data = p.k.const_data_ptr<A>();
  const A* const v_data = p.v.const_data_ptr<A>();
  A *const out_data = result.out.mutable_data_ptr<A>(), *const lse = result.lse.mutable_data_ptr<A>();
  for_rows(p.batch * p.queries * p.kv_heads, 2 * p.group * p.head_size * p.keys, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> bytes(static_cast<std::size_t>(p.keys));
    AttendPart<A> part;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t kv_head = task % p.kv_heads, token = task / p.kv_heads, query = token % p.queries;
      const int64_t b = token / p.queries, head = kv_head * p.group;
      part.clear(p.group);
      if (sinks.defined()) {
        std::copy_n(sinks.const_data_ptr<A>() + head, p.group, part.maximum);
        std::fill_n(part.sum, p.group, A(1));
      }
      const auto seen = p.visibility.row(b, head, query, 0, p.keys, bytes.data());
      A* const out = out_data + (token * p.heads + head) * p.value_size;
      kernel({.heads = p.group,
              .k_size = p.head_size,
              .v_size = p.value_size,
              .k_stride = p.k.stride(1),
              .v_stride = p.v.stride(1),
              .scale = *p.options.scale,
              .softcap = p.options.softcap,
              .visible = seen.bytes ? seen.bytes + seen.low : nullptr,
              .bias = p.bias_row(b, head, query, seen.low),
              .bias_head = p.bias.defined() && p.bias.size(1) > 1 ? p.bias.stride(1) : 0},
             q_data + (token * p.heads + head) * p.head_size,
             k_data + b * p.k.stride(0) + seen.low * p.k.stride(1) + kv_head * p.k.stride(2),
             v_data + b * p.v.stride(0) + seen.low * p.v.stride(1) + kv_head * p.v.stride(2), seen.high - seen.low,
             part.maximum, part.sum, out);
      for (int64_t g = 0; g < p.group; ++g) {
        const A sum = part.sum[g], factor = sum > A(0) ? A(1) / sum : A(0);
        for (int64_t i = 0; i < p.value_size; ++i) out[g * p.value_size + i] *= factor;
        lse[(b * p.heads + head + g) * p.queries + query] =
            sum > A(0) ? part.maximum[g] + std::log(sum) : -std::numeric_limits<A>::infinity();
      }
    }
  });
  return result;
}

template <class A>
Forward run_forward(const Problem& p) {
  return are_few(p) ? run_few<A>(p) : run_blocks<A>(p);
}

template <class A>
Backward run_backward(const Problem& p, const Forward& forward, const Tensor& d_out_in) {
  const auto options = p.q.options();
  const Tensor delta = delta_of(forward, d_out_in);
  const Tensor d_out = Problem::dense(d_out_in, p.acc);
  // A task is a key head, because all its queries add to the same gradients. If that leaves threads idle, each query
  // head of the group gets its own sums.
  const int64_t parts = p.batch * p.kv_heads < at::get_num_threads() ? p.group : 1;
  const int64_t heads_in_task = p.group / parts;
  Tensor d_q = at::zeros(p.q.sizes(), options);
  Tensor d_k = at::zeros({parts, p.batch, p.keys, p.kv_heads, p.head_size}, options);
  Tensor d_v = at::zeros({parts, p.batch, p.keys, p.kv_heads, p.value_size}, options);
  at::parallel_for(0, p.batch * p.heads / heads_in_task, 1, [&](int64_t begin, int64_t end) {
    const c10::InferenceMode no_graph;
    const int64_t area = p.block_q * p.block_k;
    const Tensor p_memory = at::empty({area}, options), d_memory = at::empty({area}, options);
    std::vector<uint8_t> bytes(p.block_k);
    for (int64_t head_at = begin * heads_in_task; head_at < end * heads_in_task; ++head_at) {
      const int64_t b = head_at / p.heads, head = head_at % p.heads, kv_head = head / p.group;
      const int64_t part = parts == 1 ? 0 : head % p.group;
      const A* const lse = forward.lse.const_data_ptr<A>() + head_at * p.queries;
      const A* const deltas = delta.const_data_ptr<A>() + head_at * p.queries;
      for (int64_t q_at = 0; q_at < p.queries; q_at += p.block_q) {
        const int64_t q_count = std::min(p.block_q, p.queries - q_at);
        const Tensor q = head_rows(p.q, b, head, q_at, q_count), d_o = head_rows(d_out, b, head, q_at, q_count);
        Tensor d_q_rows = head_rows(d_q, b, head, q_at, q_count);
        p.for_keys(q_at, q_count, [&](int64_t k_at, int64_t k_count) {
          const auto block = [&](const Tensor& memory) {
            return memory.narrow(0, 0, q_count * k_count).view({q_count, k_count});
          };
          const Tensor k = head_rows(p.k, b, kv_head, k_at, k_count), v = head_rows(p.v, b, kv_head, k_at, k_count);
          Tensor weights = block(p_memory), d_weights = block(d_memory);
          multiply_into({{weights, q, k.t()}});
          multiply_into({{d_weights, d_o, v.t()}});
          const auto args = p.score_args(k_count);
          Tensor factors;
          if (p.options.dropout_p > 0.0) d_weights.mul_(factors = p.block_factors(weights, b, head, q_at, k_at));
          A* const w = weights.mutable_data_ptr<A>();
          A* const d_w = d_weights.mutable_data_ptr<A>();
          for (int64_t r = 0; r < q_count; ++r) {
            const auto seen = p.visibility.row(b, head, q_at + r, k_at, k_count, bytes.data());
            p.kernels.softmax_gradient(args, w + r * k_count, d_w + r * k_count, seen.low, seen.high, seen.bytes,
                                       p.bias_row(b, head, q_at + r, k_at), lse[q_at + r], deltas[q_at + r]);
          }
          if (factors.defined()) weights.mul_(factors);
          const auto add = [](const Tensor& c, const Tensor& left, const Tensor& right) {
            multiply_into({{c, left, right, /*adds=*/true}});
          };
          add(head_rows(d_v.select(0, part), b, kv_head, k_at, k_count), weights.t(), d_o);
          add(d_q_rows, d_weights, k);
          add(head_rows(d_k.select(0, part), b, kv_head, k_at, k_count), d_weights.t(), q);
        });
      }
    }
  });
  const auto joined = [&](const Tensor& t) { return parts == 1 ? t.select(0, 0) : t.sum(0); };
  return {d_q, joined(d_k), joined(d_v), sinks_gradient(p.options, forward, delta)};
}

}  // namespace

Forward forward_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                       OutType out_type) {
  const Problem problem(q, k, v, options);
  Forward result = problem.acc == at::kDouble ? run_forward<double>(problem) : run_forward<float>(problem);
  if (out_type == OutType::Same) result.out = result.out.to(q.scalar_type());
  return result;
}

Backward backward_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                         const Forward& forward, const Tensor& d_out) {
  const Problem problem(q, k, v, options);
  return problem.acc == at::kDouble ? run_backward<double>(problem, forward, d_out)
                                    : run_backward<float>(problem, forward, d_out);
}

}  // namespace easydel::operations::blockwise
