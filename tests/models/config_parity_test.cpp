// Every family's config against transformers, which writes them, and reads what is written here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "easydel/core/file.h"
#include "easydel/infra/auto_config.h"
#include "easydel/infra/registry.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(ConfigParity, TransformersUnderstandsAllThatIsReadAndWrittenAgain) {
  const TemporaryDirectory theirs, ours;
  run_python("configs_peer.py", {"write", theirs.path().string()});

  int made = 0, older = 0;
  for (const auto& entry : fs::directory_iterator(theirs / "made")) {
    const auto config = AutoConfig::from_pretrained(entry.path().string());
    config->save_pretrained(ours / entry.path().filename().string());
    EXPECT_EQ(read_file(ours / entry.path().filename().string() / "config.json"),
              read_file(entry.path() / "config.json"));
    ++made;
  }
  for (const auto& entry : fs::directory_iterator(theirs / "older")) {
    const auto config = AutoConfig::from_pretrained(entry.path().string());
    config->save_pretrained(ours / entry.path().filename().string());
    EXPECT_EQ(*AutoConfig::from_pretrained((ours / entry.path().filename().string()).string()), *config);
    ++older;
  }
  for (const char* family : {"gpt2", "llama", "mixtral", "phi3"}) {
    AutoConfig::for_model(family)->save_pretrained(ours / (std::string("default_") + family));
  }
  EXPECT_GE(made, 100);
  EXPECT_GE(older, 15);

  EXPECT_THAT(run_python("configs_peer.py", {"check", theirs.path().string(), ours.path().string()}),
              HasSubstr(std::to_string(made + older + 4) + " configs mean the same"));
}

}  // namespace
}  // namespace easydel
