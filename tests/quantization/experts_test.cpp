// Experts that are packed one by one: the dense model of what their codes stand for, on one device and on a mesh, with
// gradients, and loaded without ever being dense.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/quantization/calibrate.h"
#include "easydel/quantization/pack.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using quantization::expert_stacks;
using quantization::ExpertStack;

std::unique_ptr<BaseConfig> config_of(const std::string& family, const Json& more = Json::object()) {
  Json dict = Json::object({{"model_type", family}, {"vocab_size", 29}, {"initializer_range", 0.1}});
  for (const auto& [key, value] : {std::pair("hidden_size", 64),
                                   {"intermediate_size", 96},
                                   {"num_hidden_layers", 2},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2},
                                   {"num_local_experts", 4},
                                   {"max_position_embeddings", 32}})
    dict[key] = value;
  if (family == "gpt_oss") dict["head_dim"] = 16;
  for (const auto& [key, value] : more.as_object()) dict[key] = value;
  return AutoConfig::from_dict(dict);
}

struct Case {
  const char* method;
  int64_t group;
  bool nested;
};
constexpr Case kCases[] = {{"8bit", 0, false}, {"nf4", 32, false}, {"nf4", 32, true}, {"int4", 32, false}};

QuantizeOptions options_of(const Case& c) {
  return {.method = c.method, .group_size = c.group, .double_quant = c.nested};
}

// The dense model with the weights that the codes stand for.
std::shared_ptr<BaseModule> twin_of(const BaseModule& packed, const BaseConfig& config) {
  const auto twin = AutoModelForCausalLM::from_config(config);
  TensorMap same;
  for (const auto& layer : quantization::packed_layers(packed))
    same.set(layer.path + ".weight", layer.matrix->dequantize(float32));
  for (const ExpertStack& stack : expert_stacks(packed)) {
    const at::Tensor all = stack.packed()->dequantize(float32);
    same.set(stack.path, stack.experts->transposed() ? all.transpose(1, 2).contiguous() : all);
  }
  twin->merge_params(same);
  return twin;
}

ModelInputs some_inputs() { return {.input_ids = tiny_ids(4, 8), .labels = tiny_ids(4, 8)}; }

TEST(PackedExperts, AreTheDenseExpertsOfTheirCodes) {
  for (const std::string family : {"mixtral", "gpt_oss"}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(family + " " + c.method);
      const auto config = config_of(family);
      const auto model = AutoModelForCausalLM::from_config(*config);
      const auto dense = dense_weights(*model, layers_to_quantize(*model, options_of(c)));
      const int64_t before = parameter_bytes(*model);
      model->quantize(options_of(c));
      EXPECT_LT(parameter_bytes(*model), before / 2);
      int64_t stacks = 0;
      for (const LayerError& error : layer_errors(*model, dense)) {
        stacks += error.path.ends_with("experts.down_proj") || error.path.ends_with("experts.gate_up_proj");
        EXPECT_LT(error.relative, c.method == std::string("8bit") ? 0.01 : 0.13) << error.path;
      }
      EXPECT_EQ(stacks, 4);
      const auto twin = twin_of(*model, *config);
      const at::Tensor loss = (*model)(some_inputs()).loss, expected = (*twin)(some_inputs()).loss;
      EXPECT_TRUE(is_close(loss, expected, {1e-5, 1e-6}));
      loss.backward();
      expected.backward();
      for (const auto& [path, parameter] : model->named_parameters()) {
        if (parameter->fixed_dtype) continue;
        EXPECT_TRUE(is_close(parameter->value().grad(), twin->params().at(path).grad(), {1e-3, 1e-5})) << path;
      }
    }
  }
}

