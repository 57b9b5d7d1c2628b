// What stands beside a model's weights: read, carried through states and meshes, and written again.
#include "easydel/infra/files/companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/state/state.h"
#include "easydel/io/hub/hub_push.h"
#include "easydel/lora/lora.h"
#include "easydel/optim/optimizers.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/hub_fixture.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::StartsWith;
using testing::ThrowsMessage;

constexpr const char* kTokenizer = R"({"version": "1.0", "added_tokens": [], "normalizer": null,
  "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
  "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "[UNK]": 2}, "unk_token": "[UNK]"}})";

class CompanionFiles : public testing::Test {
 protected:
  CompanionFiles() {
    tiny_llama()->save_pretrained(from(), {.verbose = false});
    write_file_atomically(from() / "generation_config.json", R"({"max_new_tokens": 3, "eos_token_id": [28]})");
    write_file_atomically(from() / "tokenizer.json", kTokenizer);
    write_file_atomically(from() / "tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
    write_file_atomically(from() / "chat_template.jinja", "{{ messages[0].content }}");
    make_directory(from() / "additional_chat_templates");
    write_file_atomically(from() / "additional_chat_templates/tool_use.jinja", "tools");
  }
  fs::path from() const { return directory_ / "from"; }
  std::shared_ptr<BaseModule> load() { return AutoModelForCausalLM::from_pretrained(from(), {.verbose = false}); }
  void expect_all_in(const fs::path& directory) {
    for (const char* name :
         {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "additional_chat_templates/tool_use.jinja"})
      EXPECT_EQ(read_file(directory / name), read_file(from() / name)) << directory << name;
    EXPECT_EQ(Json::parse_file((directory / "generation_config.json").string()),
              Json::parse_file((from() / "generation_config.json").string()));
  }
  TemporaryDirectory directory_;
};

TEST_F(CompanionFiles, AreWrittenByAModelAndByAStateOfIt) {
  const auto model = load();
  model->save_pretrained(directory_ / "saved", {.verbose = false});
  expect_all_in(directory_ / "saved");
  model->to_state(optim::sgd(0.1)).save_state(directory_ / "state", {.verbose = false});
  expect_all_in(directory_ / "state");
  model->apply_lora_to_layers(2, 4, "q_proj");
  model->to_state(optim::sgd(0.1)).save_state(directory_ / "adapted", {.verbose = false});
  expect_all_in(directory_ / "adapted");
}

TEST_F(CompanionFiles, AreThereWhenTheDirectoryIsGone) {
  const auto model = load();
  fs::rename(from(), directory_ / "moved");
  model->save_pretrained(from(), {.verbose = false});
  EXPECT_EQ(read_file(from() / "tokenizer.json"), kTokenizer);
}

TEST_F(CompanionFiles, SayHowToGenerateWhereTheCallDoesNot) {
  const auto model = load();
  EXPECT_EQ(model->generation_config().max_new_tokens, 3);
  EXPECT_EQ(model->generate(tiny_ids(1, 4)).sequences.size(1), 4 + 3);
  EXPECT_EQ(model->generate(tiny_ids(1, 4), {.generation_config = {.max_new_tokens = 5}}).sequences.size(1), 4 + 5);
  model->set_generation_config({.max_new_tokens = 2});
  EXPECT_EQ(model->generate(tiny_ids(1, 4)).sequences.size(1), 4 + 2);
  EXPECT_EQ(model->to_state().model()->generate(tiny_ids(1, 4)).sequences.size(1), 4 + 2);
}

TEST_F(CompanionFiles, AreNotNeededWhereConfigJsonHasTheSettings) {
  std::filesystem::remove(from() / "generation_config.json");
  Json config = Json::parse_file((from() / "config.json").string());
  config["max_new_tokens"] = 6;
  write_file_atomically(from() / "config.json", config.dump());
  EXPECT_EQ(load()->generate(tiny_ids(1, 4)).sequences.size(1), 4 + 6);
}

TEST_F(CompanionFiles, NameTheFileOfAValueThatIsWrong) {
  write_file_atomically(from() / "generation_config.json", R"({"top_p": "most"})");
  const auto model = load();
  EXPECT_THAT([&] { model->generate(tiny_ids(1, 4)); },
              ThrowsMessage<ConfigError>(concat("[GenerationConfig] ", (from() / "generation_config.json").string(),
                                                ": top_p must be a number; got \"most\".")));
}

TEST_F(CompanionFiles, ATokenizerIsSavedByItselfAndGivenToAModel) {
  const AutoTokenizer tokenizer = AutoTokenizer::from_directory(from());
  tokenizer.save_pretrained(directory_ / "tokenizer");
  EXPECT_EQ(AutoTokenizer::from_directory(directory_ / "tokenizer")->encode_ids("b a"), tokenizer->encode_ids("b a"));
  const auto model = tiny_llama();
  model->set_tokenizer(tokenizer).save_pretrained(directory_ / "model", {.verbose = false});
  EXPECT_EQ(read_file(directory_ / "model/tokenizer.json"), kTokenizer);
}

TEST_F(CompanionFiles, AModelWithoutThemWritesNone) {
  tiny_llama()->save_pretrained(directory_ / "bare", {.verbose = false});
  EXPECT_EQ(list_directory(directory_ / "bare"), (std::vector<std::string>{"config.json", "model.safetensors"}));
}

#if EASYDEL_HAS_CURL

class SavePushTest : public HubTest {
 protected:
  SavePushTest() : token_("HF_TOKEN", "hf_good") {}
  ScopedVariable token_;
};

TEST_F(SavePushTest, WhatIsSavedGoesToTheHubWithItsTokenizer) {
  start();
  const TemporaryDirectory place;
  write_file_atomically(place / "tokenizer.json", kTokenizer);
  const auto model = tiny_llama();
  model->set_tokenizer(AutoTokenizer::from_directory(place.path()));
  make_directory(place / "out");
  write_file_atomically(place / "out/notes.txt", "mine");
  model->save_pretrained(place / "out",
                         {.verbose = false, .push_to_hub = true, .repo_id = "org/saved", .token = "hf_good"});
  const Json files =
      command(Json::object({{"do", "show"}, {"repo", "models/org/saved"}, {"revision", "main"}})).at("files");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
    EXPECT_TRUE(files.contains(name)) << name;
  EXPECT_FALSE(files.contains("notes.txt"));  // was there before
  EXPECT_TRUE(fs::exists(place / "out/model.safetensors"));
  EXPECT_THAT([&] { model->save_pretrained(place / "out", {.repo_id = "org/saved"}); },
              ThrowsMessage<ConfigError>("[save_pretrained] repo_id and token are for push_to_hub, which is false."));
}

#endif

}  // namespace
}  // namespace easydel
