// What the options of quantization and calibration do.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "easydel/quantization/calibrate.h"
#include "easydel/quantization/quantize.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/probe.h"
#include "tests/support/tensors.h"

namespace easydel::quantization_probes {
namespace {

using quantization::make_method;
using testing_support::is_refused;
using testing_support::LogLines;

constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kScales = "model.layers.0.self_attn.q_proj.weight.absmax";
constexpr const char* kTable = "model.embed_tokens.weight";

std::shared_ptr<LlamaForCausalLM> dense() {
  LlamaConfig config = tiny_config();
  config.hidden_size = 64;
  config.intermediate_size = 128;
  return make_model<LlamaForCausalLM>(config);
}

TensorMap packed(const QuantizeOptions& options) {
  const auto model = dense();
  model->quantize(options);
  return model->params();
}

PROBE(QuantizeOptions, method) {
  EXPECT_EQ(packed({}).at(kQuery).scalar_type(), int8);
  EXPECT_EQ(packed({.method = "nf4"}).at(kQuery).scalar_type(), uint8);
  EXPECT_TRUE(is_refused("\"aqt\"", [] { packed({.method = "aqt"}); }));
}
PROBE(QuantizeOptions, group_size) {
  EXPECT_EQ(packed({.method = "nf4"}).at(kScales).numel(), 64);
  EXPECT_EQ(packed({.method = "nf4", .group_size = 32}).at(kScales).numel(), 128);
  EXPECT_TRUE(is_refused("group size", [] { packed({.group_size = 32}); }));
}
PROBE(QuantizeOptions, pattern) {
  const TensorMap params = packed({.pattern = "q_proj"});
  EXPECT_EQ(params.at(kQuery).scalar_type(), int8);
  EXPECT_EQ(params.at("model.layers.0.self_attn.v_proj.weight").scalar_type(), float32);
  EXPECT_TRUE(is_refused("nothing_like_it", [] { packed({.pattern = "nothing_like_it"}); }));
}
PROBE(QuantizeOptions, double_quant) {
  EXPECT_EQ(packed({.method = "nf4"}).at(kScales).scalar_type(), float32);
  EXPECT_EQ(packed({.method = "nf4", .double_quant = true}).at(kScales).scalar_type(), uint8);
  EXPECT_TRUE(is_refused("double_quant", [] { packed({.double_quant = true}); }));
}
PROBE(QuantizeOptions, bit_targeted_params) {
  const TensorMap params = packed({.bit_targeted_params = {"embedding"}});
  EXPECT_EQ(params.at(kTable).scalar_type(), int8);
  EXPECT_EQ(params.at(kQuery).scalar_type(), float32);
  EXPECT_TRUE(is_refused("bit_targeted_params", [] { packed({.bit_targeted_params = {"bias"}}); }));
}
PROBE(QuantizeOptions, quantize_tensors) {
  EXPECT_EQ(packed({.quantize_tensors = false}).at(kQuery).scalar_type(), float32);
  EXPECT_TRUE(is_refused("\"aqt\"", [] { packed({.method = "aqt", .quantize_tensors = false}); }));
  EXPECT_TRUE(is_refused("multiple of 32; got 24. The layer is",
                         [] { packed({.method = "nf4", .group_size = 24, .quantize_tensors = false}); }));
}
PROBE(QuantizeOptions, verbose) {
  LogLines log;
  packed({});
  EXPECT_TRUE(log.lines().empty());
  packed({.verbose = true});
  EXPECT_TRUE(log.contain("layers as 8bit"));
}

std::vector<int64_t> some_text(int64_t tokens = 60) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back((i * i * 7 + 3 * i) % 29);
  return ids;
}

// The channels that were seen with the largest values stay as they are: one of sixteen.
PROBE(QuantizeOptions, calibration) {
  EXPECT_TRUE(is_refused(".calibration", [] { packed({.method = "a4q", .group_size = 32}); }));
  const auto model = dense();
  auto seen = std::make_shared<Calibration>(*calibrate(*model, some_text()));
  for (auto& [path, statistics] : *seen)
    statistics.max_abs = at::arange(statistics.max_abs.numel(), at::TensorOptions(at::kFloat));
  const at::Tensor kept = packed({.method = "a4q", .group_size = 32, .calibration = seen})
                              .at("model.layers.0.self_attn.q_proj.weight.outliers");
  EXPECT_TRUE(at::equal(kept, at::cat({at::zeros({60}, at::kByte), at::ones({4}, at::kByte)})));
}

at::Tensor seen_by(const char* layer, const CalibrateOptions& options) {
  const auto model = dense();
  return calibrate(*model, some_text(), options)->at(layer).mean_abs;
}

// The first token of a piece looks at nothing before it.
PROBE(CalibrateOptions, window) {
  const char* later = "model.layers.1.self_attn.q_proj";
  EXPECT_FALSE(at::allclose(seen_by(later, {.window = 60}), seen_by(later, {.window = 5}), 1e-3));
  EXPECT_TRUE(is_refused("window", [&] { seen_by(later, {.window = 0}); }));
}

PROBE(CalibrateOptions, max_tokens) {
  const auto model = dense();
  const char* layer = "model.layers.0.self_attn.q_proj";
  const at::Tensor first = calibrate(*model, some_text(10))->at(layer).mean_abs;
  EXPECT_TRUE(is_close(seen_by(layer, {.max_tokens = 10}), first));
  EXPECT_FALSE(at::allclose(seen_by(layer, {}), first, 1e-3));
}

}  // namespace
}  // namespace easydel::quantization_probes
