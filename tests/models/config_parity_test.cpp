// Every family's config against transformers, which writes them, and reads what is written here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "easydel/core/files/file.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/text_families.h"

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
  // A family without odd configs would be missed here, and by the rest of the sweep.
  std::vector<std::string> families = testing_support::text_families();
  families.push_back("whisper");  // of audio_configs.py
  for (const std::string& family : families) {
    AutoConfig::for_model(family)->save_pretrained(ours / ("default_" + family));
    EXPECT_TRUE(fs::exists(theirs / "made" / (family + "_odd_0")))
        << family << " has none in odd_configs.py or audio_configs.py";
  }
  EXPECT_GE(made, 100);
  EXPECT_GE(older, 15);

  EXPECT_THAT(run_python("configs_peer.py", {"check", theirs.path().string(), ours.path().string()}),
              HasSubstr(std::to_string(made + older + static_cast<int>(families.size())) + " configs mean the same"));
}

}  // namespace
}  // namespace easydel
