#include "easydel/infra/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "tests/infra/tiny_llama.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Puts the hooks back that the library came with.
struct HooksScope {
  const Hooks before = hooks();
  ~HooksScope() { set_hooks(before); }
};

TEST(Hooks, AreSetWhenTheLibraryIsLoaded) {
  EXPECT_NE(hooks().generate, nullptr);
  EXPECT_NE(hooks().register_models, nullptr);
}

TEST(Hooks, NameTheOneThatIsNotSet) {
  const auto model = tiny_llama();
  const HooksScope scope;
  set_hooks({});
  EXPECT_THAT([&] { model->generate(tiny_ids()); }, ThrowsMessage<Error>(HasSubstr("Hooks::generate is not set")));
  EXPECT_THAT([&] { model->is_quantized(); }, ThrowsMessage<Error>(HasSubstr("Hooks::is_quantized is not set")));
}

TEST(Hooks, ReplaceWhatAMethodDoes) {
  const auto model = tiny_llama();
  const HooksScope scope;
  Hooks changed = hooks();
  changed.is_quantized = [](const BaseModule&) { return true; };
  set_hooks(changed);
  EXPECT_TRUE(model->is_quantized());
}

}  // namespace
}  // namespace easydel
