// The actions of an ELargeConfig, by the rules of EasyDeL's runner.
#include <algorithm>
#include <map>

#include "easydel/core/error.h"
#include "easydel/elarge/config/elarge_config.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

const std::map<std::string, std::string>& action_names() {
  static const std::map<std::string, std::string> names = {{"validate", "validate"},
                                                           {"print", "print"},
                                                           {"show", "print"},
                                                           {"dump_config", "dump_config"},
                                                           {"print_config", "dump_config"},
                                                           {"config", "dump_config"},
                                                           {"to_json", "to_json"},
                                                           {"save_json", "to_json"},
                                                           {"write_json", "to_json"},
                                                           {"to_yaml", "to_yaml"},
                                                           {"save_yaml", "to_yaml"},
                                                           {"write_yaml", "to_yaml"},
                                                           {"train", "train"},
                                                           {"eval", "eval"},
                                                           {"serve", "serve"},
                                                           {"server", "serve"}};
  return names;
}

std::string canonical(const std::string& given, const std::string& where) {
  std::string name;
  for (const char c : given) {
    if (c != ' ') name += c == '-' ? '_' : static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  }
  const auto found = action_names().find(name);
  if (found != action_names().end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [alias, action] : action_names()) known.push_back(alias);
  const std::string near = nearest_name(name, known);
  fail<ConfigError>(where,
                    " must be an action: validate, print, dump_config, to_json, to_yaml, train, eval, serve; got \"",
                    given, "\".", near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

// A text, {name: parameters}, or the common slip {name: null, parameter: …}.
std::pair<std::string, Json> split_action(const Json& item, const std::string& where) {
  if (item.is_string()) return {item.as_string(), {}};
  require<ConfigError>(item.is_object() && item.size() > 0, where,
                       " must be a name, or a name with its parameters; got ", item.dump(), ".");
  const auto& entries = item.as_object();
  if (entries.size() == 1) return {entries.begin()->first, entries.begin()->second};
  std::string name;
  Json parameters = Json::object();
  for (const auto& [key, value] : entries) {
    if (value.is_null() && name.empty()) {
      name = key;
    } else {
      parameters[key] = value;
    }
  }
  require<ConfigError>(!name.empty(), where, " must have one name, with its parameters indented below it; got ",
                       item.dump(), ".");
  return {name, parameters};
}

void check_names(const Json& given, const std::vector<std::string>& known, const std::string& action,
                 const std::string& where) {
  for (const auto& [key, value] : given.as_object()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_name(key, known);
    fail<ConfigError>(where, ".", key, " is not a parameter of ", action, ".",
                      near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
}

void check_eval(const Json& given, const std::string& where) {
  require<ConfigError>(given.is_object() && given.contains("tasks"), where, " needs tasks: a name or a list of names.");
  check_names(given, {"tasks", "num_fewshot", "output_path", "print_results"}, "eval", where);
  const Json& tasks = given.at("tasks");
  bool names = tasks.is_string() || (tasks.is_array() && tasks.size() > 0);
  if (tasks.is_array()) {
    for (const Json& task : tasks.as_array()) names = names && task.is_string();
  }
  require<ConfigError>(names, where, ".tasks must be a name or a list of names; got ", tasks.dump(), ".");
  const auto check = [&](const char* key, auto is_right, std::string_view rule) {
    const Json* value = given.find(key);
    require<ConfigError>(!value || value->is_null() || is_right(*value), where, ".", key, " must be ", rule, "; got ",
                         value ? value->dump() : "", ".");
  };
  check("num_fewshot", [](const Json& v) { return v.is_int() && v.as_int() >= 0; }, "an integer that is not negative");
  check("output_path", [](const Json& v) { return v.is_string() && !v.as_string().empty(); }, "a path");
  check("print_results", [](const Json& v) { return v.is_bool(); }, "true or false");
}

// Keys of the section serve, and EasyDeL's own parameters: those with another name, and those with one meaning here.
void check_serve(Json& given, const std::string& where) {
  if (given.is_null()) given = Json::object();
  require<ConfigError>(given.is_object(), where, " takes keys of the section serve; got ", given.dump(), ".");
  ServeSection section;
  std::vector<std::string> known = {"tool_parser_name", "require_api_key", "enable_function_calling",
                                    "oai_like_processor", "log_level"};
  for (const FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(section, v); }))
    known.push_back(field.key);
  check_names(given, known, "serve", where);
  for (const auto& [key, only] : {std::pair("enable_function_calling", Json(true)),
                                  {"oai_like_processor", Json(true)},
                                  {"log_level", Json("info")}}) {
    const Json* value = given.find(key);
    require<NotSupportedError>(!value || value->is_null() || *value == only, where, ".", key, " must be ", only.dump(),
                               "; got ", value ? value->dump() : "", ".",
                               std::string_view(key) == "log_level" ? " Use the flag --log." : "");
    given.as_object().erase(key);
  }
  if (const Json* name = given.find("tool_parser_name")) {
    given["tool_parser"] = Json(*name);
    given.as_object().erase("tool_parser_name");
  }
  const Json* required = given.find("require_api_key");
  require<ConfigError>(!required || required->is_bool(), where, ".require_api_key must be true or false; got ",
                       required ? required->dump() : "", ".");
}

void check_parameters(ElargeAction& action, const std::string& where) {
  Json& given = action.parameters;
  if (action.name == "to_json" || action.name == "to_yaml") {
    if (given.is_string()) given = Json::object({{"path", given}});
    const Json* path = given.find("path");
    require<ConfigError>(path && path->is_string() && !path->as_string().empty(), where, " needs a path: ", action.name,
                         ": FILE.");
    return check_names(given, {"path"}, action.name, where);
  }
  if (action.name == "serve") return check_serve(given, where);
  if (action.name == "eval") return check_eval(given, where);
  require<ConfigError>(given.is_null() || (given.is_object() && given.size() == 0), where, " takes no parameters; got ",
                       given.dump(), ".");
}

}  // namespace

std::vector<ElargeAction> ELargeConfig::actions() const {
  const Json* given = find({"actions"});
  require<ConfigError>(given != nullptr, "[elarge] ", name_, name_.empty() ? "" : ": ",
                       "there must be a list of actions, as in actions: [validate, train].");
  const bool single = given->is_string() || given->is_object();
  require<ConfigError>(single || given->is_array(), where({"actions"}), " must be a list; got ", given->dump(), ".");
  std::vector<ElargeAction> found;
  const std::size_t count = single ? 1 : given->size();
  for (std::size_t i = 0; i < count; ++i) {
    YamlPath path = {"actions"};
    if (!single) path.push_back(std::to_string(i));
    auto [name, parameters] = split_action(single ? *given : given->at(i), where(path));
    ElargeAction action{canonical(name, where(path)), std::move(parameters), path};
    check_parameters(action, concat(where(path), " (", action.name, ")"));
    found.push_back(std::move(action));
  }
  return found;
}

}  // namespace easydel