TEST(PackedExperts, GiveTheSameOnAnyMesh) {
  for (const std::string family : {"mixtral", "gpt_oss"}) {
    for (const Case& c : kCases) {
      const auto config = config_of(family);
      const auto model = AutoModelForCausalLM::from_config(*config);
      model->quantize(options_of(c));
      const at::Tensor expected = logits_of(*model);
      (*model)(some_inputs()).loss.backward();
      for (const std::vector<int64_t>& axes :
           std::vector<std::vector<int64_t>>{{1, 1, 2, 1, 1}, {1, 2, 1, 2, 1}, {1, 1, 2, 2, 1}, {2, 1, 1, 2, 1}}) {
        SCOPED_TRACE(testing::Message() << family << " " << c.method << " " << at::IntArrayRef(axes));
        on_mesh(axes, [&](const Mesh& mesh, World&) {
          for (const bool first : {true, false}) {
            const auto sharded = AutoModelForCausalLM::from_config(*config);
            if (first) sharded->shard_model({}, mesh);
            sharded->quantize(options_of(c));
            if (!first) sharded->shard_model({}, mesh);
            EXPECT_TRUE(is_close(logits_of(*sharded), expected, {1e-4, 1e-5}));
            (*sharded)(some_inputs()).loss.backward();
            for (const auto& [path, parameter] : sharded->named_parameters()) {
              const at::Tensor whole = parameter->whole();
              if (parameter->fixed_dtype) {
                EXPECT_TRUE(at::equal(whole, model->params().at(path))) << path;
                continue;
              }
              const at::Tensor grad = parameter->value().grad();
              EXPECT_TRUE(
                  is_close(parameter->sharding()->gather_whole(grad), model->params().at(path).grad(), {1e-3, 1e-5}))
                  << path;
            }
          }
        });
      }
    }
  }
}

TEST(PackedExperts, AreSavedAndLoaded) {
  for (const std::string family : {"mixtral", "gpt_oss"}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(family + " " + c.method);
      const TemporaryDirectory directory;
      const auto model = AutoModelForCausalLM::from_config(*config_of(family));
      model->save_pretrained(directory / "dense", {.verbose = false});
      model->quantize(options_of(c));
      model->save_pretrained(directory / "packed", {.verbose = false});
      const auto again = AutoModelForCausalLM::from_pretrained((directory / "packed").string(), {.verbose = false});
      EXPECT_TRUE(at::equal(logits_of(*again), logits_of(*model)));
      const LoadOptions load{.quantization_config = options_of(c), .verbose = false};
      const auto straight = AutoModelForCausalLM::from_pretrained((directory / "dense").string(), load);
      EXPECT_EQ(parameter_bytes(*straight), parameter_bytes(*model));
      EXPECT_TRUE(at::equal(logits_of(*straight), logits_of(*model)));
    }
  }
}

TEST(PackedExperts, StayDenseWhereAMethodRoundsActivations) {
  const auto model = AutoModelForCausalLM::from_config(*config_of("mixtral"));
  model->quantize({.method = "a8q"});
  EXPECT_TRUE(model->is_quantized());
  for (const ExpertStack& stack : expert_stacks(*model)) EXPECT_FALSE(stack.packed());
  const auto other = AutoModelForCausalLM::from_config(*config_of("mixtral"));
  other->quantize({.method = "8bit", .pattern = "experts.down_proj"});
  EXPECT_TRUE(other->is_quantized());
  EXPECT_TRUE(expert_stacks(*other)[1].packed());
  EXPECT_FALSE(expert_stacks(*other)[0].packed());
}

TEST(PackedExperts, LoadWithOneExpertInMemory) {
  using namespace testing_support;
  return_freed_memory();
  const TemporaryDirectory directory;
  const auto config = config_of(
      "mixtral", Json::object({{"hidden_size", 256}, {"intermediate_size", 1024}, {"num_local_experts", 16}}));
  AutoModelForCausalLM::from_config(*config)->save_pretrained(directory.path(), {.verbose = false});
  const auto load = [&] {
    return AutoModelForCausalLM::from_pretrained(
        directory.path().string(), {.quantization_config = QuantizeOptions{.method = "nf4"}, .verbose = false});
  };
  load();  // pages in the code
  reset_peak();
  const int64_t before = resident_bytes();
  const auto model = load();
  if (!kMemoryIsOurs) GTEST_SKIP() << kMemoryIsNotOurs;
  const int64_t expert = 2 * 1024 * 256 * 4, stack = 16 * 2 * 1024 * 256 * 5 / 8;
  // The dense model has 16 times 3 MB in each of two layers; a stack of codes is made and then taken over.
  EXPECT_LT(peak_resident_bytes() - before, parameter_bytes(*model) * 11 / 10 + 3 * expert + stack + (8 << 20));
}

}  // namespace
}  // namespace easydel
