#include "easydel/trainers/objectives/reference/reference.h"

#include <ATen/ATen.h>

#include <map>

#include "easydel/core/error.h"
#include "easydel/lora/lora.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

std::map<std::string, at::Tensor> values_of(const BaseModule& model) {
  std::map<std::string, at::Tensor> values;
  for (const auto& [path, parameter] : model.named_parameters()) values[path] = parameter->value().detach();
  return values;
}

}  // namespace

WithoutAdapters::WithoutAdapters(BaseModule& model) : model_(model) { disable_adapters(model_); }

WithoutAdapters::~WithoutAdapters() { enable_adapters(model_); }

void require_reference(const BaseModule* reference, const BaseModule& model, const std::string& trainer_type,
                       const std::string& key) {
  if (reference) return require_same_mesh(model, *reference, concat("[", trainer_type, "] the reference"));
  require<ConfigError>(
      !adapter_names(model).empty(), "[", trainer_type, "] ", key.empty() ? "the trainer" : key,
      " needs a reference model, or adapters on the model (lora_rank), whose base it then is.",
      key.empty() ? std::string(" Give reference_model.") : concat(" Without either set ", key, " to 0."));
}

void make_movable(const std::shared_ptr<const BaseModule>& reference, const BaseModule& policy,
                  const std::string& trainer_type) {
  require<ConfigError>(
      adapter_names(policy).empty(), "[", trainer_type,
      "] sync_ref_model must be false where adapters are trained; got true. The reference is the model "
      "without them, which does not change.");
  require<ConfigError>(reference != nullptr, "[", trainer_type,
                       "] sync_ref_model needs a reference model, whose weights it moves. Give reference_model.");
  const std::map<std::string, at::Tensor> theirs = values_of(policy);
  const auto parameters = reference->named_parameters();
  require<ConfigError>(parameters.size() == theirs.size(), "[", trainer_type,
                       "] sync_ref_model needs a reference with the policy's weights; it has ", parameters.size(),
                       ", and the policy ", theirs.size(), ".");
  for (const auto& [path, parameter] : parameters) {
    const auto found = theirs.find(path);
    const at::Tensor& own = parameter->value();
    require<ConfigError>(found != theirs.end() && found->second.sizes() == own.sizes() && own.is_floating_point(), "[",
                         trainer_type, "] sync_ref_model needs a reference with the policy's weights; its \"", path,
                         "\" differs.");
    // A mapped tensor may begin where allocated memory does not, and products then have other last bits than those of a
    // run that resumes.
    parameter->bind(own.detach().clone());
  }
}

void move_reference(const std::shared_ptr<const BaseModule>& reference, const BaseModule& policy, double alpha) {
  const at::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> theirs = values_of(policy);
  for (const auto& [path, parameter] : reference->named_parameters()) {
    at::Tensor own = parameter->value().detach();
    own.mul_(1 - alpha).add_(theirs.at(path).to(own.scalar_type()), alpha);
  }
}

}  // namespace easydel
