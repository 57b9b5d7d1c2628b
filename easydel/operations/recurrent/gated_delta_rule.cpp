// Letters: B batch, T tokens, n chunks, l tokens of a chunk, H heads, G key heads, K key size, V value size.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/norm.h"
#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/operations/recurrent/runs.h"

namespace easydel::operations {
namespace {

using at::Tensor;

constexpr int64_t kDeltaChunk = 64;
constexpr int64_t kChannelChunk = 16;  // where each channel of a key decays by itself: memory grows by chunk times K

// Heads x [..., K] of length 1 / divisor. On a GPU it is a norm, which has a kernel: the mean of squares is their sum /
// K.
Tensor of_length(const Tensor& x, double divisor) {
  constexpr double kEps = 1e-6;
  const auto size = static_cast<double>(x.size(-1));
  if (cuda_fused::applies(x) && x.size(-1) > 0)
    return rms_norm(x, at::full({x.size(-1)}, 1.0 / (divisor * std::sqrt(size)), x.options().requires_grad(false)),
                    {.eps = kEps / size});
  const Tensor unit = x * at::rsqrt(x.square().sum(-1, /*keepdim=*/true) + kEps);
  return divisor == 1.0 ? unit : unit / divisor;
}

// Letters: G 1, or K where each channel decays by itself. g [B, T, H, G].
Recurred delta_of_token(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                        const Tensor& state) {
  const auto token = [](const Tensor& x) { return x.select(1, 0); };
  const Tensor key = token(k).unsqueeze(2);  // [B, H, 1, K]
  Tensor delta = token(v).unsqueeze(2);      // [B, H, 1, V]
  Tensor decayed;
  if (state.defined()) {
    decayed = state * at::exp(token(g)).unsqueeze(3);
    delta = delta - at::matmul(key, decayed);
  }
  delta = delta * token(beta).unsqueeze(2).unsqueeze(3);
  const Tensor update = key.transpose(2, 3) * delta;
  const Tensor h = state.defined() ? decayed + update : update;
  return {at::matmul(token(q).unsqueeze(2), h).transpose(1, 2), h};
}

// What tokens of a chunk mean to each other: the keys' products [B, n, H, l, l], and those of queries and keys.
struct Products {
  Tensor system, scores;
};
Products products_within(const Tensor& queries, const Tensor& weighted_keys, const Tensor& keys, const Tensor& decay,
                         const Tensor& hidden) {
  const Tensor apart = decay.unsqueeze(4) - decay.unsqueeze(3);  // [B, n, H, l, l, G]
  const Tensor between = apart.masked_fill(hidden.unsqueeze(-1), -INFINITY).exp();
  if (decay.size(4) == 1) {
    const Tensor keys_T = keys.transpose(-1, -2), factor = between.squeeze(-1);
    return {at::matmul(weighted_keys, keys_T) * factor, at::matmul(queries, keys_T) * factor};
  }
  const Tensor both = at::matmul(between * keys.unsqueeze(3), at::stack({weighted_keys, queries}, -1));
  return {both.select(-1, 0), both.select(-1, 1)};
}

// Letters: G 1 or K. What chunks read from the state and add to it, with gradients: fresh [B, n, H, l, V], corrections
// and reading [B, n, H, l, K], scores [B, n, H, l, l], writing [B, n, H, K, l], keeps [B, n, H, G], state [B, H, K, V].
// One after the other only what depends on the chunk before; the rest for all chunks at once.
struct ChunkScan : torch::autograd::Function<ChunkScan> {
  static Tensor by_chunk(const Tensor& x) {  // [n, B * H, …], in memory of its own
    return x.transpose(0, 1).clone(at::MemoryFormat::Contiguous).flatten(1, 2);
  }
  static Tensor as_given(const Tensor& x, const Tensor& like) {
    return x.unflatten(1, {like.size(0), like.size(1)}).transpose(0, 1);
  }
  static Tensor product(const Tensor& a, const Tensor& b) {
    return at::bmm(a.flatten(0, 1), b.flatten(0, 1)).unflatten(0, {a.size(0), a.size(1)});
  }

