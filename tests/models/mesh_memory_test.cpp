// What a rank of a mesh holds, measured in its process. Runs under mpirun; each test needs its number of ranks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "easydel/infra/base_module.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/resident_memory.h"

namespace easydel {
namespace {

using namespace testing_support;

std::shared_ptr<BaseModule> make_model(const Json& changes, std::vector<int64_t> mesh_dims) {
  Json dict = Json::object({{"model_type", "llama"}, {"vocab_size", 64}, {"sharding_axis_dims", std::move(mesh_dims)}});
  for (const auto& [key, value] : changes.as_object()) dict[key] = value;
  const auto config = AutoConfig::from_dict(dict);
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  return model;
}

ModelInputs make_inputs(int64_t batch, int64_t tokens) {
  const at::Tensor ids = at::arange(batch * tokens, at::kLong).remainder(61).view({batch, tokens});
  return {.input_ids = ids, .labels = ids};
}

// Above what is there before and after: what a step needs for a while.
int64_t peak_of_a_step(const BaseModule& model, const ModelInputs& inputs) {
  const int64_t before = resident_bytes();
  reset_peak();
  model(inputs).loss.backward();
  return peak_resident_bytes() - before;
}

TEST(MeshMemory, FsdpKeepsItsShareAndGathersAtMostThreeLayers) {
  const auto world = World::current();
  if (world->size() != 8) GTEST_SKIP() << "needs mpirun -np 8";
  return_freed_memory();
  const int64_t layers = 5, hidden = 512;
  const auto make = [&](int64_t size) {
    return make_model(Json::object({{"hidden_size", size},
                                    {"intermediate_size", 4 * size},
                                    {"num_hidden_layers", layers},
                                    {"num_attention_heads", 8}}),
                      {1, 8, 1, 1, 1});
  };
  const ModelInputs inputs = make_inputs(8, 4);
  // A small one first, so that code and buffers which any model needs are there.
  const auto small = make(64);
  place_parameters(*small, {}, world);
  small->initialize({});
  for (int step = 0; step < 2; ++step) (*small)(inputs).loss.backward();

  const auto model = make(hidden);
  const int64_t start = resident_bytes();
  place_parameters(*model, {}, world);
  model->initialize({});
  const int64_t whole = 4 * model->num_params();
  const int64_t stored = resident_bytes() - start;
  const int64_t layer = 4 * (4 * hidden * hidden + 3 * hidden * 4 * hidden);
  const int64_t slack = 1 << 20;  // norms, which every rank has, and pages that are not full
  for (int step = 0; step < 2; ++step) (*model)(inputs).loss.backward();  // the first learns the order of the weights
  const int64_t peak = peak_of_a_step(*model, inputs);
  const int64_t with_gradients = resident_bytes();
  for (const auto& [path, parameter] : model->named_parameters()) parameter->value().mutable_grad().reset();
  const int64_t gradients = with_gradients - resident_bytes();
  if (!kMemoryIsOurs) GTEST_SKIP() << kMemoryIsNotOurs;

  EXPECT_LT(stored, whole / 8 + slack) << "parameters";
  EXPECT_LT(peak, 3 * layer) << "gathered and not yet reduced";
  EXPECT_LT(gradients, whole / 8 + slack) << "gradients";
  EXPECT_GT(gradients, whole / 8 - slack) << "gradients";
  if (world->rank() == 0) {
    std::printf("whole %.1f MiB, stored %.1f, gradients %.1f, a layer %.1f, peak of a step %.1f = %.2f layers\n",
                whole / 1048576.0, stored / 1048576.0, gradients / 1048576.0, layer / 1048576.0, peak / 1048576.0,
                static_cast<double>(peak) / static_cast<double>(layer));
  }
}

TEST(MeshMemory, ASplitSequenceNeedsItsShareOfTheActivations) {
  const auto world = World::current();
  if (world->size() != 4) GTEST_SKIP() << "needs mpirun -np 4";
  return_freed_memory();
  const Json sizes = Json::object({{"hidden_size", 128},
                                   {"intermediate_size", 256},
                                   {"num_hidden_layers", 4},
                                   {"num_attention_heads", 4},
                                   {"max_position_embeddings", 4096},
                                   {"attn_mechanism", "blockwise"}});
  const ModelInputs inputs = make_inputs(1, 2048);
  const auto measure = [&](const std::shared_ptr<BaseModule>& model) {
    model->initialize({});
    for (int step = 0; step < 2; ++step) (*model)(inputs).loss.backward();
    return peak_of_a_step(*model, inputs);
  };
  const int64_t one = measure(make_model(sizes, {1, 1, 1, 1, 1}));
  for (const char* mechanism : {"blockwise", "ring"}) {
    Json changed = sizes;
    changed["attn_mechanism"] = mechanism;
    const auto model = make_model(changed, {1, 1, 1, 1, 4});
    place_parameters(*model, {}, world);
    const int64_t share = measure(model);
    if (!kMemoryIsOurs) continue;
    EXPECT_LT(static_cast<double>(share), 0.3 * static_cast<double>(one)) << mechanism;
    if (world->rank() == 0) {
      std::printf("one device %.1f MiB, sp 4 %s %.1f MiB = %.3f\n", one / 1048576.0, mechanism, share / 1048576.0,
                  static_cast<double>(share) / static_cast<double>(one));
    }
  }
  if (!kMemoryIsOurs) GTEST_SKIP() << kMemoryIsNotOurs;
}

}  // namespace
}  // namespace easydel
