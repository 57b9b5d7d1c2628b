#include "easydel/trainers/logs/memory_estimate.h"

#include <gmock/gmock.h>

#include <iostream>

#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/optim/optimizers.h"

namespace easydel {
namespace {

constexpr double kGiB = 1LL << 30;

std::shared_ptr<BaseModule> outline(const char* text, DType param_dtype, const std::string& policy = "") {
  Json dict = Json::parse(text);
  if (!policy.empty()) dict["gradient_checkpointing"] = policy;
  const std::shared_ptr<BaseModule> model =
      Registry::instance().make_module(*AutoConfig::from_dict(dict), TaskType::CausalLM);
  model->set_options({.dtype = bfloat16, .param_dtype = param_dtype, .device = at::Device(at::kCUDA, 0)});
  return model;
}

constexpr const char* kOneBillion = R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048,
    "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 64, "tie_word_embeddings": true})";
constexpr const char* kEightBillion = R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8})";

// What easydel bench train reported on an H200 with AdamW.
TEST(MemoryEstimate, IsNearWhatWasMeasuredOnAGpu) {
  struct Case {
    const char* model;
    DType param_dtype;
    const char* policy;
    int64_t tokens;
    double measured;
  };
  for (const Case& c : {Case{kOneBillion, bfloat16, "", 8 * 2048, 23.7}, Case{kOneBillion, float32, "", 8 * 2048, 31.0},
                        Case{kEightBillion, bfloat16, "", 2 * 4096, 75.6},
                        Case{kOneBillion, bfloat16, "checkpoint_dots", 131072, 125.4},
                        Case{kOneBillion, bfloat16, "nothing_saveable", 131072, 29.8}}) {
    const auto model = outline(c.model, c.param_dtype, c.policy);
    const MemoryEstimate estimate = estimate_memory(*model, {.tokens = c.tokens, .tx = optim::adamw(1e-4)});
    std::cout << "measured " << c.measured << " GiB, estimated " << estimate.to_string() << "\n";
    EXPECT_NEAR(static_cast<double>(estimate.peak()) / kGiB, c.measured, 0.1 * c.measured);
  }
}

TEST(MemoryEstimate, IsWrittenInUnitsThatFit) {
  const MemoryEstimate small{.weights = 3 << 19, .gradients = 1 << 20, .optimizer = 2 << 20};
  EXPECT_EQ(small.to_string(), "4.5 MiB: 1.5 weights, 1 gradients, 2 optimizer, 0 activations, 0 temporary");
  const MemoryEstimate large{.weights = int64_t{3} << 30, .activations = int64_t{1} << 29};
  EXPECT_EQ(large.to_string(), "3.5 GiB: 3 weights, 0 gradients, 0 optimizer, 0.5 activations, 0 temporary");
}

TEST(MemoryEstimate, FollowsWhatIsTrainedAndHow) {
  const auto model = outline(kOneBillion, bfloat16);
  const MemoryEstimateOptions usual{.tokens = 16384, .tx = optim::adamw(1e-4)};
  const MemoryEstimate full = estimate_memory(*model, usual);
  EXPECT_EQ(full.weights, model->num_params() * 2);
  EXPECT_EQ(full.gradients, full.weights);
  EXPECT_EQ(full.optimizer, 2 * full.weights);
  MemoryEstimateOptions changed = usual;
  changed.accumulates = true;
  EXPECT_EQ(estimate_memory(*model, changed).peak(), full.peak() + full.gradients);
  changed = usual;
  changed.tokens = 8192;
  EXPECT_EQ(estimate_memory(*model, changed).activations, full.activations / 2);
  changed = usual;
  changed.chunk_size = 64;
  EXPECT_LT(estimate_memory(*model, changed).temporary, full.temporary);
  changed = usual;
  changed.other_weights = 1000;
  EXPECT_EQ(estimate_memory(*model, changed).weights, full.weights + 1000);
  changed = usual;
  changed.tx = optim::adamw_8bit(1e-4);
  EXPECT_NEAR(static_cast<double>(estimate_memory(*model, changed).optimizer),
              static_cast<double>(model->num_params()) * (2 + 8.0 / 256), 1e6);
  const auto dots = outline(kOneBillion, bfloat16, "checkpoint_dots"),
             nothing = outline(kOneBillion, bfloat16, "nothing_saveable");
  EXPECT_LT(estimate_memory(*dots, usual).activations, full.activations);
  EXPECT_LT(estimate_memory(*nothing, usual).activations, estimate_memory(*dots, usual).activations);
  model->apply_lora_to_layers(8, 8, "q_proj");
  const MemoryEstimate adapted = estimate_memory(*model, usual);
  EXPECT_LT(adapted.gradients, full.gradients / 100);
  EXPECT_LT(adapted.optimizer, full.optimizer / 100);
}

}  // namespace
}  // namespace easydel
