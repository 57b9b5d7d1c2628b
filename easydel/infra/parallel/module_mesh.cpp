// BaseModule on a mesh: where its parameters lie, and the outputs of all ranks put together.
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/layers/forward_context.h"
#include "easydel/sharding/collectives/collectives.h"
#include "easydel/sharding/collectives/gather_ahead.h"
#include "easydel/sharding/zero.h"

namespace easydel {
namespace {

// The dense weight that codes and scales stand for: "q_proj.weight" for "q_proj.weight.absmax" and "q_proj.SCB",
// "experts.down_proj" for "experts.down_proj.absmax".
std::string weight_of(const std::string& path) {
  if (const auto weight = path.rfind(".weight."); weight != std::string::npos)
    return path.substr(0, weight) + ".weight";
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

}  // namespace

Mesh BaseModule::mesh() const { return parallel() ? parallel()->mesh().mesh() : config_->mesh(); }

// The mesh that is asked for, with the groups that are already made where it is the one that the module is on.
std::shared_ptr<const Parallel> BaseModule::parallel_on(const std::optional<Mesh>& wanted,
                                                        std::shared_ptr<World> world) const {
  if (!world) world = World::current();
  const std::optional<Mesh>& given = wanted ? wanted : config_->model_mesh();
  const Mesh mesh = given ? *given : parallel() ? parallel()->mesh().mesh() : config_->create_mesh(world->size());
  if (parallel() && parallel()->mesh().mesh() == mesh && &parallel()->mesh().world() == world.get()) return parallel();
  return std::make_shared<Parallel>(std::make_shared<DeviceMesh>(mesh, world), config_->sharding.partition_axis,
                                    config_->sharding.expert_axes(), config_->sharding.shard_attention_computation);
}

void BaseModule::place(const std::function<PartitionSpec(const NamedParameter&)>& spec,
                       const std::shared_ptr<const Parallel>& parallel) {
  // All specs are checked before the first parameter moves.
  std::vector<std::pair<Parameter*, std::shared_ptr<const WeightSharding>>> moves;
  for (const NamedParameter& named : named_parameters()) {
    const PartitionSpec own = spec(named);
    try {
      moves.emplace_back(named.parameter.get(), std::make_shared<WeightSharding>(named.parameter->dims, own, parallel));
    } catch (const ConfigError& error) {
      fail<ConfigError>(error.what(), " The parameter is \"", named.path, "\".");
    }
  }
  if (this->parallel()) this->parallel()->ahead().forget();
  const bool single = parallel->is_single();
  for (auto& [parameter, sharding] : moves) parameter->place(single ? nullptr : sharding);
  set_parallel(single ? nullptr : parallel);
  if (single) return;
  parallel->ahead().set_budget(largest_layer_bytes());
  parallel->ahead().set_keep(config_->sharding.zero_stage == 2);
}

// Of what gathering gives for the parameters of one decoder layer, in the type that it computes in.
int64_t BaseModule::largest_layer_bytes() const {
  int64_t largest = 0;
  for (const auto& [path, module] : named_modules()) {
    if (dynamic_cast<const DecoderLayer*>(module) == nullptr) continue;
    int64_t elements = 0;
    for (const auto& [name, parameter] : module->named_parameters()) {
      if (parameter->sharding()->is_gathered()) elements += parameter->sharding()->gathered_numel();
    }
    largest = std::max(largest, elements * static_cast<int64_t>(c10::elementSize(dtype())));
  }
  return largest;
}

void BaseModule::place_parameters(const std::optional<PartitionRules>& rules, std::shared_ptr<World> world,
                                  const std::optional<Mesh>& mesh) {
  const PartitionRules used = rules ? *rules : partition_rules();
  const auto parallel = parallel_on(mesh, std::move(world));
  place(
      [&](const NamedParameter& named) {
        PartitionSpec spec = match(used, named.path, *named.parameter);
        return rules ? spec : with_zero(*config_, *named.parameter, std::move(spec), parallel);
      },
      parallel);
}

void BaseModule::place_like(const GraphDef& graphdef) {
  if (!graphdef.parallel) return;
  const auto parameters = named_parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].parameter->place((*graphdef.parameters)[i].sharding);
  set_parallel(graphdef.parallel);
}

BaseModule& BaseModule::shard_model(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh) {
  place_parameters(rules, World::current(), mesh);
  return *this;
}

BaseModule& BaseModule::gather_model() { return fully_gather(); }

BaseModule& BaseModule::fully_gather(const std::optional<Mesh>& mesh) {
  // Where it is, unless told otherwise.
  place([](const NamedParameter&) { return PartitionSpec(); }, !mesh && parallel() ? parallel() : parallel_on(mesh));
  return *this;
}

BaseModule& BaseModule::fully_shard(const std::optional<Mesh>& mesh) {
  const auto parallel = parallel_on(mesh);
  AxisNames all;
  for (const MeshAxis& axis : parallel->mesh().mesh().axes()) all.push_back(axis.name);
  place(
      [&](const NamedParameter& named) {
        const std::vector<int64_t>& shape = named.parameter->shape;
        std::vector<SpecDim> dims(shape.size());
        if (!shape.empty())
          dims[static_cast<std::size_t>(std::max_element(shape.begin(), shape.end()) - shape.begin())] = all;
        return PartitionSpec(dims);
      },
      parallel);
  return *this;
}

Specs BaseModule::specs_sharding(const std::optional<PartitionRules>& rules) const {
  const PartitionRules used = rules ? *rules : partition_rules();
  Specs specs;
  for (const auto& [path, parameter] : named_parameters()) specs.emplace(path, match(used, path, *parameter));
  return specs;
}

NamedShardings BaseModule::named_shardings(const std::optional<PartitionRules>& rules,
                                           const std::optional<Mesh>& mesh) const {
  NamedShardings shardings;
  for (auto& [path, spec] : specs_sharding(rules)) shardings[path] = {mesh.value_or(this->mesh()), spec};
  return shardings;
}

NamedShardings BaseModule::params_sharding() const {
  NamedShardings shardings;
  for (const auto& [path, parameter] : named_parameters()) {
    shardings[path] = {mesh(), parameter->sharding() ? parameter->sharding()->spec() : PartitionSpec()};
  }
  return shardings;
}

ShardFns BaseModule::sharding_fns(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh,
                                  bool is_gather) const {
  const auto parallel = parallel_on(mesh);
  const PartitionRules used = rules ? *rules : partition_rules();
  ShardFns fns;
  for (const auto& [path, parameter] : named_parameters()) {
    PartitionSpec spec = match(used, path, *parameter);
    if (!rules) spec = with_zero(*config_, *parameter, std::move(spec), parallel);
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
        check(whole, shape, "shard_fns", "all of it");
        return sharding->part_of(whole).clone(at::MemoryFormat::Contiguous);
      };
    }
  }
  return fns;
}

