#include "easydel/infra/parallel/shard_model.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/layers/forward_context.h"
#include "easydel/sharding/collectives/weight_prefetcher.h"
#include "easydel/sharding/zero.h"

namespace easydel {
namespace {

// The dense weight that codes and scales stand for: "q_proj.weight" for "q_proj.weight.absmax" and "q_proj.SCB",
// "experts.down_proj" for "experts.down_proj.absmax".
std::string weight_of(const std::string& path) {
  if (const auto weight = path.rfind(".weight."); weight != std::string::npos)
    return path.substr(0, weight) + ".weight";
  if (const auto statics = path.rfind(".moe_statics."); statics != std::string::npos)  // of a router
    return path.substr(0, statics) + ".weight";
  constexpr std::string_view kStacked = ".experts.";
  if (const auto experts = path.rfind(kStacked); experts != std::string::npos && !path.ends_with(".weight"))
    return path.substr(0, path.find('.', experts + kStacked.size()));
  return path.substr(0, path.rfind('.') + 1) + "weight";
}

// Scales lie as the weight that they are of, in as many dimensions as they have.
PartitionSpec match(const PartitionRules& rules, const std::string& path, const Parameter& parameter) {
  if (!parameter.fixed_dtype) return rules.match(path);
  const PartitionSpec& spec = rules.match(weight_of(path));
  std::vector<SpecDim> dims;
  for (std::size_t d = 0; d < std::min(spec.size(), parameter.dims.size()); ++d) dims.emplace_back(spec.axes(d));
  return PartitionSpec(std::move(dims));
}

// What the config's zero_stage makes of a parameter's spec by the config's own rules.
PartitionSpec with_zero(const BaseConfig& config, const Parameter& parameter, PartitionSpec spec,
                        const std::shared_ptr<const Parallel>& parallel) {
  const std::optional<int64_t> stage = config.sharding.zero_stage;
  if (!stage || parallel->is_single()) return spec;
  const Mesh& mesh = parallel->mesh().mesh();
  if (*stage == 3) {
    const PartitionAxis& axis = config.sharding.partition_axis;
    const int64_t split = mesh.size(axis.fully_sharded_data_parallel_axis) * mesh.size(axis.sequence_parallel_axis);
    require<ConfigError>(split > 1 || mesh.size(axis.data_parallel_axis) == 1,
                         "[shard_model] zero_stage 3 splits parameters over ", axis.fully_sharded_data_parallel_axis,
                         " and ", axis.sequence_parallel_axis, "; got a mesh without them, ", mesh.to_string(),
                         ". Give ", axis.fully_sharded_data_parallel_axis, " the devices of ", axis.data_parallel_axis,
                         ", or use zero_stage 1 or 2.");
    return spec;
  }
  const bool trains = parameter.trainable && !parameter.fixed_dtype;
  const WeightSharding whole(parameter.dims, whole_over_data(WeightSharding(parameter.dims, spec, parallel)), parallel);
  return *stage == 2 && trains ? split_over_data(whole) : whole.spec();
}

// The mesh that is asked for, with the groups that are already made where it is the one that the module is on.
std::shared_ptr<const Parallel> parallel_on(const BaseModule& model, const std::optional<Mesh>& wanted,
                                            std::shared_ptr<World> world = {}) {
  const BaseConfig& config = model.config();
  const std::shared_ptr<const Parallel>& current = model.parallel();
  if (!world) world = World::current();
  const std::optional<Mesh>& given = wanted ? wanted : config.model_mesh();
  const Mesh mesh = given ? *given : current ? current->mesh().mesh() : config.create_mesh(world->size());
  if (current && current->mesh().mesh() == mesh && &current->mesh().world() == world.get()) return current;
  return std::make_shared<Parallel>(std::make_shared<DeviceMesh>(mesh, world), config.sharding.partition_axis,
                                    config.sharding.expert_axes(), config.sharding.shard_attention_computation);
}

// Of what gathering gives for the parameters of one decoder layer, in the type that it computes in.
int64_t largest_layer_bytes(const BaseModule& model) {
  int64_t largest = 0;
  for (const auto& [path, module] : model.named_modules()) {
    if (dynamic_cast<const DecoderLayer*>(module) == nullptr) continue;
    int64_t elements = 0;
    for (const auto& [name, parameter] : module->named_parameters()) {
      if (parameter->sharding()->is_gathered()) elements += parameter->sharding()->gathered_numel();
    }
    largest = std::max(largest, elements * static_cast<int64_t>(c10::elementSize(model.dtype())));
  }
  return largest;
}

void place(BaseModule& model, const std::function<PartitionSpec(const Module::NamedParameter&)>& spec,
           const std::shared_ptr<const Parallel>& parallel) {
  // All specs are checked before the first parameter moves.
  std::vector<std::pair<Parameter*, std::shared_ptr<const WeightSharding>>> moves;
  for (const Module::NamedParameter& named : model.named_parameters()) {
    const PartitionSpec own = spec(named);
    try {
      moves.emplace_back(named.parameter.get(), std::make_shared<WeightSharding>(named.parameter->dims, own, parallel));
    } catch (const ConfigError& error) {
      fail<ConfigError>(error.what(), " The parameter is \"", named.path, "\".");
    }
  }
  if (model.parallel()) model.parallel()->prefetcher().forget();
  const bool single = parallel->is_single();
  for (auto& [parameter, sharding] : moves) parameter->place(single ? nullptr : sharding);
  model.set_parallel(single ? nullptr : parallel);
  if (single) return;
  parallel->prefetcher().set_budget(largest_layer_bytes(model));
  parallel->prefetcher().set_keep(model.config().sharding.zero_stage == 2);
}

}  // namespace

void place_parameters(BaseModule& model, const std::optional<PartitionRules>& rules, std::shared_ptr<World> world,
                      const std::optional<Mesh>& mesh) {
  const PartitionRules used = rules ? *rules : model.partition_rules();
  const auto parallel = parallel_on(model, mesh, std::move(world));
  place(
      model,
      [&](const Module::NamedParameter& named) {
        PartitionSpec spec = match(used, named.path, *named.parameter);
        return rules ? spec : with_zero(model.config(), *named.parameter, std::move(spec), parallel);
      },
      parallel);
}

void place_like(BaseModule& model, const GraphDef& graphdef) {
  if (!graphdef.parallel) return;
  const auto parameters = model.named_parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].parameter->place((*graphdef.parameters)[i].sharding);
  model.set_parallel(graphdef.parallel);
}

