#include "easydel/trainers/rollouts/tools/tool_box.h"

#include "easydel/core/error.h"
#include "easydel/trainers/rewards/line_process.h"
#include "easydel/trainers/rewards/reward_settings.h"

namespace easydel {

struct ToolBox::Tool {
  std::string name, description;
  std::vector<std::string> command;
  Json parameters;
  double timeout = 10;
  std::unique_ptr<LineProcess> process;  // from the first call on
};

namespace {

Json failure(const std::string& why) { return Json::object({{"error", why}}); }

ToolAnswer answer_of(const Json& json) {
  const bool failed = json.is_object() && json.contains("error");
  return {.text = json.is_string() ? json.as_string() : json.dump(), .has_failed = failed};
}

}  // namespace

ToolBox::ToolBox(const Json& tools) {
  if (tools.is_null()) return;
  require<ConfigError>(tools.is_array(), "[tools] must be a list of objects with name and command; got ",
                       tools.type_name(), ".");
  for (const Json& given : tools.as_array()) {
    require<ConfigError>(given.is_object() && given.contains("name") && given.at("name").is_string(),
                         "[tools] each must be an object with a name; got ", given.dump().substr(0, 200), ".");
    auto tool = std::make_unique<Tool>();
    tool->name = given.at("name").as_string();
    Json rest = given;
    rest["type"] = tool->name;
    RewardSettings settings(rest, "[tools]");
    settings.text("name");
    tool->description = settings.text("description", "");
    tool->command = settings.words("command");
    tool->timeout = settings.number("timeout", 10);
    require<ConfigError>(tool->timeout > 0, "[tools] timeout of ", tool->name, " must be positive; got ", tool->timeout,
                         ".");
    tool->parameters =
        settings.object("parameters", Json::object({{"type", "object"}, {"properties", Json::object()}}));
    settings.finish();
    for (const auto& other : tools_)
      require<ConfigError>(other->name != tool->name, "[tools] has two tools named \"", tool->name, "\".");
    tools_.push_back(std::move(tool));
  }
}

ToolBox::~ToolBox() = default;
ToolBox::ToolBox(ToolBox&&) noexcept = default;
ToolBox& ToolBox::operator=(ToolBox&&) noexcept = default;

Json ToolBox::schemas() const {
  Json list = Json::array();
  for (const auto& tool : tools_)
    list.push_back(Json::object({{"type", "function"},
                                 {"function", Json::object({{"name", tool->name},
                                                            {"description", tool->description},
                                                            {"parameters", tool->parameters}})}}));
  return list;
}

std::vector<ToolAnswer> ToolBox::call(const std::vector<ToolCall>& calls) {
  std::vector<ToolAnswer> answers(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    answers[i] =
        answer_of(failure(calls[i].problem.empty() ? concat("Tool ", calls[i].name, " not found.") : calls[i].problem));
  }
  for (const auto& tool : tools_) {
    std::vector<std::string> lines;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].name != tool->name || !calls[i].problem.empty()) continue;
      lines.push_back(Json::object({{"name", tool->name}, {"arguments", calls[i].arguments}}).dump());
      places.push_back(i);
    }
    if (lines.empty()) continue;
    if (!tool->process) tool->process = std::make_unique<LineProcess>("[tools]", tool->command);
    std::size_t next = 0;
    tool->process->ask(lines, tool->timeout, [&](const std::string& line) {
      try {
        answers[places[next++]] = answer_of(Json::parse(line));
      } catch (const FormatError&) {
        tool->process->give_up(
            concat("must reply to each call with a line of JSON; got \"", line.substr(0, 200), "\""));
      }
    });
  }
  return answers;
}

}  // namespace easydel
