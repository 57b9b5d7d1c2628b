#include "easydel/trainers/objectives/policy_logps.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/infra/decoder/decoder.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace {

// Logits held at once, when nothing says how many tokens. Fewer than a thousand tokens do not keep a GPU busy.
constexpr int64_t kPolicyLogits = int64_t{1} << 25, kGpuPolicyLogits = int64_t{1} << 28;

int64_t tokens_at_once(const TrainingArguments& arguments, const BaseModule& model) {
  if (const int64_t given = arguments.loss().chunk_size; given > 0) return given;
  const int64_t all = model.options().device.is_cpu() ? kPolicyLogits : kGpuPolicyLogits;
  const int64_t most = std::max<int64_t>(all / model.config().vocab_size, 1);
  return model.config().memory.lmhead_chunksize.value_or(most);
}

// [2, n] or with squares [3, n]: log-probabilities, entropies and the logarithm of the sum of squares, of targets [n]
// after hidden states [n, D].
at::Tensor score_tokens(const CausalLMModule& model, const at::Tensor& hidden, const at::Tensor& targets,
                        double temperature, bool with_entropy_gradient, bool with_squares) {
  at::Tensor logits = model.logits(hidden);
  logits = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
  if (temperature != 1.0) logits = logits / temperature;
  const at::Tensor all = at::log_softmax(logits, -1);
  const at::Tensor chosen = all.gather(-1, targets.unsqueeze(-1)).squeeze(-1);
  const at::Tensor of_entropy = with_entropy_gradient ? all : all.detach();
  std::vector<at::Tensor> scores{chosen, -(at::exp(of_entropy) * of_entropy).sum(-1)};
  if (with_squares) scores.push_back(at::logsumexp(2 * all.detach(), -1));
  return at::stack(scores);
}

}  // namespace

PolicyLogps policy_logps(const BaseModule& module, const Batch& batch, const LossContext& context, double temperature,
                         bool with_dropout, bool with_entropy_gradient, bool with_squares) {
  const auto* model = dynamic_cast<const CausalLMModule*>(&module);
  require<ConfigError>(model != nullptr, "[trainer] a policy must be a causal language model; got ", module.type_name(),
                       ".");
  ModelInputs inputs = batch.inputs();
  if (with_dropout) inputs.dropout_key = context.dropout_key;
  PreparedInputs prepared = model->prepare_inputs_for_call(inputs);
  const RouterBalance balance = router_balance_of(module.config());
  prepared.output_router_logits =
      balance.top_k > 0 && (wants_router_loss(context.arguments) || balance.output_router_logits);
  ModelOutput out = model->base_model().forward(prepared);
  out.aux_loss = router_loss(*model, out, prepared);

  const at::Tensor hidden = out.last_hidden_state.flatten(0, 1), targets = prepared.targets.flatten();
  at::Tensor places = targets.ne(-100).nonzero().squeeze(1);
  if (places.numel() == 0) places = at::zeros({1}, places.options());  // all ranks compute the head together
  const at::Tensor known = targets.index_select(0, places).clamp_min(0);
  const at::Tensor states = hidden.index_select(0, places);
  const int64_t tokens = places.numel(), size = tokens_at_once(context.arguments, module);
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < tokens; begin += size) {
    const int64_t count = std::min(size, tokens - begin);
    const auto score = [model, label = known.narrow(0, begin, count), temperature, with_entropy_gradient,
                        with_squares](const operations::TensorList& x) {
      return operations::TensorList{
          score_tokens(*model, x[0], label, temperature, with_entropy_gradient, with_squares)};
    };
    const operations::TensorList part{states.narrow(0, begin, count)};
    parts.push_back((count == tokens ? score(part) : operations::checkpoint(score, part))[0]);
  }
  const at::Tensor scored = at::cat(parts, 1) * targets.index_select(0, places).ne(-100);
  at::Tensor table = at::zeros({scored.size(0), targets.numel()}, scored.options()).index_copy(1, places, scored);
  table = table.view({scored.size(0), prepared.targets.size(0), prepared.targets.size(1)});
  PolicyLogps rows{.tokens = table[0],
                   .entropies = with_entropy_gradient ? table[1] : table[1].detach(),
                   .log_squares = with_squares ? table[2].detach() : at::Tensor(),
                   .routers = {}};
  if (const auto& parallel = module.parallel(); parallel && prepared.part) {
    rows.tokens = gather_tokens(rows.tokens, *prepared.part, *parallel);
    rows.entropies = gather_tokens(rows.entropies, *prepared.part, *parallel);
    if (with_squares) rows.log_squares = gather_tokens(rows.log_squares, *prepared.part, *parallel);
  }
  if (out.aux_loss.defined()) {
    rows.routers.loss = at::zeros_like(out.aux_loss);
    add_router_loss(rows.routers, module, context.arguments.loss(),
                    prepared.token_mask.defined() ? prepared.token_mask : prepared.attention_mask, out, context.share);
  }
  return rows;
}

}  // namespace easydel
