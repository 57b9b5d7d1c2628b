#include "easydel/infra/config/config_io.h"

#include <cxxabi.h>

#include <cstdlib>
#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/quoted.h"
#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config_json.h"
#include "easydel/infra/config/config_spelling.h"
#include "easydel/infra/files/gguf_model.h"

namespace easydel {
namespace {

std::string where_text(const BaseConfig& config, const std::string& where) {
  return concat("[", config.class_name(), "] ", where.empty() ? "" : where + ": ");
}

// Without the help and the types that describe() gives too.
class SpelledFields final : public FieldVisitor {
 public:
  std::vector<FieldValue> found;

 protected:
  void visit(Field& field) override {
    if (!has_other_spellings(field)) return;
    found.push_back(
        {.key = std::string(field.key), .aliases = {field.aliases.begin(), field.aliases.end()}, .value = field.get()});
  }
};

}  // namespace

std::string short_type_name(const std::type_info& type) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : type.name();
  std::free(demangled);
  const std::size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

ConfigFile load_config_file(const std::string& name_or_path, const ConfigOptions& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path file = name_or_path;
  if (const auto gguf = find_gguf(file)) return {gguf_config(*GgufFile::open(*gguf)), gguf->string()};
  if (!fs::is_regular_file(file, ignored)) {
    HubOptions hub = options.hub;
    hub.files = {"config.json"};
    const fs::path directory = resolve(name_or_path, hub);
    file = directory / "config.json";
    require<IoError>(fs::exists(file, ignored), "[from_pretrained] ", directory.string(),
                     " must hold a config.json; there is none.");
  }
  return {Json::parse_file(file.string()), file.string()};
}

void read_config(BaseConfig& config, const Json& json, const std::string& where, const ConfigOptions& options) {
  const std::string prefix = where_text(config, where);
  if (!json.is_object()) wrong_type(prefix + "a config", "an object", json);
  SpelledFields spelled;
  ConfigJson::all_fields(config, spelled);
  Json given = json;
  config.rename_older_keys(given, /*is_whole=*/true);
  CurrentSpelling current = to_current_spelling(std::move(given), spelled.found, prefix);
  ConfigJson::read(config, std::move(current), prefix);
  if (options.overrides.size() > 0) {
    ConfigJson::change(config, options.overrides, /*any_key=*/false);
    return;
  }
  config.post_init();
  config.validate();
}

void check_model_type(const BaseConfig& config, const Json& json, const std::string& where,
                      const ConfigOptions& options) {
  const Json* overridden = options.overrides.find("model_type");
  const Json* type = overridden ? overridden : json.find("model_type");
  if (!type || !type->is_string() || type->as_string() == config.model_type()) return;
  fail<ConfigError>(where_text(config, where), "model_type must be \"", config.model_type(), "\"; got ",
                    quoted(type->as_string()), ". AutoConfig picks the class by model_type.");
}

}  // namespace easydel
