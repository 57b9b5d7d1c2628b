// State to a directory and back.
#include <ATen/ATen.h>

#include <set>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/files/replace_directory.h"
#include "easydel/infra/files/whole_tensors.h"
#include "easydel/infra/state/auto_state.h"
#include "easydel/infra/state/state.h"
#include "easydel/infra/state/state_layout.h"
#include "easydel/infra/state/state_model_writer.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "easydel/optim/share.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr const char* kStateFile = "state.json";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr int64_t kFormat = 1;

// What a save writes itself, so that the old one's goes with the old directory.
bool is_ours(const std::string& name) {
  return name == kStateFile || name == kOptimizerFile || name == "config.json" || name == "trainer.json" ||
         name == "adapter" ||
         (name.starts_with("model") && (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")));
}

// All parameters, then all leaves of the optimizer: gathered by index.
struct StateTensors {
  explicit StateTensors(const State& state, bool with_optimizer) {
    for (const ParameterInfo& info : *state.graphdef.parameters) {
      place[info.path] = static_cast<int64_t>(all.size());
      all.push_back({state.graphstate.at(info.path).detach(), info.sharding});
    }
    if (!with_optimizer) return;
    for (const auto& [name, leaf] : state.opt_state->leaves()) {
      leaves[name] = static_cast<int64_t>(all.size());
      all.push_back(*leaf);
    }
  }
  at::Tensor gather(int64_t index) const {
    const optim::OptState::Leaf& leaf = all[static_cast<std::size_t>(index)];
    return leaf.sharding ? leaf.sharding->gather_whole(leaf.value) : leaf.value;
  }
  std::vector<optim::OptState::Leaf> all;
  std::map<std::string, int64_t> place, leaves;
};

void write_optimizer(const fs::path& directory, const StateTensors& tensors, WholeTensors& whole) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, index] : tensors.leaves) {
    const optim::OptState::Leaf& leaf = tensors.all[static_cast<std::size_t>(index)];
    TensorInfo info = describe(name, leaf.value);
    info.shape = optim::whole_shape(leaf.value, leaf.sharding);
    info.nbytes = info.numel() * static_cast<int64_t>(leaf.value.element_size());
    infos.push_back(std::move(info));
  }
  save_safetensors(directory / kOptimizerFile, infos,
                   [&](const TensorInfo& info) { return whole.get(tensors.leaves.at(info.name)); });
}

void write_model(const BaseModule& model, const fs::path& directory, const SaveOptions& options,
                 const std::function<at::Tensor(const std::string& path)>& whole) {
  for (const auto& transform : model.transforms()) {
    if (const auto* writer = dynamic_cast<const StateModelWriter*>(transform.get()))
      return writer->write_model(model, directory, options, whole);
  }
  write_files(model, directory, options, whole);
}

Json read_state_file(const fs::path& directory) {
  const fs::path path = directory / kStateFile;
  require<IoError>(fs::exists(path), "[load_state] ", directory.string(), " has no ", kStateFile,
                   ": it is not a saved state. Use from_pretrained to load only a model.");
  Json json = Json::parse_file(path.string());
  require<FormatError>(json.is_object() && json.contains("step") && json.at("step").is_int(), "[", path.string(),
                       "] \"step\" must be an integer.");
  require<FormatError>(json.contains("format") && json.at("format") == Json(kFormat), "[", path.string(),
                       "] \"format\" must be ", kFormat, "; got ",
                       json.contains("format") ? json.at("format").dump() : "none", ".");
  return json;
}

// The form of the state as the file describes it, for who has no transformation.
optim::OptState form_of(const Json& json, const std::string& where) {
  optim::OptState state;
  require<FormatError>(json.is_object() && json.contains("kind") && json.at("kind").is_string(), "[", where,
                       "] an optimizer state needs a \"kind\".");
  state.kind = json.at("kind").as_string();
  if (const Json* counts = json.find("counts")) {
    for (const auto& [name, value] : counts->as_object()) state.counts[name] = value.as_int();
  }
  if (const Json* scalars = json.find("scalars")) {
    for (const auto& [name, value] : scalars->as_object()) state.scalars[name] = value.as_double();
  }
  if (const Json* children = json.find("children")) {
    for (const Json& child : children->as_array()) state.children.push_back(form_of(child, where));
  }
  return state;
}

// "0/1/mu/model.norm.weight": children, tree, path.
void put_leaf(optim::OptState& root, const std::string& name, at::Tensor value, const std::string& where) {
  optim::OptState* node = &root;
  std::string_view rest = name;
  for (;;) {
    const std::size_t slash = rest.find('/');
    require<FormatError>(slash != std::string_view::npos, "[", where, "] \"", name, "\" is not the name of a leaf.");
    const std::string word(rest.substr(0, slash));
    rest.remove_prefix(slash + 1);
    if (word.find_first_not_of("0123456789") == std::string::npos) {
      const std::size_t index = word.size() < 10 ? std::stoul(word) : node->children.size();
      require<FormatError>(index < node->children.size(), "[", where, "] \"", name, "\" names a part that ", kStateFile,
                           " lacks.");
      node = &node->children[index];
      continue;
    }
    node->trees[word][std::string(rest)] = {std::move(value), nullptr};
    return;
  }
}

}  // namespace

