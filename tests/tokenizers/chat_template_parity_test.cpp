// Side by side with transformers' apply_chat_template.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/tokenizers/chat_template.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* given = std::getenv(name);
  return given ? given : otherwise;
}

ChatInput read_input(const Json& chat, const Json& special_tokens, const Json& now) {
  ChatInput input{.messages = chat.at("messages")};
  if (const Json* tools = chat.find("tools")) input.tools = *tools;
  if (const Json* documents = chat.find("documents")) input.documents = *documents;
  input.add_generation_prompt = chat.contains("add_generation_prompt");
  if (const Json* field = chat.find("continue_final_message")) {
    input.continue_final_message = field->is_string() ? field->as_string() : "content";
  }
  input.variables = special_tokens;
  for (const auto& [name, value] : chat.at("variables").as_object()) input.variables[name] = value;
  std::tm time{};
  time.tm_year = static_cast<int>(now.at(0).as_int()) - 1900;
  time.tm_mon = static_cast<int>(now.at(1).as_int()) - 1;
  time.tm_mday = static_cast<int>(now.at(2).as_int());
  input.now = time;
  input.generated = input.continue_final_message.empty();
  return input;
}

Json to_json(const std::vector<RenderedChat::Span>& spans) {
  Json out = Json::array();
  for (const auto& span : spans) {
    out.push_back(Json::array({static_cast<int64_t>(span.begin), static_cast<int64_t>(span.end)}));
  }
  return out;
}

TEST(ChatTemplateParity, RandomConversationsRenderOrFailAsInTransformers) {
  const TemporaryDirectory directory;
  run_python("templates_peer.py", {"chats", directory / "cases.json", from_environment("EASYDEL_SEED", "1"),
                                   from_environment("EASYDEL_DRAWS", "1500")});
  const Json file = Json::parse_file(directory / "cases.json");
  std::map<std::string, ChatTemplate> templates;
  for (const auto& [name, source] : file.at("templates").as_object()) {
    templates.emplace(name, ChatTemplate(source.as_string()));
  }
  std::map<std::string, int> rendered;
  int refused = 0, generated = 0, continued = 0, differing = 0;
  for (const Json& one : file.at("cases").as_array()) {
    const std::string& name = one.at("template").as_string();
    const ChatInput input = read_input(one.at("chat"), file.at("variables"), file.at("now"));
    Json ours = Json::object();
    try {
      const RenderedChat chat = templates.at(name).render(input);
      ours["text"] = chat.text;
      if (input.generated) ours["generated"] = to_json(chat.generated);
    } catch (const Error& error) {
      ours["error"] = error.what();
    }
    Json theirs = Json::object();
    for (const char* key : {"text", "generated", "error"}) {
      if (const Json* value = one.find(key)) theirs[key] = *value;
    }
    const bool both_refuse = theirs.contains("error") && ours.contains("error");
    refused += both_refuse;
    if (theirs.contains("text")) {
      ++rendered[name];
      generated += theirs.contains("generated") && theirs.at("generated").size() > 0;
      continued += !input.continue_final_message.empty();
    }
    if (both_refuse || ours == theirs || ++differing > 10) continue;
    ADD_FAILURE() << name << ": " << one.at("chat").dump() << "\n  theirs: " << theirs.dump()
                  << "\n  ours:   " << ours.dump();
  }
  EXPECT_EQ(differing, 0);
  for (const auto& [name, source] : templates) EXPECT_GT(rendered[name], 30) << name;
  EXPECT_GT(refused, 100);
  EXPECT_GT(generated, 200);
  EXPECT_GT(continued, 30);
}

}  // namespace
}  // namespace easydel
