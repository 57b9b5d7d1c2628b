// Models that transformers made, loaded and saved again: transformers must not see a difference.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/infra/auto_model.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

TaskType task_of_name(const std::string& name) {
  static const std::vector<std::pair<std::string, TaskType>> tasks = {{"-base", TaskType::BaseModule},
                                                                      {"-classifier", TaskType::SequenceClassification},
                                                                      {"-seq2seq", TaskType::SequenceToSequence},
                                                                      {"-mlm", TaskType::MaskedLM},
                                                                      {"-tagger", TaskType::TokenClassification},
                                                                      {"-answers", TaskType::QuestionAnswering},
                                                                      {"-speech", TaskType::SpeechSequenceToSequence},
                                                                      {"-sounds", TaskType::AudioClassification}};
  for (const auto& [end, task] : tasks) {
    if (name.ends_with(end)) return task;
  }
  return TaskType::CausalLM;
}

// Writes what the peer's `check` reads for one model. On a mesh all ranks call it.
void write_all(const BaseModule& model, const fs::path& directory, bool writes = true) {
  model.save_pretrained(directory / "whole", {.verbose = false});
  model.save_pretrained(directory / "sharded", {.max_shard_size = "5KB", .verbose = false});
  model.save_pretrained(directory / "bf16", {.float_dtype = bfloat16, .verbose = false});
  NamedTensors state;
  for (const auto& [name, tensor] : model.to_torch()) state.emplace_back(name, tensor);
  if (!writes) return;
  save_safetensors(directory / "to_torch.safetensors", state);
  write_file_atomically(directory / "loader", model.get_torch_loader());
}

// What transformers wrote, for all tests.
class SaveParity : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    theirs_ = std::make_unique<TemporaryDirectory>();
    run_python("models_peer.py", {"write", theirs_->path().string()});
  }
  static void TearDownTestSuite() { theirs_.reset(); }
  static const fs::path& theirs() { return theirs_->path(); }

 private:
  inline static std::unique_ptr<TemporaryDirectory> theirs_;
};

TEST_F(SaveParity, TransformersLoadsAllThatIsLoadedAndSavedAgain) {
  const TemporaryDirectory ours;
  std::vector<std::string> warnings;
  log::set_sink([&](log::Level, const std::string& line) { warnings.push_back(line); });

  int models = 0;
  for (const auto& entry : fs::directory_iterator(theirs())) {
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

  EXPECT_THAT(run_python("models_peer.py", {"check", theirs().string(), ours.path().string()}),
              HasSubstr(concat(models, " models are the same")));
}

// The first two configs of each family, and all of Whisper's.
bool goes_on_a_mesh(const std::string& name) {
  return name.find("-0-") != std::string::npos || name.find("-1-") != std::string::npos || name.starts_with("whisper");
}

TEST_F(SaveParity, OneMeshSavesAnotherLoadsAndSavesAndTransformersSeesNoDifference) {
  const TemporaryDirectory between, ours;
  log::set_sink([](log::Level, const std::string&) {});
  int models = 0;
  for (const auto& entry : fs::directory_iterator(theirs())) {
    const std::string name = entry.path().filename().string();
    if (!goes_on_a_mesh(name)) continue;
    SCOPED_TRACE(name);
    const TaskType task = task_of_name(entry.path().stem().string());
    const auto load = [&](const fs::path& from, std::vector<int64_t> dims) {
      return load_model(from.string(), task,
                        {.sharding = {.axis_dims = std::move(dims), .auto_shard_model = true}, .verbose = false});
    };
    run_ranks(
        8, [&](World&) { load(entry.path(), {1, 4, 1, 2, 1})->save_pretrained(between / name, {.verbose = false}); });
    run_ranks(4,
              [&](World& world) { write_all(*load(between / name, {2, 1, 1, 1, 2}), ours / name, world.rank() == 0); });
    const GraphState first = load_model(entry.path().string(), task, {.verbose = false})->params();
    for (const auto& [path, tensor] : load_model((between / name).string(), task, {.verbose = false})->params())
      EXPECT_TRUE(at::equal(tensor, first.at(path))) << path;
    ++models;
  }
  log::set_sink({});
  EXPECT_GE(models, 35);
  EXPECT_THAT(run_python("models_peer.py", {"check", theirs().string(), ours.path().string()}),
              HasSubstr(concat(models, " models are the same")));
}

}  // namespace
}  // namespace easydel