void shard_model(BaseModule& model, const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh) {
  place_parameters(model, rules, World::current(), mesh);
}

void fully_gather(BaseModule& model, const std::optional<Mesh>& mesh) {
  // Where it is, unless told otherwise.
  place(
      model, [](const Module::NamedParameter&) { return PartitionSpec(); },
      !mesh && model.parallel() ? model.parallel() : parallel_on(model, mesh));
}

void fully_shard(BaseModule& model, const std::optional<Mesh>& mesh) {
  const auto parallel = parallel_on(model, mesh);
  AxisNames all;
  for (const MeshAxis& axis : parallel->mesh().mesh().axes()) all.push_back(axis.name);
  place(
      model,
      [&](const Module::NamedParameter& named) {
        const std::vector<int64_t>& shape = named.parameter->shape;
        std::vector<SpecDim> dims(shape.size());
        if (!shape.empty())
          dims[static_cast<std::size_t>(std::max_element(shape.begin(), shape.end()) - shape.begin())] = all;
        return PartitionSpec(dims);
      },
      parallel);
}

Specs specs_sharding(const BaseModule& model, const std::optional<PartitionRules>& rules) {
  const PartitionRules used = rules ? *rules : model.partition_rules();
  Specs specs;
  for (const auto& [path, parameter] : model.named_parameters()) specs.emplace(path, match(used, path, *parameter));
  return specs;
}

NamedShardings named_shardings(const BaseModule& model, const std::optional<PartitionRules>& rules,
                               const std::optional<Mesh>& mesh) {
  NamedShardings shardings;
  for (auto& [path, spec] : specs_sharding(model, rules)) shardings[path] = {mesh.value_or(model.mesh()), spec};
  return shardings;
}

NamedShardings params_sharding(const BaseModule& model) {
  NamedShardings shardings;
  for (const auto& [path, parameter] : model.named_parameters()) {
    shardings[path] = {model.mesh(), parameter->sharding() ? parameter->sharding()->spec() : PartitionSpec()};
  }
  return shardings;
}

ShardFns sharding_fns(const BaseModule& model, const std::optional<PartitionRules>& rules,
                      const std::optional<Mesh>& mesh, bool is_gather) {
  const auto parallel = parallel_on(model, mesh);
  const PartitionRules used = rules ? *rules : model.partition_rules();
  ShardFns fns;
  for (const auto& [path, parameter] : model.named_parameters()) {
    PartitionSpec spec = match(used, path, *parameter);
    if (!rules) spec = with_zero(model.config(), *parameter, std::move(spec), parallel);
    const auto sharding = std::make_shared<WeightSharding>(parameter->dims, std::move(spec), parallel);
    const auto check = [path = path](const at::Tensor& t, const std::vector<int64_t>& shape, const char* where,
                                     const char* what) {
      require<ShapeError>(t.sizes() == at::IntArrayRef(shape), "[", where, "] \"", path, "\" must be ",
                          at::IntArrayRef(shape), ", ", what, "; got ", t.sizes(), ".");
    };
    if (is_gather) {
      fns[path] = [=](const at::Tensor& part) {
        check(part, sharding->stored_shape(), "gather_fns", "this rank's part");
        return sharding->gather_whole(part);
      };
    } else {
      fns[path] = [=, shape = parameter->shape](const at::Tensor& whole) {
        check(whole, shape, "shard_fns", "the whole tensor");
        return sharding->part_of(whole).clone(at::MemoryFormat::Contiguous);
      };
    }
  }
  return fns;
}

TensorMap apply_sharding_fns(const BaseModule& model, const TensorMap& tree, const std::optional<PartitionRules>& rules,
                             const std::optional<Mesh>& mesh, bool is_gather) {
  const ShardFns fns = sharding_fns(model, rules, mesh, is_gather);
  TensorMap result;
  for (const auto& [path, tensor] : tree) {
    const auto found = fns.find(path);
    require<ConfigError>(found != fns.end(), "[apply_sharding_fns] ", model.type_name(), " has no ", path, ".");
    result.set(path, found->second(tensor));
  }
  return result;
}

}  // namespace easydel
