// A whole model: what it computes is the family's forward; what one can do with it is here.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/caching/transformer_cache.h"
#include "easydel/infra/base_config.h"
#include "easydel/infra/graph.h"
#include "easydel/infra/model_io.h"
#include "easydel/layers/module.h"
#include "easydel/sharding/named_sharding.h"

namespace easydel {

class BaseModule;
struct Companions;        // infra/companions.h
class AutoTokenizer;      // tokenizers/auto_tokenizer.h
struct PushOptions;       // io/hub_push.h
struct GenerationConfig;  // generation/generation_config.h
struct GenerateOptions;   // generation/generate.h
struct GenerateOutput;
class State;             // infra/state.h
struct QuantizeOptions;  // quantization/quantize.h
struct LoraOptions;      // lora/lora.h
namespace optim {
class Transformation;  // optim/transformation.h
}

using Specs = std::map<std::string, PartitionSpec>;
using NamedShardings = std::map<std::string, NamedSharding>;
using ShardFns = std::map<std::string, std::function<at::Tensor(const at::Tensor&)>>;

struct OperationsCacheOptions {
  int64_t batch_size = 1;
  int64_t max_length = 0;
  at::Tensor starts = {};  // [batch_size]: the first slot of each row that is no padding
  std::optional<int64_t> page_size = {};
  double hbm_utilization = 0.9;
};

struct SaveOptions {
  std::string max_shard_size = "5GB";
  std::optional<DType> float_dtype = {};  // floats are cast to it on the way
  bool mismatch_allowed = true;           // false: a parameter that is not in dtype param_dtype is an error
  std::optional<int64_t> step = {};       // written into a directory "run-<step>" under the given one
  bool verbose = true;                    // a progress bar
  bool push_to_hub = false;               // what was written goes to the hub, too
  std::string repo_id = {};               // of the repository there; empty: the name of the directory
  std::optional<std::string> token = {};  // for it; absent: the environment's
};

// A function of parameters and inputs alone; also the conversion of a torch state dict to parameters.
class PureTransform {
 public:
  explicit PureTransform(const BaseModule& module);
  ModelOutput operator()(const GraphState& params, const ModelInputs& inputs) const;
  GraphState operator()(const TensorMap& torch_state_dict) const;

 private:
  GraphDef graphdef_;
  GraphOther graphother_;
};

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
  // The child under which a head keeps its base model: "model", "transformer". Empty for a base model.
  virtual std::string base_model_prefix() const { return ""; }
  std::string get_torch_loader() const { return torch_loader_name(model_task()); }

  // Checks the inputs, then runs forward. With labels there is a loss.
  ModelOutput operator()(const ModelInputs& inputs) const;
  virtual ModelOutput forward(const ModelInputs& inputs) const = 0;
  // Fills in what follows from the rest: positions, the mask.
  ModelInputs prepare_inputs_for_call(ModelInputs inputs) const;
  // What a task needs to know of the whole batch, before a rank takes its part: the next label may lie on another.
  virtual void prepare_whole(ModelInputs&) const {}
  // Inputs whose change means another computation, not other numbers; a captured graph holds for one value of each.
  static std::vector<std::string> get_static_arguments();

  // From a batch with labels; from labels and logits.
  std::pair<ModelOutput, LossMetrics> compute_loss(const ModelInputs& batch, const LossConfig& config = {},
                                                   const Json& loss_kwargs = {}) const;
  std::pair<at::Tensor, LossMetrics> compute_loss(const at::Tensor& labels, const at::Tensor& logits,
                                                  const LossConfig& config = {}, const Json& loss_kwargs = {}) const;

  // Allocates every parameter that is still on the meta device and draws it from (rngs, path).
  void initialize(const ModuleOptions& options);
  // Sets dtypes and leaves the parameters on the meta device.
  void set_options(const ModuleOptions& options);
  bool is_lazy() const;

  TensorMap params() const;
  std::vector<ParameterInfo> graphtree_params_shape() const;
  int64_t num_params() const;

