#include "easydel/infra/base_module.h"

#include <ATen/Context.h>

#include "easydel/core/error.h"
#include "easydel/infra/files/companions.h"
#include "easydel/infra/loss.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/sharding/collectives/gather_ahead.h"

namespace easydel {
namespace {

// Torch's setting is the process's; it is put back when forward ends.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision) : active_(precision != Precision::Unset) {
    if (!active_) return;
    before_ = name(at::globalContext().float32MatmulPrecision());
    at::globalContext().setFloat32MatmulPrecision(precision == Precision::Default ? "medium"
                                                  : precision == Precision::High  ? "high"
                                                                                  : "highest");
  }
  ~PrecisionScope() {
    if (active_) at::globalContext().setFloat32MatmulPrecision(before_);
  }
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  static const char* name(at::Float32MatmulPrecision precision) {
    return precision == at::Float32MatmulPrecision::MEDIUM ? "medium"
           : precision == at::Float32MatmulPrecision::HIGH ? "high"
                                                           : "highest";
  }

  bool active_;
  std::string before_;
};

void require_shape(const at::Tensor& tensor, std::string_view name, at::IntArrayRef shape) {
  require<ShapeError>(!tensor.defined() || tensor.sizes() == shape, "[forward] ", name, " must be ", shape, "; got ",
                      tensor.defined() ? tensor.sizes() : at::IntArrayRef(), ".");
}

void check_inputs(const ModelInputs& in, const BaseModule& module) {
  require<ConfigError>(in.input_ids.defined() != in.inputs_embeds.defined(),
                       "[forward] exactly one of input_ids and inputs_embeds is needed; got ",
                       in.input_ids.defined() ? "both" : "neither", ".");
  const bool ids = in.input_ids.defined();
  require<ShapeError>(!ids || in.input_ids.dim() == 2, "[forward] input_ids must be [batch, tokens]; got ",
                      ids ? in.input_ids.sizes() : at::IntArrayRef(), ".");
  require<ShapeError>(!ids || at::isIntegralType(in.input_ids.scalar_type(), false),
                      "[forward] input_ids must be integers; got ",
                      ids ? c10::toString(in.input_ids.scalar_type()) : "", ".");
  require<ShapeError>(ids || (in.inputs_embeds.dim() == 3 && in.inputs_embeds.size(2) == module.config().hidden_size),
                      "[forward] inputs_embeds must be [batch, tokens, ", module.config().hidden_size, "]; got ",
                      ids ? at::IntArrayRef() : in.inputs_embeds.sizes(), ".");
  const at::IntArrayRef shape = (ids ? in.input_ids : in.inputs_embeds).sizes().slice(0, 2);
  require_shape(in.position_ids, "position_ids", shape);
  require_shape(in.segment_ids, "segment_ids", shape);
  require_shape(in.token_type_ids, "token_type_ids", shape);
  // Here and not in attention, which never sees a mask that hides nothing.
  if (in.attention_mask.defined()) {
    const at::IntArrayRef mask = in.attention_mask.sizes();
    const int64_t keys = shape[1] + (in.past_key_values ? in.past_key_values->length() : 0);
    const int64_t heads = module.config().num_attention_heads;
    const bool fits = mask.size() == 2
                          ? mask[0] == shape[0] && mask[1] == keys
                          : mask.size() == 4 && (mask[0] == shape[0] || mask[0] == 1) &&
                                (mask[1] == heads || mask[1] == 1) && mask[2] == shape[1] && mask[3] == keys;
    require<ShapeError>(fits, "[forward] attention_mask must be [", shape[0], ", ", keys, "] or [", shape[0], ", 1 or ",
                        heads, ", ", shape[1], ", ", keys, "]; got ", mask, ".");
  }
  require<Error>(!module.is_lazy(), "[forward] ", module.type_name(),
                 " has no weights yet: it was made by lazy_init. Load them or call initialize.");
}

}  // namespace

Precision parse_precision(std::string_view name) {
  if (name.empty()) return Precision::Unset;
  if (name == "default" || name == "fastest") return Precision::Default;
  if (name == "high") return Precision::High;
  if (name == "highest") return Precision::Highest;
  fail<ConfigError>("[precision] one of default, fastest, high, highest is needed; got \"", name, "\".");
}

BaseModule::BaseModule(const BaseConfig& config)
    : config_(config.clone()), companions_(std::make_shared<const Companions>()) {
  config_->validate();
}

ModelOutput BaseModule::operator()(const ModelInputs& inputs) const {
  check_inputs(inputs, *this);
  const PrecisionScope scope(options_.precision);
  if (!parallel()) return forward(inputs);
  parallel()->ahead().begin_step();
  const ModelInputs prepared = prepare_inputs_for_call(inputs);
  return gather_outputs(forward(prepared), *prepared.part, inputs);
}

