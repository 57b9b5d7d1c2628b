// A whole model, and EasyDeL's names for what one can do with it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "easydel/infra/config/base_config.h"
#include "easydel/infra/files/model_io.h"
#include "easydel/infra/files/save_pretrained.h"
#include "easydel/infra/hooks.h"
#include "easydel/infra/init_cache.h"
#include "easydel/infra/parallel/shard_model.h"
#include "easydel/infra/state/split_merge.h"
#include "easydel/layers/module.h"

namespace easydel {

struct Companions;        // infra/files/companions.h
class AutoTokenizer;      // tokenizers/auto_tokenizer.h
struct GenerationConfig;  // generation/generation_config.h
struct GenerateOptions;   // generation/generate.h
struct GenerateOutput;
class State;             // infra/state/state.h
struct QuantizeOptions;  // quantization/quantize.h
struct LoraOptions;      // lora/lora.h
namespace optim {
class Transformation;  // optim/transformation.h
}

// What a model computes is the family's forward. The methods that do more than keep its state carry EasyDeL's names and
// forward to functions of the same names, which are described where they are declared.
class BaseModule : public Module {
 public:
  const BaseConfig& config() const { return *config_; }
  std::string model_type() const { return std::string(config_->model_type()); }
  virtual TaskType model_task() const { return TaskType::BaseModule; }
  Mesh mesh() const;  // the one that it was put on, else the config's
  DType param_dtype() const { return options_.param_dtype; }
  DType module_dtype() const;  // of the parameters as they are stored now
  Precision precision() const { return options_.precision; }
  const ModuleOptions& options() const { return options_; }
  virtual bool can_generate() const { return false; }
  // The input that a call cannot do without: input_ids (or inputs_embeds), pixel_values, input_features.
  virtual std::string main_input_name() const { return "input_ids"; }
  // Those inputs beyond a text decoder's (the second half of ModelInputs) that this model takes; the others are
  // refused.
  virtual std::vector<std::string> extra_inputs() const { return {}; }
  // The child under which a head keeps its base model: "model", "transformer". Empty for a base model.
  virtual std::string base_model_prefix() const { return ""; }
  // What transformers calls a parameter in memory; most families keep the file's names.
  virtual std::string torch_path(const std::string& path) const { return path; }
  std::string get_torch_loader() const { return torch_loader_name(model_task()); }

  // Checks and prepares the inputs, then runs forward. With labels there is a loss.
  ModelOutput operator()(const ModelInputs& inputs) const;
  ModelOutput operator()(const PreparedInputs&) const = delete;  // on a mesh they are a part already
  virtual ModelOutput forward(const PreparedInputs& inputs) const = 0;
  // The encoder alone, of a model that has one: its last hidden state is the encoder_outputs of later calls.
  virtual ModelOutput encode(const PreparedInputs& inputs) const;
  // What a task needs to know of the whole batch, before a rank takes its part: the next label may lie on another.
  virtual void prepare_whole(PreparedInputs&) const {}

  // Allocates every parameter that is still on the meta device and draws it from (rngs, path).
  void initialize(const ModuleOptions& options);
  // Sets dtypes and leaves the parameters on the meta device.
  void set_options(const ModuleOptions& options);
  bool is_lazy() const;
  // Casts the parameters; with change_runtime_dtype the computation too.
  BaseModule& to_dtype(DType dtype);
  BaseModule& half(bool change_runtime_dtype = true);
  BaseModule& float_(bool change_runtime_dtype = true);

  TensorMap params() const;
  std::vector<ParameterInfo> graphtree_params_shape() const;
  int64_t num_params() const;
  GraphDef graphdef() const;

  // Changes the tree, and remembers it for models that are built from the graphdef.
  void transform(std::shared_ptr<const ModuleTransform> transform);
  const std::vector<std::shared_ptr<const ModuleTransform>>& transforms() const { return transforms_; }
  void set_transforms(std::vector<std::shared_ptr<const ModuleTransform>> transforms);  // when some were undone

