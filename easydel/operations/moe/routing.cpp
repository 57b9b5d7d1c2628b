#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/moe/cpu_experts.h"
#include "easydel/operations/moe/cuda_experts.h"
#include "easydel/operations/moe/moe.h"

namespace easydel::operations {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

void check_groups(const RouterOptions& options, int64_t experts) {
  const int64_t groups = options.groups, top = options.top_groups;
  require<ConfigError>(groups >= 1 && experts % groups == 0, "[route] groups must divide the ", experts,
                       " experts; got ", groups, ".");
  require<ConfigError>(top >= 1 && top <= groups, "[route] top_groups must be in [1, ", groups, "]; got ", top, ".");
  require<ConfigError>(options.group_best >= 1 && options.group_best <= experts / groups,
                       "[route] group_best must be in [1, ", experts / groups, "], the size of a group; got ",
                       options.group_best, ".");
  require<ConfigError>(options.top_k <= top * (experts / groups), "[route] top_k must be at most the ",
                       top * (experts / groups), " experts of the chosen groups; got ", options.top_k, ".");
}

// The scores, and -inf outside each token's best groups.
Tensor best_groups(const Tensor& scores, const RouterOptions& options) {
  const int64_t tokens = scores.size(0), groups = options.groups, size = scores.size(1) / groups;
  const Tensor in_group = scores.view({tokens, groups, size});
  const Tensor group_scores =
      options.group_best == 1 ? in_group.amax(-1) : std::get<0>(at::topk(in_group, options.group_best, -1)).sum(-1);
  const Tensor best = std::get<1>(at::topk(group_scores, options.top_groups, -1));
  const Tensor hidden = at::ones({tokens, groups}, scores.options().dtype(at::kBool)).scatter_(1, best, false);
  return in_group.masked_fill(hidden.unsqueeze(-1), -std::numeric_limits<double>::infinity()).view_as(scores);
}

Routing sparse_mixer(const Tensor& scores, double nearness) {
  std::vector<Tensor> weights, experts;
  Tensor left = scores;
  for (int i = 0; i < 2; ++i) {
    const Tensor known = left.detach();
    const auto [best, index] = known.max(-1, /*keepdim=*/true);
    const Tensor far = ((best - scores.detach()) / scores.detach().abs().maximum(best)).gt(2 * nearness);
    const Tensor shares = at::softmax(left.masked_fill(far, -std::numeric_limits<double>::infinity()), -1);
    weights.push_back(shares.gather(-1, index));
    experts.push_back(index);
    left = left.scatter(-1, index, -std::numeric_limits<double>::infinity());
  }
  return {at::cat(weights, -1), at::cat(experts, -1)};
}

// Everything in one pass over the logits, and one for the gradient.
struct FusedRoute : torch::autograd::Function<FusedRoute> {
  static variable_list forward(AutogradContext* ctx, const Tensor& logits, const RouterOptions& options) {
    const Routing routing =
        logits.is_cpu() ? cpu_experts::route(logits, options) : cuda_experts::route(logits, options);
    ctx->save_for_backward({logits, routing.weights, routing.experts});
    ctx->saved_data["top_k"] = options.top_k, ctx->saved_data["scoring"] = static_cast<int64_t>(options.scoring);
    ctx->saved_data["renormalize"] = options.renormalize, ctx->saved_data["scale"] = options.scale;
    ctx->mark_non_differentiable({routing.experts});
    return {routing.weights, routing.experts};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("route");
    const auto saved = ctx->get_saved_variables();
    const RouterOptions options{.top_k = ctx->saved_data["top_k"].toInt(),
                                .scoring = static_cast<RouterScoring>(ctx->saved_data["scoring"].toInt()),
                                .renormalize = ctx->saved_data["renormalize"].toBool(),
                                .scale = ctx->saved_data["scale"].toDouble()};
    const auto d_logits = saved[0].is_cpu() ? cpu_experts::route_backward : cuda_experts::route_backward;
    return {d_logits(saved[0], {saved[1], saved[2]}, grads[0], options), Tensor()};
  }
};

}  // namespace

