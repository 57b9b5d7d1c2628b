// Models that transformers made, loaded and saved again: transformers must not see a difference.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/core/log.h"
#include "easydel/infra/auto_model.h"
#include "easydel/io/safetensors_writer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

TaskType task_of_name(const std::string& name) {
  if (name.ends_with("-base")) return TaskType::BaseModule;
  return name.ends_with("-classifier") ? TaskType::SequenceClassification : TaskType::CausalLM;
}

// Writes what the peer's `check` reads for one model.
void write_all(const BaseModule& model, const fs::path& directory) {
  model.save_pretrained(directory / "whole", {.verbose = false});
  model.save_pretrained(directory / "sharded", {.max_shard_size = "5KB", .verbose = false});
  model.save_pretrained(directory / "bf16", {.float_dtype = bfloat16, .verbose = false});
  NamedTensors state;
  for (const auto& [name, tensor] : model.to_torch()) state.emplace_back(name, tensor);
  save_safetensors(directory / "to_torch.safetensors", state);
  write_file_atomically(directory / "loader", model.get_torch_loader());
}

TEST(SaveParity, TransformersLoadsAllThatIsLoadedAndSavedAgain) {
  const TemporaryDirectory theirs, ours;
  run_python("models_peer.py", {"write", theirs.path().string()});
  std::vector<std::string> warnings;
  log::set_sink([&](log::Level, const std::string& line) { warnings.push_back(line); });

  int models = 0;
  for (const auto& entry : fs::directory_iterator(theirs.path())) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const auto model =
        load_model(entry.path().string(), task_of_name(entry.path().stem().string()), {.verbose = false});
    write_all(*model, ours / name);
    EXPECT_EQ(load_model(entry.path().string(), TaskType::AutoBind, {.verbose = false})->type_name(),
              model->type_name());
    ++models;
  }
  log::set_sink({});
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_GE(models, 35);

  EXPECT_THAT(run_python("models_peer.py", {"check", theirs.path().string(), ours.path().string()}),
              HasSubstr(concat(models, " models are the same")));
}

}  // namespace
}  // namespace easydel