  // [n, B, H, l, V] and the last state [B, H, K, V].
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, const Tensor& fresh,
                                                const Tensor& corrections, const Tensor& reading, const Tensor& scores,
                                                const Tensor& writing, const Tensor& keeps, const Tensor& state) {
    const Tensor values = by_chunk(fresh), corrected = by_chunk(corrections), read = by_chunk(reading),
                 scored = by_chunk(scores), written = by_chunk(writing), kept = by_chunk(keeps).unsqueeze(-1);
    const int64_t count = values.size(0);
    const Tensor states = at::empty({count + 1, values.size(1), state.size(2), state.size(3)}, state.options());
    states[0].copy_(state.flatten(0, 1));
    for (int64_t i = 0; i < count; ++i) {
      Tensor next = states[i + 1];
      values[i].baddbmm_(corrected[i], states[i], 1, -1);
      at::mul_out(next, states[i], kept[i]);
      next.baddbmm_(written[i], values[i]);
    }
    const Tensor y = product(read, states.narrow(0, 0, count));
    y.flatten(0, 1).baddbmm_(scored.flatten(0, 1), values.flatten(0, 1));
    ctx->save_for_backward({values, corrected, read, scored, written, kept, states, state});
    const std::vector<int64_t> heads{state.size(0), state.size(1)};
    return {y.unflatten(1, heads), states[count].unflatten(0, heads).clone()};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    kernels::require_first_derivative("gated_delta_rule");
    const auto saved = ctx->get_saved_variables();
    const Tensor &values = saved[0], &corrected = saved[1], &read = saved[2], &scored = saved[3], &written = saved[4],
                 &kept = saved[5], &states = saved[6], &state = saved[7];
    const int64_t count = values.size(0);
    const auto turned = [](const Tensor& x) { return x.transpose(-1, -2); };
    const Tensor d_y = grads[0].contiguous().flatten(1, 2), before = states.narrow(0, 0, count);
    const Tensor d_values = product(turned(scored), d_y), d_states = at::empty_like(states);
    Tensor read_of = d_states.narrow(0, 0, count).flatten(0, 1);
    at::bmm_out(read_of, turned(read).flatten(0, 1), d_y.flatten(0, 1));
    d_states[count].copy_(grads[1].flatten(0, 1));
    for (int64_t i = count - 1; i >= 0; --i) {
      const Tensor later = d_states[i + 1], own = d_states[i];
      d_values[i].baddbmm_(turned(written[i]), later);
      own.addcmul_(later, kept[i]);
      own.baddbmm_(turned(corrected[i]), d_values[i], 1, -1);
    }
    const Tensor after = d_states.narrow(0, 1, count);
    Tensor d_kept = (after * before).sum(-1);
    if (kept.size(2) == 1) d_kept = d_kept.sum(-1, /*keepdim=*/true);
    const auto given = [&](const Tensor& x) { return as_given(x, state); };
    return {given(d_values),
            given(product(d_values, turned(before)).neg_()),
            given(product(d_y, turned(before))),
            given(product(d_y, turned(values))),
            given(product(after, turned(values))),
            given(d_kept),
            d_states[0].unflatten(0, {state.size(0), state.size(1)})};
  }
};

}  // namespace

