#include "easydel/io/torch/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/build_info.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/io/safetensors/safetensors.h"
#include "tests/io/pickle_builder.h"
#include "tests/io/zip_builder.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

// The bytes of a tensor's elements in order.
at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.contiguous().reshape({-1}).view(at::kByte); }

void expect_as_torch_reads(const TorchFile& file, const Json& expected, const SafetensorsFile& bytes) {
  ASSERT_EQ(file.infos().size(), expected.size());
  std::size_t index = 0;
  for (const auto& [name, description] : expected.as_object()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(file.infos()[index++].name, name);  // in the order of the state dict
    const at::Tensor tensor = file.tensor(name);
    EXPECT_EQ(file.info(name).stored_as, description.at("dtype").as_string());
    EXPECT_EQ(Json(tensor.sizes().vec()), description.at("shape"));
    EXPECT_EQ(Json(tensor.strides().vec()), description.at("stride"));
    EXPECT_TRUE(at::equal(bytes_of(tensor), bytes.tensor(name)));
    EXPECT_TRUE(at::equal(bytes_of(file.read(name)), bytes.tensor(name)));
  }
}

TEST(TorchFile, ReadsWhatTorchSavedAsTorchReadsIt) {
  const TemporaryDirectory directory;
  run_python("torch_file_peer.py", {directory.path().string()});
  const Json expected = Json::parse_file((directory / "expected.json").string());
  const auto bytes = SafetensorsFile::open(directory / "expected.safetensors");
  std::vector<std::string> files = {"protocol-2.bin", "protocol-3.bin", "protocol-4.bin", "protocol-5.bin",
                                    "unaligned.bin"};
  if (EASYDEL_HAS_ZLIB) files.push_back("deflated.bin");
  for (const std::string& name : files) {
    SCOPED_TRACE(name);
    const auto file = TorchFile::open(directory / name);
    expect_as_torch_reads(*file, expected, *bytes);

    const at::Tensor base = file->tensor("base");
    EXPECT_TRUE(base.is_alias_of(file->tensor("transposed")));
    EXPECT_EQ(base.data_ptr(), file->tensor("alias").data_ptr());
    EXPECT_EQ(file->tensor("offset").data_ptr<float>(), base.data_ptr<float>() + 17);
    EXPECT_FALSE(base.is_alias_of(file->tensor("expanded")));
    EXPECT_TRUE(at::equal(file->slice("transposed", {1, 2, 0}, {3, 2, 4}),
                          base.transpose(0, 2).narrow(0, 1, 3).narrow(1, 2, 2)));
  }
}

class TorchFileOnDisk : public testing::Test {
 protected:
  std::filesystem::path write(const std::vector<ZipPart>& parts) {
    const auto path = directory_ / "x.bin";
    write_file_atomically(path, make_zip(parts).bytes);
    return path;
  }
  TemporaryDirectory directory_;
};

TEST_F(TorchFileOnDisk, LetsATensorOutliveItsFile) {
  const std::string dict = pickled::dict({pickled::text("w"), pickled::rebuild({})});
  const auto path = write({{"a/data.pkl", pickled::whole(dict)}, {"a/data/0", std::string(24, '\0')}});
  const at::Tensor tensor = TorchFile::open(path)->tensor("w");
  EXPECT_EQ(tensor.sum().item<float>(), 0);
}

TEST_F(TorchFileOnDisk, SharesWritesBetweenTensorsAndKeepsThemFromTheFile) {
  const std::string both =
      pickled::dict({pickled::text("w"), pickled::rebuild({}), pickled::text("v"), pickled::rebuild({})});
  const auto path = write({{"a/data.pkl", pickled::whole(both)}, {"a/data/0", std::string(24, '\0')}});
  const auto file = TorchFile::open(path);
  const at::Tensor w = file->tensor("w");
  w.fill_(1);
  EXPECT_EQ(file->tensor("v").sum().item<float>(), 6);
  EXPECT_EQ(TorchFile::open(path)->tensor("w").sum().item<float>(), 0);
}

TEST_F(TorchFileOnDisk, ChecksAStorageWhenItIsRead) {
  const std::string dict = pickled::dict({pickled::text("w"), pickled::rebuild({})});
  TestZip zip = make_zip({{"a/data.pkl", pickled::whole(dict)}, {"a/data/0", std::string(24, '\0')}});
  write_file_atomically(directory_ / "x.bin", zip.set<uint32_t>(zip.headers[1], 0).bytes);
  const auto file = TorchFile::open(directory_ / "x.bin");
  EXPECT_THAT([&] { file->tensor("w"); }, testing::ThrowsMessage<FormatError>("[" + (directory_ / "x.bin").string() +
                                                                              "] zip entry \"a/data/0\" has no "
                                                                              "header at byte " +
                                                                              std::to_string(zip.headers[1]) + "."));
}

}  // namespace
}  // namespace easydel
