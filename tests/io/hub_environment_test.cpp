#include "easydel/io/hub/hub_environment.h"

#include "easydel/core/files/file.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

// The fixture clears what the machine may have set.
class HubEnvironmentTest : public HubTest {
 protected:
  HubEnvironmentTest()
      : home_("HOME", "/home/me"), hf_home_("HF_HOME", std::nullopt), cache_("HF_HUB_CACHE", std::nullopt) {}

 private:
  ScopedVariable home_, hf_home_, cache_;
};

TEST_F(HubEnvironmentTest, HasTheDefaultsOfHuggingFace) {
  const HubEnvironment env = read_hub_environment();
  EXPECT_EQ(env.endpoint, "https://huggingface.co");
  EXPECT_EQ(env.cache, "/home/me/.cache/huggingface/hub");
  EXPECT_EQ(env.token, "");
  EXPECT_FALSE(env.offline);
  EXPECT_EQ(env.silence_limit.count(), 10);
}

TEST_F(HubEnvironmentTest, TheNearerVariableWins) {
  const ScopedVariable xdg("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(read_hub_environment().cache, "/xdg/huggingface/hub");
  const ScopedVariable home("HF_HOME", "~/hf");
  EXPECT_EQ(read_hub_environment().cache, "/home/me/hf/hub");
  const ScopedVariable legacy("HUGGINGFACE_HUB_CACHE", "/legacy");
  EXPECT_EQ(read_hub_environment().cache, "/legacy");
  const ScopedVariable cache("HF_HUB_CACHE", "$HOME/${XDG_CACHE_HOME}/$NOT_SET_AT_ALL/c");
  EXPECT_EQ(read_hub_environment().cache, "/home/me//xdg/$NOT_SET_AT_ALL/c");
}

TEST_F(HubEnvironmentTest, FindsTheTokenInVariablesAndInItsFile) {
  const ScopedVariable home("HF_HOME", directory_.path().string());
  write_file_atomically(directory_ / "token", "hf_from_file\n");
  EXPECT_EQ(read_hub_environment().token, "hf_from_file");
  write_file_atomically(directory_ / "other", " hf_other ");
  const ScopedVariable path("HF_TOKEN_PATH", (directory_ / "other").string());
  EXPECT_EQ(read_hub_environment().token, "hf_other");
  const ScopedVariable old("HUGGING_FACE_HUB_TOKEN", "hf_old");
  EXPECT_EQ(read_hub_environment().token, "hf_old");
  const ScopedVariable token("HF_TOKEN", "hf_new\n");
  EXPECT_EQ(read_hub_environment().token, "hf_new");
  const ScopedVariable none("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(read_hub_environment().token, "");
}

TEST_F(HubEnvironmentTest, ReadsTheSwitches) {
  const ScopedVariable endpoint("HF_ENDPOINT", "http://mirror:8080//");
  EXPECT_EQ(read_hub_environment().endpoint, "http://mirror:8080");
  for (const char* yes : {"1", "on", "Yes", "TRUE"}) {
    const ScopedVariable offline("HF_HUB_OFFLINE", yes);
    EXPECT_TRUE(read_hub_environment().offline) << yes;
  }
  const ScopedVariable transformers("TRANSFORMERS_OFFLINE", "1");
  EXPECT_TRUE(read_hub_environment().offline);
  const ScopedVariable offline("HF_HUB_OFFLINE", "0");
  EXPECT_FALSE(read_hub_environment().offline);
}

TEST_F(HubEnvironmentTest, RejectsAnInvalidTimeout) {
  const ScopedVariable delay("EASYDEL_HUB_RETRY_DELAY", "soon");
  EXPECT_THAT([] { read_hub_environment(); },
              ThrowsMessage<ConfigError>("[hub] EASYDEL_HUB_RETRY_DELAY must be a number of seconds; got \"soon\"."));
}

}  // namespace
}  // namespace easydel
