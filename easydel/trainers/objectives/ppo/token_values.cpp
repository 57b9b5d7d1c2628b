#include "easydel/trainers/objectives/ppo/token_values.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/layers/linear.h"
#include "easydel/quantization/pack.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

// The base model of a decoder's classifier, and its head.
struct ValueParts {
  const BaseModule* base = nullptr;
  const Linear* score = nullptr;
};

ValueParts parts_of(const BaseModule& value) {
  ValueParts parts;
  for (const auto& [path, module] : value.named_modules()) {
    if (path == value.base_model_prefix()) parts.base = dynamic_cast<const BaseModule*>(module);
    if (path == "score") parts.score = dynamic_cast<const Linear*>(module);
  }
  return parts;
}

}  // namespace

void require_value_model(const BaseModule* value, const BaseModule& policy, const std::string& type) {
  require<ConfigError>(value != nullptr, "[", type, "] a value model is needed: a sequence classifier of one label.");
  require<ConfigError>(value->model_task() == TaskType::SequenceClassification && value->config().num_labels() == 1,
                       "[", type, "] a value model must be a sequence classifier of one label; got ",
                       value->type_name(), " with ", value->config().num_labels(), ".");
  const ValueParts parts = parts_of(*value);
  require<NotSupportedError>(parts.base && parts.score, "[", type, "] a ", value->model_type(),
                             " model cannot be a value model: it has no score for each token. Use a decoder.");
  require<ConfigError>(value->config().vocab_size == policy.config().vocab_size, "[", type,
                       "] the value model must have the policy's vocabulary of ", policy.config().vocab_size,
                       " tokens; got ", value->config().vocab_size, ".");
  require<ConfigError>(quantization::packed_layers(*value).empty(), "[", type,
                       "] the value model is trained, but its weights are quantized. Load it without quantization.");
  require_same_mesh(policy, *value, concat("[", type, "] the value model"));
}

at::Tensor token_values(const BaseModule& value, const Batch& batch, const std::optional<RandomKey>& dropout_key) {
  const ValueParts parts = parts_of(value);
  ModelInputs inputs = batch.inputs();
  inputs.labels = at::Tensor();
  inputs.dropout_key = dropout_key;
  const PreparedInputs prepared = parts.base->prepare_inputs_for_call(inputs);
  const at::Tensor logits = (*parts.score)(parts.base->forward(prepared).last_hidden_state).squeeze(-1);
  at::Tensor values = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
  if (const auto& parallel = value.parallel(); parallel && prepared.part)
    values = gather_tokens(values, *prepared.part, *parallel);
  return values;
}

}  // namespace easydel
