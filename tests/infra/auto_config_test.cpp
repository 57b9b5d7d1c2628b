#include "easydel/infra/config/auto_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/files/file.h"
#include "easydel/infra/registry.h"
#include "easydel/models/llama/config.h"
#include "tests/infra/toy_config.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

class AutoConfigTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_config<ToyConfig>(); }
};

TEST_F(AutoConfigTest, PicksTheClassByModelType) {
  const TemporaryDirectory directory;
  LlamaConfig llama;
  llama.hidden_size = 64;
  llama.save_pretrained(directory.path());

  const auto config = AutoConfig::from_pretrained(directory.path().string());
  EXPECT_EQ(config->class_name(), "LlamaConfig");
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->head_dim, 2);
  EXPECT_EQ(config->name_or_path, directory.path().string());
}

TEST_F(AutoConfigTest, FindsAUsersConfig) {
  const auto config = AutoConfig::from_dict(Json::parse(R"({"model_type": "toy", "depth": 7})"));
  EXPECT_EQ(dynamic_cast<const ToyConfig&>(*config).depth, 7);
}

TEST_F(AutoConfigTest, TakesOverrides) {
  const auto config =
      AutoConfig::for_model("llama", {.overrides = Json::object({{"hidden_size", 128}, {"rope_theta", 5e5}})});
  EXPECT_EQ(config->hidden_size, 128);
  EXPECT_EQ(config->head_dim, 4);
  EXPECT_EQ(config->rope.rope_theta, 5e5);
}

TEST_F(AutoConfigTest, NamesTheFileOfAnUnknownModel) {
  const TemporaryDirectory directory;
  const std::string file = (directory / "config.json").string();
  std::string known;
  for (const std::string& name : Registry::instance().model_types()) known += (known.empty() ? "" : ", ") + name;
  write_file_atomically(file, R"({"model_type": "phi33"})");
  EXPECT_THAT([&] { AutoConfig::from_pretrained(directory.path().string()); },
              ThrowsMessage<ConfigError>("[AutoConfig] " + file + ": unknown model_type \"phi33\"; known: " + known +
                                         ". Did you mean \"phi3\"?"));
  write_file_atomically(file, R"({"model_type": "rwkv"})");
  EXPECT_THAT([&] { AutoConfig::from_pretrained(file); },
              ThrowsMessage<NotSupportedError>(
                  "[AutoConfig] " + file + ": model_type \"rwkv\" is not yet supported; supported: " + known + "."));
}

TEST_F(AutoConfigTest, AsksForAModelType) {
  EXPECT_THAT(
      [] { AutoConfig::from_dict(Json::parse(R"({"hidden_size": 8})")); },
      ThrowsMessage<ConfigError>("[AutoConfig] model_type must be a string; got none. An override can set it."));
  EXPECT_THAT([] { AutoConfig::from_dict(Json::parse(R"({"model_type": 3})")); },
              ThrowsMessage<ConfigError>("[AutoConfig] model_type must be a string; got 3. An override can set it."));
  EXPECT_EQ(AutoConfig::from_dict(Json::object(), {.overrides = Json::object({{"model_type", "gpt2"}})})->class_name(),
            "GPT2Config");
}

}  // namespace
}  // namespace easydel
