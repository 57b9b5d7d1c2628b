#include "easydel/tokenizers/files/tokenizer_config.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Json selected(const ChatTemplates& templates, std::optional<std::string_view> name, bool with_tools) {
  try {
    return templates.select(name, with_tools).source();
  } catch (const ConfigError&) {
    return {};
  }
}

TEST(TokenizerConfig, ReadsWhatTransformersReads) {
  const TemporaryDirectory directory;
  run_python("templates_peer.py", {"configs", directory.path().string()});
  const auto names = list_directory(directory.path());
  ASSERT_GE(names.size(), 14);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Json theirs = Json::parse_file(directory.path() / name / "seen.json");
    const TokenizerConfig ours = TokenizerConfig::load(directory.path() / name);
    EXPECT_EQ(ours.template_variables(), theirs.at("special_tokens")) << ours.template_variables().dump();
    EXPECT_EQ(Json(ours.extra_special_tokens), theirs.at("extra_special_tokens"));
    EXPECT_EQ(ours.model_max_length ? Json(*ours.model_max_length) : Json(), theirs.at("model_max_length"));
    EXPECT_EQ(selected(ours.chat_templates, {}, false), theirs.at("default"));
    EXPECT_EQ(selected(ours.chat_templates, {}, true), theirs.at("with_tools"));
    EXPECT_EQ(selected(ours.chat_templates, "rag", true), theirs.at("rag"));
  }
}

class WrittenConfig : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    write_file_atomically(directory_.path() / name, content);
  }
  TokenizerConfig load() const { return TokenizerConfig::load(directory_.path()); }
  TemporaryDirectory directory_;
};

TEST_F(WrittenConfig, KeepsUnknownKeysAndReadsFlags) {
  write("tokenizer_config.json",
        R"({"add_bos_token": true, "add_eos_token": false, "legacy": 1, "tokenizer_class": "LlamaTokenizer"})");
  const TokenizerConfig config = load();
  EXPECT_EQ(config.add_bos_token, true);
  EXPECT_EQ(config.add_eos_token, false);
  EXPECT_EQ(config.tokenizer_class, "LlamaTokenizer");
  EXPECT_EQ(config.values.at("legacy"), Json(1));
  EXPECT_EQ(config.special_token("bos_token"), std::nullopt);
}

TEST_F(WrittenConfig, FallsBackToTheOldTemplateFile) {
  write("chat_template.json", R"({"chat_template": "old {{ messages|length }}"})");
  EXPECT_EQ(load().chat_templates.select().source(), "old {{ messages|length }}");
}

TEST_F(WrittenConfig, AnEmptyDirectoryIsAnEmptyConfig) {
  const TokenizerConfig config = load();
  EXPECT_TRUE(config.special_tokens.empty());
  EXPECT_THAT(
      [&] { config.chat_templates.select(); },
      ThrowsMessage<ConfigError>(
          "[ChatTemplates] the tokenizer has no chat template. Write the prompt yourself, or pass a template."));
}

TEST_F(WrittenConfig, NamesTheAvailableTemplates) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "alt", "template": "a"}]})");
  const TokenizerConfig config = load();
  EXPECT_THAT([&] { config.chat_templates.select(); },
              ThrowsMessage<ConfigError>(
                  "[ChatTemplates] there are several templates and none is \"default\"; known: alt, rag."));
  EXPECT_THAT([&] { config.chat_templates.select("nope"); },
              ThrowsMessage<ConfigError>("[ChatTemplates] unknown template \"nope\"; known: alt, rag."));
}

TEST_F(WrittenConfig, RefusesWhatIsNotAConfig) {
  write("tokenizer_config.json", "[]");
  EXPECT_THAT([&] { load(); }, ThrowsMessage<FormatError>(HasSubstr("must contain an object; got an array.")));
  write("tokenizer_config.json", R"({"bos_token": 3})");
  EXPECT_THAT(
      [&] { load(); },
      ThrowsMessage<FormatError>("[TokenizerConfig] bos_token must be a string or an object with \"content\"; got 3."));
  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT([&] { load(); }, ThrowsMessage<FormatError>(HasSubstr("chat_template must be a string")));
  write("tokenizer_config.json", R"({"add_bos_token": "yes"})");
  EXPECT_THAT([&] { load(); }, ThrowsMessage<FormatError>(HasSubstr("add_bos_token must be true or false")));
  EXPECT_THAT([&] { TokenizerConfig::load(directory_.path() / "absent"); },
              ThrowsMessage<IoError>(HasSubstr("no such directory")));
}

}  // namespace
}  // namespace easydel
