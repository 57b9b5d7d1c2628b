#include "easydel/core/build_info.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/models/llama/config.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

#if EASYDEL_HAS_CURL

using testing::EndsWith;
using testing::StartsWith;

class ConfigHubTest : public HubTest {
 protected:
  ConfigHubTest() {
    add_file("models/org/tiny", "config.json", R"({"model_type": "llama", "hidden_size": 64, "rope_theta": 500.0})");
    add_file("models/org/tiny", "model.safetensors", "not asked for");
    start();
  }
};

TEST_F(ConfigHubTest, FetchesTheConfigAndNothingElse) {
  const auto config = LlamaConfig::from_pretrained("org/tiny");
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.rope.rope_theta, 500);
  EXPECT_EQ(config.name_or_path, "org/tiny");
  EXPECT_EQ(count("GET", "model.safetensors"), 0u);

  EXPECT_EQ(*AutoConfig::from_pretrained("org/tiny", {.hub = {.local_files_only = true}}), config);
}

TEST_F(ConfigHubTest, TakesOverridesAndNamesTheFileInItsCache) {
  EXPECT_EQ(AutoConfig::from_pretrained("org/tiny", {.overrides = Json::object({{"hidden_size", 128}})})->head_dim, 4);
  const std::string file = load_config_file("org/tiny").path;
  EXPECT_THAT(file, EndsWith("/config.json"));
  EXPECT_THAT(file, StartsWith(repo_cache().string()));
}

#endif

}  // namespace
}  // namespace easydel
