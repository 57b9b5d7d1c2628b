#include "easydel/infra/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/models/register_models.h"
#include "tests/infra/toy_config.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::ThrowsMessage;

TEST(Registry, HasTheLibrarysModelsFromTheFirstUse) {
  EXPECT_THAT(Registry::instance().model_types(), IsSupersetOf({"gpt2", "llama", "mixtral", "phi3"}));
  EXPECT_TRUE(Registry::instance().has_config("llama"));
  EXPECT_EQ(Registry::instance().make_config("llama", "")->class_name(), "LlamaConfig");
}

TEST(Registry, TakesAUsersConfig) {
  Registry registry;
  registry.register_config<ToyConfig>();
  registry.register_config<ToyConfig>("toy-2");

  EXPECT_THAT(registry.model_types(), ElementsAre("toy", "toy-2"));
  EXPECT_EQ(registry.make_config("toy-2", "")->class_name(), "ToyConfig");
  EXPECT_FALSE(registry.has_config("llama"));
}

TEST(Registry, RefusesANameTwiceAndANameless) {
  Registry registry;
  register_models(registry);
  EXPECT_THAT(
      [&] { registry.register_config<ToyConfig>("llama"); },
      ThrowsMessage<ConfigError>("[register_config] a model_type may be registered once; got \"llama\" again."));
  EXPECT_THAT([&] { registry.register_config<ToyConfig>(""); },
              ThrowsMessage<ConfigError>("[register_config] a model_type must have a name; got an empty one."));
}

std::string listed(const Registry& registry) {
  std::string names;
  for (const std::string& name : registry.model_types()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

TEST(Registry, ListsTheKnownAndTheNearest) {
  Registry registry;
  register_models(registry);
  const std::string known = listed(registry);
  EXPECT_THAT(
      [&] { registry.make_config("lama", "[Here] "); },
      ThrowsMessage<ConfigError>("[Here] unknown model_type \"lama\"; known: " + known + ". Did you mean \"llama\"?"));
  EXPECT_THAT([&] { registry.make_config("transformerless", "[Here] "); },
              ThrowsMessage<ConfigError>("[Here] unknown model_type \"transformerless\"; known: " + known + "."));
}

TEST(Registry, SaysWhatIsNotYetSupported) {
  Registry registry;
  register_models(registry);
  for (const std::string model_type : {"exaone", "grok-1", "openelm", "rwkv", "xerxes"}) {
    EXPECT_THAT([&] { registry.make_config(model_type, "[Here] "); },
                ThrowsMessage<NotSupportedError>("[Here] model_type \"" + model_type +
                                                 "\" is not yet supported; supported: " + listed(registry) + "."));
  }
}

}  // namespace
}  // namespace easydel
