// Side by side with the safetensors and huggingface_hub packages.
#include <gmock/gmock.h>

#include <random>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_dtype.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

TEST(SafetensorsParity, FilesOfThePackageAreReadAndWrittenAgainByteForByte) {
  const TemporaryDirectory directory;
  run_python("safetensors_peer.py", {"write", directory.path().string(), "7"});
  const auto files = list_directory(directory.path());
  ASSERT_EQ(files.size(), 40);
  std::size_t tensors_seen = 0;
  for (const std::string& name : files) {
    const auto file = SafetensorsFile::open(directory / name);
    NamedTensors tensors;
    for (const TensorInfo& info : file->infos()) tensors.emplace_back(info.name, file->tensor(info.name));
    tensors_seen += tensors.size();
    save_safetensors(directory / "again", tensors, file->metadata());
    EXPECT_EQ(read_file(directory / "again"), read_file(directory / name)) << name;
  }
  EXPECT_GT(tensors_seen, 100);
}

// The bytes 0, 1, 2 … as elements of the dtype.
at::Tensor counting_bytes(const std::vector<int64_t>& shape, DType dtype) {
  const int64_t elements = c10::multiply_integers(shape);
  const auto bytes = elements * static_cast<int64_t>(c10::elementSize(dtype));
  if (bytes == 0) return at::empty(shape, dtype);
  const at::Tensor counted = at::arange(bytes).remainder(dtype == boolean ? 2 : 256).to(at::kByte);
  return (dtype == boolean ? counted.to(at::kBool) : counted.view(dtype)).reshape(shape);
}

std::string python_name(DType dtype) {
  switch (dtype) {
    case DType::Float4_e2m1fn_x2: return "float4_e2m1fn_x2";
    case DType::Float8_e8m0fnu: return "float8_e8m0fnu";
    case DType::Float8_e4m3fnuz: return "float8_e4m3fnuz";
    case DType::Float8_e5m2fnuz: return "float8_e5m2fnuz";
    case DType::ComplexFloat: return "complex64";
    default: return dtype_name(dtype);
  }
}

TEST(SafetensorsParity, FilesOfOursAreReadAndWrittenAgainByThePackageByteForByte) {
  const TemporaryDirectory directory;
  std::mt19937 random(11);
  const auto below = [&](uint32_t bound) { return random() % bound; };
  const std::vector<std::string> pieces = {"layer", ".", "\"", "\\", "é", "日本", "😀", "\n", "\x01", " ", "/", "\x7f"};
  constexpr int kFiles = 20;
  for (int i = 0; i < kFiles; ++i) {
    NamedTensors tensors;
    for (const SafetensorsDType& dtype : safetensors_dtypes()) {
      std::vector<int64_t> shape(dtype.is_packed() ? 1 + below(3) : below(5));
      for (int64_t& size : shape) size = below(6);
      std::string name;
      for (uint32_t n = below(4); n > 0; --n) name += pieces[below(static_cast<uint32_t>(pieces.size()))];
      tensors.emplace_back(concat(name, ".", python_name(dtype.dtype)), counting_bytes(shape, dtype.dtype));
    }
    save_safetensors(directory / concat(i, ".safetensors"), tensors);
  }
  EXPECT_EQ(run_python("safetensors_peer.py", {"check", directory.path().string()}), concat(kFiles, "\n"));
}

std::string with_length(const std::string& content) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(content.size() >> (8 * i));
  return length + content;
}

// Where we differ, we are the stricter ones.
bool is_our_own_rule(const std::string& message) {
  for (const char* rule : {"appears twice in the header", "unknown field", "has no type for",
                           "must be a JSON object; it begins with '['", "does not fit in 63 bits", " has \""}) {
    if (message.find(rule) != std::string::npos) return true;
  }
  return false;
}

TEST(SafetensorsParity, DamagedFilesAreRefusedWhereThePackageRefusesThem) {
  const TemporaryDirectory directory;
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("a":{"dtype":"U8","shape":[8],"data_offsets":[16,24]},"e":{"dtype":"BF16","shape":[0],"data_offsets":[24,24]}})";
  const std::string whole = with_length(json) + std::string(24, '\1');
  const std::string interesting = "{}[],:\"\\0123456789-.eEtfn \n_abdx\xff\xc3\x80";
  std::mt19937 random(5);
  std::vector<std::string> cases = {whole};
  while (cases.size() < 5000) {
    std::string file = whole;
    for (uint32_t edits = 1 + random() % 2; edits > 0; --edits) {
      const std::size_t at = random() % 8 == 0 ? random() % file.size() : 8 + random() % json.size();
      switch (random() % 5) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file.erase(at, 1 + random() % 4); break;
        case 2: file.insert(at, 1, interesting[random() % interesting.size()]); break;
        case 3: file.insert(at, file.substr(8 + random() % json.size(), random() % 60)); break;
        default: file[at] = interesting[random() % interesting.size()]; break;
      }
    }
    if (random() % 2 == 0 && file.size() > 32) {  // fixes up the length, so that the JSON is what is tested
      file = with_length(file.substr(8, file.size() - 32)) + std::string(24, '\1');
    }
    cases.push_back(file);
  }
  std::string archive;
  for (const std::string& file : cases) archive += with_length(file);
  write_file_atomically(directory / "archive", archive);
  const std::string verdicts = run_python("safetensors_peer.py", {"judge", (directory / "archive").string()});
  ASSERT_EQ(verdicts.size(), cases.size() + 1);

  int taken = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::string message;
    try {
      parse_safetensors_header(std::as_bytes(std::span(cases[i])), "f");
      ++taken;
    } catch (const Error& error) {
      message = error.what();
    }
    if (verdicts[i] == '-') {
      EXPECT_NE(message, "") << "only we take " << testing::PrintToString(cases[i]);
    } else {
      EXPECT_TRUE(message.empty() || is_our_own_rule(message))
          << message << "\nonly we refuse " << testing::PrintToString(cases[i]);
    }
  }
  EXPECT_GT(taken, 100);
}

TEST(SaveCheckpointParity, SplitsNamesAndTiesAsHuggingfaceHubDoesByteForByte) {
  const TemporaryDirectory directory;
  ASSERT_EQ(run_python("checkpoint_peer.py", {directory.path().string(), "3"}), "16\n");
  std::size_t files_seen = 0;
  for (int i = 0; i < 16; ++i) {
    const auto theirs = directory / std::to_string(i);
    const auto ours = directory / concat(i, "-ours");
    const Json recipe = Json::parse_file((directory / concat(i, ".json")).string());
    const auto checkpoint = Checkpoint::open(theirs);
    NamedTensors tensors;
    for (const Json& name : recipe.at("order").as_array()) {
      const Json* first = recipe.at("ties").find(name.as_string());
      tensors.emplace_back(name.as_string(), checkpoint->tensor(first ? first->as_string() : name.as_string()));
    }
    save_checkpoint(ours, tensors, {.max_shard_size = recipe.at("max_shard_size").as_string()});

    ASSERT_EQ(list_directory(ours), list_directory(theirs)) << recipe.dump();
    for (const std::string& name : list_directory(ours)) {
      EXPECT_TRUE(read_file(ours / name) == read_file(theirs / name)) << name << " of " << recipe.dump();
      ++files_seen;
    }
  }
  EXPECT_GT(files_seen, 50);
}

}  // namespace
}  // namespace easydel