void State::save_state(const fs::path& save_directory, const SaveStateOptions& options) const {
  if (!options.enable.value_or(true)) return;
  const at::NoGradGuard no_grad;
  const bool with_optimizer = options.save_optimizer && opt_state;
  const StateTensors tensors(*this, with_optimizer);
  WholeTensors whole([&](int64_t index) { return tensors.gather(index); },
                     graphdef.parallel ? &graphdef.parallel->everyone() : nullptr, graphdef.options.device);
  const auto write = [&] {
    replace_directory(
        save_directory,
        [&](const fs::path& fresh) {
          write_model(*model(), fresh,
                      {.max_shard_size = options.max_shard_size,
                       .float_dtype = options.float_dtype,
                       .mismatch_allowed = options.mismatch_allowed,
                       .verbose = options.verbose},
                      [&](const std::string& path) { return whole.get(tensors.place.at(path)); });
          if (with_optimizer) write_optimizer(fresh, tensors, whole);
          Json json = Json::object({{"format", kFormat}, {"step", step}});
          if (with_optimizer) json["optimizer"] = opt_state->to_json();
          write_file_atomically(fresh / kStateFile, json.dump(2) + "\n");
          if (options.also) options.also(fresh);
        },
        is_ours);
  };
  whole.run(write, "save_state");
}

State State::load_optimizer(const fs::path& load_directory,
                            const std::optional<PartitionRules>& partition_rules) const {
  const Json json = read_state_file(load_directory);
  const fs::path path = load_directory / kOptimizerFile;
  const std::string where = concat("load_optimizer] ", path.string());
  require<IoError>(fs::exists(path) && json.contains("optimizer"), "[", where,
                   ": the optimizer was not saved with this state.");
  const auto file = SafetensorsFile::open(path);
  const StateLayout layout(graphdef, partition_rules);
  State next = *this;
  if (!tx) {
    next.opt_state = form_of(json.at("optimizer"), (load_directory / kStateFile).string());
    for (const std::string& name : file->names())
      put_leaf(*next.opt_state, name, file->read(name).to(graphdef.options.device), path.string());
    layout.lay_out(*next.opt_state, nullptr);
    return next;
  }
  next.opt_state = layout.plan(*tx);
  next.opt_state->load_json(json.at("optimizer"), (load_directory / kStateFile).string());
  std::set<std::string> left;
  for (const std::string& name : file->names()) left.insert(name);
  for (auto& [name, leaf] : next.opt_state->leaves()) {
    require<ConfigError>(left.erase(name) == 1, "[", where, ": \"", name, "\" is missing, which the optimizer of this ",
                         "run needs. Was it saved with another optimizer or another model?");
    const std::vector<int64_t> shape = optim::whole_shape(leaf->value, leaf->sharding);
    const TensorInfo& info = file->info(name);
    require<ShapeError>(info.shape == shape, "[", where, ": \"", name, "\" is ", at::IntArrayRef(info.shape),
                        "; this state needs ", at::IntArrayRef(shape), ".");
    const at::Tensor all = file->tensor(name);
    const at::Tensor part = leaf->sharding ? take(all, leaf->sharding->stored()) : all;
    leaf->value = part.to(at::TensorOptions(leaf->value.scalar_type()).device(graphdef.options.device),
                          /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  }
  require<ConfigError>(left.empty(), "[", where, ": \"", left.empty() ? "" : *left.begin(),
                       "\" is not a part of this run's optimizer. Was it saved with another one?");
  return next;
}

namespace {

// Some libraries give a product other last bits where a matrix begins elsewhere in memory than what is allocated does.
// A mapped tensor may; it would be copied by the first update anyway, and copied now the run goes on bit for bit.
void align(GraphState& parameters) {
  constexpr std::uintptr_t kAlignment = 64;
  for (const auto& [path, tensor] : GraphState(parameters)) {
    if (!tensor.is_cpu() || reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0) continue;
    parameters.set(path, tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  }
}

}  // namespace

bool is_saved_state(const fs::path& directory) { return fs::exists(directory / kStateFile); }

State State::load_state(const fs::path& load_directory, const LoadOptions& options, optim::GradientTransformation tx,
                        TaskType model_task) {
  const Json json = read_state_file(load_directory);
  State state = load_model(load_directory.string(), model_task, options)->to_state();
  align(state.graphstate);
  state.step = json.at("step").as_int();
  state.tx = std::move(tx);
  return json.contains("optimizer") ? state.load_optimizer(load_directory) : state.tx ? state.init_tx(state.tx) : state;
}

}  // namespace easydel
