#include "easydel/io/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/files/file.h"
#include "easydel/io/safetensors/safetensors.h"
#include "tests/io/gguf_builder.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

// Equal in every bit of every value.
void expect_identical(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  EXPECT_TRUE(at::equal(actual.contiguous().view(at::kByte), expected.contiguous().view(at::kByte)));
}

// The slice [starts, starts + sizes) of each dimension.
at::Tensor narrowed(at::Tensor tensor, at::IntArrayRef starts, at::IntArrayRef sizes) {
  for (std::size_t d = 0; d < sizes.size(); ++d) tensor = tensor.narrow(static_cast<int64_t>(d), starts[d], sizes[d]);
  return tensor;
}

TEST(GgufFile, ReadsWhatThePackageWroteAsThePackageReadsIt) {
  const TemporaryDirectory directory;
  run_python("gguf_peer.py", {directory.path().string()});
  const auto file = GgufFile::open(directory / "peer.gguf");
  const auto expected = SafetensorsFile::open(directory / "expected.safetensors");

  Json metadata = Json::object();
  for (const auto& [key, value] : file->container().metadata()) metadata[key] = value.to_json();
  EXPECT_EQ(metadata.dump(2), Json::parse_file((directory / "expected.json").string()).dump(2));

  ASSERT_EQ(file->infos().size(), expected->infos().size() + 1);  // "unread" is listed only
  for (const TensorInfo& info : expected->infos()) {
    SCOPED_TRACE(info.name);
    const at::Tensor tensor = file->tensor(info.name);
    EXPECT_EQ(tensor.scalar_type(), file->info(info.name).dtype);
    // Plain numbers are returned unchanged; the reference has them in double precision, which represents them all.
    expect_identical(info.dtype == float64 ? tensor.to(at::kDouble) : tensor.to(at::kFloat),
                     expected->tensor(info.name));
    expect_identical(file->read(info.name), tensor);
  }

  const std::vector<int64_t> starts = {1, 2, 37}, sizes = {2, 3, 100};
  for (const char* name : {"Q4_0", "Q8_0", "Q5_1", "BF16"}) {
    expect_identical(file->slice(name, starts, sizes), narrowed(file->tensor(name), starts, sizes));
  }
  for (const char* name : {"random.Q4_K", "random.Q6_K"}) {
    expect_identical(file->slice(name, {2, 250}, {4, 10}), narrowed(file->tensor(name), {2, 250}, {4, 10}));
    EXPECT_EQ(file->slice(name, {2, 250}, {0, 10}).numel(), 0);
    EXPECT_EQ(file->slice(name, {2, 250}, {4, 0}).numel(), 0);
  }

  EXPECT_EQ(file->info("unread").stored_as, "Q2_K");
  EXPECT_THAT(
      [&] { file->tensor("unread"); },
      ThrowsMessage<NotSupportedError>("[" + (directory / "peer.gguf").string() +
                                       "] tensor \"unread\" is stored as Q2_K, which is not supported. Convert the "
                                       "file to Q8_0 with llama-quantize --allow-requantize."));
}

TEST(GgufFile, ReturnsPlainTensorsWithoutCopying) {
  const TemporaryDirectory directory;
  const GgufBytes bytes = GgufBytes().header(1, 0).tensor("t", {2, 4}, 0, 0).data(32);
  write_file_atomically(directory / "x.gguf", bytes.text());
  const auto file = GgufFile::open(directory / "x.gguf");
  const at::Tensor tensor = file->tensor("t");
  EXPECT_EQ(tensor.sizes().vec(), (std::vector<int64_t>{4, 2}));
  tensor.fill_(1);
  EXPECT_EQ(file->tensor("t").sum().item<float>(), 8);
  EXPECT_EQ(GgufFile::open(directory / "x.gguf")->tensor("t").sum().item<float>(), 0);
}

TEST(GgufFile, ReadsTensorsWithoutElements) {
  const TemporaryDirectory directory;
  const GgufBytes bytes = GgufBytes().header(2, 0).tensor("a", {0}, 0, 0).tensor("b", {32, 0}, 2, 0).data(0);
  write_file_atomically(directory / "x.gguf", bytes.text());
  const auto file = GgufFile::open(directory / "x.gguf");
  EXPECT_EQ(file->tensor("a").sizes().vec(), (std::vector<int64_t>{0}));
  EXPECT_EQ(file->tensor("b").sizes().vec(), (std::vector<int64_t>{0, 32}));
}

}  // namespace
}  // namespace easydel
