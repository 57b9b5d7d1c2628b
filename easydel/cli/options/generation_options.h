// Every field of a GenerationConfig as an option.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "easydel/generation/generation_config.h"

namespace CLI {
class App;
}

namespace easydel::cli {

struct GenerationOptions {
  std::map<std::string, std::string> values;  // by key, as typed
  std::map<std::string, bool> flags;
  std::vector<std::string> stop_strings;
};

// --max-new-tokens, --do-sample, …: the fields' keys with dashes.
void add_generation_options(CLI::App& command, GenerationOptions& options);
// The model's generation_config.json with the given options. UsageError names the option.
GenerationConfig to_generation_config(const GenerationOptions& options, const GenerationConfig& model);

}  // namespace easydel::cli
