#include "easydel/io/hub/hub_repo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

TEST(HubRepo, NamesItsFolderAndAddressesAsTheHubDoes) {
  const HubRepo model = make_hub_repo("org/name", "model", "main");
  EXPECT_EQ(model.folder_name(), "models--org--name");
  EXPECT_EQ(model.web_path(), "org/name");
  EXPECT_EQ(model.api_path(), "api/models/org/name");
  const HubRepo data = make_hub_repo("squad", "dataset", "refs/pr/1");
  EXPECT_EQ(data.folder_name(), "datasets--squad");
  EXPECT_EQ(data.web_path(), "datasets/squad");
  EXPECT_EQ(data.text(), "dataset \"squad\" at \"refs/pr/1\"");
}

TEST(HubRepo, KnowsNamesFromPaths) {
  for (const char* id : {"gpt2", "org/name", "Foo-BAR_foo.bar123", "a/b.c", "org/_name"})
    EXPECT_TRUE(is_repo_id(id)) << id;
  for (const char* id : {"", "a/b/c", "../x", "a..b", "a--b", "/abs", "org/", "/name", ".hidden", "x.git", "a b",
                         "org/-x", "org/na\nme", "./x", "~"}) {
    EXPECT_FALSE(is_repo_id(id)) << id;
  }
  EXPECT_TRUE(is_repo_id(std::string(96, 'a')));
  EXPECT_FALSE(is_repo_id(std::string(97, 'a')));
}

TEST(HubRepo, RejectsNamesThatEscapeTheFolder) {
  EXPECT_THAT([] { make_hub_repo("../etc", "model", "main"); },
              ThrowsMessage<ConfigError>("[hub] a repository must be \"name\" or \"org/name\", of letters, digits, "
                                         "\"-\", \"_\" and \".\", at most 96 characters; got \"../etc\"."));
  EXPECT_THAT([] { make_hub_repo("a/b", "model", "../../x"); },
              ThrowsMessage<ConfigError>("[hub] a revision must be a branch, a tag or a commit; got \"../../x\"."));
  EXPECT_THAT([] { make_hub_repo("a/b", "model", ""); },
              ThrowsMessage<ConfigError>("[hub] a revision must be a branch, a tag or a commit; got \"\"."));
  EXPECT_THAT([] { make_hub_repo("a/b", "bucket", "main"); },
              ThrowsMessage<ConfigError>("[hub] repo_type must be model, dataset or space; got \"bucket\"."));
}

TEST(HubRepo, SafeFileNamesStayInside) {
  for (const char* name : {"a", "a/b.json", "a b/c", "..a", "a..b/c..", ".gitattributes"}) {
    EXPECT_TRUE(is_safe_file_name(name)) << name;
  }
  for (const char* name :
       {"", "..", "../a", "a/../b", "a/..", "/a", "a//b", "a/", "./a", "a\\..\\b", "\\\\host\\x", "C:\\x", "c:x"}) {
    EXPECT_FALSE(is_safe_file_name(name)) << name;
  }
  EXPECT_FALSE(is_safe_file_name(std::string_view("a\0b", 3)));
}

class SelectFiles : public testing::Test {
 protected:
  std::vector<std::string> select(const std::vector<std::string>& there, const std::vector<std::string>& wanted,
                                  const char* type = "model") {
    std::vector<HubFile> all;
    for (const auto& name : there) all.push_back({.path = name});
    std::vector<std::string> names;
    for (const HubFile& file : select_files(all, wanted, make_hub_repo("org/x", type, "main")))
      names.push_back(file.path);
    return names;
  }
};

TEST_F(SelectFiles, SelectsWhatALoaderReads) {
  EXPECT_THAT(
      select({".gitattributes", "README.md", "config.json", "generation_config.json", "merges.txt",
              "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
              "consolidated.safetensors", "original/params.json", "pytorch_model.bin", "tokenizer.model",
              "chat_template.jinja", "additional_chat_templates/rag.jinja", "onnx/model.onnx", "model.fp16.safetensors",
              "tf_model.h5"},
             {}),
      ElementsAre("additional_chat_templates/rag.jinja", "chat_template.jinja", "config.json", "generation_config.json",
                  "merges.txt", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                  "model.safetensors.index.json", "tokenizer.model"));
}

TEST_F(SelectFiles, TakesPicklesOnlyWithoutSafetensors) {
  EXPECT_THAT(select({"config.json", "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin",
                      "training_args.bin", "pytorch_model.bin.index.json"},
                     {}),
              ElementsAre("config.json", "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin",
                          "pytorch_model.bin.index.json"));
  EXPECT_THAT(select({"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}, {}),
              ElementsAre("adapter_config.json", "adapter_model.safetensors"));
}

TEST_F(SelectFiles, TakesAllOfADataSet) {
  EXPECT_THAT(select({"README.md", "data/train.parquet"}, {}, "dataset"),
              ElementsAre("README.md", "data/train.parquet"));
}

TEST_F(SelectFiles, PatternsCrossFoldersAndMayOverlap) {
  EXPECT_THAT(select({"a.json", "d/b.json", "d/e/c.txt", "x[1].txt"}, {"*.json", "d/", "x[1].txt"}),
              ElementsAre("a.json", "d/b.json", "d/e/c.txt", "x[1].txt"));
  EXPECT_THAT(select({"a1.txt", "a2.txt", "b1.txt"}, {"[!b]?.txt", "*.none"}), ElementsAre("a1.txt", "a2.txt"));
}

TEST_F(SelectFiles, SaysWhichNameIsMissingAndWhichIsNear) {
  EXPECT_THAT([&] { select({"config.json", "model.safetensors"}, {"confg.json"}); },
              ThrowsMessage<IoError>("[hub] model \"org/x\" at \"main\" has no file \"confg.json\"; it has 2 files: "
                                     "config.json, model.safetensors. Did you mean \"config.json\"?"));
  EXPECT_THAT([&] { select({"config.json"}, {"*.gguf"}); },
              ThrowsMessage<IoError>("[hub] model \"org/x\" at \"main\" has no file \"*.gguf\"; it has 1 file: "
                                     "config.json."));
  EXPECT_THAT([&] { select({}, {"a"}); },
              ThrowsMessage<IoError>("[hub] model \"org/x\" at \"main\" has no file \"a\"; it has 0 files."));
  EXPECT_THAT([&] { select({"model.onnx", "README.md"}, {}); },
              ThrowsMessage<IoError>("[hub] model \"org/x\" at \"main\" contains no model files, among "
                                     "2 files. List the files to download: files = {\"*\"} takes all."));
}

}  // namespace
}  // namespace easydel
