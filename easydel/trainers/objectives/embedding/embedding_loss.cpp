#include "easydel/trainers/objectives/embedding/embedding_loss.h"

#include <ATen/ATen.h>

#include <limits>

#include "easydel/core/error.h"

namespace easydel {
namespace {

at::Tensor normalized(const at::Tensor& x) {
  return x.defined() ? x / x.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12) : x;
}

at::Tensor first_numbers(const at::Tensor& x, int64_t count) { return x.defined() ? x.narrow(1, 0, count) : x; }

EmbeddingLoss infonce(const TextVectors& v, double temperature) {
  const at::Tensor candidates = v.negative.defined() ? at::cat({v.positive, v.negative}) : v.positive;
  const at::Tensor counts = v.negative.defined() ? at::cat({v.counts, v.counts}) : v.counts;
  const at::Tensor scores = (v.query.matmul(candidates.t()) / temperature)
                                .masked_fill(counts.eq(0).unsqueeze(0), -std::numeric_limits<double>::infinity());
  const at::Tensor own = scores.diagonal();
  // A row that does not count may have no candidates at all.
  const at::Tensor each = at::where(v.counts.ne(0), scores.logsumexp(-1) - own, at::zeros_like(own));
  const at::Tensor right = scores.argmax(-1).eq(at::arange(own.size(0), own.options().dtype(at::kLong)));
  return {.loss = each.sum(), .metrics = {{"contrastive_accuracy", (right * v.counts).sum()}}};
}

EmbeddingLoss triplet(const TextVectors& v, double margin) {
  const at::Tensor near = (v.query - v.positive).square().sum(-1), far = (v.query - v.negative).square().sum(-1);
  const at::Tensor all = (near - far + margin).clamp_min(0);
  const at::Tensor each = at::where(v.counts.ne(0), all, at::zeros_like(all));
  return {.loss = each.sum(), .metrics = {{"fraction_active_triplets", each.gt(0).sum()}}};
}

EmbeddingLoss loss_of(const TextVectors& v, const EmbeddingArguments& a) {
  return a.loss_type == "triplet" ? triplet(v, a.margin) : infonce(v, a.temperature);
}

}  // namespace

at::Tensor pool_tokens(const at::Tensor& hidden, const at::Tensor& mask, const std::string& strategy) {
  const at::Tensor counted = mask.to(hidden.device());
  if (strategy == "first") return hidden.select(1, 0);
  if (strategy == "last") {
    const at::Tensor last = (counted.sum(1).to(at::kLong) - 1).clamp_min(0);
    return hidden.index({at::arange(hidden.size(0), last.options()), last});
  }
  const at::Tensor seen = counted.to(hidden.scalar_type()).unsqueeze(-1);
  if (strategy == "max") return hidden.masked_fill(seen.eq(0), -std::numeric_limits<double>::infinity()).amax({1});
  at::Tensor weights = seen;
  if (strategy == "weighted_mean")
    weights = seen * at::arange(1, hidden.size(1) + 1, hidden.options().requires_grad(false)).view({1, -1, 1});
  return (hidden * weights).sum(1) / weights.sum(1).clamp_min(1e-9);
}

EmbeddingLoss embedding_loss(const TextVectors& given, const EmbeddingArguments& arguments) {
  TextVectors v = given;
  v.counts = given.counts.to(given.query.options().requires_grad(false));
  const bool scales = arguments.normalize_embeddings || arguments.loss_type == "mnrl";
  if (!arguments.matryoshka_dims) {
    for (at::Tensor* vectors : {&v.query, &v.positive, &v.negative})
      *vectors = scales ? normalized(*vectors) : *vectors;
    return loss_of(v, arguments);
  }
  EmbeddingLoss mean;
  const auto parts = static_cast<double>(arguments.matryoshka_dims->size());
  for (const int64_t size : *arguments.matryoshka_dims) {
    TextVectors part = v;
    for (at::Tensor* vectors : {&part.query, &part.positive, &part.negative})
      *vectors = normalized(first_numbers(*vectors, size));
    const EmbeddingLoss each = loss_of(part, arguments);
    mean.loss = mean.loss.defined() ? mean.loss + each.loss / parts : each.loss / parts;
    for (const auto& [name, value] : each.metrics) mean.metrics[concat(name, "_dim", size)] = value;
  }
  return mean;
}

}  // namespace easydel