Routing route(const Tensor& logits, const RouterOptions& options) {
  require<ShapeError>(logits.dim() == 2, "[route] logits must be [tokens, experts]; got ", logits.sizes(), ".");
  require<ConfigError>(options.top_k >= 1 && options.top_k <= logits.size(1), "[route] top_k must be in [1, ",
                       logits.size(1), "], the number of experts; got ", options.top_k, ".");
  require<ShapeError>(!options.selection_bias.defined() || options.selection_bias.numel() == logits.size(1),
                      "[route] selection_bias must be [", logits.size(1), "]; got ",
                      options.selection_bias.defined() ? options.selection_bias.sizes() : at::IntArrayRef(), ".");
  check_groups(options, logits.size(1));
  if (options.scoring == RouterScoring::SparseMixer) {
    require<ConfigError>(options.top_k == 2 && logits.size(1) >= 2,
                         "[route] SparseMixer chooses 2 of 2 or more experts; got ", options.top_k, " of ",
                         logits.size(1), ".");
    return sparse_mixer(logits.to(acc_type(logits.scalar_type())), options.nearness);
  }
  const bool in_groups = options.top_groups < options.groups;
  const bool can_fuse = !in_groups && options.scale != 0 && options.least_sum == 0;
  const bool on_cuda = can_fuse && cuda_experts::can_route(logits);
  const Tensor wide = on_cuda ? logits : logits.to(acc_type(logits.scalar_type()));
  if (on_cuda || (can_fuse && cpu_experts::can_route(wide))) {
    const variable_list routing = FusedRoute::apply(wide, options);
    return {routing[0], routing[1]};
  }
  const Tensor scores = options.scoring == RouterScoring::Softmax   ? at::softmax(wide, -1)
                        : options.scoring == RouterScoring::Sigmoid ? at::sigmoid(wide)
                                                                    : wide;
  Tensor choice = scores.detach();
  if (options.selection_bias.defined()) choice = choice + options.selection_bias.detach().to(scores.options());
  if (in_groups) choice = best_groups(choice, options);
  const Tensor experts = cuda_experts::can_choose(choice) ? cuda_experts::choose_experts(choice, options.top_k)
                                                          : std::get<1>(at::topk(choice, options.top_k, -1));
  Tensor weights = scores.gather(1, experts);
  if (options.scoring == RouterScoring::SoftmaxOfChosen) {
    weights = at::softmax(weights, -1);
  } else if (options.renormalize) {
    Tensor sum = weights.sum(-1, true);  // sigmoids may all be zero
    if (options.least_sum > 0) sum = sum.clamp_min(options.least_sum);
    weights = weights / (options.scoring == RouterScoring::Sigmoid ? sum + 1e-20 : sum);
  }
  if (options.scale != 1.0) weights = weights * options.scale;
  return {weights, experts};
}

RouterStatistics& RouterStatistics::operator+=(const RouterStatistics& other) {
  if (!assignments.defined()) return *this = other;
  assignments = assignments + other.assignments;
  probabilities = probabilities + other.probabilities;
  tokens = tokens + other.tokens;
  entropy = entropy + other.entropy;
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
  const Tensor wide = probabilities.to(acc_type(logits.scalar_type()));
  const Tensor weight = attention_mask.defined() ? attention_mask.reshape({-1}).to(wide.device(), wide.scalar_type())
                                                 : at::ones({tokens}, wide.options().requires_grad(false));
  const Tensor counts = at::zeros({experts}, weight.options()).scatter_add_(0, chosen, weight.repeat_interleave(top_k));
  const Tensor entropy = at::special_entr(wide.detach()).sum(-1).mul_(weight).sum();
  return {counts, (wide * weight.unsqueeze(-1)).sum(0), weight.sum(), entropy};
}

Tensor load_balancing_loss(const RouterStatistics& statistics) {
  const Tensor assigned = statistics.assignments / statistics.tokens;
  const Tensor probability = statistics.probabilities / statistics.tokens;
  return (assigned * probability).sum() * statistics.assignments.numel();
}

Tensor router_load_max(const RouterStatistics& statistics) {
  const Tensor& assigned = statistics.assignments;
  return assigned.max() * assigned.numel() / assigned.sum().clamp_min(1);
}

Tensor load_balancing_loss(const std::vector<Tensor>& layer_logits, int64_t top_k, const Tensor& attention_mask) {
  require<ShapeError>(!layer_logits.empty(),
                      "[load_balancing_loss] needs the router logits of at least one layer; got none.");
  RouterStatistics total;
  for (const Tensor& logits : layer_logits) total += router_statistics(logits, top_k, attention_mask);
  return load_balancing_loss(total);
}

}  // namespace easydel::operations