ShardFns BaseModule::shard_fns(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh) const {
  return sharding_fns(rules, mesh, /*is_gather=*/false);
}

ShardFns BaseModule::gather_fns(const std::optional<PartitionRules>& rules, const std::optional<Mesh>& mesh) const {
  return sharding_fns(rules, mesh, /*is_gather=*/true);
}

TensorMap BaseModule::apply_sharding_fns(const TensorMap& tree, const std::optional<PartitionRules>& rules,
                                         const std::optional<Mesh>& mesh, bool is_gather) const {
  const ShardFns fns = sharding_fns(rules, mesh, is_gather);
  TensorMap result;
  for (const auto& [path, tensor] : tree) {
    const auto found = fns.find(path);
    require<ConfigError>(found != fns.end(), "[apply_sharding_fns] ", type_name(), " has no ", path, ".");
    result.set(path, found->second(tensor));
  }
  return result;
}

ModelOutput BaseModule::gather_outputs(ModelOutput out, const BatchPart& part, const ModelInputs& given) const {
  const Parallel& mesh = *parallel();
  const bool has_labels = given.labels.defined();
  const bool wants_hidden = given.output_hidden_states.value_or(config_->output_hidden_states);
  if (has_labels && !wants_hidden) out.last_hidden_state.reset();
  if (has_labels && !given.output_router_logits.value_or(false)) out.router_logits.clear();
  out.last_hidden_state = gather_tokens(out.last_hidden_state, part, mesh);
  for (at::Tensor& hidden : out.hidden_states) hidden = gather_tokens(hidden, part, mesh);
  if (out.logits.defined()) {
    out.logits = out.logits.dim() == 3 ? gather_tokens(out.logits, part, mesh) : gather_rows(out.logits, part, mesh);
  }
  for (at::Tensor& logits : out.router_logits) {
    const int64_t tokens = part.tokens / (part.sequence_sharded ? mesh.mesh().size(mesh.sequence()) : 1);
    logits = gather_tokens(logits.view({-1, tokens, logits.size(1)}), part, mesh).flatten(0, 1);
  }
  const HeadPart heads{{config_->num_attention_heads, config_->key_value_heads()},
                       {0, config_->num_attention_heads},
                       {0, config_->key_value_heads()}};
  const AxisNames& axes = mesh.axes(LogicalAxis::Head);
  std::vector<int64_t> counts;
  for (int64_t r = 0; r < mesh.mesh().size(axes); ++r)
    counts.push_back(heads.part(mesh.mesh().size(axes), r).query.size());
  for (at::Tensor& weights : out.attentions) {
    weights = gather_rows(collectives::gather(weights, 1, counts, mesh.group(axes)), part, mesh);
  }
  // A loss that is not reduced.
  const auto each = [&](const at::Tensor& loss) {
    if (!loss.defined() || loss.dim() == 0) return loss;
    if (model_task() != TaskType::SequenceClassification) return gather_tokens(loss, part, mesh);
    // The last ranks may have fewer rows than the others, or none.
    std::vector<int64_t> missing = loss.sizes().vec();
    missing[0] = part.batch / mesh.mesh().size(mesh.batch()) - loss.size(0);
    return gather_rows(missing[0] > 0 ? at::cat({loss, at::zeros(missing, loss.options())}) : loss, part, mesh);
  };
  out.loss = each(out.loss);
  if (out.loss.defined()) out.metrics.loss = out.loss.detach();
  out.metrics.z_loss = each(out.metrics.z_loss);
  return out;
}

}  // namespace easydel
