// State on a mesh: gathered, sharded, resharded.
#include <ATen/ATen.h>

#include <set>

#include "easydel/core/error.h"
#include "easydel/infra/state/state.h"
#include "easydel/infra/state/state_layout.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace {

at::Tensor whole(const optim::OptState::Leaf& leaf) {
  return leaf.sharding ? leaf.sharding->gather_whole(leaf.value) : leaf.value;
}

void require_optimizer(const std::optional<optim::OptState>& opt_state, const char* where) {
  require<ConfigError>(opt_state.has_value(), "[", where,
                       "] opt_state is not initialized: make it with init_tx(tx) or load_optimizer.");
}

// Rules that give each parameter the spec of this table.
PartitionRules rules_of(const NamedShardings& shardings) {
  std::vector<PartitionRule> rules;
  for (const auto& [path, sharding] : shardings) {
    std::string pattern;
    for (const char c : path) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') pattern += '\\';
      pattern += c;
    }
    rules.push_back({"^" + pattern + "$", sharding.spec});
  }
  return PartitionRules(std::move(rules));
}

}  // namespace

State State::with_model(const BaseModule& model) const {
  State next = *this;
  std::tie(next.graphdef, next.graphstate, next.graphother) = model.split_module_parts();
  return next;
}

State State::gather_model() const {
  const auto module = model();
  module->gather_model();
  return with_model(*module);
}

State State::gather_optimizer_state() const {
  require_optimizer(opt_state, "gather_optimizer_state");
  const at::NoGradGuard no_grad;
  State next = *this;
  for (const auto& [name, leaf] : next.opt_state->leaves()) *leaf = {whole(*leaf), nullptr};
  return next;
}

State State::gather_state() const {
  const State gathered = gather_model();
  return opt_state ? gathered.gather_optimizer_state() : gathered;
}

State State::shard_model(const std::optional<PartitionRules>& partition_rules, const std::optional<Mesh>& mesh) const {
  const auto module = model();
  module->shard_model(partition_rules, mesh);
  return with_model(*module);
}

State State::shard_optimizer_state(const std::optional<optim::OptState>& given,
                                   const std::optional<PartitionRules>& partition_rules) const {
  require_optimizer(given ? given : opt_state, "shard_optimizer_state");
  const at::NoGradGuard no_grad;
  State next = *this;
  next.opt_state = given ? *given : *opt_state;
  StateLayout(graphdef, partition_rules).lay_out(*next.opt_state, tx);
  return next;
}

State State::shard_state(const std::optional<PartitionRules>& partition_rules, const std::optional<Mesh>& mesh) const {
  const State sharded = shard_model(partition_rules, mesh);
  return opt_state ? sharded.shard_optimizer_state() : sharded;
}

State State::shard_with_shape(const StateShardings& shape) const {
  require<ConfigError>(!shape.graphstate.empty(), "[shard_with_shape] the shape names no parameter.");
  for (const auto& [path, sharding] : shape.graphother) {
    require<ConfigError>(graphother.contains(path), "[shard_with_shape] this state has no buffer \"", path, "\".");
    require<ConfigError>(sharding.spec.axes().empty(), "[shard_with_shape] buffers are whole on every rank; got ",
                         sharding.spec.to_string(), " for \"", path, "\".");
  }
  State next = shard_state(rules_of(shape.graphstate), shape.graphstate.begin()->second.mesh);
  if (shape.opt_state.empty()) return next;
  require_optimizer(opt_state, "shard_with_shape");
  const at::NoGradGuard no_grad;
  StateLayout(next.graphdef).lay_out(*next.opt_state, shape.opt_state);
  return next;
}

StateShardings State::shardings() const {
  StateShardings all;
  const auto add = [](NamedShardings& map, const std::string& name,
                      const std::shared_ptr<const WeightSharding>& sharding) {
    if (sharding) map.emplace(name, NamedSharding{sharding->parallel().mesh().mesh(), sharding->spec()});
  };
  for (const ParameterInfo& info : *graphdef.parameters) add(all.graphstate, info.path, info.sharding);
  if (graphdef.parallel) {
    const NamedSharding whole{graphdef.parallel->mesh().mesh(), {}};
    for (const auto& [path, tensor] : graphother) all.graphother.emplace(path, whole);
  }
  if (opt_state) {
    for (const auto& [name, leaf] : opt_state->leaves()) add(all.opt_state, name, leaf->sharding);
  }
  return all;
}

std::optional<State> State::snapshot(bool with_optimizer) const {
  const at::NoGradGuard no_grad;
  const bool keeps = !graphdef.parallel || graphdef.parallel->mesh().rank() == 0;
  State copy = *this;
  if (!with_optimizer) copy.opt_state.reset();
  const auto to_host = [](const at::Tensor& tensor) {
    return tensor.device().is_cpu() ? tensor.detach().clone() : tensor.detach().to(at::kCPU);
  };
  std::set<std::string> trained;
  for (const ParameterInfo& info : trained_parameters(graphdef)) trained.insert(info.path);
  auto infos = *graphdef.parameters;
  for (ParameterInfo& info : infos) {
    const at::Tensor& part = graphstate.at(info.path);
    const at::Tensor all = info.sharding ? info.sharding->gather_whole(part.detach()) : part;
    const bool shared = !trained.contains(info.path) && all.device().is_cpu();  // nothing changes it
    if (keeps) copy.graphstate.set(info.path, shared ? all.detach() : to_host(all));
    info.sharding = nullptr;
  }
  if (copy.opt_state) {
    for (const auto& [name, leaf] : copy.opt_state->leaves()) {
      const at::Tensor all = whole(*leaf);
      if (keeps) *leaf = {to_host(all), nullptr};
    }
  }
  if (!keeps) return std::nullopt;
  copy.graphother = {};
  for (const auto& [path, tensor] : graphother) copy.graphother.set(path, to_host(tensor));
  copy.graphdef.parallel = nullptr;
  copy.graphdef.options.device = at::kCPU;
  copy.graphdef.parameters = std::make_shared<const std::vector<ParameterInfo>>(std::move(infos));
  return copy;
}

}  // namespace easydel
