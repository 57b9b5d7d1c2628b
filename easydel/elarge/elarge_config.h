// A run in one file: model, data, trainer and what is to be done, as EasyDeL's eLargeModel has it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json.h"
#include "easydel/elarge/sections.h"
#include "easydel/elarge/yaml.h"
#include "easydel/trainers/training_arguments.h"

namespace easydel {

class ELargeConfig;

// One of `actions`, under the first of its names.
struct ElargeAction {
  std::string name;  // validate, print, dump_config, to_json, to_yaml, train, eval, serve
  Json parameters;   // null when there are none; to_json and to_yaml: {"path": …}
  YamlPath path;     // for where()
};

// What was given, and where. Each section is read when it is asked for; a value or a key that is wrong is a ConfigError
// with file, line and the nearest right key, one that asks for what there is not yet a NotSupportedError.
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
  LoaderSection loader() const;
  QuantizationSection quantization() const;
  ShardingSection sharding() const;
  BaseConfigSection base_config() const;
  // Keys of the model's config: base_config.values without those that mean nothing here, and sharding's.
  Json config_kwargs() const;
  MixtureSection mixture() const;
  std::optional<MixtureSection> eval_mixture() const;
  EvalSection eval() const;
  std::string trainer_type() const;  // "sft" when none is given
  TrainingArguments training_arguments() const;
  std::vector<ElargeAction> actions() const;  // ConfigError when there is no such list

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

 private:
  const Json* find(const YamlPath& path) const;
  template <class Section>
  Section read(const YamlPath& path, std::string_view table) const;
  std::optional<ModelSection> read_model(const std::string& section) const;
  MixtureSection read_mixture(const std::string& section) const;
  void check_keys(const YamlPath& path, const std::vector<std::string>& known, std::string_view table) const;
  void check_sections() const;
  void check_unread(const std::string& section) const;
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
