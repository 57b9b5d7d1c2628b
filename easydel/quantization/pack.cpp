#include "easydel/quantization/pack.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "easydel/core/error.h"

namespace easydel::quantization {
namespace {

// What a layer and a table have in common.
struct Target {
  std::string path;
  Module* module;
  Linear* linear;
  Embedding* table;

  const std::shared_ptr<Parameter>& weight() const { return linear ? linear->weight() : table->weight(); }
  const Dim& out() const { return linear ? linear->out_dim() : table->count_dim(); }
  const Dim& in() const { return linear ? linear->in_dim() : table->features_dim(); }
  bool transposed() const { return linear && linear->options().transposed; }
  void set(std::shared_ptr<const PackedMatrix> matrix) const {
    if (linear) return linear->set_packed(std::move(matrix));
    table->set_packed(std::move(matrix));
  }
};

std::vector<Target> find(BaseModule& module, const std::vector<std::string>& layers) {
  const std::set<std::string> wanted(layers.begin(), layers.end());
  std::vector<Target> found;
  for (const auto& [path, child] : module.named_modules()) {
    Target target{path, child, dynamic_cast<Linear*>(child), dynamic_cast<Embedding*>(child)};
    if (wanted.contains(path) && (target.linear || target.table)) found.push_back(std::move(target));
  }
  return found;
}

}  // namespace

std::shared_ptr<const PackedMatrix> packed_matrix(const Module& layer) {
  if (const auto* linear = dynamic_cast<const Linear*>(&layer))
    return std::dynamic_pointer_cast<const PackedMatrix>(linear->packed());
  if (const auto* table = dynamic_cast<const Embedding*>(&layer))
    return std::dynamic_pointer_cast<const PackedMatrix>(table->packed());
  return nullptr;
}

std::vector<PackedLayer> packed_layers(const BaseModule& module) {
  std::vector<PackedLayer> layers;
  std::set<const PackedMatrix*> seen;
  for (const auto& [path, child] : module.named_modules()) {
    const std::shared_ptr<const PackedMatrix> matrix = packed_matrix(*child);
    if (!matrix || !seen.insert(matrix.get()).second) continue;
    const auto* linear = dynamic_cast<const Linear*>(child);
    layers.push_back({path, matrix, linear && linear->options().transposed});
  }
  return layers;
}

std::shared_ptr<const PackedStack> ExpertStack::packed() const {
  return std::dynamic_pointer_cast<const PackedStack>(stack->packed);
}

std::vector<ExpertStack> expert_stacks(const BaseModule& module) {
  std::vector<ExpertStack> found;
  for (const auto& [path, child] : module.named_modules()) {
    const auto* experts = dynamic_cast<const Experts*>(child);
    if (!experts) continue;
    for (const Experts::Stack& stack : experts->stacks()) found.push_back({path + "." + stack.name, experts, &stack});
  }
  return found;
}

Packing::Packing(std::shared_ptr<const Method> method, std::vector<std::string> layers,
                 std::shared_ptr<const Calibration> calibration, LayerMethods others)
    : method_(std::move(method)),
      layers_(std::move(layers)),
      calibration_(std::move(calibration)),
      others_(std::move(others)) {}

Packing::Packing(LayerMethods layers, Json format)
    : others_(std::move(layers)), format_(std::move(format)), mixed_(true) {
  for (const auto& [path, method] : others_) layers_.push_back(path);
  if (!others_.empty()) method_ = others_.begin()->second;
}

void Packing::check(const BaseModule& module) const {
  const auto require_fit = [&](const std::string& path, const Dim& out, const Dim& in) {
    try {
      method_->parts(out.size, in.size);
    } catch (const ConfigError& error) {
      fail<ConfigError>(error.what(), " The layer is \"", path, "\".");
    }
  };
  for (const Target& target : find(const_cast<BaseModule&>(module), layers_))
    require_fit(target.path, target.out(), target.in());
  for (const ExpertStack& stack : expert_stacks(module)) {
    if (std::find(layers_.begin(), layers_.end(), stack.path) != layers_.end())
      require_fit(stack.path, stack.stack->out, stack.stack->in);
  }
}

void Packing::apply(BaseModule& module) const {
  const std::vector<Target> targets = find(module, layers_);
  std::vector<ExpertStack> stacks = expert_stacks(module);
  std::erase_if(stacks, [&](const ExpertStack& stack) {
    return std::find(layers_.begin(), layers_.end(), stack.path) == layers_.end();
  });
  require<ConfigError>(targets.size() + stacks.size() == layers_.size(), "[quantize] ", module.type_name(), " has ",
                       targets.size() + stacks.size(), " of ", layers_.size(), " layers to quantize.");
  const auto declared = [&]<class T>(const std::string& path, const auto&... given) {
    const auto own = others_.find(path);
    try {
      return std::make_shared<T>(own == others_.end() ? method_ : own->second, given...);
    } catch (const ConfigError& error) {
      fail<ConfigError>(error.what(), " The layer is \"", path, "\".");
    }
  };
  // All are declared before the first one changes.
  std::unordered_map<const Parameter*, std::shared_ptr<PackedMatrix>> matrices;
  for (const Target& target : targets) {
    require<ConfigError>(target.weight() != nullptr, "[quantize] \"", target.path, "\" is already quantized.");
    auto& matrix = matrices[target.weight().get()];
    if (!matrix) matrix = declared.operator()<PackedMatrix>(target.path, target.out(), target.in());
  }
  std::vector<std::shared_ptr<PackedStack>> packed_stacks;
  for (const ExpertStack& stack : stacks) {
    require<ConfigError>(stack.stack->dense != nullptr, "[quantize] \"", stack.path, "\" is already quantized.");
    packed_stacks.push_back(declared.operator()<PackedStack>(stack.path, *stack.experts, *stack.stack));
  }
  std::set<const PackedMatrix*> filled;
  for (const Target& target : targets) {
    const std::shared_ptr<Parameter> dense = target.weight();
    const std::shared_ptr<PackedMatrix> matrix = matrices.at(dense.get());
    const bool first = filled.insert(matrix.get()).second;
    if (first) {
      const ChannelStatistics* seen = nullptr;
      if (const auto known = calibration_ ? calibration_->find(target.path) : Calibration::const_iterator();
          calibration_ && known != calibration_->end())
        seen = &known->second;
      matrix->fill(*dense, target.transposed(), seen);
    }
    target.set(matrix);
    if (first) matrix->put_into(*target.module);
  }
  std::unordered_map<const Module*, Experts*> owners;
  for (const auto& [path, child] : module.named_modules()) {
    if (auto* experts = dynamic_cast<Experts*>(child)) owners.emplace(child, experts);
  }
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const std::string name = stacks[i].stack->name;
    Experts& experts = *owners.at(stacks[i].experts);
    packed_stacks[i]->fill(*stacks[i].stack->dense);
    experts.set_packed(name, packed_stacks[i]);
    packed_stacks[i]->put_into(experts);
  }
}

}  // namespace easydel::quantization