ModelInputs BaseModule::prepare_inputs_for_call(ModelInputs inputs) const {
  const at::Tensor& given = inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds;
  const int64_t batch = given.size(0);
  const int64_t tokens = given.size(1);
  if (!inputs.position_ids.defined() && inputs.past_key_values) {
    inputs.position_ids = inputs.past_key_values->positions(batch, tokens, inputs.cache_metadata.get(), given.device());
  }
  if (!inputs.position_ids.defined()) {
    const at::Tensor counted = at::arange(tokens, given.options().dtype(at::kLong));
    inputs.position_ids = counted.unsqueeze(0).expand({batch, tokens});
    if (inputs.segment_ids.defined() && tokens > 0) {
      // The first slot of a token's segment is the largest start up to it.
      const at::Tensor ids = inputs.segment_ids;
      const at::Tensor starts = at::cat({at::ones_like(ids.narrow(1, 0, 1), at::kBool),
                                         ids.narrow(1, 1, tokens - 1).ne(ids.narrow(1, 0, tokens - 1))},
                                        1);
      const at::Tensor first = std::get<0>(at::where(starts, inputs.position_ids, 0).cummax(1));
      inputs.position_ids = inputs.position_ids - first;
    }
  }
  if (!inputs.mask_info) {
    MaskInfo mask;
    if (inputs.attention_mask.defined()) {
      if (inputs.attention_mask.dim() == 4) {
        mask.causal = false;
        mask.explicit_mask = inputs.attention_mask.to(at::kBool);
      } else {
        mask.padding_mask = inputs.attention_mask;
      }
    }
    mask.q_segment_ids = inputs.segment_ids;
    inputs.mask_info = mask.simplified();
  }
  if (!inputs.prepared && config_->attention.fcm_max_ratio > 0 && inputs.dropout_key && !inputs.past_key_values) {
    const at::Tensor kept =
        config_->get_fcm_mask(batch, tokens, /*deterministic=*/false, inputs.dropout_key->fold("fcm"))
            .to(given.device());
    at::Tensor& mask = inputs.mask_info->explicit_mask;
    mask = mask.defined() ? mask.logical_and(kept) : kept;
    inputs.mask_info->memory = MaskInfo::make_memory();
  }
  if (!std::exchange(inputs.prepared, true)) prepare_whole(inputs);
  return parallel() && !inputs.part
             ? take_part(std::move(inputs), *parallel(), model_task() != TaskType::SequenceClassification)
             : inputs;
}

std::vector<std::string> BaseModule::get_static_arguments() {
  return {"mask_info",     "output_attentions", "output_hidden_states", "output_router_logits",
          "output_logits", "loss_config"};
}

std::pair<ModelOutput, LossMetrics> BaseModule::compute_loss(const ModelInputs& batch, const LossConfig& config,
                                                             const Json& loss_kwargs) const {
  require<ConfigError>(batch.labels.defined(), "[compute_loss] the batch has no labels.");
  ModelInputs inputs = batch;
  inputs.loss_config = loss_kwargs.is_null() ? config : config.with(loss_kwargs);
  ModelOutput output = (*this)(inputs);
  LossMetrics metrics = output.metrics;
  return {std::move(output), std::move(metrics)};
}

std::pair<at::Tensor, LossMetrics> BaseModule::compute_loss(const at::Tensor& labels, const at::Tensor& logits,
                                                            const LossConfig& config, const Json& loss_kwargs) const {
  require<ConfigError>(labels.defined(), "[compute_loss] labels are needed; got an undefined tensor.");
  require<ConfigError>(logits.defined(),
                       "[compute_loss] logits are needed; got an undefined tensor. A forward with labels makes none "
                       "unless ModelInputs::output_logits is true; compute_loss(batch) needs none.");
  const LossConfig wanted = loss_kwargs.is_null() ? config : config.with(loss_kwargs);
  Loss result = model_task() == TaskType::SequenceClassification
                    ? classification_loss(logits, labels, wanted, config_->problem_type)
                    : causal_lm_loss(logits, labels, at::Tensor(), wanted);
  return {std::move(result.loss), std::move(result.metrics)};
}

double BaseModule::flops_per_token(int64_t, int64_t sequence_length) const {
  require<ConfigError>(sequence_length >= 1, "[flops_per_token] sequence_length must be at least 1; got ",
                       sequence_length, ".");
  const double keys = (static_cast<double>(sequence_length) + 1) / 2;  // causal: the mean over positions
  double sum = 0;
  for (const auto& [path, module] : named_modules()) sum += module->own_flops_per_token(keys);
  return sum;
}

double BaseModule::flop(int64_t batch_size, int64_t sequence_length) const {
  return flops_per_token(batch_size, sequence_length) * static_cast<double>(batch_size * sequence_length);
}

}  // namespace easydel
