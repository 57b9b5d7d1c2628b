#include "easydel/io/checkpoint.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/log.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

// Two files, a.safetensors with x and y, b.safetensors with z, and an index as given.
class IndexedCheckpoint : public testing::Test {
 protected:
  IndexedCheckpoint() {
    save_safetensors(directory / "a.safetensors", {{"x", at::full({2, 3}, 1.0f)}, {"y", at::full({3}, 2.0f)}});
    save_safetensors(directory / "b.safetensors", {{"z", at::full({4}, 3.0f)}});
  }
  void write_index(const std::string& text) { write_file_atomically(index, text); }
  auto opening() const {
    return [this] { Checkpoint::open(directory.path()); };
  }

  const TemporaryDirectory directory;
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  const std::string where = "[" + index.string() + "] ";
};

TEST_F(IndexedCheckpoint, IsOneModel) {
  write_index(
      R"({"metadata":{"total_size":52},"weight_map":{"z":"b.safetensors","x":"a.safetensors","y":"a.safetensors"}})");
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_THAT(checkpoint->names(), ElementsAre("z", "x", "y"));
  EXPECT_EQ(checkpoint->files().size(), 2);
  EXPECT_EQ(checkpoint->nbytes(), 52);
  EXPECT_TRUE(at::equal(checkpoint->tensor("z"), at::full({4}, 3.0f)));
  EXPECT_TRUE(at::equal(checkpoint->tensor("x"), at::full({2, 3}, 1.0f)));
  EXPECT_TRUE(at::equal(checkpoint->slice("y", {1}, {2}), at::full({2}, 2.0f)));
  EXPECT_TRUE(at::equal(Checkpoint::open(index)->tensor("z"), at::full({4}, 3.0f)));
}

TEST_F(IndexedCheckpoint, IgnoresTensorsThatTheIndexDoesNotList) {
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, const std::string& line) { lines.push_back(line); });
  write_index(R"({"weight_map":{"z":"b.safetensors","x":"a.safetensors"}})");
  EXPECT_THAT(Checkpoint::open(directory.path())->names(), ElementsAre("z", "x"));
  log::set_sink({});
  EXPECT_THAT(lines,
              ElementsAre("warning: " + where + "1 tensors are in the files but not in the index; they are ignored."));
}

TEST_F(IndexedCheckpoint, NamesAFileThatIsMissing) {
  write_index(R"({"weight_map":{"x":"a.safetensors","q":"c.safetensors"}})");
  EXPECT_THAT(
      opening(),
      ThrowsMessage<IoError>(
          where +
          "names \"c.safetensors\", which does not exist. The checkpoint was not copied or downloaded completely."));
}

