#include "easydel/infra/loss.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/operations/loss/loss.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

operations::CrossEntropyOptions cross_entropy_options(const LossConfig& config, const at::Tensor& like,
                                                      const LogitOptions& logits) {
  config.validate();
  operations::CrossEntropyOptions options{.ignore_index = config.ignore_index,
                                          .label_smoothing = config.label_smoothing,
                                          .z_loss = config.z_loss_coefficient,
                                          .logit_scale = logits.scale,
                                          .logit_softcap = logits.softcap,
                                          .chunk_size = config.chunk_size};
  options.reduction = config.reduction == "sum"    ? operations::Reduction::Sum
                      : config.reduction == "none" ? operations::Reduction::None
                                                   : operations::Reduction::Mean;
  if (config.num_items_in_batch) {
    options.divisor =
        at::scalar_tensor(*config.num_items_in_batch, at::TensorOptions(at::kFloat).device(like.device()));
  }
  return options;
}

at::Tensor sum_of(const at::Tensor& x, const Group* group) {
  if (!group || group->size() == 1) return x;
  at::Tensor sum = x.detach().clone();
  group->all_reduce(sum);
  return sum;
}

// Sums over the ranks of the group, which have other tokens.
Loss to_loss(operations::CrossEntropyOutput out, const at::Tensor& divisor, const Group* group = nullptr) {
  if (group) {
    if (out.loss.dim() == 0) {
      out.loss = collectives::sum(out.loss, *group);
      out.z_loss = sum_of(out.z_loss, group);
    }
    out.num_tokens = sum_of(out.num_tokens, group);
    out.num_correct = sum_of(out.num_correct, group);
  }
  return {out.loss,
          {.loss = out.loss.detach(),
           .z_loss = out.z_loss,
           .accuracy = out.accuracy(),
           .num_tokens = out.num_tokens,
           .weight_sum = (divisor.defined() ? divisor : out.num_tokens).to(at::kFloat)}};
}

// A mean is over the tokens of all ranks.
void share_divisor(operations::CrossEntropyOptions& options, const at::Tensor& targets, const Group& group) {
  if (options.reduction == operations::Reduction::Mean && !options.divisor.defined())
    options.divisor = sum_of(targets.ne(options.ignore_index).sum(), &group);
}

}  // namespace

at::Tensor lm_targets(const at::Tensor& labels, const at::Tensor& segment_ids, const LossConfig& config) {
  return config.shift_tokens ? operations::shift_labels(labels, config.ignore_index, segment_ids) : labels;
}

Loss causal_lm_loss(const at::Tensor& hidden, const Linear& head, const at::Tensor& targets, const LossConfig& config,
                    const LogitOptions& logits, const Parallel* parallel) {
  operations::CrossEntropyOptions options = cross_entropy_options(config, hidden, logits);
  const at::Tensor weight = head.is_plain() ? head.weight()->value() : head.matrix(hidden.scalar_type());
  at::Tensor bias = logits.bias;
  if (head.bias()) {
    const at::Tensor own =
        collectives::gather_weight(head.bias()->value(), hidden.scalar_type(), head.bias()->sharding());
    bias = bias.defined() ? bias + own : own;
  }
  if (!parallel)
    return to_loss(operations::linear_cross_entropy(hidden, weight, bias, targets, options), options.divisor);
  const Group& tokens = parallel->group(parallel->data());
  const AxisNames& axes = parallel->axes(head.out_dim().axis);
  const Group& vocabulary = parallel->group(axes);
  share_divisor(options, targets, tokens);
  if (head.is_plain()) options.weight_access = head.weight()->sharding();
  options.vocabulary = head.out_features();
  if (vocabulary.size() > 1) {
    options.split =
        operations::VocabularySplit{.begin = even_part(head.out_features(), vocabulary.size(), vocabulary.rank()).begin,
                                    .parts = vocabulary.size(),
                                    .all_reduce = [&vocabulary](const at::Tensor& x, bool maximum) {
                                      vocabulary.all_reduce(x, maximum ? ReduceOp::Max : ReduceOp::Sum);
                                    }};
  }
  return to_loss(operations::linear_cross_entropy(collectives::identity_forward_sum_backward(hidden, vocabulary),
                                                  weight, bias, targets, options),
                 options.divisor, &tokens);
}

