#include "easydel/quantization/quantize.h"

#include <algorithm>
#include <regex>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/text/bytes.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/quantization/pack.h"

namespace easydel {
namespace {

bool is_head(const std::string& path) {
  const std::string name = path.substr(path.rfind('.') + 1);
  return name == "lm_head" || name == "score";
}

// Which kinds of layers are meant.
struct Kinds {
  bool linear = true, table = false;
};

Kinds kinds_of(const QuantizeOptions& options) {
  if (options.bit_targeted_params.empty()) return {true, !options.pattern.empty()};
  Kinds kinds{false, false};
  for (const std::string& word : options.bit_targeted_params) {
    if (word == "kernel" || word == "weight") {
      kinds.linear = true;
    } else if (word == "embedding") {
      kinds.table = true;
    } else {
      fail<ConfigError>("[quantize] bit_targeted_params takes kernel, weight and embedding; got \"", word, "\".");
    }
  }
  return kinds;
}

// Methods that round only weights.
bool packs_stacks(const std::string& method) {
  return method == "8bit" || method == "nf4" || method == "int4" || method == "fp8" || method == "mxfp4" ||
         method == "uint4";
}

std::regex compile(const std::string& pattern) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    fail<ConfigError>("[quantize] the pattern is not a valid regular expression (", error.what(), "); got \"", pattern,
                      "\".");
  }
}

}  // namespace

std::vector<std::string> layers_to_quantize(const BaseModule& module, const QuantizeOptions& options) {
  const Kinds kinds = kinds_of(options);
  const std::regex pattern = compile(options.pattern);
  std::set<const Parameter*> shared;  // weights of tables that are taken, and of heads that are
  std::set<const Module*> routers;
  const auto modules = module.named_modules();
  const auto is_found = [&](const std::string& path) { return std::regex_search(path, pattern); };
  for (const auto& [path, child] : modules) {
    if (dynamic_cast<const SparseMoE*>(child) != nullptr) routers.insert(child->child("gate"));
    if (const auto* table = dynamic_cast<const Embedding*>(child); table && kinds.table && is_found(path))
      shared.insert(table->weight().get());
    if (const auto* linear = dynamic_cast<const Linear*>(child);
        linear && !options.pattern.empty() && kinds.linear && is_found(path))
      shared.insert(linear->weight().get());
  }
  std::vector<std::string> layers;
  for (const auto& [path, child] : modules) {
    const auto* linear = dynamic_cast<const Linear*>(child);
    const auto* table = dynamic_cast<const Embedding*>(child);
    if (!linear && !table) continue;
    const bool by_default =
        linear && kinds.linear && options.pattern.empty() && !is_head(path) && !routers.contains(child);
    if (by_default || shared.contains((linear ? linear->weight() : table->weight()).get())) layers.push_back(path);
  }
  // A calibrated method looks at what each layer is given, and experts are given different tokens each.
  const bool packs_experts = kinds.linear && packs_stacks(options.method);
  for (const quantization::ExpertStack& stack : quantization::expert_stacks(module)) {
    if (packs_experts && is_found(stack.path)) layers.push_back(stack.path);
  }
  require<ConfigError>(!layers.empty(), "[quantize] no layer of ", module.type_name(), " matches the pattern \"",
                       options.pattern, "\". Paths look like model.layers.0.self_attn.q_proj.");
  return layers;
}

int64_t parameter_bytes(const BaseModule& module) {
  int64_t bytes = 0;
  for (const auto& [path, parameter] : module.named_parameters())
    bytes += c10::multiply_integers(parameter->shape) * static_cast<int64_t>(parameter->value().element_size());
  return bytes;
}

bool is_quantized(const BaseModule& model) {
  const auto modules = model.named_modules();
  return std::any_of(modules.begin(), modules.end(), [](const Module::ConstNamedModule& named) {
    const auto* linear = dynamic_cast<const Linear*>(named.module);
    const auto* table = dynamic_cast<const Embedding*>(named.module);
    const auto* experts = dynamic_cast<const Experts*>(named.module);
    return (linear && linear->packed() && !linear->weight()) || (table && table->packed()) ||
           (experts && (experts->stacks()[0].packed || experts->stacks()[1].packed));
  });
}

void quantize(BaseModule& model, const QuantizeOptions& options) {
  const auto method = quantization::make_method(options);
  require<ConfigError>(!is_quantized(model), "[quantize] ", model.type_name(),
                       " is already quantized. Quantize the original model.");
  const std::vector<std::string> layers = layers_to_quantize(model, options);
  if (method->needs_calibration() && !model.is_lazy()) {
    require<ConfigError>(options.calibration != nullptr, "[quantize] ", options.method,
                         " needs calibration data: pass the result of calibrate() as .calibration.");
    for (const std::string& layer : layers) {
      require<ConfigError>(options.calibration->contains(layer), "[quantize] the calibration data has no layer \"",
                           layer, "\"; ", options.method, " supports only linear layers.");
    }
  }
  const int64_t before = parameter_bytes(model);
  if (options.quantize_tensors) {
    model.transform(std::make_shared<quantization::Packing>(method, layers, options.calibration));
    if (options.verbose)
      log::info("[quantize] ", layers.size(), " layers as ", options.method, ": ", format_bytes(before), " -> ",
                format_bytes(parameter_bytes(model)));
  } else {
    quantization::Packing(method, layers).check(model);
  }
}

}  // namespace easydel