TEST_F(IndexedCheckpoint, NamesATensorThatIsNotInItsFile) {
  write_index(R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  EXPECT_THAT(opening(),
              ThrowsMessage<FormatError>(where + "lists tensor \"y\" in \"b.safetensors\", which has no such tensor."));
}

TEST_F(IndexedCheckpoint, RefusesFilesOutsideItsDirectory) {
  for (const std::string shard : {"../../x.safetensors", "/etc/x.safetensors", "a/../../x.safetensors", "..", "",
                                  "..\\x.safetensors", "C:x.safetensors", "\\\\server\\x.safetensors"}) {
    const Json text = Json::object({{"weight_map", Json::object({{"w", shard}})}});
    write_index(text.dump());
    EXPECT_THAT(opening(),
                ThrowsMessage<FormatError>(
                    where + "the file of tensor \"w\" must be a path inside the checkpoint's directory; got " +
                    Json(shard).dump() + "."));
  }
  write_index("{\"weight_map\":{\"w\":\"a\\u0000.safetensors\"}}");
  EXPECT_THAT(opening(), ThrowsMessage<FormatError>(
                             where + "the file of tensor \"w\" must be a path inside the checkpoint's directory; "
                                     "got \"a\\u0000.safetensors\"."));
}

TEST_F(IndexedCheckpoint, RefusesFilesOfAnotherFormat) {
  write_index(R"({"weight_map":{"x":"pytorch_model.bin"}})");
  EXPECT_THAT(opening(),
              ThrowsMessage<FormatError>(
                  where + "the file of tensor \"x\" must be a .safetensors file; got \"pytorch_model.bin\"."));
}

TEST_F(IndexedCheckpoint, AcceptsFilesInSubdirectories) {
  make_directory(directory / "sub");
  std::filesystem::rename(directory / "b.safetensors", directory / "sub/b.safetensors");
  write_index(R"({"weight_map":{"z":"sub/b.safetensors"}})");
  EXPECT_THAT(Checkpoint::open(directory.path())->names(), ElementsAre("z"));
}

TEST_F(IndexedCheckpoint, RejectsAMalformedIndex) {
  const std::string rule = "an index must have an object \"weight_map\", which names the file of each tensor.";
  for (const char* text : {"{}", "[]", "3", R"({"weight_map":[]})", R"({"weight_map":"x"})"}) {
    write_index(text);
    EXPECT_THAT(opening(), ThrowsMessage<FormatError>(where + rule)) << text;
  }
  write_index(R"({"weight_map":{"x":3}})");
  EXPECT_THAT(opening(),
              ThrowsMessage<FormatError>(where + "the file of tensor \"x\" must be a string; got an integer."));
  write_index(R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})");
  EXPECT_THAT(opening(),
              ThrowsMessage<FormatError>(where + "line 1, column 36: the key \"x\" appears twice; got '\"'."));
  write_index("");
  std::filesystem::resize_file(index, 100'000'001);
  EXPECT_THAT(opening(),
              ThrowsMessage<FormatError>(where + "an index has at most 100000000 bytes; this one has 100000001."));
}

TEST(Checkpoint, PrefersOneFileToAnIndexAsTransformersDoes) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "model.safetensors", {{"single", at::ones({1})}});
  write_file_atomically(directory / "model.safetensors.index.json", R"({"weight_map":{"x":"gone.safetensors"}})");
  EXPECT_THAT(Checkpoint::open(directory.path())->names(), ElementsAre("single"));
}

TEST(Checkpoint, AcceptsASingleFileOfAnyName) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "adapter.safetensors", {{"x", at::ones({1})}});
  EXPECT_THAT(Checkpoint::open(directory.path())->names(), ElementsAre("x"));
  EXPECT_THAT(Checkpoint::open(directory / "adapter.safetensors")->names(), ElementsAre("x"));
}

TEST(Checkpoint, NamesWhatIsMissing) {
  const TemporaryDirectory directory;
  const std::string where = "[" + directory.path().string();
  EXPECT_THAT([&] { Checkpoint::open(directory / "none"); }, ThrowsMessage<IoError>(where + "/none] does not exist."));
  EXPECT_THAT(
      [&] { Checkpoint::open(directory.path()); },
      ThrowsMessage<IoError>(where + "] contains no checkpoint; looked for .safetensors, .bin, .pth, .pt, .gguf."));
  write_file_atomically(directory / "model.onnx", "");
  EXPECT_THAT(
      [&] { Checkpoint::open(directory / "model.onnx"); },
      ThrowsMessage<FormatError>(where + "/model.onnx] is not a readable tensor file; known: .safetensors, .bin, "
                                         ".pth, .pt, .gguf."));
  save_safetensors(directory / "a.safetensors", {{"x", at::ones({1})}});
  save_safetensors(directory / "b.safetensors", {{"x", at::ones({1})}});
  EXPECT_THAT([&] { Checkpoint::open(directory.path()); },
              ThrowsMessage<IoError>(where + "] has 2 .safetensors files but no model.safetensors.index.json that "
                                             "says which belong together. Pass one file instead."));
}

}  // namespace
}  // namespace easydel
