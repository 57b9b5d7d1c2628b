#include "easydel/infra/config/base_config.h"

#include <algorithm>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/runtime.h"
#include "easydel/infra/config/config_check.h"
#include "easydel/infra/config/config_json.h"

namespace easydel {
void BaseConfig::set_num_labels(int64_t count) {
  require<ConfigError>(count >= 1, "[", class_name(), "] num_labels must be at least 1; got ", count, ".");
  id2label.clear();
  label2id.clear();
  if (count == 2) return;
  for (int64_t i = 0; i < count; ++i) {
    id2label[i] = "LABEL_" + std::to_string(i);
    label2id["LABEL_" + std::to_string(i)] = i;
  }
}

PartitionRules BaseConfig::get_partition_rules(bool) const { return {{".*", {}}}; }

std::vector<FieldValue> BaseConfig::describe() const {
  const auto copy = clone();
  return collect_fields([&](FieldVisitor& v) { ConfigJson::all_fields(*copy, v); });
}

Json BaseConfig::get(std::string_view key) const {
  const auto fields = describe();
  if (const FieldValue* field = find_field(fields, key)) return field->value;
  const Json* custom = source_.find(key);
  return custom ? *custom : Json();
}

void BaseConfig::update(const Json& values) { ConfigJson::change(*this, values, /*any_key=*/false); }
void BaseConfig::attach_custom_arguments(const Json& values) { ConfigJson::change(*this, values, /*any_key=*/true); }

std::vector<std::string> BaseConfig::custom_arguments() const {
  const auto fields = describe();
  std::vector<std::string> keys;
  for (const auto& [key, value] : source_.as_object()) {
    if (key != "model_type" && key != "transformers_version" && !find_field(fields, key)) keys.push_back(key);
  }
  return keys;
}

Json BaseConfig::to_dict() const {
  const auto copy = clone();
  copy->post_init();
  copy->validate();
  return ConfigJson::write(*copy);
}

std::string BaseConfig::to_json_string() const { return to_dict().dump(2) + "\n"; }

void BaseConfig::to_json_file(const std::filesystem::path& path) const {
  write_file_atomically(path, to_json_string());
}

void BaseConfig::save_pretrained(const std::filesystem::path& directory) const {
  const std::string text = to_json_string();
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  require<IoError>(!error, "[save_pretrained] ", directory.string(),
                   " must be a directory that can be created; got: ", error.message(), ".");
  write_file_atomically(directory / "config.json", text);
}

Mesh BaseConfig::create_mesh(int64_t device_count) const {
  return easydel::create_mesh({.axis_dims = sharding.axis_dims,
                               .axis_names = sharding.axis_names,
                               .dcn_axis_dims = sharding.dcn_axis_dims,
                               .device_count = device_count});
}

Mesh BaseConfig::mesh() const { return model_mesh_ ? *model_mesh_ : create_mesh(current_rank().world_size); }

void BaseConfig::validate() const {
  const std::string where = "[" + class_name() + "] ";
  check_settings(sharding, where);
  check_settings(attention, where);
  check_settings(memory, where);
  check_settings(moe, where);
  ConfigCheck(*this).operations();
  static const std::set<std::string> kProblems = {"regression", "single_label_classification",
                                                  "multi_label_classification"};
  require<ConfigError>(!problem_type || kProblems.contains(*problem_type), where,
                       "problem_type must be one of regression, single_label_classification, "
                       "multi_label_classification; got \"",
                       problem_type.value_or(""), "\".");
  require<ConfigError>(problem_type != "single_label_classification" || num_labels() > 1, where,
                       "problem_type \"single_label_classification\" must have more than one label; got ", num_labels(),
                       ". One output is a regression.");
}

bool operator==(const BaseConfig& a, const BaseConfig& b) {
  if (a.class_name() != b.class_name()) return false;
  const auto fields_a = a.describe();
  const auto fields_b = b.describe();
  for (std::size_t i = 0; i < fields_a.size(); ++i) {
    if (!(fields_a[i].value == fields_b[i].value)) return false;
  }
  const auto custom = a.custom_arguments();
  return custom.size() == b.custom_arguments().size() &&
         std::all_of(custom.begin(), custom.end(), [&](const auto& key) {
           const Json* other = b.source_.find(key);
           return other && *other == a.source_.at(key);
         });
}

}  // namespace easydel
