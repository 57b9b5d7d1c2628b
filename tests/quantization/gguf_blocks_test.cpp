// Matrices that stay in GGUF's blocks, beside what the gguf package says they stand for.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/files/weights.h"
#include "easydel/io/gguf/gguf_dequantize.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/operations/kernels/cpu/block_kernels.h"
#include "easydel/operations/quantized/block_product.h"
#include "easydel/quantization/methods/gguf_blocks.h"
#include "easydel/quantization/packed_matrix.h"
#include "easydel/quantization/quantize.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using operations::BlockFormat;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::pair<const char*, BlockFormat> kKinds[] = {{"Q8_0", BlockFormat::kQ8_0},
                                                          {"Q4_K", BlockFormat::kQ4_K},
                                                          {"Q5_K", BlockFormat::kQ5_K},
                                                          {"Q6_K", BlockFormat::kQ6_K}};

// Bytes at random, with scales that are no infinities.
at::Tensor random_blocks(const GgmlType& type, int64_t rows, int64_t blocks) {
  const at::Tensor bytes = at::randint(0, 256, {rows, blocks, type.block_bytes}, at::kByte);
  for (const int64_t at : type.name == "Q6_K" ? std::vector<int64_t>{208} : std::vector<int64_t>{0, 2}) {
    if (at == 2 && type.name == "Q8_0") continue;
    bytes.narrow(2, at, 2).copy_(at::randn({rows, blocks, 1}).mul_(1e-3).to(at::kHalf).view(at::kByte));
  }
  return bytes;
}

at::Tensor reference(const GgmlType& type, const at::Tensor& blocks) {
  const at::Tensor out = at::empty({blocks.size(0), blocks.size(1) * type.block_elements});
  gguf_dequantize(type, static_cast<const std::byte*>(blocks.const_data_ptr()), blocks.size(0) * blocks.size(1),
                  out.mutable_data_ptr<float>());
  return out;
}

TEST(GgufBlocks, AreDecodedToTheSameBitsOnAnyDevice) {
  at::manual_seed(0);
  for (const auto& [name, format] : kKinds) {
    SCOPED_TRACE(name);
    const GgmlType& type = *find_ggml_type(name);
    const at::Tensor blocks = random_blocks(type, 7, 3);
    EXPECT_TRUE(at::equal(quantization::decode_blocks(type, blocks).flatten(1), reference(type, blocks)));
  }
}

TEST(GgufBlocks, AreMultipliedStraightByEveryKernel) {
  at::manual_seed(1);
  for (const auto& [name, format] : kKinds) {
    const GgmlType& type = *find_ggml_type(name);
    const at::Tensor blocks = random_blocks(type, 37, 1280 / type.block_elements);
    const at::Tensor dense = reference(type, blocks).to(at::kDouble);
    for (const int64_t vectors : {1, 2, 3, 7, 24, 70}) {
      const at::Tensor x = at::randn({vectors, dense.size(1)});
      const at::Tensor expected = x.to(at::kDouble).mm(dense.t());
      // What float32 may round: a part of the sum of magnitudes.
      const at::Tensor bound = x.to(at::kDouble).abs().mm(dense.abs().t()).mul_(1e-6).add_(1e-9);
      const auto list = operations::kernels::blocks_available();
      for (int i = 0; i < list.count; ++i) {
        SCOPED_TRACE(testing::Message() << name << " " << vectors << " vectors, table " << i);
        const at::Tensor sums = x.view({vectors, -1, 32}).sum(2), y = at::empty({vectors, 37});
        operations::kernels::BlockArgs args;
        args.blocks = blocks.const_data_ptr<uint8_t>();
        args.row_bytes = blocks.size(1) * blocks.size(2);
        args.x = x.const_data_ptr<float>();
        args.sums = sums.const_data_ptr<float>();
        args.width = x.size(1);
        args.vectors = vectors;
        args.y = y.mutable_data_ptr<float>();
        args.y_row = 37;
        const auto& table = *list.tables[i];
        const auto kernel = format == BlockFormat::kQ8_0   ? table.q8_0
                            : format == BlockFormat::kQ4_K ? table.q4_k
                            : format == BlockFormat::kQ5_K ? table.q5_k
                                                           : table.q6_k;
        kernel(args, 0, 20);
        kernel(args, 20, 37);
        // Minima and codes cancel, so their own sizes count too.
        EXPECT_TRUE(((y - expected).abs() <= 20 * bound + 1e-4 * expected.abs().mean()).all().item<bool>());
        EXPECT_TRUE(is_close(operations::block_product(x, blocks, format), expected.to(at::kFloat), {1e-3, 1e-4}));
      }
    }
  }
}

