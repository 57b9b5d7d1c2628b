#include "easydel/cli/options/generation_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel::cli {
namespace {

std::string option_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

// Each of these turns sampling on; they are rejected with --no-do-sample.
constexpr const char* kSampling[] = {"temperature", "top_k",     "top_p",          "top_h",
                                     "min_p",       "typical_p", "epsilon_cutoff", "eta_cutoff"};

// Rejects options that greedy search, or a search without beams, would ignore.
void check_used(const GenerationOptions& options, const GenerationConfig& config) {
  const auto refuse = [&](const char* key, const char* why) {
    const auto found = options.values.find(key);
    if (found != options.values.end()) fail<UsageError>(option_name(key), " ", found->second, " needs ", why);
  };
  if (!config.do_sample.value_or(false)) {
    for (const char* key : kSampling) refuse(key, "--do-sample: without it the most likely token is always chosen.");
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
    if (key == "stop_strings") {
      command.add_option(name, options.stop_strings, field.help + " Can be repeated")
          ->type_name("TEXT")
          ->group("Generation");
    } else if (field.type.starts_with("true or false")) {
      command
          .add_flag_function(
              concat(name, ",!--no-", name.substr(2)),
              [&options, key](int64_t count) { options.flags[key] = count > 0; }, field.help)
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
  const auto samples = [&](const char* key) { return options.values.contains(key); };
  if (!changes.contains("do_sample") && std::any_of(std::begin(kSampling), std::end(kSampling), samples))
    changes["do_sample"] = true;
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
