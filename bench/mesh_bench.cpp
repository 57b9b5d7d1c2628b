// Training steps on thread ranks against one process with the same cores: `mesh_bench [RANKS [MESH]]`, "2 2,1,1,1,1".
// Prints tokens per second of both and their ratio, alternating so that a noisy machine affects both equally.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "easydel/easydel.h"
#include "easydel/infra/registry.h"
#include "easydel/sharding/world/world.h"

namespace ed = easydel;

namespace {

constexpr int64_t kBatch = 4, kTokens = 512;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::unique_ptr<ed::BaseConfig> make_config(const std::vector<int64_t>& mesh) {
  return ed::AutoConfig::from_dict(ed::Json::object({{"model_type", "llama"},
                                                     {"vocab_size", 8192},
                                                     {"hidden_size", 512},
                                                     {"intermediate_size", 1376},
                                                     {"num_hidden_layers", 8},
                                                     {"num_attention_heads", 8},
                                                     {"max_position_embeddings", 1024},
                                                     {"sharding_axis_dims", mesh}}));
}

double step(const ed::BaseModule& model, const ed::ModelInputs& inputs) {
  const double start = seconds();
  model(inputs).loss.backward();
  for (const auto& [path, parameter] : model.named_parameters()) parameter->value().mutable_grad().reset();
  return seconds() - start;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t ranks = argc > 1 ? std::stoll(argv[1]) : 2;
  std::vector<int64_t> dims;
  std::istringstream list(argc > 2 ? argv[2] : std::to_string(ranks) + ",1,1,1,1");
  for (std::string word; std::getline(list, word, ',');) dims.push_back(std::stoll(word));
  const auto config = make_config(dims);
  const at::Tensor ids = at::randint(config->vocab_size, {kBatch, kTokens}, at::kLong);
  const ed::ModelInputs inputs{.input_ids = ids, .labels = ids};

  const auto whole = ed::Registry::instance().make_module(*make_config({1, 1, 1, 1, 1}), ed::TaskType::CausalLM);
  whole->initialize({});
  step(*whole, inputs);
  double one = 1e30, many = 1e30;
  for (int turn = 0; turn < 4; ++turn) {
    for (int i = 0; i < 3; ++i) one = std::min(one, step(*whole, inputs));
    ed::run_ranks(ranks, [&](ed::World& world) {
      const auto model = ed::Registry::instance().make_module(*config, ed::TaskType::CausalLM);
      ed::place_parameters(*model, {}, ed::World::current());
      model->initialize({});
      for (int i = 0; i < 4; ++i) {
        const double time = step(*model, inputs);
        if (i > 0 && world.rank() == 0) many = std::min(many, time);
      }
    });
  }
  const auto rate = [](double time) { return static_cast<double>(kBatch * kTokens) / time; };
  std::printf("one process, %d threads: %.0f tokens/s; %s on %ld thread ranks: %.0f tokens/s; ratio %.3f\n",
              at::get_num_threads(), rate(one), config->create_mesh(ranks).to_string().c_str(), ranks, rate(many),
              one / many);
}
