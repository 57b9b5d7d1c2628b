// The tree of every family as torch prints it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "easydel/core/file.h"
#include "easydel/infra/auto_config.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/registry.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

TEST(Prettify, IsWhatTorchPrints) {
  const TemporaryDirectory theirs;
  run_python("models_peer.py", {"print", theirs.path().string()});
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(theirs.path())) {
    const auto config = AutoConfig::from_pretrained(entry.path().string());
    const auto model = Registry::instance().make_module(*config, TaskType::CausalLM);
    EXPECT_EQ(prettify(*model) + "\n", read_file(entry.path() / "model.txt"));
    ++models;
  }
  EXPECT_GE(models, 20);
}

}  // namespace
}  // namespace easydel
