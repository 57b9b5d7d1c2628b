// What BaseModule, loading and the registry hand on to folders above this one. easydel/wiring.cpp sets all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace at {
class Tensor;
}

namespace easydel {

class BaseModule;
class FileTransform;
class Registry;
class TensorMap;
class TensorSource;
struct GenerateOptions;
struct GenerateOutput;
struct GenerationConfig;
struct LoadOptions;
struct LoraOptions;
struct MaskInfo;
struct ModelInputs;
struct ModelOutput;
struct QuantizeOptions;

// Plain pointers, so that they can be set before any static object is constructed. For options null means the defaults.
struct Hooks {
  // generation/generate.h, generation/inputs.h
  GenerateOutput (*generate)(const BaseModule& model, const at::Tensor& input_ids,
                             const GenerateOptions& options) = nullptr;
  GenerationConfig (*generation_config)(const BaseModule& model) = nullptr;
  void (*set_generation_config)(BaseModule& model, const GenerationConfig& config) = nullptr;
  ModelInputs (*prepare_inputs_for_generation)(const BaseModule& model, const at::Tensor& input_ids, int64_t max_length,
                                               std::optional<int64_t> pad_token_id, const at::Tensor& starts,
                                               const at::Tensor& attention_mask, const at::Tensor& token_type_ids,
                                               const std::optional<MaskInfo>& mask_info) = nullptr;
  void (*update_inputs_for_generation)(const ModelOutput& output, ModelInputs& inputs,
                                       const at::Tensor& next_tokens) = nullptr;
  // quantization/quantize.h, quantization/pack.h
  void (*quantize)(BaseModule& model, const QuantizeOptions* options) = nullptr;
  bool (*is_quantized)(const BaseModule& model) = nullptr;
  std::shared_ptr<const FileTransform> (*packing_at_load)(const BaseModule& model, const LoadOptions& options,
                                                          const std::shared_ptr<const TensorSource>& files) = nullptr;
  // lora/lora.h
  void (*apply_lora)(BaseModule& model, int64_t lora_rank, double lora_alpha, const std::string& lora_pattern,
                     const LoraOptions* options) = nullptr;
  bool (*lora_is_enabled)(const BaseModule& model) = nullptr;
  std::pair<TensorMap, TensorMap> (*split_lora_params)(const BaseModule& model) = nullptr;
  void (*merge_lora)(BaseModule& model) = nullptr;
  void (*merge_lora_params)(BaseModule& model, const TensorMap& lora_params) = nullptr;
  void (*unwrap_lora)(BaseModule& model, bool verbose) = nullptr;
  // models/register_models.h
  void (*register_models)(Registry& registry) = nullptr;
};

const Hooks& hooks();
void set_hooks(const Hooks& hooks);  // not while another thread uses them

[[noreturn]] void fail_unset_hook(const char* name);

// The hook, to be called: require_hook(hooks().generate, "generate")(model, …). Error when it is not set.
template <class Hook>
Hook* require_hook(Hook* hook, const char* name) {
  if (!hook) fail_unset_hook(name);
  return hook;
}

}  // namespace easydel
