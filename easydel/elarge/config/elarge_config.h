// A run in one file: model, data, trainer and what is to be done, as EasyDeL's eLargeModel has it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/elarge/config/sections.h"
#include "easydel/elarge/yaml/yaml.h"
#include "easydel/infra/config/compute_settings.h"
#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {

class ELargeConfig;

// One of `actions`, under the first of its names.
struct ElargeAction {
  std::string name;  // validate, print, dump_config, to_json, to_yaml, train, eval, serve
  Json parameters;   // null when there are none; to_json and to_yaml: {"path": …}; serve: keys of the section serve
  YamlPath path;     // for where()
};

// The given config, with line numbers. Each section is parsed on access; an invalid value or key is a ConfigError
// with file, line and the nearest right key, one that is not supported yet a NotSupportedError.
class ELargeConfig {
 public:
  ELargeConfig() = default;
  explicit ELargeConfig(Json config);

  static ELargeConfig from_yaml(const std::filesystem::path& path);
  static ELargeConfig from_json(const std::filesystem::path& path);
  static ELargeConfig from_file(const std::filesystem::path& path);  // by its ending: .yaml, .yml, .json
  static ELargeConfig from_yaml_text(std::string_view text, const std::string& name = "YAML");

  // "trainer.learning_rate=1e-5", "mixture.informs.0.split=test": JSON where it reads as such, else a text. UsageError
  // without "=".
  void set(const std::string& assignment);
  void set(const YamlPath& path, Json value);
  void update(const Json& changes);  // objects are merged, anything else is replaced

  bool has(std::string_view section) const;
  ModelSection model() const;
  std::optional<ModelSection> teacher_model() const;
  std::optional<ModelSection> reference_model() const;
  std::optional<ModelSection> reward_model() const;
  std::optional<ModelSection> value_model() const;
  LoaderSection loader() const;
  PlatformSection platform() const;
  // The device and the types of loader and platform, those of the machine where they say nothing. ConfigError where
  // there is no such device.
  ComputeSettings compute() const;
  QuantizationSection quantization() const;
  ShardingSection sharding() const;
  BaseConfigSection base_config() const;
  // Keys of the model's config: sharding's, those of base_config.values and of a model's extra_kwargs, without those
  // that have no effect here.
  Json config_kwargs() const;
  Json config_kwargs(const ModelSection& model) const;
  MixtureSection mixture() const;
  std::optional<MixtureSection> eval_mixture() const;
  EvalSection eval() const;
  EsurgeSection esurge() const;
  ServeSection serve() const;
  std::string trainer_type() const;              // "sft" when none is given
  TrainingArguments training_arguments() const;  // with what mixture says about rows
  std::vector<ElargeAction> actions() const;     // ConfigError when there is no such list

  // Reads every section and action, and checks what they need from each other.
  void validate() const;
  // What was given and has no meaning here, a sentence each.
  std::vector<std::string> notes(bool with_trainer = true) const;  // a trainer says its own as it begins

  const Json& to_dict() const { return json_; }  // as it was given
  Json normalized() const;                       // with every default filled in
  std::string to_json() const;
  std::string to_yaml() const;
  std::string dump() const;  // normalized(), as YAML

  const std::string& name() const { return name_; }  // the file; "" without one
  // "[elarge] run.yaml:12: trainer.learning_rate", the beginning of a message about that place.
  std::string where(const YamlPath& path) const;
  // Runs `work`. What it throws gets the place of the key before it that it names: the first one of these sections that
  // was given; else `otherwise`, where that is not empty.
  void located(const std::vector<YamlPath>& sections, const YamlPath& otherwise,
               const std::function<void()>& work) const;

 private:
  const Json* find(const YamlPath& path) const;
  using Tables = std::vector<std::string_view>;  // of other_keys(); the first that has a key counts
  template <class Section>
  Section read(const YamlPath& path, const Tables& tables, const std::vector<std::string>& nested = {}) const {
    Section section;
    read_section(path, tables, nested, [&](FieldVisitor& v) { list_fields(section, v); });
    return section;
  }
  void read_section(const YamlPath& path, const Tables& tables, const std::vector<std::string>& nested,
                    const std::function<void(FieldVisitor&)>& fields) const;
  std::optional<ModelSection> read_model(const std::string& section) const;
  MixtureSection read_mixture(const std::string& section) const;
  void check_keys(const YamlPath& path, const std::vector<std::string>& known, const Tables& tables) const;
  void check_sections() const;
  void check_other_model(const std::string& section) const;
  void apply_mixture(TrainingArguments& arguments) const;
  void note_keys(const YamlPath& path, const Tables& tables, std::vector<std::string>& found) const;
  void unwrap();

  Json json_ = Json::object();  // the sections, then actions
  std::string name_;            // the file
  std::optional<YamlDocument> document_;
  YamlPath prefix_;                // "config", where the sections stand below it
  std::set<std::string> changed_;  // by set(), and so in no line of the file
};

YamlPath below(YamlPath path, std::string_view key);
// "mixture.informs[0].split"
std::string dotted(const YamlPath& path);

}  // namespace easydel
