#include "easydel/infra/heads/token_head.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

at::Tensor token_logits(const BaseModule& module, const Linear& head, const at::Tensor& hidden,
                        const LogitOptions& options) {
  const auto& parallel = module.parallel();
  const AxisNames& axes = parallel ? parallel->axes(head.out_dim().axis) : AxisNames();
  at::Tensor logits =
      head(axes.empty() ? hidden : collectives::identity_forward_sum_backward(hidden, parallel->group(axes)));
  if (options.bias.defined()) logits = logits + options.bias;
  if (!axes.empty()) {
    std::vector<int64_t> sizes;
    const int64_t parts = parallel->mesh().size(axes);
    for (int64_t r = 0; r < parts; ++r) sizes.push_back(even_part(head.out_features(), parts, r).size());
    logits = collectives::gather(logits, -1, sizes, parallel->group(axes));
  }
  if (options.scale != 1.0) logits = logits * options.scale;
  return options.softcap != 0.0 ? at::tanh(logits / options.softcap) * options.softcap : logits;
}

at::Tensor kept_tokens(const at::Tensor& hidden, const PreparedInputs& inputs) {
  if (inputs.logit_indices.defined()) return hidden.index_select(1, inputs.logit_indices.to(hidden.device()));
  const int64_t tokens = hidden.size(1), kept = inputs.logits_to_keep.value_or(0);
  require<ConfigError>(kept >= 0, "[forward] logits_to_keep must not be negative; got ", kept, ".");
  if (kept == 0 || kept >= tokens) return hidden;
  const std::optional<BatchPart>& part = inputs.decoder_part ? inputs.decoder_part : inputs.part;
  require<NotSupportedError>(!part || part->sequence_sharded == false || part->tokens == tokens,
                             "[forward] logits_to_keep needs a cache where ranks share the sequence.");
  return hidden.narrow(1, tokens - kept, kept);
}

at::Tensor own_part(const std::shared_ptr<Parameter>& bias, DType dtype) {
  return bias ? collectives::gather_weight(bias->value(), dtype, bias->sharding()).flatten() : at::Tensor();
}

void add_token_outputs(const BaseModule& module, const Linear& head, const at::Tensor& hidden,
                       const PreparedInputs& inputs, const LogitOptions& options, ModelOutput& out) {
  const bool has_labels = inputs.targets.defined();
  if (inputs.output_logits.value_or(!has_labels))
    out.logits = token_logits(module, head, kept_tokens(hidden, inputs), options);
  if (!has_labels) return;
  LossConfig loss_config = inputs.loss_config.value_or(LossConfig());
  if (loss_config.chunk_size == 0) loss_config.chunk_size = module.config().memory.lmhead_chunksize.value_or(0);
  Loss loss = causal_lm_loss(hidden, head, inputs.targets, loss_config, options, module.parallel().get());
  out.loss = std::move(loss.loss);
  out.metrics = std::move(loss.metrics);
}

void take_token_labels(const BaseModule& module, const at::Tensor& tokens, PreparedInputs& inputs) {
  if (!inputs.labels.defined()) return;
  const at::IntArrayRef shape = tokens.sizes().slice(0, 2);
  require<ShapeError>(inputs.labels.sizes() == shape, "[", module.type_name(), "] labels must be ", shape, "; got ",
                      inputs.labels.sizes(), ".");
  inputs.targets = inputs.labels;
}

}  // namespace easydel