// A chunk's updates depend on each other through a triangular system, which is solved once for all of them.
Recurred gated_delta_rule(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v, const Tensor& given_g,
                          const Tensor& given_beta, const Tensor& given_state, const Tensor& runs) {
  const at::ScalarType wide = at::promote_types(given_v.scalar_type(), at::kFloat);
  const int64_t tokens = given_v.size(1), heads = given_v.size(2), groups = given_k.size(2);
  const int64_t repeats = groups > 0 ? heads / groups : 1;  // a rank of a mesh may have no heads
  const auto of_heads = [&](const Tensor& x) { return repeats == 1 ? x : x.repeat_interleave(repeats, 2); };
  const Tensor q = of_heads(of_length(given_q.to(wide), std::sqrt(static_cast<double>(given_q.size(3)))));
  const Tensor k = of_heads(of_length(given_k.to(wide), 1.0)), v = given_v.to(wide),
               g = given_g.dim() == 3 ? given_g.to(wide).unsqueeze(3) : given_g.to(wide), beta = given_beta.to(wide),
               state = given_state.defined() ? given_state.to(wide) : given_state;
  if (tokens == 1) return delta_of_token(q, k, v, g, beta, state);

  const int64_t chunk = std::min(g.size(3) == 1 ? kDeltaChunk : kChannelChunk, tokens);
  const auto by_chunk = [&](const Tensor& x) {  // [B, n, H, l, …]
    return fill_chunks(x, chunk).unflatten(1, {-1, chunk}).transpose(2, 3);
  };
  const ChunkRuns documents = chunk_runs(fill_run_chunks(runs, chunk), chunk);
  const Tensor decay = by_chunk(g).cumsum(3);  // [B, n, H, l, G], logarithms
  const Tensor queries = by_chunk(q), keys = by_chunk(k), weights = by_chunk(beta).unsqueeze(4);
  const Tensor weighted_keys = keys * weights, weighted_values = by_chunk(v) * weights;

  Tensor hidden = at::ones({chunk, chunk}, v.options().dtype(at::kBool)).triu(1);
  if (documents.defined()) hidden = documents.same.logical_not().logical_or(hidden).unsqueeze(2);
  const auto [system, scores] = products_within(queries, weighted_keys, keys, decay, hidden);

  const Tensor total = decay.select(3, chunk - 1);  // [B, n, H, G]
  Tensor left = at::exp(total.unsqueeze(3) - decay), reads = at::exp(decay), keeps = at::exp(total);
  if (documents.defined()) {
    left = left * documents.ends.unsqueeze(2).unsqueeze(4);
    reads = reads * documents.continues.unsqueeze(2).unsqueeze(4);
    keeps = keeps * documents.through.unsqueeze(2).unsqueeze(3);
  }
  // The values that the chunk would add to an empty state, and the keys by which it corrects another one.
  const Tensor solved = at::linalg_solve_triangular(system, at::cat({weighted_values, weighted_keys * reads}, -1),
                                                    /*upper=*/false, /*left=*/true,
                                                    /*unitriangular=*/true);
  const int64_t width = v.size(3);
  const Tensor fresh = solved.narrow(-1, 0, width), corrections = solved.narrow(-1, width, k.size(3));
  const Tensor reading = queries * reads, writing = (keys * left).transpose(-1, -2);

  Tensor h = state.defined() ? state : at::zeros({v.size(0), heads, k.size(3), width}, v.options());
  const bool has_gradient = at::GradMode::is_enabled() && (solved.requires_grad() || h.requires_grad());
  if (v.is_cuda() && (has_gradient || inside_checkpoint())) {
    const torch::autograd::variable_list done =
        ChunkScan::apply(fresh, corrections, reading, scores, writing, keeps, h);
    return {done[0].transpose(0, 1).transpose(2, 3).flatten(1, 2).narrow(1, 0, tokens), done[1]};
  }
  // Split at once: the gradient of one chunk taken out of all would be as large as all of them.
  const auto chunks = [](const Tensor& x) { return x.unbind(1); };
  const std::vector<Tensor> added = chunks(fresh), corrected = chunks(corrections), read = chunks(reading),
                            scored = chunks(scores), written = chunks(writing), kept = chunks(keeps);
  std::vector<Tensor> outs;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const Tensor values = added[i] - at::matmul(corrected[i], h);
    outs.push_back(at::matmul(read[i], h) + at::matmul(scored[i], values));
    h = h * kept[i].unsqueeze(3) + at::matmul(written[i], values);
  }
  const Tensor y = at::stack(outs, 1).transpose(2, 3).flatten(1, 2);
  return {y.narrow(1, 0, tokens), h};
}

}  // namespace easydel::operations
