// Tiny models on thread ranks, for the tests of what a mesh does to a model.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "easydel/sharding/world/world.h"
#include "tests/infra/tiny_llama.h"

namespace easydel {

inline Mesh mesh_of(const std::vector<int64_t>& axis_dims) {
  int64_t devices = 1;
  for (const int64_t dim : axis_dims) devices *= dim;
  return create_mesh({.axis_dims = axis_dims, .device_count = devices});
}

// `body` on a rank for each device; a rank that waits for another that never comes is an error after a few seconds.
inline void on_mesh(const std::vector<int64_t>& axis_dims, const std::function<void(const Mesh&, World&)>& body) {
  const Mesh mesh = mesh_of(axis_dims);
  run_ranks(mesh.size(), [&](World& world) { body(mesh, world); }, {.timeout = std::chrono::seconds(20)});
}

// In float64, where a mesh changes nothing but the last digits.
inline std::shared_ptr<LlamaForCausalLM> wide_llama(const LlamaConfig& config = tiny_config()) {
  return make_model<LlamaForCausalLM>(config, {.dtype = float64, .param_dtype = float64});
}

}  // namespace easydel
