#include "easydel/io/checkpoint_writer.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/safetensors/safetensors.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/killed_child.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::ThrowsMessage;

// Four tensors of 400 bytes, all of one value.
NamedTensors model(double value) {
  NamedTensors tensors;
  for (const char* name : {"a", "b", "c", "d"}) tensors.emplace_back(name, at::full({100}, value, at::kFloat));
  return tensors;
}

// The value of the model in the directory, if it is complete.
double value_in(const std::filesystem::path& directory) {
  const auto checkpoint = Checkpoint::open(directory);
  EXPECT_EQ(checkpoint->infos().size(), 4);
  const double value = checkpoint->tensor("a")[0].item<double>();
  for (const auto& [name, expected] : model(value)) EXPECT_TRUE(at::equal(checkpoint->tensor(name), expected)) << name;
  return value;
}

TEST(SaveCheckpoint, WritesOneFileWhenAllFits) {
  const TemporaryDirectory directory;
  const auto paths = save_checkpoint(directory / "new/model", model(1), {.metadata = {{"note", "n"}}});
  EXPECT_THAT(paths, ElementsAre(directory / "new/model/model.safetensors"));
  EXPECT_THAT(list_directory(directory / "new/model"), ElementsAre("model.safetensors"));
  EXPECT_EQ(value_in(directory / "new/model"), 1);
  EXPECT_THAT(SafetensorsFile::open(paths[0])->metadata(), ElementsAre(Pair("format", "pt"), Pair("note", "n")));
}

TEST(SaveCheckpoint, SplitsUnderHuggingFacesNames) {
  const TemporaryDirectory directory;
  const auto paths =
      save_checkpoint(directory.path(), model(1), {.max_shard_size = "1KB", .metadata = {{"note", "n"}}});
  EXPECT_THAT(paths,
              ElementsAre(directory / "model.safetensors.index.json", directory / "model-00001-of-00002.safetensors",
                          directory / "model-00002-of-00002.safetensors"));
  EXPECT_THAT(list_directory(directory.path()),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  EXPECT_EQ(read_file(directory / "model.safetensors.index.json"), R"({
  "metadata": {
    "total_size": 1600,
    "note": "n"
  },
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors",
    "c": "model-00002-of-00002.safetensors",
    "d": "model-00002-of-00002.safetensors"
  }
})");
  EXPECT_THAT(SafetensorsFile::open(paths[1])->metadata(), ElementsAre(Pair("format", "pt")));
  EXPECT_EQ(value_in(directory.path()), 1);
}

TEST(SaveCheckpoint, WritesTiedTensorsOnce) {
  const TemporaryDirectory directory;
  const at::Tensor embed = at::randn({10, 4});
  save_checkpoint(directory.path(), {{"embed", embed},
                                     {"head", embed},
                                     {"same_memory_other_shape", embed.view({4, 10})},
                                     {"same_memory_other_strides", embed.view({4, 10}).t()},
                                     {"part", embed.narrow(0, 0, 5)},
                                     {"empty", embed.narrow(0, 0, 0)},
                                     {"also_empty", embed.narrow(0, 0, 0)}});
  const auto file = SafetensorsFile::open(directory / "model.safetensors");
  EXPECT_THAT(file->metadata(), ElementsAre(Pair("format", "pt"), Pair("head", "embed")));
  EXPECT_FALSE(file->contains("head"));
  EXPECT_EQ(file->infos().size(), 6);
  EXPECT_TRUE(at::equal(file->tensor("same_memory_other_strides"), embed.view({4, 10}).t()));
}

TEST(SaveCheckpoint, RejectsInvalidArguments) {
  const TemporaryDirectory directory;
  EXPECT_THAT([&] { save_checkpoint(directory.path(), model(1), {.max_shard_size = "0GB"}); },
              ThrowsMessage<ConfigError>("[save_checkpoint] max_shard_size must be positive; got \"0GB\"."));
  const at::Tensor x = at::ones({1});
  EXPECT_THAT([&] { save_checkpoint(directory.path(), {{"x", x}, {"x", x}}); },
              ThrowsMessage<ConfigError>("[save_checkpoint] tensor names must be unique; got \"x\" twice."));
  EXPECT_THAT(
      [&] { save_checkpoint(directory.path(), {{.name = "x"}, {.name = "x"}}, [&](const TensorInfo&) { return x; }); },
      ThrowsMessage<ConfigError>("[save_checkpoint] tensor names must be unique; got \"x\" twice."));
  write_file_atomically(directory / "file", "");
  EXPECT_THAT([&] { save_checkpoint(directory / "file", model(1)); },
              ThrowsMessage<IoError>("[" + (directory / "file").string() + "] cannot be created: File exists."));
}

