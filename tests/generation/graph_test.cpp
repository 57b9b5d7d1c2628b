// Generation on a GPU: the captured step gives what the plain one gives, and both what the CPU gives.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <atomic>

#include "easydel/generation/generate.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/quantization/quantize.h"
#include "tests/support/probe.h"

namespace easydel {
namespace {

class CudaGeneration : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

std::shared_ptr<BaseModule> make(const char* dict, at::Device device, DType dtype) {
  const auto config = AutoConfig::from_dict(Json::parse(dict));
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize({.dtype = float32, .param_dtype = float32, .rngs = RandomKey(3)});
  const at::NoGradGuard no_grad;
  for (const auto& [path, parameter] : model->named_parameters()) {
    at::Tensor noise = at::empty_like(parameter->value());
    fill_normal(noise, RandomKey(5).fold(path), 0, 0.3);
    parameter->value().add_(noise);
  }
  const auto [definition, state] = model->split_module();
  TensorMap there;
  for (const auto& [path, tensor] : state) there.set(path, tensor.detach().to(device, dtype));
  auto moved = BaseModule::merge_module(definition, there);
  moved->set_options({.dtype = dtype, .param_dtype = dtype, .device = device});
  moved->merge_params(there);
  return moved;
}

// Logits of every step and the tokens: longer than the first graph looks ahead, so that it is captured again.
GenerateOutput run(const BaseModule& model, bool trace, int64_t tokens) {
  GenerateOptions options;
  options.trace = trace;
  options.generation_config.max_new_tokens = tokens;
  options.generation_config.min_new_tokens = tokens;
  options.generation_config.do_sample = false;
  options.generation_config.output_logits = true;
  const at::Tensor ids = at::tensor({0, 0, 5, 6, 7, 3, 9, 4, 8, 5}, at::kLong).view({2, 5});
  options.inputs.attention_mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 5});
  return generate(model, ids, options);
}

TEST_P(CudaGeneration, TheCapturedStepGivesWhatThePlainOneGives) {
  const auto model = make(GetParam(), at::kCUDA, float32);
  const GenerateOutput plain = run(*model, false, 300), traced = run(*model, true, 300);
  EXPECT_TRUE(at::equal(plain.sequences, traced.sequences));
  double worst = 0;
  for (std::size_t i = 0; i < plain.logits.size(); ++i)
    worst = std::max(worst, (plain.logits[i] - traced.logits[i]).abs().max().item<double>() /
                                plain.logits[i].abs().max().item<double>());
  EXPECT_LT(worst, 1e-4);
}

TEST_P(CudaGeneration, GivesWhatTheCpuGives) {
  const GenerateOutput here = run(*make(GetParam(), at::kCPU, float32), false, 40);
  const GenerateOutput there = run(*make(GetParam(), at::kCUDA, float32), true, 40);
  EXPECT_TRUE(at::equal(here.sequences, there.sequences.cpu()));
}

TEST_P(CudaGeneration, InBfloat16TheFirstStepsAgree) {
  const auto model = make(GetParam(), at::kCUDA, bfloat16);
  const GenerateOutput plain = run(*model, false, 8), traced = run(*model, true, 8);
  EXPECT_TRUE(at::allclose(plain.logits[0], traced.logits[0]));
  const int64_t prompt = plain.sequences.size(1) - 8;
  // Rows that a near tie gave another token read another token from then on.
  const at::Tensor same = plain.sequences.select(1, prompt + 1).eq(traced.sequences.select(1, prompt + 1));
  const auto difference = [&](std::size_t step) { return (plain.logits[step] - traced.logits[step]).abs(); };
  EXPECT_LT(difference(1).max().item<double>(), 0.05 * plain.logits[1].abs().max().item<double>());
  EXPECT_LT((difference(2) * same.unsqueeze(1)).max().item<double>(),
            0.05 * plain.logits[2].abs().max().item<double>());
}

constexpr const char* kSmallLlama = R"({"model_type": "llama", "vocab_size": 31, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96})";

// The operations of 100 tokens, on the host.
int64_t operations(const BaseModule& model, bool trace) {
  static std::atomic<int64_t> calls;
  run(model, trace, 4);  // what is made once
  calls = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        ++calls;
        return nullptr;
      }));
  run(model, trace, 100);
  at::removeCallback(handle);
  return calls.load();
}

// A step that is replayed calls none of the operations that it was captured from.
PROBE(GenerateOptions, trace) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  const auto model = make(kSmallLlama, at::kCUDA, float32);
  EXPECT_LT(operations(*model, true), operations(*model, false) / 2);
}

TEST(CudaGenerationPacked, StepsWithPackedWeightsAreCaptured) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  for (const QuantizeOptions& options :
       {QuantizeOptions{.method = "8bit"}, QuantizeOptions{.method = "nf4", .group_size = 32},
        QuantizeOptions{.method = "nf4", .group_size = 32, .double_quant = true}, QuantizeOptions{.method = "int4"},
        QuantizeOptions{.method = "8bit", .bit_targeted_params = {"kernel", "embedding"}}}) {
    SCOPED_TRACE(options.method);
    const auto here = make(kSmallLlama, at::kCPU, float32), there = make(kSmallLlama, at::kCUDA, float32);
    here->quantize(options), there->quantize(options);
    EXPECT_LT(operations(*there, true), operations(*there, false) / 2);
    EXPECT_TRUE(at::equal(run(*here, false, 40).sequences, run(*there, true, 40).sequences.cpu()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, CudaGeneration,
    testing::Values(
        R"({"model_type": "llama", "vocab_size": 31, "hidden_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
            "max_position_embeddings": 512})",
        R"({"model_type": "gpt2", "vocab_size": 31, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512,
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2})",
        R"({"model_type": "phi3", "vocab_size": 31, "hidden_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 40, "sliding_window": 7,
            "max_position_embeddings": 512, "pad_token_id": 0})",
        R"({"model_type": "mixtral", "vocab_size": 31, "hidden_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 24, "num_local_experts": 4,
            "num_experts_per_tok": 2, "sliding_window": 20, "max_position_embeddings": 512})"),
    [](const testing::TestParamInfo<const char*>& info) {
      return Json::parse(info.param).at("model_type").as_string();
    });

}  // namespace
}  // namespace easydel