  // What stands beside the weights in files: from_pretrained reads it, generate uses it, save_pretrained writes it.
  const Companions& companions() const { return *companions_; }
  void set_companions(std::shared_ptr<const Companions> companions);
  BaseModule& set_tokenizer(const AutoTokenizer& tokenizer);  // its files; include tokenizers/auto_tokenizer.h

  // Inputs and losses: infra/prepare_inputs.h, infra/loss.h, infra/flops.h.
  PreparedInputs prepare_inputs_for_call(ModelInputs inputs) const;
  // Inputs whose change means another computation, not other numbers; a captured graph holds for one value of each.
  static std::vector<std::string> get_static_arguments();
  std::pair<ModelOutput, LossMetrics> compute_loss(const ModelInputs& batch, const LossConfig& config = {},
                                                   const Json& loss_kwargs = {}) const;
  std::pair<at::Tensor, LossMetrics> compute_loss(const at::Tensor& labels, const at::Tensor& logits,
                                                  const LossConfig& config = {}, const Json& loss_kwargs = {}) const;
  double flops_per_token(int64_t batch_size = 1, int64_t sequence_length = 1) const;
  double flop(int64_t batch_size, int64_t sequence_length) const;  // of the whole batch

  // Split and merge: infra/state/split_merge.h, infra/state/state.h.
  GraphState graphstate() const { return params(); }
  GraphOther graphother() const;
  std::pair<GraphDef, GraphState> split_module() const;
  // The definition, the parameters, and the rest.
  std::tuple<GraphDef, GraphState, GraphOther> split_module_parts() const;
  static std::shared_ptr<BaseModule> merge_module(const GraphDef& graphdef, const GraphState& state,
                                                  const GraphOther& other = {});
  GraphState split_params() const { return params(); }
  TensorMap split_params_dict() const { return params(); }
  void merge_params(const GraphState& params);
  void merge_params_dict(const TensorMap& params) { merge_params(params); }
  PureTransform pure_transform_fn() const { return PureTransform(*this); }
  // The state of a training run that begins with these parameters, which it shares; include infra/state/state.h.
  // Without a transformation there is no optimizer state yet.
  State to_state() const;
  State to_state(const std::shared_ptr<const optim::Transformation>& tx) const;

  // On a mesh: infra/parallel/shard_model.h. All ranks call these together.
  BaseModule& shard_model(const std::optional<PartitionRules>& partition_rules = {},
                          const std::optional<Mesh>& mesh = {});
  BaseModule& gather_model();
  BaseModule& fully_shard(const std::optional<Mesh>& mesh = {});
  BaseModule& fully_gather(const std::optional<Mesh>& mesh = {});
  PartitionRules partition_rules() const { return config_->get_partition_rules(); }
  Specs specs_sharding(const std::optional<PartitionRules>& partition_rules = {}) const;
  NamedShardings named_shardings(const std::optional<PartitionRules>& partition_rules = {},
                                 const std::optional<Mesh>& mesh = {}) const;
  NamedShardings params_sharding() const;
  ShardFns shard_fns(const std::optional<PartitionRules>& partition_rules = {},
                     const std::optional<Mesh>& mesh = {}) const;
  ShardFns gather_fns(const std::optional<PartitionRules>& partition_rules = {},
                      const std::optional<Mesh>& mesh = {}) const;
  TensorMap apply_sharding_fns(const TensorMap& tree, const std::optional<PartitionRules>& partition_rules = {},
                               const std::optional<Mesh>& mesh = {}, bool is_gather = false) const;

  // Files: infra/files/save_pretrained.h, infra/files/torch_state.h.
  void save_pretrained(const std::filesystem::path& directory, const SaveOptions& options = {}) const;
  std::string push_to_hub(const std::string& repo_id) const;
  std::string push_to_hub(const std::string& repo_id, const PushOptions& options, const SaveOptions& save = {}) const;
  TensorMap to_torch() const;
  GraphState transform_fn(const TensorMap& torch_state_dict) const;

