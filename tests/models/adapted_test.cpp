// Every family with adapters and with packed weights, in float64: merged is unmerged, packed is the dense model of the
// dequantized weights, and a model that is taken apart and built again is the same.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/layers/linear.h"
#include "easydel/lora/lora.h"
#include "easydel/quantization/pack.h"
#include "easydel/quantization/quantize.h"
#include "tests/support/one_answer.h"
#include "tests/support/python.h"
#include "tests/support/text_families.h"

namespace easydel {
namespace {

using at::Tensor;
using testing_support::Problem;

Tensor logits(const BaseModule& model, const Problem& p) {
  const at::NoGradGuard no_grad;
  ModelInputs inputs = p.inputs;
  inputs.input_ids = inputs.input_ids.to(model.params().begin()->second.device());
  inputs.output_logits = true;
  return model(inputs).logits;
}

double distance(const Tensor& a, const Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(b.abs().max().item<double>(), 1e-300);
}

Module& module_at(BaseModule& model, const std::string& path) {
  for (const auto& [name, module] : model.named_modules()) {
    if (name == path) return *module;
  }
  fail<Error>("no module ", path);
}

// The paths, and no others, as a pattern.
std::string pattern_of(const std::vector<std::string>& paths) {
  std::string pattern;
  for (const std::string& path : paths) {
    pattern += pattern.empty() ? "^(" : "|";
    for (const char c : path) pattern += c == '.' ? std::string("\\.") : std::string(1, c);
  }
  return pattern + ")$";
}

std::shared_ptr<BaseModule> rebuilt(const BaseModule& model) {
  const auto [graphdef, state, other] = model.split_module_parts();
  return BaseModule::merge_module(graphdef, state, other);
}

// The first odd config of a family, and some tokens.
class Adapted : public testing::TestWithParam<std::string> {
 protected:
  Problem problem() const {
    static const Json all = Json::parse(run_python("../models/odd_configs.py", {}));
    Problem p;
    Json settings = all.at(GetParam()).as_object().begin()->second;
    settings["model_type"] = GetParam();
    p.config = AutoConfig::from_dict(settings);
    at::manual_seed(3);
    p.inputs.input_ids = at::randint(3, p.config->vocab_size, {2, 9}, at::kLong);
    return p;
  }
};

TEST_P(Adapted, MergedIsUnmergedAndOnlyAdaptersTrain) {
  const Problem p = problem();
  SCOPED_TRACE(p.to_string());
  const auto model = testing_support::make_model(p);
  const Tensor before = logits(*model, p);
  model->apply_lora_to_layers(3, 5.0, pattern_of(layers_to_quantize(*model, {})));
  EXPECT_LT(distance(logits(*model, p), before), 1e-12) << "B begins at zero";
  at::manual_seed(5);
  for (const auto& [path, parameter] : model->named_parameters()) {
    const at::NoGradGuard no_grad;
    const bool is_adapter = path.find(".lora_") != std::string::npos;
    EXPECT_EQ(parameter->value().requires_grad(), is_adapter) << path;
    if (is_adapter) parameter->value().normal_(0, 0.1);
  }
  const Tensor adapted = logits(*model, p);
  EXPECT_GT(distance(adapted, before), 1e-4);
  EXPECT_LT(distance(logits(*rebuilt(*model), p), adapted), 1e-12);
  model->merge_lora_params();
  EXPECT_LT(distance(logits(*model, p), adapted), 1e-9);
  unmerge_lora_params(*model);
  model->unwrap_lora_to_layers();
  EXPECT_FALSE(model->lora_is_enabled());
  EXPECT_LT(distance(logits(*model, p), adapted), 1e-9);
}

TEST_P(Adapted, PackedIsTheDenseModelOfTheDequantizedWeights) {
  for (const std::string method : {"8bit", "nf4"}) {
    SCOPED_TRACE(method);
    const Problem p = problem();
    SCOPED_TRACE(p.to_string());
    const auto model = testing_support::make_model(p), dense = testing_support::make_model(p);
    std::vector<std::string> paths;
    int64_t group = 0;
    std::map<std::string, const Experts::Stack*> stacks;
    for (const auto& stack : quantization::expert_stacks(*model)) stacks[stack.path] = stack.stack;
    for (const std::string& path : layers_to_quantize(*model, {})) {
      const auto stack = stacks.find(path);
      const auto* linear = stack == stacks.end() ? dynamic_cast<const Linear*>(&module_at(*model, path)) : nullptr;
      const int64_t in = linear ? linear->in_features() : stack->second->in.size;
      if (method == "nf4" && in % 32 != 0) continue;
      paths.push_back(path);
    }
    ASSERT_FALSE(paths.empty());
    if (method == "nf4") group = 32;
    const Tensor before = logits(*model, p);
    model->quantize({.method = method, .group_size = group, .pattern = pattern_of(paths)});
    EXPECT_TRUE(model->is_quantized());
    const auto dense_stacks = quantization::expert_stacks(*dense);
    for (const auto& stack : quantization::expert_stacks(*model)) {
      if (!stack.packed()) continue;
      const at::NoGradGuard no_grad;
      const Tensor all = stack.packed()->dequantize(at::kDouble);
      const auto same = [&](const quantization::ExpertStack& other) { return other.path == stack.path; };
      std::find_if(dense_stacks.begin(), dense_stacks.end(), same)
          ->stack->dense->value()
          .copy_(stack.stack->transposed ? all.transpose(1, 2) : all);
    }
    for (const std::string& path : paths) {
      if (stacks.contains(path)) continue;
      const auto* packed = dynamic_cast<const Linear*>(&module_at(*model, path));
      const auto* plain = dynamic_cast<const Linear*>(&module_at(*dense, path));
      if (!packed || !packed->packed()) continue;
      const at::NoGradGuard no_grad;
      const Tensor matrix = packed->matrix(at::kDouble);
      plain->weight()->value().copy_(plain->options().transposed ? matrix.t() : matrix);
    }
    const Tensor got = logits(*model, p);
    EXPECT_LT(distance(got, logits(*dense, p)), 1e-6);
    EXPECT_GT(distance(got, before), 1e-9) << "nothing was packed";
    EXPECT_LT(distance(logits(*rebuilt(*model), p), got), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Adapted, testing::ValuesIn(testing_support::text_families(true)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace easydel
