#include "easydel/io/convert_checkpoint.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

class ConvertCheckpoint : public testing::Test {
 protected:
  ConvertCheckpoint() {
    save_checkpoint(source,
                    {{"weight", weight}, {"ids", at::arange(5)}, {"scaled", at::ones({8}).to(at::kFloat8_e4m3fn)}},
                    {.max_shard_size = "500B"});
  }

  const TemporaryDirectory directory;
  const std::filesystem::path source = directory / "source";
  const std::filesystem::path destination = directory / "destination";
  const at::Tensor weight = at::randn({16, 16});
};

TEST_F(ConvertCheckpoint, CastsWeightsAndNothingElse) {
  const auto paths = convert_checkpoint(source, destination, {.dtype = bfloat16});
  EXPECT_THAT(paths, ElementsAre(destination / "model.safetensors"));
  const auto converted = Checkpoint::open(destination);
  EXPECT_TRUE(at::equal(converted->tensor("weight"), weight.to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(converted->tensor("ids"), at::arange(5)));
  EXPECT_EQ(converted->info("scaled").dtype, float8_e4m3fn);
}

TEST_F(ConvertCheckpoint, KeepsEveryDTypeWhenNoneIsGiven) {
  convert_checkpoint(source, destination, {.max_shard_size = "100B"});
  const auto converted = Checkpoint::open(destination);
  EXPECT_EQ(converted->files().size(), 2);
  EXPECT_TRUE(at::equal(converted->tensor("weight"), weight));
}

TEST_F(ConvertCheckpoint, WritesOneFileWhenOneIsNamed) {
  const auto file = directory / "one.safetensors";
  EXPECT_THAT(convert_checkpoint(source, file), ElementsAre(file));
  EXPECT_TRUE(at::equal(Checkpoint::open(file)->tensor("weight"), weight));
}

TEST_F(ConvertCheckpoint, CopiesConfigAndTokenizerAndNothingElse) {
  const std::string config = "{\n  \"model_type\": \"llama\",\n  \"torch_dtype\": \"float32\"\n}\n";
  for (const char* name : {"tokenizer.json", "merges.txt", "chat_template.jinja", "notes.md", "training_args.bin"}) {
    write_file_atomically(source / name, "x");
  }
  write_file_atomically(source / "config.json", config);
  convert_checkpoint(source, destination);
  EXPECT_THAT(list_directory(destination),
              ElementsAre("chat_template.jinja", "config.json", "merges.txt", "model.safetensors", "tokenizer.json"));
  EXPECT_EQ(read_file(destination / "config.json"), config);
  convert_checkpoint(source, destination, {.dtype = bfloat16, .overwrite = true});
  EXPECT_EQ(read_file(destination / "config.json"),
            "{\n  \"model_type\": \"llama\",\n  \"torch_dtype\": \"bfloat16\"\n}\n");
}

TEST_F(ConvertCheckpoint, WarnsAboutWeightsOutOfRangeForFloat16) {
  save_checkpoint(source,
                  {{"large", at::full({2}, 1e6f)}, {"infinite", at::full({2}, INFINITY)}, {"small", at::ones({2})}});
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, const std::string& line) { lines.push_back(line); });
  convert_checkpoint(source, destination, {.dtype = float16});
  log::set_sink({});
  EXPECT_THAT(
      lines,
      ElementsAre("warning: [convert] tensor \"large\" has values out of range for float16; they became infinite."));
}

TEST_F(ConvertCheckpoint, RejectsInvalidArguments) {
  EXPECT_THAT([&] { convert_checkpoint(source, destination, {.dtype = int8}); },
              ThrowsMessage<ConfigError>("[convert] dtype must be float64, float32, float16 or bfloat16; got int8."));
  EXPECT_THAT([&] { convert_checkpoint(source, source); },
              ThrowsMessage<ConfigError>("[convert] source and destination must differ; got " + source.string() +
                                         " for both."));
  EXPECT_THAT([&] { convert_checkpoint(directory / "none", destination); },
              ThrowsMessage<IoError>("[" + (directory / "none").string() + "] does not exist."));
  EXPECT_THAT(
      [&] { convert_checkpoint(source, directory / "out.gguf"); },
      ThrowsMessage<ConfigError>("[convert] .gguf files cannot be written; got " + (directory / "out.gguf").string() +
                                 ". Pass a directory, or a file that ends in .safetensors."));
  EXPECT_FALSE(std::filesystem::exists(destination));
}

TEST_F(ConvertCheckpoint, DoesNotOverwriteByDefault) {
  for (const char* name : {"destination", "one.safetensors"}) {
    const std::filesystem::path taken = directory / name;
    convert_checkpoint(source, taken);
    EXPECT_THAT([&] { convert_checkpoint(source, taken); },
                ThrowsMessage<ConfigError>("[convert] " + taken.string() +
                                           " already exists. Choose another path, or pass --overwrite."));
    convert_checkpoint(source, taken, {.overwrite = true});
  }
}

TEST_F(ConvertCheckpoint, RefusesAFileWithoutTensors) {
  const std::filesystem::path empty = directory / "empty.safetensors";
  save_safetensors(empty, NamedTensors{});
  EXPECT_THAT([&] { convert_checkpoint(empty, destination); },
              ThrowsMessage<FormatError>("[" + empty.string() + "] contains no tensors."));
}

TEST_F(ConvertCheckpoint, DoesNotCastPackedWeights) {
  write_file_atomically(source / "config.json", R"({"quantization_config": {"quant_method": "awq"}})");
  EXPECT_THAT([&] { convert_checkpoint(source, destination, {.dtype = bfloat16}); },
              ThrowsMessage<NotSupportedError>(
                  "[convert] " + source.string() +
                  " has packed weights: its config.json has a quantization_config. Do not pass a dtype."));
  convert_checkpoint(source, destination);
  EXPECT_EQ(Checkpoint::open(destination)->info("weight").dtype, float32);
}

}  // namespace
}  // namespace easydel