  // Caches: infra/init_cache.h.
  TransformerMetadata create_cache_metadata(int64_t batch_size, int64_t max_length,
                                            std::optional<int64_t> pad_token_id = {}) const;
  std::shared_ptr<TransformerCache> init_cache(int64_t batch_size, int64_t max_length, const at::Tensor& starts = {},
                                               std::optional<int64_t> pad_token_id = {}) const;
  RaggedPagesMetadata create_paged_metadata(double hbm_utilization, int64_t page_size, int64_t max_model_length) const;
  std::shared_ptr<RaggedPagesCache> init_ragged_pages(const RaggedPagesMetadata& metadata) const;
  std::shared_ptr<RaggedPagesCache> init_ragged_pages(int64_t page_size, double hbm_utilization,
                                                      int64_t max_model_length) const;
  std::shared_ptr<Cache> init_operations_cache(const OperationsCacheOptions& options) const;

  // Generation: include generation/generate.h. Templates where they return a type that is complete only there.
  template <class Config = GenerationConfig>
  Config generation_config() const {
    Config (*const hook)(const BaseModule&) = require_hook(hooks().generation_config, "generation_config");
    return hook(*this);
  }
  BaseModule& set_generation_config(const GenerationConfig& config);
  template <class Output = GenerateOutput, class Options = GenerateOptions>
  Output generate(const at::Tensor& input_ids) const {
    return generate<Output>(input_ids, Options());
  }
  template <class Output = GenerateOutput>
  Output generate(const at::Tensor& input_ids, const GenerateOptions& options) const {
    using Hook = Output(const BaseModule&, const at::Tensor&, const GenerateOptions&);
    Hook* const hook = require_hook(hooks().generate, "generate");
    return hook(*this, input_ids, options);
  }
  ModelInputs prepare_inputs_for_generation(const at::Tensor& input_ids, int64_t max_length,
                                            std::optional<int64_t> pad_token_id = {}, const at::Tensor& starts = {},
                                            const at::Tensor& attention_mask = {},
                                            const at::Tensor& token_type_ids = {},
                                            const std::optional<MaskInfo>& mask_info = {}) const;
  void update_inputs_for_generation(const ModelOutput& model_outputs, ModelInputs& model_kwargs,
                                    const at::Tensor& next_tokens) const;

  // Quantization: include quantization/quantize.h. Without options: 8bit.
  BaseModule& quantize();
  BaseModule& quantize(const QuantizeOptions& options);
  bool is_quantized() const;

  // Adapters: include lora/lora.h.
  BaseModule& apply_lora_to_layers(int64_t lora_rank, double lora_alpha, const std::string& lora_pattern);
  BaseModule& apply_lora_to_layers(int64_t lora_rank, double lora_alpha, const std::string& lora_pattern,
                                   const LoraOptions& options);
  bool lora_is_enabled() const;
  std::pair<GraphState, GraphState> split_lora_params() const;
  BaseModule& merge_lora_params(const GraphState& lora_params);
  BaseModule& merge_lora_params();
  BaseModule& unwrap_lora_to_layers(bool verbose = false);

 protected:
  explicit BaseModule(const BaseConfig& config);

 private:
  void share_options(const ModuleOptions& options);  // with the base model inside of a head

  std::shared_ptr<const BaseConfig> config_;
  ModuleOptions options_;
  std::vector<std::shared_ptr<const ModuleTransform>> transforms_;
  std::shared_ptr<const Companions> companions_;
};

// The parameters of a module, a line each: path, dtype, shape.
std::string get_module_repr(const Module& module);
// The tree as torch prints it, children below max_depth left out; negative: all of them.
std::string prettify(const Module& module, int max_depth = -1);
void printify(const Module& module);  // to standard output

// A model of a known class: drawn from options.rngs, or without memory.
template <class M>
std::shared_ptr<M> make_model(const typename M::ConfigType& config, const ModuleOptions& options = {}) {
  auto module = std::make_shared<M>(config);
  module->initialize(options);
  return module;
}
template <class M>
std::shared_ptr<M> lazy_init(const typename M::ConfigType& config, const ModuleOptions& options = {}) {
  auto module = std::make_shared<M>(config);
  module->set_options(options);
  return module;
}

}  // namespace easydel
