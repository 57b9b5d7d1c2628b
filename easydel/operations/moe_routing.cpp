#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/operations/moe.h"

namespace easydel::operations {

using at::Tensor;

Routing route(const Tensor& logits, const RouterOptions& options) {
  require<ShapeError>(logits.dim() == 2, "[route] logits must be [tokens, experts]; got ", logits.sizes(), ".");
  require<ConfigError>(options.top_k >= 1 && options.top_k <= logits.size(1), "[route] top_k must be in [1, ",
                       logits.size(1), "], the number of experts; got ", options.top_k, ".");
  require<ShapeError>(!options.selection_bias.defined() || options.selection_bias.numel() == logits.size(1),
                      "[route] selection_bias must be [", logits.size(1), "]; got ",
                      options.selection_bias.defined() ? options.selection_bias.sizes() : at::IntArrayRef(), ".");
  const Tensor wide = logits.to(logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor scores = options.scoring == RouterScoring::Softmax ? at::softmax(wide, -1) : at::sigmoid(wide);
  Tensor weights, experts;
  if (options.selection_bias.defined()) {
    experts = std::get<1>(
        at::topk(scores.detach() + options.selection_bias.detach().to(scores.options()), options.top_k, -1));
    weights = scores.gather(1, experts);
  } else {
    std::tie(weights, experts) = at::topk(scores, options.top_k, -1);
  }
  if (options.renormalize) weights = weights / weights.sum(-1, true);
  if (options.scale != 1.0) weights = weights * options.scale;
  return {weights, experts};
}

RouterStatistics& RouterStatistics::operator+=(const RouterStatistics& other) {
  if (!assignments.defined()) return *this = other;
  assignments = assignments + other.assignments;
  probabilities = probabilities + other.probabilities;
  tokens = tokens + other.tokens;
  return *this;
}

RouterStatistics router_statistics(const Tensor& logits, int64_t top_k, const Tensor& attention_mask) {
  require<ShapeError>(logits.dim() == 2, "[router_statistics] logits must be [tokens, experts]; got ", logits.sizes(),
                      ".");
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  require<ConfigError>(top_k >= 1 && top_k <= experts, "[router_statistics] top_k must be in [1, ", experts,
                       "], the number of experts; got ", top_k, ".");
  require<ShapeError>(!attention_mask.defined() || attention_mask.numel() == tokens,
                      "[router_statistics] attention_mask must have one element for each of the ", tokens,
                      " tokens; got ", attention_mask.defined() ? attention_mask.sizes() : at::IntArrayRef(), ".");
  const Tensor probabilities = at::softmax(logits, -1);  // in the logits' type, as the reference does
  const Tensor chosen = std::get<1>(at::topk(probabilities.detach(), top_k, -1)).reshape({-1});
  const Tensor wide = probabilities.to(logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor weight = attention_mask.defined() ? attention_mask.reshape({-1}).to(wide.device(), wide.scalar_type())
                                                 : at::ones({tokens}, wide.options().requires_grad(false));
  const Tensor counts = at::zeros({experts}, weight.options()).scatter_add_(0, chosen, weight.repeat_interleave(top_k));
  return {counts, (wide * weight.unsqueeze(-1)).sum(0), weight.sum()};
}

Tensor load_balancing_loss(const RouterStatistics& statistics) {
  const Tensor assigned = statistics.assignments / statistics.tokens;
  const Tensor probability = statistics.probabilities / statistics.tokens;
  return (assigned * probability).sum() * statistics.assignments.numel();
}

Tensor load_balancing_loss(const std::vector<Tensor>& layer_logits, int64_t top_k, const Tensor& attention_mask) {
  require<ShapeError>(!layer_logits.empty(),
                      "[load_balancing_loss] needs the router logits of at least one layer; got none.");
  RouterStatistics total;
  for (const Tensor& logits : layer_logits) total += router_statistics(logits, top_k, attention_mask);
  return load_balancing_loss(total);
}

}  // namespace easydel::operations
