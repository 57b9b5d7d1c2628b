// From config.json to a config: finding the file, reading any spelling, applying overrides.
#pragma once

#include <string>
#include <typeinfo>

#include "easydel/core/json/json.h"
#include "easydel/io/hub/hub.h"

namespace easydel {

struct BaseConfig;

// What is changed while a config is read, and how it is fetched.
struct ConfigOptions {
  Json overrides = Json::object();  // config_kwargs: fields by their keys, in any spelling
  HubOptions hub = {};              // revision, token, cache_dir, …: for a name on the hub
};

struct ConfigFile {
  Json json;
  std::string path;  // for messages
};

// A directory with a config.json, that file itself, or the name of a repository on the hub. IoError when there is none.
ConfigFile load_config_file(const std::string& name_or_path, const ConfigOptions& options = {});

// Fills a config that still has its defaults, completes and validates it. `where` is named in errors: the file.
void read_config(BaseConfig& config, const Json& json, const std::string& where, const ConfigOptions& options = {});

// ConfigError when the file is of another family. An override of model_type is taken for what the user knows better.
void check_model_type(const BaseConfig& config, const Json& json, const std::string& where,
                      const ConfigOptions& options = {});

std::string short_type_name(const std::type_info& type);  // "LlamaConfig"

}  // namespace easydel
