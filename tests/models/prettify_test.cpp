// The tree of every family as torch prints it, and its numbers as torch counts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

// Which of two siblings was declared first differs here and there (phi3's o_proj and qkv_proj) and means nothing.
std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Tree, IsWhatTorchPrintsAndCounts) {
  const TemporaryDirectory theirs;
  run_python("models_peer.py", {"print", theirs.path().string()});
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(theirs.path())) {
    const auto config = AutoConfig::from_pretrained(entry.path().string());
    const auto model = Registry::instance().make_module(*config, TaskType::CausalLM);
    EXPECT_EQ(sorted_lines(prettify(*model)), sorted_lines(read_file(entry.path() / "model.txt")));
    const Json numbers = Json::parse_file(entry.path() / "numbers.json");
    EXPECT_EQ(model->num_params(), numbers.at("parameters").as_int()) << entry.path();
    double recurrences = 0;  // which torch runs in another way
    for (const auto& [path, module] : std::as_const(*model).named_modules()) {
      if (const auto* mixer = dynamic_cast<const RecurrentMixer*>(module)) recurrences += mixer->own_flops_per_token(1);
    }
    EXPECT_EQ(model->flops_per_token(1, 1) - recurrences, numbers.at("flops").as_double()) << entry.path();
    // All of it without memory for a weight.
    for (const auto& [path, parameter] : model->named_parameters()) EXPECT_TRUE(parameter->is_lazy()) << path;
    ++models;
  }
  EXPECT_GE(models, 40);
}

}  // namespace
}  // namespace easydel
