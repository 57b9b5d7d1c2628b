// A model by the name of its files: the config says which class it is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/infra/config/config_io.h"
#include "easydel/infra/options/quantize_options.h"
#include "easydel/infra/options/sharding_options.h"

namespace easydel {

// The arguments of EasyDeL's from_pretrained. What this build cannot do yet is refused, never ignored.
struct LoadOptions {
  at::Device device = at::kCPU;
  DType dtype = float32;          // what the model computes in
  DType param_dtype = float32;    // what it stores
  std::string precision = {};     // default, fastest, high, highest: of float32 products
  ShardingOptions sharding = {};  // changes to the config, and whether the weights are split
  std::optional<PartitionRules> partition_rules = {};
  std::map<std::string, std::function<at::Tensor(const at::Tensor&)>> shard_fns = {};  // by path
  bool auto_shard_params = false;                           // the old name of sharding.auto_shard_model
  std::string backend = {};                                 // "cpu", "gpu": the device, when `device` is not set
  std::string platform = {};                                // of kernels; "" and "torch" are the same here
  Json config_kwargs = {};                                  // changes to the config, by key
  std::optional<QuantizeOptions> quantization_config = {};  // weights are packed one by one as they are read
  bool load_in_8bit = false;                                // the same as the method "8bit"
  bool verbose_params = false;                              // says how many parameters there are
  bool from_torch = true;                                   // false: only what save_pretrained wrote, safetensors
  std::string revision = "main";
  std::optional<std::string> token = {};
  RandomKey rngs = RandomKey(0);  // for weights that the files do not have: a fresh head
  bool verbose = true;            // a progress bar
};

// Files of any model that the registry knows, with the head of that task; AutoBind: the one that the files were saved
// with.
std::shared_ptr<BaseModule> load_model(const std::string& name_or_path, TaskType task, const LoadOptions& options = {});
// A class of models that files are read as, and how their config is read.
struct ModelClass {
  std::function<std::unique_ptr<BaseConfig>(const std::string& directory, const ConfigOptions& options)> read_config;
  std::function<std::shared_ptr<BaseModule>(const BaseConfig& config)> make;  // without weights
};
std::shared_ptr<BaseModule> load_model(const std::string& name_or_path, const ModelClass& model_class,
                                       const LoadOptions& options = {});
// Random weights.
std::shared_ptr<BaseModule> init_model(const BaseConfig& config, TaskType task, const ModuleOptions& options = {});

template <TaskType Task>
struct AutoModelFor {
  static std::shared_ptr<BaseModule> from_pretrained(const std::string& name_or_path, const LoadOptions& options = {}) {
    return load_model(name_or_path, Task, options);
  }
  static std::shared_ptr<BaseModule> from_config(const BaseConfig& config, const ModuleOptions& options = {}) {
    return init_model(config, Task, options);
  }
};

// config.json of a directory for a class of models that takes one model_type; ConfigError when it has another.
ConfigFile read_config_of(const std::string& class_name, std::string_view model_type, const std::string& directory,
                          const ConfigOptions& options);

// from_pretrained of one class: class MyModel : public BaseModule, public Pretrained<MyModel> { … };
template <class M>
struct Pretrained {
  static std::shared_ptr<M> from_pretrained(const std::string& name_or_path, const LoadOptions& options = {}) {
    using C = typename M::ConfigType;
    const ModelClass one{
        .read_config = [](const std::string& directory, const ConfigOptions& changes) -> std::unique_ptr<BaseConfig> {
          const ConfigFile file = read_config_of(short_type_name(typeid(M)), C::kModelType, directory, changes);
          return std::make_unique<C>(C::from_dict(file.json, changes, file.path));
        },
        .make = [](const BaseConfig& config) { return std::make_shared<M>(dynamic_cast<const C&>(config)); }};
    return std::static_pointer_cast<M>(load_model(name_or_path, one, options));
  }
};

using AutoModel = AutoModelFor<TaskType::BaseModule>;
using AutoModelForCausalLM = AutoModelFor<TaskType::CausalLM>;
using AutoModelForSequenceClassification = AutoModelFor<TaskType::SequenceClassification>;
using AutoModelForSeq2SeqLM = AutoModelFor<TaskType::SequenceToSequence>;
using AutoModelForSpeechSeq2Seq = AutoModelFor<TaskType::SpeechSequenceToSequence>;
using AutoModelForMaskedLM = AutoModelFor<TaskType::MaskedLM>;
using AutoModelForTokenClassification = AutoModelFor<TaskType::TokenClassification>;
using AutoModelForQuestionAnswering = AutoModelFor<TaskType::QuestionAnswering>;
using AutoModelForEmbedding = AutoModelFor<TaskType::Embedding>;
using AutoVisionModel = AutoModelFor<TaskType::VisionModule>;
using AutoModelForImageClassification = AutoModelFor<TaskType::ImageClassification>;
using AutoModelForZeroShotImageClassification = AutoModelFor<TaskType::ZeroShotImageClassification>;
using AutoModelForImageTextToText = AutoModelFor<TaskType::ImageTextToText>;
using AutoModelForAudioClassification = AutoModelFor<TaskType::AudioClassification>;
using AutoModelForAnyTask = AutoModelFor<TaskType::AutoBind>;

}  // namespace easydel
