#include "easydel/infra/base_module.h"

#include <ATen/Context.h>

#include "easydel/core/error.h"
#include "easydel/infra/files/companions.h"
#include "easydel/infra/files/torch_state.h"
#include "easydel/infra/flops.h"
#include "easydel/infra/loss.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/infra/prepare_inputs.h"
#include "easydel/infra/state/state.h"
#include "easydel/io/hub/hub_push.h"
#include "easydel/layers/computed_weights.h"
#include "easydel/sharding/collectives/weight_prefetcher.h"
#include "easydel/tokenizers/auto_tokenizer.h"

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

// Without the paths that named_modules() makes.
template <class Visit>
void for_models_below(const Module& module, const Visit& visit) {
  for (const auto& [name, child] : module.children()) {
    if (auto* model = dynamic_cast<BaseModule*>(child.get())) visit(*model);
    for_models_below(*child, visit);
  }
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

ModelOutput BaseModule::encode(const PreparedInputs&) const {
  fail<NotSupportedError>("[encode] ", type_name(), " has no encoder.");
}

ModelOutput BaseModule::operator()(const ModelInputs& inputs) const {
  check_inputs(*this, inputs);
  const PrecisionScope scope(options_.precision);
  if (parallel()) parallel()->prefetcher().begin_step();
  const PreparedInputs prepared = prepare_inputs_for_call(inputs);
  ModelOutput out = forward(prepared);
  if (parallel()) out = gather_outputs(*this, std::move(out), prepared, inputs);
  return out;
}

Mesh BaseModule::mesh() const { return parallel() ? parallel()->mesh().mesh() : config_->mesh(); }

void BaseModule::share_options(const ModuleOptions& options) {
  options_ = options;
  for_models_below(*this, [&](BaseModule& model) { model.options_ = options; });
  set_dtype(options.dtype);
}

void BaseModule::set_options(const ModuleOptions& options) {
  share_options(options);
  for (const auto& [path, parameter] : named_parameters()) {
    const DType dtype = parameter->dtype_in(options.param_dtype);
    if (parameter->is_lazy() && parameter->value().scalar_type() != dtype) parameter->to_meta(dtype);
  }
}

void BaseModule::initialize(const ModuleOptions& options) {
  set_options(options);
  for (const auto& [path, module] : named_modules()) {
    if (auto* computed = dynamic_cast<ComputedWeights*>(module))
      computed->fill(at::TensorOptions(options.param_dtype).device(options.device));
  }
  for (const auto& [path, parameter] : named_parameters()) {
    if (!parameter->is_lazy()) continue;
    const DType dtype = parameter->dtype_in(options.param_dtype);
    parameter->draw(options.rngs.fold(path), at::TensorOptions(dtype).device(options.device));
  }
}

bool BaseModule::is_lazy() const { return has_lazy_parameters(); }

DType BaseModule::module_dtype() const {
  for (const auto& [path, parameter] : named_parameters()) {
    if (parameter->fixed_dtype) continue;
    if (at::isFloatingType(parameter->value().scalar_type())) return parameter->value().scalar_type();
  }
  return options_.param_dtype;
}

TensorMap BaseModule::params() const {
  TensorMap map;
  for (const auto& [path, parameter] : named_parameters()) map.set(path, parameter->value());
  return map;
}

std::vector<ParameterInfo> BaseModule::graphtree_params_shape() const {
  std::vector<ParameterInfo> infos;
  for (const auto& [path, parameter] : named_parameters()) {
    infos.push_back({path, {parameter->shape, parameter->value().scalar_type()}, parameter->sharding()});
  }
  return infos;
}

int64_t BaseModule::num_params() const {
  int64_t sum = 0;
  for (const auto& [path, parameter] : named_parameters()) sum += c10::multiply_integers(parameter->shape);
  return sum;
}

GraphDef BaseModule::graphdef() const {
  return {config_,    model_task(),
          options_,   std::make_shared<const std::vector<ParameterInfo>>(graphtree_params_shape()),
          parallel(), transforms_,
          companions_};
}

void BaseModule::transform(std::shared_ptr<const ModuleTransform> transform) {
  transform->apply(*this);
  transforms_.push_back(std::move(transform));
}

void BaseModule::set_transforms(std::vector<std::shared_ptr<const ModuleTransform>> transforms) {
  transforms_ = std::move(transforms);
}

BaseModule& BaseModule::to_dtype(DType dtype) {
  const at::NoGradGuard no_grad;
  for (const auto& [path, parameter] : named_parameters()) {
    if (parameter->fixed_dtype) continue;
    if (at::isFloatingType(parameter->value().scalar_type())) parameter->bind(parameter->value().detach().to(dtype));
  }
  options_.param_dtype = dtype;
  share_options(options_);
  return *this;
}

BaseModule& BaseModule::half(bool change_runtime_dtype) {
  if (change_runtime_dtype) options_.dtype = float16;
  return to_dtype(float16);
}

BaseModule& BaseModule::float_(bool change_runtime_dtype) {
  if (change_runtime_dtype) options_.dtype = float32;
  return to_dtype(float32);
}

void BaseModule::set_companions(std::shared_ptr<const Companions> companions) {
  companions_ = companions ? std::move(companions) : std::make_shared<const Companions>();
}

BaseModule& BaseModule::set_tokenizer(const AutoTokenizer& tokenizer) {
  Companions changed = *companions_;
  changed.tokenizer = tokenizer.files();
  set_companions(std::make_shared<const Companions>(std::move(changed)));
  return *this;
}

// From here on EasyDeL's names for functions of the folders that do the work; those above this one are hooks.

PreparedInputs BaseModule::prepare_inputs_for_call(ModelInputs inputs) const {
  return easydel::prepare_inputs_for_call(*this, std::move(inputs));
}

std::vector<std::string> BaseModule::get_static_arguments() {
  return {"mask_info",     "output_attentions", "output_hidden_states", "output_router_logits",
          "output_logits", "loss_config"};
}

std::pair<ModelOutput, LossMetrics> BaseModule::compute_loss(const ModelInputs& batch, const LossConfig& config,
                                                             const Json& loss_kwargs) const {
  return easydel::compute_loss(*this, batch, config, loss_kwargs);
}
std::pair<at::Tensor, LossMetrics> BaseModule::compute_loss(const at::Tensor& labels, const at::Tensor& logits,
                                                            const LossConfig& config, const Json& loss_kwargs) const {
  return easydel::compute_loss(*this, labels, logits, config, loss_kwargs);
}
double BaseModule::flops_per_token(int64_t, int64_t sequence_length) const {
  return easydel::flops_per_token(*this, sequence_length);
}
double BaseModule::flop(int64_t batch_size, int64_t sequence_length) const {
  return flops_per_token(batch_size, sequence_length) * static_cast<double>(batch_size * sequence_length);
}

GraphOther BaseModule::graphother() const { return easydel::graphother(*this); }
std::pair<GraphDef, GraphState> BaseModule::split_module() const { return easydel::split_module(*this); }
std::tuple<GraphDef, GraphState, GraphOther> BaseModule::split_module_parts() const {
  return {graphdef(), graphstate(), graphother()};
}
std::shared_ptr<BaseModule> BaseModule::merge_module(const GraphDef& graphdef, const GraphState& state,
                                                     const GraphOther& other) {
  return easydel::merge_module(graphdef, state, other);
}
void BaseModule::merge_params(const GraphState& params) { easydel::merge_params(*this, params); }
State BaseModule::to_state() const { return State::create({.model = this}); }
State BaseModule::to_state(const std::shared_ptr<const optim::Transformation>& tx) const {
  return State::create({.model = this, .tx = tx, .init_opt_state = tx != nullptr});
}

BaseModule& BaseModule::shard_model(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh) {
  return easydel::shard_model(*this, rules, mesh), *this;
}
BaseModule& BaseModule::gather_model() { return easydel::fully_gather(*this), *this; }
BaseModule& BaseModule::fully_gather(const std::optional<Mesh>& mesh) {
  return easydel::fully_gather(*this, mesh), *this;
}
BaseModule& BaseModule::fully_shard(const std::optional<Mesh>& mesh) {
  return easydel::fully_shard(*this, mesh), *this;
}
Specs BaseModule::specs_sharding(const std::optional<PartitionRules>& rules) const {
  return easydel::specs_sharding(*this, rules);
}
NamedShardings BaseModule::named_shardings(const std::optional<PartitionRules>& rules,
                                           const std::optional<Mesh>& mesh) const {
  return easydel::named_shardings(*this, rules, mesh);
}
NamedShardings BaseModule::params_sharding() const { return easydel::params_sharding(*this); }
ShardFns BaseModule::shard_fns(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh) const {
  return sharding_fns(*this, rules, mesh, /*is_gather=*/false);
}
ShardFns BaseModule::gather_fns(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh) const {
  return sharding_fns(*this, rules, mesh, /*is_gather=*/true);
}
TensorMap BaseModule::apply_sharding_fns(const TensorMap& tree, const std::optional<PartitionRules>& rules,
                                         const std::optional<Mesh>& mesh, bool is_gather) const {
  return easydel::apply_sharding_fns(*this, tree, rules, mesh, is_gather);
}

TensorMap BaseModule::to_torch() const { return easydel::to_torch(*this); }
GraphState BaseModule::transform_fn(const TensorMap& torch_state_dict) const {
  return easydel::transform_fn(*this, torch_state_dict);
}
void BaseModule::save_pretrained(const std::filesystem::path& directory, const SaveOptions& options) const {
  easydel::save_pretrained(*this, directory, options);
}
std::string BaseModule::push_to_hub(const std::string& repo_id) const { return push_to_hub(repo_id, PushOptions()); }
std::string BaseModule::push_to_hub(const std::string& repo_id, const PushOptions& options,
                                    const SaveOptions& save) const {
  return easydel::push_to_hub(*this, repo_id, options, save);
}

TransformerMetadata BaseModule::create_cache_metadata(int64_t batch_size, int64_t max_length,
                                                      std::optional<int64_t> pad_token_id) const {
  return easydel::create_cache_metadata(*this, batch_size, max_length, pad_token_id);
}
std::shared_ptr<TransformerCache> BaseModule::init_cache(int64_t batch_size, int64_t max_length,
                                                         const at::Tensor& starts,
                                                         std::optional<int64_t> pad_token_id) const {
  return easydel::init_cache(*this, batch_size, max_length, starts, pad_token_id);
}
RaggedPagesMetadata BaseModule::create_paged_metadata(double hbm_utilization, int64_t page_size,
                                                      int64_t max_model_length) const {
  return easydel::create_paged_metadata(*this, hbm_utilization, page_size, max_model_length);
}
std::shared_ptr<RaggedPagesCache> BaseModule::init_ragged_pages(const RaggedPagesMetadata& metadata) const {
  return std::make_shared<RaggedPagesCache>(metadata);
}
std::shared_ptr<RaggedPagesCache> BaseModule::init_ragged_pages(int64_t page_size, double hbm_utilization,
                                                                int64_t max_model_length) const {
  return init_ragged_pages(create_paged_metadata(hbm_utilization, page_size, max_model_length));
}
std::shared_ptr<Cache> BaseModule::init_operations_cache(const OperationsCacheOptions& options) const {
  return easydel::init_operations_cache(*this, options);
}

BaseModule& BaseModule::set_generation_config(const GenerationConfig& config) {
  return require_hook(hooks().set_generation_config, "set_generation_config")(*this, config), *this;
}
ModelInputs BaseModule::prepare_inputs_for_generation(const at::Tensor& input_ids, int64_t max_length,
                                                      std::optional<int64_t> pad_token_id, const at::Tensor& starts,
                                                      const at::Tensor& attention_mask,
                                                      const at::Tensor& token_type_ids,
                                                      const std::optional<MaskInfo>& mask_info) const {
  return require_hook(hooks().prepare_inputs_for_generation, "prepare_inputs_for_generation")(
      *this, input_ids, max_length, pad_token_id, starts, attention_mask, token_type_ids, mask_info);
}
void BaseModule::update_inputs_for_generation(const ModelOutput& model_outputs, ModelInputs& model_kwargs,
                                              const at::Tensor& next_tokens) const {
  require_hook(hooks().update_inputs_for_generation, "update_inputs_for_generation")(model_outputs, model_kwargs,
                                                                                     next_tokens);
}

BaseModule& BaseModule::quantize() { return require_hook(hooks().quantize, "quantize")(*this, nullptr), *this; }
BaseModule& BaseModule::quantize(const QuantizeOptions& options) {
  return require_hook(hooks().quantize, "quantize")(*this, &options), *this;
}
bool BaseModule::is_quantized() const { return require_hook(hooks().is_quantized, "is_quantized")(*this); }

BaseModule& BaseModule::apply_lora_to_layers(int64_t lora_rank, double lora_alpha, const std::string& lora_pattern) {
  return require_hook(hooks().apply_lora, "apply_lora")(*this, lora_rank, lora_alpha, lora_pattern, nullptr), *this;
}
BaseModule& BaseModule::apply_lora_to_layers(int64_t lora_rank, double lora_alpha, const std::string& lora_pattern,
                                             const LoraOptions& options) {
  return require_hook(hooks().apply_lora, "apply_lora")(*this, lora_rank, lora_alpha, lora_pattern, &options), *this;
}
bool BaseModule::lora_is_enabled() const { return require_hook(hooks().lora_is_enabled, "lora_is_enabled")(*this); }
std::pair<GraphState, GraphState> BaseModule::split_lora_params() const {
  return require_hook(hooks().split_lora_params, "split_lora_params")(*this);
}
BaseModule& BaseModule::merge_lora_params() { return require_hook(hooks().merge_lora, "merge_lora")(*this), *this; }
BaseModule& BaseModule::merge_lora_params(const GraphState& lora_params) {
  return require_hook(hooks().merge_lora_params, "merge_lora_params")(*this, lora_params), *this;
}
BaseModule& BaseModule::unwrap_lora_to_layers(bool verbose) {
  return require_hook(hooks().unwrap_lora, "unwrap_lora")(*this, verbose), *this;
}

}  // namespace easydel
