// The families that the sweep of tests/models/odd_configs.py has: those of text alone.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "easydel/infra/registry.h"

namespace easydel::testing_support {

// `causal`: the decoders alone.
inline std::vector<std::string> text_families(bool causal = false) {
  std::vector<std::string> found;
  for (const std::string& family : Registry::instance().model_types()) {
    const std::vector<TaskType> tasks = Registry::instance().tasks(family);
    const auto has = [&](TaskType task) { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); };
    const bool other = !causal && (has(TaskType::SequenceToSequence) || has(TaskType::MaskedLM));
    if ((has(TaskType::CausalLM) || other) && !has(TaskType::ImageTextToText)) found.push_back(family);
  }
  return found;
}

}  // namespace easydel::testing_support