  GraphDef graphdef() const;
  GraphState graphstate() const { return params(); }
  GraphOther graphother() const;
  // The definition and everything: parameters and buffers in one map.
  std::pair<GraphDef, GraphState> split_module() const;
  // The definition, the parameters, and the rest.
  std::tuple<GraphDef, GraphState, GraphOther> split_module_parts() const;
  // Builds the lazy module and binds the tensors; no data is copied. ConfigError lists paths that are missing or too
  // many; ShapeError names a tensor that does not fit.
  static std::shared_ptr<BaseModule> merge_module(const GraphDef& graphdef, const GraphState& state,
                                                  const GraphOther& other = {});
  // The state of a training run that begins with these parameters, which it shares; include infra/state.h. Without a
  // transformation there is no optimizer state yet.
  State to_state() const;
  State to_state(const std::shared_ptr<const optim::Transformation>& tx) const;
  GraphState split_params() const { return params(); }
  TensorMap split_params_dict() const { return params(); }
  // Binds these tensors in place of the parameters of the same paths. All or nothing.
  void merge_params(const GraphState& params);
  void merge_params_dict(const TensorMap& params) { merge_params(params); }

  // On a mesh. All ranks call these together. Storage follows the rule exactly; sizes that do not divide are stored
  // unevenly. A parameter that no rule matches is a ConfigError with its name. Without rules the config's, without a
  // mesh the config's over all ranks.
  BaseModule& shard_model(const std::optional<PartitionRules>& partition_rules = {},
                          const std::optional<Mesh>& mesh = {});
  BaseModule& gather_model();  // every rank stores every parameter whole; the work stays dealt over the mesh
  // Every parameter over all devices of the mesh, along its largest dimension.
  BaseModule& fully_shard(const std::optional<Mesh>& mesh = {});
  BaseModule& fully_gather(const std::optional<Mesh>& mesh = {});
  PartitionRules partition_rules() const { return config_->get_partition_rules(); }
  Specs specs_sharding(const std::optional<PartitionRules>& partition_rules = {}) const;
  NamedShardings named_shardings(const std::optional<PartitionRules>& partition_rules = {},
                                 const std::optional<Mesh>& mesh = {}) const;
  NamedShardings params_sharding() const;  // as the parameters lie now
  // From a whole tensor to this rank's part, and back; by path.
  ShardFns shard_fns(const std::optional<PartitionRules>& partition_rules = {},
                     const std::optional<Mesh>& mesh = {}) const;
  ShardFns gather_fns(const std::optional<PartitionRules>& partition_rules = {},
                      const std::optional<Mesh>& mesh = {}) const;
  // These functions applied to the tensors of these paths.
  TensorMap apply_sharding_fns(const TensorMap& tree, const std::optional<PartitionRules>& partition_rules = {},
                               const std::optional<Mesh>& mesh = {}, bool is_gather = false) const;
  // The same on given ranks, which may be planned ones: parameters that have no memory yet need none.
  void place_parameters(const std::optional<PartitionRules>& partition_rules, std::shared_ptr<World> world,
                        const std::optional<Mesh>& mesh = {});
  void place_like(const GraphDef& graphdef);

  // Changes the tree, and remembers it for models that are built from the graphdef.
  void transform(std::shared_ptr<const ModuleTransform> transform);
  const std::vector<std::shared_ptr<const ModuleTransform>>& transforms() const { return transforms_; }
  void set_transforms(std::vector<std::shared_ptr<const ModuleTransform>> transforms);  // when some were undone

  // Weights as codes and scales; include quantization/quantize.h. Without options: 8bit.
  BaseModule& quantize();
  BaseModule& quantize(const QuantizeOptions& options);
  bool is_quantized() const;

  // Low-rank adapters on the layers whose path the pattern finds; include lora/lora.h. From then on they alone train.
  BaseModule& apply_lora_to_layers(int64_t lora_rank, double lora_alpha, const std::string& lora_pattern);
  BaseModule& apply_lora_to_layers(int64_t lora_rank, double lora_alpha, const std::string& lora_pattern,
                                   const LoraOptions& options);
  bool lora_is_enabled() const;
  std::pair<GraphState, GraphState> split_lora_params() const;   // the base's, the adapters'
  BaseModule& merge_lora_params(const GraphState& lora_params);  // puts these back, which split_lora_params gave
  BaseModule& merge_lora_params();                               // adds the active adapters to the weights
  // Merges what is not merged, and takes the adapters off for good; verbose says how many layers there were.
  BaseModule& unwrap_lora_to_layers(bool verbose = false);

  // Casts the parameters; with change_runtime_dtype the computation too.
  BaseModule& to_dtype(DType dtype);
  BaseModule& half(bool change_runtime_dtype = true);
  BaseModule& float_(bool change_runtime_dtype = true);

