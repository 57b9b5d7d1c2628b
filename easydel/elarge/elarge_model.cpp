#include "easydel/elarge/elarge_model.h"

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

// Those that differ from their defaults.
template <class Options>
Json changed_fields(Options given) {
  Options defaults;
  const auto before = collect_fields([&](FieldVisitor& v) { list_fields(defaults, v); });
  Json changed = Json::object();
  for (FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(given, v); })) {
    if (!(field.value == find_field(before, field.key)->value)) changed[field.key] = std::move(field.value);
  }
  return changed;
}

}  // namespace

ELargeModel ELargeModel::from_pretrained(const std::string& name_or_path, const std::string& task) {
  ELargeModel model;
  model.set_model(name_or_path);
  if (!task.empty()) model.config_.set({"model", "task"}, task);
  return model;
}

ELargeModel& ELargeModel::set_section(const std::string& section, KeyValues values) {
  for (const auto& [key, value] : values) config_.set({section, std::string(key)}, value);
  return *this;
}

ELargeModel& ELargeModel::set_model(const std::string& name) { return set_section("model", {{"name_or_path", name}}); }
ELargeModel& ELargeModel::set_teacher_model(const std::string& name) {
  return set_section("teacher_model", {{"name_or_path", name}});
}
ELargeModel& ELargeModel::set_reference_model(const std::string& name) {
  return set_section("reference_model", {{"name_or_path", name}});
}

ELargeModel& ELargeModel::set_dtype(const std::string& dtype, const std::string& param_dtype) {
  return set_section("loader", {{"dtype", dtype}, {"param_dtype", param_dtype.empty() ? dtype : param_dtype}});
}

ELargeModel& ELargeModel::set_loader(KeyValues values) { return set_section("loader", values); }
ELargeModel& ELargeModel::set_quantization(KeyValues values) { return set_section("quantization", values); }
ELargeModel& ELargeModel::set_esurge(KeyValues values) { return set_section("esurge", values); }
ELargeModel& ELargeModel::set_mixture(KeyValues values) { return set_section("mixture", values); }
ELargeModel& ELargeModel::set_eval(KeyValues values) { return set_section("eval", values); }
ELargeModel& ELargeModel::set_serve(KeyValues values) { return set_section("serve", values); }

ELargeModel& ELargeModel::set_base_config(KeyValues values) {
  for (const auto& [key, value] : values) config_.set({"base_config", "values", std::string(key)}, value);
  return *this;
}

ELargeModel& ELargeModel::set_operation_configs(KeyValues values) {
  for (const auto& [key, value] : values) config_.set({"base_config", "operation_configs", std::string(key)}, value);
  return *this;
}

ELargeModel& ELargeModel::set_sharding(const ShardingOptions& options) {
  return update_config(Json::object({{"sharding", changed_fields(options)}}));
}

ELargeModel& ELargeModel::add_inform(const std::string& section, const data::DatasetOptions& dataset,
                                     std::optional<int64_t> max_length) {
  const Json* trainer = to_dict().find("trainer");
  if (max_length && !(trainer && trainer->contains("max_length")))
    set_section("trainer", {{"max_length", *max_length}});
  const Json* mixture = to_dict().find(section);
  const Json* informs = mixture ? mixture->find("informs") : nullptr;
  if (!informs) config_.set({section, "informs"}, Json::array());
  const std::size_t count = informs ? informs->size() : 0;
  config_.set({section, "informs", std::to_string(count)}, changed_fields(dataset));
  return *this;
}

ELargeModel& ELargeModel::add_dataset(const data::DatasetOptions& dataset, std::optional<int64_t> max_length) {
  return add_inform("mixture", dataset, max_length);
}

ELargeModel& ELargeModel::add_eval_dataset(const data::DatasetOptions& dataset, std::optional<int64_t> max_length) {
  return add_inform("eval_mixture", dataset, max_length);
}

ELargeModel& ELargeModel::set_trainer(const std::string& trainer_type) {
  return set_section("trainer", {{"trainer_type", trainer_type}});
}

ELargeModel& ELargeModel::set_trainer(const std::string& trainer_type, const TrainingArguments& arguments) {
  const Json defaults = TrainingArguments{}.to_json(trainer_type), given = arguments.to_json(trainer_type);
  Json changed = Json::object();
  for (const auto& [key, value] : given.as_object()) {
    const Json* same = defaults.find(key);
    if (!same || !(*same == value)) changed[key] = value;
  }
  return set_trainer(trainer_type, changed);
}

ELargeModel& ELargeModel::set_trainer(const std::string& trainer_type, const Json& values) {
  set_trainer(trainer_type);
  return update_config(Json::object({{"trainer", values}}));
}

ELargeModel& ELargeModel::set_training_arguments(const std::string& trainer_type, const TrainingArguments& arguments) {
  config_.set({"trainer"}, arguments.to_json(trainer_type));
  return set_section("trainer", {{"trainer_type", trainer_type}});
}

ELargeModel& ELargeModel::update_config(const Json& changes) {
  config_.update(changes);
  return *this;
}

std::optional<std::string> ELargeModel::teacher_model_name() const {
  const auto model = config_.teacher_model();
  return model ? std::optional(model->name_or_path) : std::nullopt;
}

std::optional<std::string> ELargeModel::reference_model_name() const {
  const auto model = config_.reference_model();
  return model ? std::optional(model->name_or_path) : std::nullopt;
}

void ELargeModel::to_json(const std::filesystem::path& path) const {
  if (path.has_parent_path()) make_directory(path.parent_path());
  write_file_atomically(path, config_.to_json());
}

void ELargeModel::to_yaml(const std::filesystem::path& path) const {
  if (path.has_parent_path()) make_directory(path.parent_path());
  write_file_atomically(path, config_.to_yaml());
}

std::string ELargeModel::summary() const {
  const ComputeSettings compute = config_.compute();
  const ShardingSection sharding = config_.sharding();
  std::string mesh;
  for (std::size_t i = 0; i < sharding.axis_dims.size() && i < sharding.axis_names.size(); ++i) {
    mesh += concat(mesh.empty() ? "" : " ", sharding.axis_names[i], "=", sharding.axis_dims[i]);
  }
  std::string text =
      concat("model:    ", model_name(), " (", task_name(task()), ")\n", "dtype:    ", dtype_name(compute.dtype),
             " on ", compute.device.str(), ", weights in ", dtype_name(compute.param_dtype), "\n", "mesh:     ", mesh,
             sharding.zero_stage ? concat(", ZeRO stage ", *sharding.zero_stage) : "", "\n");
  if (const auto teacher = teacher_model_name()) text += concat("teacher:  ", *teacher, "\n");
  if (const auto reference = reference_model_name()) text += concat("reference: ", *reference, "\n");
  for (const data::DatasetOptions& inform : config_.mixture().informs) {
    std::string source = inform.dataset_name.empty() ? inform.type : inform.dataset_name;
    for (const std::string& file : inform.data_files) source += (source.empty() ? "" : " ") + file;
    text += concat("data:     ", source, " (", inform.split, ")\n");
  }
  if (config_.has("trainer")) {
    const TrainingArguments arguments = config_.training_arguments();
    text += concat("trainer:  ", config_.trainer_type(), ", learning rate ", arguments.learning_rate, ", batch ",
                   arguments.total_batch_size, ", ", arguments.optimizer, "\n");
  }
  return text;
}

}  // namespace easydel
