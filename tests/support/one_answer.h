// A random model, batch, mesh and rule list, and the loss and gradients that one device gives for them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/infra/base_module.h"
#include "tests/support/draw.h"

namespace easydel::testing_support {

struct Problem {
  uint64_t seed = 0;
  std::unique_ptr<BaseConfig> config;
  TaskType task = TaskType::CausalLM;
  ModelInputs inputs;
  Mesh mesh;
  std::optional<PartitionRules> rules;  // absent: the config's own

  std::string to_string() const;
};

at::Device device();  // EASYDEL_TEST_DEVICE, or the CPU

bool has_states(const BaseConfig& config);  // recurrent layers, which pages cannot hold

// `devices`: of the mesh; 0: one to eight.
Problem draw_problem(uint64_t seed, int64_t devices = 0);

// A rule for each parameter, with any axes on any dimensions.
PartitionRules draw_rules(Draw& draw, const BaseModule& module);

struct Answer {
  at::Tensor loss;
  at::Tensor logits;  // when the problem asks for them
  std::map<std::string, at::Tensor> gradients;
};

// In float64, with norms and biases away from ones and zeros.
std::shared_ptr<BaseModule> make_model(const Problem& problem);
Answer answer_on_one_device(const Problem& problem);

// The differences between this rank of a mesh and one device; empty: none. The tolerance is 1e-9 of a tensor's largest
// value.
std::string compare_on_mesh(const Problem& problem, const Answer& expected);

}  // namespace easydel::testing_support