TEST(SaveCheckpoint, SavesOverTheCheckpointThatItReads) {
  const TemporaryDirectory directory;
  const std::string kSplit = "1KB";
  save_checkpoint(directory.path(), model(1), {.max_shard_size = kSplit});
  const auto before = Checkpoint::open(directory.path());
  save_checkpoint(directory.path(), before->infos(),
                  [&](const TensorInfo& info) { return before->tensor(info.name) + 1; }, {.max_shard_size = kSplit});
  EXPECT_EQ(value_in(directory.path()), 2);
  EXPECT_EQ(before->tensor("a")[0].item<double>(), 1);
}

TEST(SaveCheckpoint, LeavesForeignFilesAlone) {
  const TemporaryDirectory directory;
  const std::vector<std::string> others = {"config.json", "model.safetensors.backup", "model-1-of-2.safetensors",
                                           "my-model.safetensors"};
  for (const std::string& name : others) write_file_atomically(directory / name, "mine");
  write_file_atomically(directory / "model.safetensors.tmp-1-0", "left by a save that was killed");
  write_file_atomically(directory / "model-00001-of-00009.stage-3.safetensors", "left by a save that was killed");
  save_checkpoint(directory.path(), model(1));
  EXPECT_THAT(list_directory(directory.path()),
              testing::UnorderedElementsAre("config.json", "model-1-of-2.safetensors", "model.safetensors",
                                            "model.safetensors.backup", "my-model.safetensors"));
}

TEST(SaveCheckpoint, LeavesTheOldOneWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), model(1), {.max_shard_size = "1KB"});
  const auto files = list_directory(directory.path());
  NamedTensors larger = model(2);
  larger.emplace_back("e", at::zeros({1 << 20}));
  {
    const FileSizeLimit limit(1 << 20);
    EXPECT_THROW(save_checkpoint(directory.path(), larger, {.max_shard_size = "1KB"}), IoError);
  }
  EXPECT_EQ(value_in(directory.path()), 1);
  EXPECT_EQ(list_directory(directory.path()), files);
}

struct Change {
  std::string name;
  std::string old_size;
  std::string new_size;
};

void PrintTo(const Change& change, std::ostream* out) { *out << change.name; }

class CheckpointKilledDuringSave : public testing::TestWithParam<Change> {};

TEST_P(CheckpointKilledDuringSave, IsTheOldOneOrTheNewOneAndTheNextSaveSucceeds) {
  const TemporaryDirectory expected_directory;
  save_checkpoint(expected_directory.path(), model(3), {.max_shard_size = GetParam().new_size});
  const auto expected_files = list_directory(expected_directory.path());

  bool was_old = false;
  bool was_new = false;
  for (int call = 0;; ++call) {
    const TemporaryDirectory directory(memory_directory());
    const NamedTensors old_model = model(1);
    const NamedTensors new_model = model(2);
    save_checkpoint(directory.path(), old_model, {.max_shard_size = GetParam().old_size});
    const ChildEnd end = run_until_system_call(
        call, [&] { save_checkpoint(directory.path(), new_model, {.max_shard_size = GetParam().new_size}); });
    if (end == ChildEnd::NoTracing) GTEST_SKIP() << "this system does not allow tracing";

    const double found = value_in(directory.path());
    was_old |= found == 1;
    was_new |= found == 2;
    ASSERT_TRUE(found == 1 || found == 2) << "killed at system call " << call;
    ASSERT_FALSE(HasFailure()) << "killed at system call " << call;
    save_checkpoint(directory.path(), model(3), {.max_shard_size = GetParam().new_size});
    ASSERT_EQ(value_in(directory.path()), 3) << "after a kill at system call " << call;
    ASSERT_EQ(list_directory(directory.path()), expected_files) << "after a kill at system call " << call;
    if (end == ChildEnd::Finished) break;
  }
  EXPECT_TRUE(was_old && was_new);
}

INSTANTIATE_TEST_SUITE_P(SaveCheckpoint, CheckpointKilledDuringSave,
                         testing::Values(Change{"FromOneFileToOne", "5GB", "5GB"},
                                         Change{"FromTwoFilesToTwo", "1KB", "1KB"},
                                         Change{"FromTwoFilesToFour", "1KB", "500B"},
                                         Change{"FromOneFileToTwo", "5GB", "1KB"},
                                         Change{"FromTwoFilesToOne", "1KB", "5GB"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace easydel