  // The state dict that the transformers class of get_torch_loader() takes, tied weights under both names.
  TensorMap to_torch() const;
  // A torch state dict, in the spelling of files or of transformers' memory, as parameters of this model.
  GraphState transform_fn(const TensorMap& torch_state_dict) const;
  PureTransform pure_transform_fn() const { return PureTransform(*this); }
  // What transformers calls a parameter in memory; most families keep the file's names.
  virtual std::string torch_path(const std::string& path) const { return path; }

  // What stands beside the weights in files: from_pretrained reads it, generate uses it, save_pretrained writes it.
  const Companions& companions() const { return *companions_; }
  void set_companions(std::shared_ptr<const Companions> companions);
  // generation_config.json, or what the model's config has of the same; include generation/generation_config.h.
  GenerationConfig generation_config() const;
  BaseModule& set_generation_config(const GenerationConfig& config);
  BaseModule& set_tokenizer(const AutoTokenizer& tokenizer);  // its files; include tokenizers/auto_tokenizer.h

  // Hugging Face's files: config.json, safetensors, generation_config.json and the tokenizer's. On a mesh all ranks
  // call it, and rank 0 writes.
  void save_pretrained(const std::filesystem::path& directory, const SaveOptions& options = {}) const;
  // The same files from parameters that the caller has whole, by path.
  void write_files(const std::filesystem::path& directory, const SaveOptions& options,
                   const std::function<at::Tensor(const std::string& path)>& whole) const;
  // What save_pretrained writes, as one commit. Returns the address of the repository, or of the pull request.
  std::string push_to_hub(const std::string& repo_id) const;
  std::string push_to_hub(const std::string& repo_id, const PushOptions& options, const SaveOptions& save = {}) const;

  // Sequences of tokens from prompts [B, T], padded on the left, as generation_config() says where the options do not;
  // include generation/generate.h.
  GenerateOutput generate(const at::Tensor& input_ids) const;
  GenerateOutput generate(const at::Tensor& input_ids, const GenerateOptions& options) const;
  // The inputs of the first step, with a cache for max_length tokens, and, from what it gave, those of the next.
  // starts [B] says where rows begin, as attention_mask [B, T] does. mask_info replaces the mask of the first step.
  ModelInputs prepare_inputs_for_generation(const at::Tensor& input_ids, int64_t max_length,
                                            std::optional<int64_t> pad_token_id = {}, const at::Tensor& starts = {},
                                            const at::Tensor& attention_mask = {},
                                            const at::Tensor& token_type_ids = {},
                                            const std::optional<MaskInfo>& mask_info = {}) const;
  void update_inputs_for_generation(const ModelOutput& model_outputs, ModelInputs& model_kwargs,
                                    const at::Tensor& next_tokens) const;

  // Caches for this model, on its device and mesh. Sizes are those of the whole batch; on a mesh a rank keeps its rows,
  // its heads, and its share of a sequence that is split.
  TransformerMetadata create_cache_metadata(int64_t batch_size, int64_t max_length,
                                            std::optional<int64_t> pad_token_id = {}) const;
  std::shared_ptr<TransformerCache> init_cache(int64_t batch_size, int64_t max_length, const at::Tensor& starts = {},
                                               std::optional<int64_t> pad_token_id = {}) const;
  // As many pages as this share of the free memory holds.
  RaggedPagesMetadata create_paged_metadata(double hbm_utilization, int64_t page_size, int64_t max_model_length) const;
  std::shared_ptr<RaggedPagesCache> init_ragged_pages(const RaggedPagesMetadata& metadata) const;
  std::shared_ptr<RaggedPagesCache> init_ragged_pages(int64_t page_size, double hbm_utilization,
                                                      int64_t max_model_length) const;
  // Pages where a page size is given, else a dense cache.
  std::shared_ptr<Cache> init_operations_cache(const OperationsCacheOptions& options) const;

  // Floating point operations of forward for one token of a sequence of that length, on average.
  double flops_per_token(int64_t batch_size = 1, int64_t sequence_length = 1) const;
  double flop(int64_t batch_size, int64_t sequence_length) const;  // of the whole batch

 protected:
  explicit BaseModule(const BaseConfig& config);

 private:
  std::shared_ptr<const Parallel> parallel_on(const std::optional<Mesh>& mesh, std::shared_ptr<World> world = {}) const;
  void place(const std::function<PartitionSpec(const NamedParameter&)>& spec,
             const std::shared_ptr<const Parallel>& parallel);
  int64_t largest_layer_bytes() const;
  ShardFns sharding_fns(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh,
                        bool is_gather) const;
  ModelOutput gather_outputs(ModelOutput out, const BatchPart& part, const ModelInputs& given) const;
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
