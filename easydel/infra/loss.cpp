#include "easydel/infra/loss.h"

#include "easydel/core/error.h"
#include "easydel/operations/loss.h"

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

Loss to_loss(const operations::CrossEntropyOutput& out) {
  return {out.loss,
          {.loss = out.loss.detach(), .z_loss = out.z_loss, .accuracy = out.accuracy(), .num_tokens = out.num_tokens}};
}

at::Tensor targets(const at::Tensor& labels, const at::Tensor& segment_ids, const LossConfig& config) {
  return config.shift_tokens ? operations::shift_labels(labels, config.ignore_index, segment_ids) : labels;
}

}  // namespace

Loss causal_lm_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& labels, const at::Tensor& segment_ids, const LossConfig& config,
                    const LogitOptions& logits) {
  return to_loss(operations::linear_cross_entropy(hidden, weight, bias, targets(labels, segment_ids, config),
                                                  cross_entropy_options(config, hidden, logits)));
}

Loss causal_lm_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& segment_ids,
                    const LossConfig& config) {
  return to_loss(operations::cross_entropy(logits, targets(labels, segment_ids, config),
                                           cross_entropy_options(config, logits, {})));
}

Loss classification_loss(const at::Tensor& logits, const at::Tensor& labels, const LossConfig& config,
                         const std::optional<std::string>& problem_type) {
  config.validate();
  const bool integral = at::isIntegralType(labels.scalar_type(), /*includeBool=*/false);
  const std::string inferred = logits.size(-1) == 1 ? "regression"
                               : integral           ? "single_label_classification"
                                                    : "multi_label_classification";
  const std::string problem = config.problem_type ? *config.problem_type : problem_type.value_or(inferred);
  if (problem == "single_label_classification") {
    return to_loss(operations::cross_entropy(logits, labels.reshape({-1}), cross_entropy_options(config, logits, {})));
  }
  const auto reduction = config.reduction == "sum"    ? at::Reduction::Sum
                         : config.reduction == "none" ? at::Reduction::None
                                                      : at::Reduction::Mean;
  const at::Tensor wide = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
  require<ShapeError>(labels.numel() == logits.numel(), "[classification_loss] ", problem, " needs ", logits.numel(),
                      " labels of shape ", logits.sizes(), "; got ", labels.sizes(), ".");
  const at::Tensor wanted = labels.reshape(logits.sizes()).to(wide.scalar_type());
  const at::Tensor loss = problem == "regression"
                              ? at::mse_loss(wide, wanted, reduction)
                              : at::binary_cross_entropy_with_logits(wide, wanted, {}, {}, reduction);
  return {loss, {.loss = loss.detach(), .num_tokens = at::scalar_tensor(logits.size(0))}};
}

}  // namespace easydel
