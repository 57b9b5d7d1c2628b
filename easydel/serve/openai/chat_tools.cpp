// Tools of a chat, and the grammar of an answer that may call them.
#include <algorithm>

#include "easydel/serve/openai/chat_prompt.h"
#include "easydel/serve/openai/sampling_fields.h"
#include "easydel/serve/output/tool_grammar.h"

namespace easydel::serve {
namespace {

const std::string& tools_name(const Json& tool) { return tool.at("function").at("name").as_string(); }

void tools_check(const Json& tool, const std::string& path) {
  Fields fields(tool, path + ".");
  const std::string type = fields.string("type").value_or("");
  require_field(type == "function", path + ".type", path, ".type must be \"function\"; got \"", type, "\".");
  const Json* function = fields.object("function");
  require_field(function != nullptr, path + ".function", path, ".function is required.");
  fields.refuse_rest();
  Fields inner(*function, path + ".function.");
  const auto name = inner.string("name");
  require_field(name && !name->empty(), path + ".function.name", path, ".function.name is required.");
  inner.string("description");
  inner.object("parameters");
  inner.boolean("strict");
  inner.refuse_rest();
}

Json tools_read(const Json& tools, const std::string& path) {
  for (std::size_t i = 0; i < tools.size(); ++i) {
    tools_check(tools.at(i), concat(path, "[", i, "]"));
    for (std::size_t k = 0; k < i; ++k) {
      require_field(tools_name(tools.at(k)) != tools_name(tools.at(i)), path, path, " has two functions named \"",
                    tools_name(tools.at(i)), "\".");
    }
  }
  return tools;
}

// {"type": "function", "function": {"name": …}}
std::string tools_named(const Json& choice, const std::string& path) {
  Fields fields(choice, path + ".");
  require_field(fields.string("type") == "function", path + ".type", path, ".type must be \"function\".");
  const Json* function = fields.object("function");
  require_field(function != nullptr, path + ".function", path, ".function is required.");
  fields.refuse_rest();
  Fields inner(*function, path + ".function.");
  const auto name = inner.string("name");
  require_field(name.has_value(), path + ".function.name", path, ".function.name is required.");
  inner.refuse_rest();
  return *name;
}

ToolChoice tools_mode(const std::string& mode, const std::string& path) {
  if (mode == "none") return ToolChoice::None;
  if (mode == "auto") return ToolChoice::Auto;
  if (mode == "required") return ToolChoice::Required;
  refuse_field(path, path, " must be none, auto, required or a function; got \"", mode, "\".");
}

bool tools_has(const Json& tools, const std::string& name) {
  const auto& all = tools.as_array();
  return std::any_of(all.begin(), all.end(), [&](const Json& tool) { return tools_name(tool) == name; });
}

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}: the others are left out.
void tools_allow(const Json& choice, ToolSettings& settings) {
  Fields fields(choice, "tool_choice.");
  fields.accept({"type"});
  const Json* allowed = fields.object("allowed_tools");
  require_field(allowed != nullptr, "tool_choice.allowed_tools", "tool_choice.allowed_tools is required.");
  fields.refuse_rest();
  Fields inner(*allowed, "tool_choice.allowed_tools.");
  settings.choice = tools_mode(inner.string("mode").value_or("auto"), inner.path("mode"));
  const Json* names = inner.array("tools");
  require_field(names != nullptr, inner.path("tools"), inner.path("tools"), " is required.");
  inner.refuse_rest();
  Json kept = Json::array();
  for (const Json& one : names->as_array()) {
    const std::string name = tools_named(one, inner.path("tools"));
    require_field(tools_has(settings.tools, name), inner.path("tools"), "there is no tool named \"", name, "\".");
    for (const Json& tool : settings.tools.as_array()) {
      if (tools_name(tool) == name) kept.push_back(tool);
    }
  }
  settings.tools = std::move(kept);
}

void tools_choose(const Json& choice, ToolSettings& settings) {
  if (choice.is_string()) {
    settings.choice = tools_mode(choice.as_string(), "tool_choice");
  } else if (choice.find("type") && *choice.find("type") == Json("allowed_tools")) {
    tools_allow(choice, settings);
  } else {
    settings.name = tools_named(choice, "tool_choice");
    settings.choice = ToolChoice::Named;
    require_field(tools_has(settings.tools, settings.name), "tool_choice", "there is no tool named \"", settings.name,
                  "\".");
  }
}

}  // namespace

ToolSettings read_tools(Fields& fields) {
  ToolSettings settings;
  if (const Json* tools = fields.array("tools")) settings.tools = tools_read(*tools, "tools");
  const bool has_tools = settings.tools.size() > 0;
  settings.choice = has_tools ? ToolChoice::Auto : ToolChoice::None;
  if (const Json* choice = fields.find("tool_choice")) {
    require_field(has_tools || *choice == Json("none") || *choice == Json("auto"), "tool_choice",
                  "tool_choice needs tools.");
    if (has_tools) tools_choose(*choice, settings);
  }
  settings.parallel = fields.boolean("parallel_tool_calls", true);
  return settings;
}

std::vector<ToolSpec> ToolSettings::specs() const {
  std::vector<ToolSpec> out;
  for (const Json& tool : tools.as_array()) {
    if (choice == ToolChoice::None || (choice == ToolChoice::Named && tools_name(tool) != name)) continue;
    const Json& function = tool.at("function");
    const Json* parameters = function.find("parameters");
    const Json* strict = function.find("strict");
    out.push_back({.name = tools_name(tool),
                   .parameters = parameters ? *parameters : Json(),
                   .strict = strict && strict->is_bool() && strict->as_bool()});
  }
  return out;
}

std::optional<GrammarSpec> answer_grammar(const std::optional<GrammarSpec>& format, const ToolSettings& tools,
                                          const MessageFormat& parsed) {
  require_field(!format || !tools.is_forced(), "tool_choice",
                "tool_choice cannot force a call when the answer has a format of its own.");
  if (format) return after_reasoning(*format, parsed);
  return tool_grammar(parsed, tools.specs(), tools.choice, tools.parallel);
}

}  // namespace easydel::serve
