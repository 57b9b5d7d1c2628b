// Side by side with jinja2, set up as transformers sets it up.
#include <gmock/gmock.h>

#include <cstdlib>

#include "easydel/core/json/json.h"
#include "easydel/text/jinja/template.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::jinja {
namespace {

std::string draws(const char* otherwise) {
  const char* given = std::getenv("EASYDEL_DRAWS");
  return given ? given : otherwise;
}

std::string seed() {
  const char* given = std::getenv("EASYDEL_SEED");
  return given ? given : "1";
}

void compare_snippets(const std::string& count, const Settings& settings) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {"snippets", directory / "cases.json", seed(), count};
  if (settings.strict_undefined) arguments.emplace_back("strict");
  run_python("templates_peer.py", arguments);
  const Json file = Json::parse_file(directory / "cases.json");
  int rendered = 0, refused = 0, messages = 0, differing = 0;
  for (const Json& one : file.at("cases").as_array()) {
    const std::string& source = one.at("template").as_string();
    Json ours;
    try {
      ours["text"] = Template(source, {}, settings).render(file.at("variables")).text;
    } catch (const TemplateError& error) {
      ours["error"] = error.what();
      ours["message"] = error.reason();
      ours["line"] = error.line();
    }
    const Json* text = one.find("text");
    text ? ++rendered : ++refused;
    bool same = text ? ours.find("text") && *ours.find("text") == *text : ours.find("error") != nullptr;
    // Errors of jinja2 itself have the same text and line; those of Python only need to be errors.
    if (same && one.find("message")) {
      same = ours.at("message") == one.at("message") && ours.at("line") == one.at("line");
      ++messages;
    }
    if (same || ++differing > 40) continue;
    ADD_FAILURE() << "template: " << source << "\n  theirs: " << (text ? *text : one).dump()
                  << "\n  ours:   " << ours.dump();
  }
  EXPECT_EQ(differing, 0);
  EXPECT_GT(rendered, 300);
  EXPECT_GT(refused, 150);
  EXPECT_GT(messages, 100);
}

TEST(JinjaParity, SnippetsRenderOrFailAsInPython) { compare_snippets(draws("3000"), {}); }

TEST(JinjaParity, SnippetsWithJinjasOwnSpaceAndStrictUndefined) {
  compare_snippets(
      draws("1000"),
      {.trim_blocks = false, .lstrip_blocks = false, .keep_trailing_newline = true, .strict_undefined = true});
}

TEST(JinjaParity, CharacterPropertiesAreThoseOfPython) {
  const TemporaryDirectory directory;
  run_python("templates_peer.py", {"characters", directory / "cases.json"});
  const Json file = Json::parse_file(directory / "cases.json");
  const Template parsed(file.at("template").as_string());
  ASSERT_GT(file.at("cases").size(), 20);
  for (const Json& one : file.at("cases").as_array()) {
    const std::string ours = parsed.render(Json::object({{"u", one.at("u")}})).text;
    EXPECT_EQ(ours, one.at("text").as_string());
  }
}

}  // namespace
}  // namespace easydel::jinja
