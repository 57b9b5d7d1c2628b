#include "easydel/quantization/writers/write_model.h"

#include <ATen/ATen.h>

#include <set>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/quoted.h"
#include "easydel/infra/files/companions.h"
#include "easydel/infra/files/weights.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/quantization/pack.h"

namespace easydel::quantization {
namespace {

// The parameters of these layers, and the layers that stay as they are.
struct Chosen {
  std::set<std::string> parameters;
  std::vector<std::string> dense;
};

Chosen choose(const BaseModule& model, const std::vector<std::string>& layers) {
  const std::set<std::string> wanted(layers.begin(), layers.end());
  Chosen chosen;
  for (const auto& [path, child] : model.named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(child);
    require<NotSupportedError>(!wanted.contains(path) || (linear && !linear->options().transposed), "[quantize] ",
                               quoted(path),
                               " is not a linear layer that this format can hold. Leave it out with --pattern.");
    if (!linear) continue;
    if (wanted.contains(path))
      chosen.parameters.insert(path + ".weight");
    else
      chosen.dense.push_back(path);
  }
  for (const ExpertStack& stack : expert_stacks(model)) {
    if (!wanted.contains(stack.path)) continue;
    require<NotSupportedError>(!stack.experts->transposed(), "[quantize] ", quoted(stack.path),
                               " is stacked in files, which this format cannot hold. Leave it out with --pattern.");
    chosen.parameters.insert(stack.path);
  }
  return chosen;
}

}  // namespace

void write_packed_model(const BaseModule& model, const std::vector<std::string>& layers, const WrittenFormat& format,
                        const Hessians& hessians, const std::filesystem::path& directory) {
  const at::NoGradGuard no_grad;
  const Chosen chosen = choose(model, layers);
  NamedTensors tensors;
  std::map<std::string, std::shared_ptr<Parameter>> parameters;
  for (const auto& [path, parameter] : model.named_parameters()) parameters.emplace(path, parameter);
  for (const SavedTensor& saved : saved_tensors(model)) {
    const at::Tensor value = cut(parameters.at(saved.path)->value(), saved.piece);
    if (!chosen.parameters.contains(saved.path) || value.dim() != 2) {
      tensors.emplace_back(saved.info.name, value);
      continue;
    }
    const std::string& name = saved.info.name;
    const auto hessian = hessians.find(saved.path.substr(0, saved.path.rfind('.')));
    for (auto& [suffix, tensor] : format.pack(value.to(at::kCPU, at::kFloat).contiguous(), value.scalar_type(),
                                              hessian == hessians.end() ? at::Tensor() : hessian->second))
      tensors.emplace_back(name.substr(0, name.size() - std::string_view("weight").size()) + suffix,
                           tensor.contiguous());
  }
  make_directory(directory);
  const std::unique_ptr<BaseConfig> config = model.config().clone();
  config->quantization.weights = format.config(chosen.dense);
  config->architectures = {model.type_name()};
  config->dtype = model.module_dtype();
  save_checkpoint(directory, tensors);
  config->save_pretrained(directory);
  model.companions().write(directory);
}

}  // namespace easydel::quantization
