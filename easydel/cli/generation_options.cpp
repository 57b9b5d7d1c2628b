#include "easydel/cli/generation_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/field_visitor.h"

namespace easydel::cli {
namespace {

std::string option_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

// What a command has no use for: it prints the same whatever this says.
bool is_left_out(const std::string& key) { return key == "return_dict_in_generate"; }

// Refuses what greedy search, or a search without beams, would never look at.
void check_used(const GenerationOptions& options, const GenerationConfig& config) {
  const auto refuse = [&](const char* key, const char* why) {
    const auto found = options.values.find(key);
    if (found != options.values.end()) fail<UsageError>(option_name(key), " ", found->second, " needs ", why);
  };
  const auto temperature = options.values.find("temperature");
  if (!config.do_sample.value_or(false)) {
    const std::string why = "--do-sample: without it the best token is always taken.";
    if (temperature != options.values.end() && config.temperature.value_or(0) != 0) refuse("temperature", why.c_str());
    for (const char* key : {"top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"})
      refuse(key, why.c_str());
  }
  if (config.beams() > 1) return;
  for (const char* key : {"length_penalty", "early_stopping"}) refuse(key, "--num-beams above 1.");
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string placeholder(const std::string& type) {
  if (has(type, "lists") || has(type, "pairs")) return "JSON";
  if (has(type, "list of an")) return "INT,NUMBER";
  if (has(type, "list of")) return "ID,ID";
  return has(type, "integer") ? "INT" : has(type, "number") ? "NUMBER" : "VALUE";
}

// "2,5" is a list where one is possible; everything else is JSON, or text.
Json parse_value(const std::string& text, const std::string& type) {
  const bool listed = has(type, "list of") && has(text, ",") && text[0] != '[';
  try {
    return Json::parse(listed ? "[" + text + "]" : text);
  } catch (const FormatError&) {
    return text;
  }
}

}  // namespace

void add_generation_options(CLI::App& command, GenerationOptions& options) {
  GenerationConfig defaults;
  for (const FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(defaults, v); })) {
    const std::string key = field.key, name = option_name(key);
    if (is_left_out(key)) continue;
    if (key == "stop_strings") {
      command.add_option(name, options.stop_strings, field.help + " May be repeated")
          ->type_name("TEXT")
          ->group("Generation");
    } else if (field.type.starts_with("true or false")) {
      command.add_flag_function(
                 name, [&options, key](int64_t count) { options.flags[key] = count > 0; }, field.help)
          ->group("Generation");
    } else {
      command
          .add_option_function<std::string>(
              name, [&options, key](const std::string& text) { options.values[key] = text; }, field.help)
          ->type_name(placeholder(field.type))
          ->group("Generation");
    }
  }
}

GenerationConfig to_generation_config(const GenerationOptions& options, const GenerationConfig& model) {
  GenerationConfig defaults;
  std::map<std::string, std::string> types;
  for (const FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(defaults, v); })) {
    types[field.key] = field.type;
  }
  Json changes = Json::object();
  for (const auto& [key, text] : options.values) {
    const Json one = Json::object({{key, parse_value(text, types[key])}});
    try {
      GenerationConfig().with(one);
    } catch (const ConfigError& error) {
      // num_return_sequences is checked with the rest, below.
      if (key != "num_return_sequences") fail<UsageError>(option_name(key), " ", text, ": ", error.what());
    }
    changes[key] = one.at(key);
  }
  for (const auto& [key, value] : options.flags) changes[key] = value;
  if (!options.stop_strings.empty()) changes["stop_strings"] = options.stop_strings;
  GenerationConfig config;
  try {
    config = model.with(changes);
  } catch (const ConfigError& error) {
    fail<UsageError>(error.what());
  }
  check_used(options, config);
  return config;
}

}  // namespace easydel::cli
