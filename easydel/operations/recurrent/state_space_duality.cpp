// Letters: B batch, T tokens, n chunks, l tokens of a chunk, H heads, G groups of heads, N state size, V value size.
#include <ATen/ATen.h>

#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/operations/recurrent/runs.h"

namespace easydel::operations {
namespace {

using at::Tensor;

// [B, T, …] to [B, n, l, …].
Tensor in_chunks(const Tensor& x, int64_t chunk) { return fill_chunks(x, chunk).unflatten(1, {-1, chunk}); }

Recurred duality_of_token(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                          const Tensor& state) {
  const int64_t repeats = x.size(2) / b.size(2);
  const auto of_heads = [&](const Tensor& g) {  // [B, 1, G, N] to [B, H, N]
    return g.select(1, 0).repeat_interleave(repeats, 1);
  };
  const Tensor step = dt.select(1, 0);  // [B, H]
  Tensor h = of_heads(b).unsqueeze(3) * (x.select(1, 0) * step.unsqueeze(2)).unsqueeze(2);
  if (state.defined()) h = at::addcmul(h, state, at::exp(step * a).unsqueeze(2).unsqueeze(3));
  return {at::matmul(of_heads(c).unsqueeze(2), h).transpose(1, 2), h};  // [B, 1, H, V]
}

}  // namespace

Recurred state_space_duality(const Tensor& given_x, const Tensor& given_dt, const Tensor& given_a,
                             const Tensor& given_b, const Tensor& given_c, const Tensor& state, const Tensor& runs,
                             int64_t chunk) {
  const at::ScalarType wide = at::promote_types(given_x.scalar_type(), at::kFloat);
  const Tensor x = given_x.to(wide), dt = given_dt.to(wide), a = given_a.to(wide), b = given_b.to(wide),
               c = given_c.to(wide);
  const int64_t batch = x.size(0), tokens = x.size(1), heads = x.size(2), values = x.size(3), groups = b.size(2),
                size = b.size(3);
  if (tokens == 1) return duality_of_token(x, dt, a, b, c, state.defined() ? state.to(wide) : state);
  chunk = std::min(chunk, tokens);
  const ChunkRuns documents = chunk_runs(fill_run_chunks(runs, chunk), chunk);
  const Tensor decay = in_chunks(dt * a, chunk).transpose(2, 3).cumsum(3);  // [B, n, H, l], logarithms
  const Tensor u = in_chunks(x * dt.unsqueeze(3), chunk).transpose(2, 3);   // [B, n, H, l, V]
  const Tensor k = in_chunks(b, chunk).transpose(2, 3), q = in_chunks(c, chunk).transpose(2, 3);  // [B, n, G, l, N]
  const auto grouped = [&](const Tensor& t) { return t.unflatten(2, {groups, heads / groups}); };
  const auto ungrouped = [](const Tensor& t) { return t.flatten(2, 3); };

  // What a token gets from those of its own chunk.
  Tensor hidden = at::ones({chunk, chunk}, x.options().dtype(at::kBool)).triu(1);
  if (documents.defined()) hidden = documents.same.logical_not().logical_or(hidden).unsqueeze(2);
  const Tensor between = (decay.unsqueeze(4) - decay.unsqueeze(3)).masked_fill(hidden, -INFINITY).exp();
  const Tensor scores = at::matmul(q, k.transpose(-1, -2)).unsqueeze(3) * grouped(between);  // [B, n, G, H/G, l, l]
  Tensor y = at::matmul(ungrouped(scores), u);                                               // [B, n, H, l, V]

  // What the chunks add to the state, and the states that they begin with.
  const Tensor total = decay.select(3, chunk - 1);  // [B, n, H]
  Tensor left = at::exp(total.unsqueeze(3) - decay), reads = at::exp(decay), keeps = at::exp(total);
  if (documents.defined()) {
    left = left * documents.ends.unsqueeze(2);
    reads = reads * documents.continues.unsqueeze(2);
    keeps = keeps * documents.through.unsqueeze(2);
  }
  const Tensor added =
      ungrouped(at::matmul(k.unsqueeze(3).transpose(-1, -2), grouped(u * left.unsqueeze(4))));  // [B, n, H, N, V]
  Tensor h = state.defined() ? state.to(wide) : at::zeros({batch, heads, size, values}, x.options());
  // Split at once: the gradient of one chunk taken out of all would be as large as all of them.
  const std::vector<Tensor> each_added = added.unbind(1), each_kept = keeps.unbind(1);
  std::vector<Tensor> before;
  for (std::size_t i = 0; i < each_added.size(); ++i) {
    before.push_back(h);
    h = at::addcmul(each_added[i], h, each_kept[i].unsqueeze(2).unsqueeze(3));
  }
  const Tensor from_before =
      ungrouped(at::matmul(q.unsqueeze(3), grouped(at::stack(before, 1)))) * reads.unsqueeze(4);  // [B, n, H, l, V]
  y = (y + from_before).transpose(2, 3).flatten(1, 2);
  return {y.narrow(1, 0, tokens), h};
}

}  // namespace easydel::operations