Loss causal_lm_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& segment_ids,
                    const LossConfig& config) {
  const operations::CrossEntropyOptions options = cross_entropy_options(config, logits, {});
  return to_loss(operations::cross_entropy(logits, lm_targets(labels, segment_ids, config), options), options.divisor);
}

Loss classification_loss(const at::Tensor& logits, const at::Tensor& labels, const LossConfig& config,
                         const std::optional<std::string>& problem_type, const Parallel* parallel) {
  config.validate();
  const Group* rows = parallel ? &parallel->group(parallel->batch()) : nullptr;
  const bool integral = at::isIntegralType(labels.scalar_type(), /*includeBool=*/false);
  const std::string inferred = logits.size(-1) == 1 ? "regression"
                               : integral           ? "single_label_classification"
                                                    : "multi_label_classification";
  const std::string problem = config.problem_type ? *config.problem_type : problem_type.value_or(inferred);
  if (problem == "single_label_classification") {
    operations::CrossEntropyOptions options = cross_entropy_options(config, logits, {});
    if (rows) share_divisor(options, labels.reshape({-1}), *rows);
    return to_loss(operations::cross_entropy(logits, labels.reshape({-1}), options), options.divisor, rows);
  }
  const at::Tensor wide = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
  require<ShapeError>(labels.numel() == logits.numel(), "[classification_loss] ", problem, " needs ", logits.numel(),
                      " labels of shape ", logits.sizes(), "; got ", labels.sizes(), ".");
  const at::Tensor wanted = labels.reshape(logits.sizes()).to(wide.scalar_type());
  at::Tensor loss = problem == "regression"
                        ? at::mse_loss(wide, wanted, at::Reduction::None)
                        : at::binary_cross_entropy_with_logits(wide, wanted, {}, {}, at::Reduction::None);
  const at::Tensor count = sum_of(at::scalar_tensor(logits.size(0), wide.options().requires_grad(false)), rows);
  if (config.reduction != "none") {
    loss = loss.sum();
    if (config.reduction == "mean") loss = loss / (count * logits.size(1));
    if (rows) loss = collectives::sum(loss, *rows);
  }
  return {loss,
          {.loss = loss.detach(), .num_tokens = count.to(at::kLong), .weight_sum = (count * logits.size(1)).detach()}};
}

void update_metrics(LossMetrics& metrics, const TensorMap& gradients, std::optional<double> learning_rate) {
  const at::NoGradGuard no_grad;
  metrics.learning_rate = learning_rate;
  metrics.grad_norms.clear();
  std::vector<at::Tensor> norms;
  for (const auto& [path, gradient] : gradients) {
    norms.push_back(gradient.to(at::promote_types(gradient.scalar_type(), at::kFloat)).norm());
    metrics.grad_norms.emplace(path, norms.back());
  }
  if (norms.empty()) return;
  const at::Tensor all = at::stack(norms);
  metrics.max_grad_norm = all.max();
  metrics.mean_grad_norm = all.mean();
}

std::pair<ModelOutput, LossMetrics> compute_loss(const BaseModule& model, const ModelInputs& batch,
                                                 const LossConfig& config, const Json& loss_kwargs) {
  require<ConfigError>(batch.labels.defined(), "[compute_loss] the batch has no labels.");
  ModelInputs inputs = batch;
  inputs.loss_config = loss_kwargs.is_null() ? config : config.with(loss_kwargs);
  ModelOutput output = model(inputs);
  LossMetrics metrics = output.metrics;
  return {std::move(output), std::move(metrics)};
}

std::pair<at::Tensor, LossMetrics> compute_loss(const BaseModule& model, const at::Tensor& labels,
                                                const at::Tensor& logits, const LossConfig& config,
                                                const Json& loss_kwargs) {
  require<ConfigError>(labels.defined(), "[compute_loss] labels are needed; got an undefined tensor.");
  require<ConfigError>(logits.defined(),
                       "[compute_loss] logits are needed; got an undefined tensor. A forward with labels makes none "
                       "unless ModelInputs::output_logits is true; compute_loss(batch) needs none.");
  const LossConfig wanted = loss_kwargs.is_null() ? config : config.with(loss_kwargs);
  Loss result = model.model_task() == TaskType::SequenceClassification
                    ? classification_loss(logits, labels, wanted, model.config().problem_type)
                    : causal_lm_loss(logits, labels, at::Tensor(), wanted);
  return {std::move(result.loss), std::move(result.metrics)};
}

}  // namespace easydel