TEST(GgufBlocks, AreMultipliedWithOneSplitVector) {
  at::manual_seed(2);
  const GgmlType& type = *find_ggml_type("Q4_K");
  const auto list = operations::kernels::blocks_available();
  int tested = 0;
  for (const int64_t count : {1, 5}) {
    const at::Tensor blocks = random_blocks(type, 37, count), dense = reference(type, blocks).to(at::kDouble);
    const at::Tensor x = at::randn({count, 256}).mul_(at::pow(10.0, at::arange(count).unsqueeze(1))).view({-1});
    for (int i = 0; i < list.count; ++i) {
      const auto& table = *list.tables[i];
      if (!table.split_q4_k) continue;
      ++tested;
      const at::Tensor digits = at::empty({count, 2, 256}, at::kChar), scales = at::empty({count});
      table.split_x(x.const_data_ptr<float>(), 256 * count, digits.mutable_data_ptr<int8_t>(),
                    scales.mutable_data_ptr<float>());
      const at::Tensor parts = digits.to(at::kDouble), each = scales.to(at::kDouble).unsqueeze(1);
      const at::Tensor rounded = ((parts.select(1, 0) * 256 + parts.select(1, 1)) * each).view({-1});
      const at::Tensor largest = x.view({count, 256}).abs().amax(1, true).to(at::kDouble);
      EXPECT_TRUE(((rounded - x).abs().view({count, 256}) <= largest / 65278 * 1.001).all().item<bool>()) << i;
      const at::Tensor sums = x.view({-1, 32}).sum(1), y = at::empty({37});
      operations::kernels::BlockArgs args;
      args.blocks = blocks.const_data_ptr<uint8_t>();
      args.row_bytes = blocks.size(1) * blocks.size(2);
      args.sums = sums.const_data_ptr<float>();
      args.digits = digits.const_data_ptr<int8_t>();
      args.scales = scales.const_data_ptr<float>();
      args.width = 256 * count;
      args.vectors = 1;
      args.y = y.mutable_data_ptr<float>();
      table.split_q4_k(args, 0, 20);
      table.split_q4_k(args, 20, 37);
      const at::Tensor expected = at::mv(dense, x.to(at::kDouble)), size = at::mv(dense.abs(), x.abs().to(at::kDouble));
      // Codes without their minima are larger than the weights.
      const at::Tensor lost = at::mv(dense.abs(), (rounded - x).abs()) + 1e-6 * size + 1e-9;
      EXPECT_TRUE(((y - expected).abs() <= 8 * lost).all().item<bool>()) << i;
    }
  }
  EXPECT_EQ(tested > 0, list.count > 1);
}

class GgufModelFile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    run_python("../quantization/write_gguf.py", {directory_->path().string()});
  }
  static void TearDownTestSuite() { delete directory_; }
  static std::string gguf() { return (*directory_ / "model.gguf").string(); }
  static std::shared_ptr<BaseModule> load(LoadOptions options = {}) {
    options.verbose = false;
    return AutoModelForCausalLM::from_pretrained(gguf(), options);
  }
  static TemporaryDirectory* directory_;
};
TemporaryDirectory* GgufModelFile::directory_ = nullptr;

at::Tensor logits(const BaseModule& model, int64_t tokens) {
  const at::NoGradGuard no_grad;
  return model({.input_ids = at::arange(2 * tokens, at::kLong).remainder(96).view({2, tokens})}).logits;
}

TEST_F(GgufModelFile, StandsForTheWeightsThatThePackageSays) {
  const auto model = load();
  const auto expected = SafetensorsFile::open(*directory_ / "dense.safetensors");
  int64_t packed = 0;
  for (const auto& [path, module] : model->named_modules()) {
    const auto matrix = quantization::packed_matrix(*module);
    if (!matrix) continue;
    ++packed;
    EXPECT_TRUE(at::equal(matrix->dequantize(float32), expected->tensor(path + ".weight"))) << path;
  }
  EXPECT_EQ(packed, 9);
  // The file has a header and names beside its tensors.
  EXPECT_LE(parameter_bytes(*model), static_cast<int64_t>(std::filesystem::file_size(gguf())));
}

TEST_F(GgufModelFile, ComputesWhatTheDenseModelDoes) {
  const auto model = load();
  const auto twin = AutoModelForCausalLM::from_config(*[&] {
    auto config = model->config().clone();
    config->quantization.weights = Json();
    return config;
  }());
  TensorMap dense;
  const auto file = SafetensorsFile::open(*directory_ / "dense.safetensors");
  for (const std::string& name : file->names()) dense.set(name, file->tensor(name));
  twin->merge_params(dense);
  for (const int64_t tokens : {1, 3, 40})  // by the kernels, and decoded
    EXPECT_TRUE(is_close(logits(*model, tokens), logits(*twin, tokens), {1e-3, 1e-4}));
  on_mesh({1, 2, 1, 2, 1}, [&](const Mesh&, World&) {
    const auto sharded = load({.sharding = {.axis_dims = {1, 2, 1, 2, 1}, .auto_shard_model = true}});
    EXPECT_TRUE(is_close(logits(*sharded, 6), logits(*twin, 6), {1e-3, 1e-4}));
  });
}

TEST_F(GgufModelFile, IsSavedAndLoadedAsItIs) {
  const auto model = load();
  const TemporaryDirectory saved;
  model->save_pretrained(saved.path(), {.verbose = false});
  const auto again = AutoModelForCausalLM::from_pretrained(saved.path().string(), {.verbose = false});
  EXPECT_TRUE(at::equal(logits(*again, 5), logits(*model, 5)));
  EXPECT_EQ(parameter_bytes(*again), parameter_bytes(*model));
  // As floats, to be packed in another way.
  const auto other = load({.load_in_8bit = true});
  EXPECT_EQ(other->params().at("model.layers.0.mlp.up_proj.weight").scalar_type(), at::kChar);
}

}  // namespace
}  // namespace easydel
