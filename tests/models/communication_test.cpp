// What a step sends between ranks is what the strategy needs, to the byte: nothing is gathered twice.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/one_answer.h"

namespace easydel {
namespace {

// Sizes that divide by the meshes below.
constexpr int64_t kBatch = 4, kTokens = 8, kHidden = 16, kInner = 24, kVocab = 32, kLayers = 2, kHeads = 4,
                  kKvHeads = 2, kHeadDim = 4, kSize = 8;  // of a float64
constexpr int64_t kKv = kKvHeads * kHeadDim;

std::unique_ptr<BaseConfig> llama(std::vector<int64_t> mesh, const std::string& mechanism) {
  return AutoConfig::from_dict(Json::object({{"model_type", "llama"},
                                             {"vocab_size", kVocab},
                                             {"hidden_size", kHidden},
                                             {"intermediate_size", kInner},
                                             {"num_hidden_layers", kLayers},
                                             {"num_attention_heads", kHeads},
                                             {"num_key_value_heads", kKvHeads},
                                             {"max_position_embeddings", 16},
                                             {"attn_mechanism", mechanism},
                                             {"sharding_axis_dims", std::move(mesh)}}));
}

ModelInputs batch() {
  const at::Tensor ids = at::arange(kBatch * kTokens, at::kLong).remainder(kVocab - 1).view({kBatch, kTokens});
  return {.input_ids = ids, .labels = ids};
}

using Sent = std::map<std::pair<std::string, std::string>, int64_t>;

// What rank 0 sends in a step after the first, which has made the groups and learnt the order.
Sent sent_in_a_step(const BaseConfig& config, const ModelInputs& inputs) {
  Sent sent;
  run_ranks(c10::multiply_integers(config.sharding.axis_dims), [&](World& world) {
    const auto model = Registry::instance().make_module(config, TaskType::CausalLM);
    place_parameters(*model, {}, World::current());
    model->initialize({.dtype = float64, .param_dtype = float64});
    for (int step = 0; step < 2; ++step) {
      world.stats().reset();
      (*model)(inputs).loss.backward();
    }
    if (world.rank() != 0) return;
    for (const auto& [key, entry] : world.stats().entries) sent[key] = entry.bytes;
  });
  return sent;
}

int64_t all_reduce(int64_t ranks, int64_t bytes) { return 2 * (ranks - 1) * bytes / ranks; }

// Elements of a layer's linear weights; of all of them with both ends of the model.
constexpr int64_t kLayer = 2 * kHidden * kHidden + 2 * kKv * kHidden + 3 * kHidden * kInner;
constexpr int64_t kEnds = 2 * kVocab * kHidden;
constexpr int64_t kNorms = (2 * kLayers + 1) * kHidden;
// The number of tokens that count, the loss, its z part, and the tokens counted and right once more.
constexpr int64_t kLossNumbers = 5 * 8;

// The sums of small numbers are rounded down one by one.
int64_t all_reduce_each(int64_t ranks, int64_t count, int64_t bytes) { return count * all_reduce(ranks, bytes); }

TEST(Communication, DataParallelSumsEveryGradientOnce) {
  EXPECT_THAT(sent_in_a_step(*llama({4, 1, 1, 1, 1}, "auto"), batch()),
              testing::UnorderedElementsAre(testing::Pair(testing::Pair("dp", "all_reduce"),
                                                          all_reduce(4, (kLayers * kLayer + kEnds + kNorms) * kSize) +
                                                              all_reduce_each(4, kLossNumbers / 8, 8))));
}

TEST(Communication, FsdpGathersEachWeightForForwardAndForBackwardAndScattersItsGradientOnce) {
  const int64_t n = 4;
  // The embedding's backward needs no table, and the head's gradients are made in forward.
  const int64_t gathered = (2 * kLayers * kLayer + kEnds) * kSize;
  const int64_t scattered = (kLayers * kLayer + kEnds) * kSize;
  EXPECT_EQ(sent_in_a_step(*llama({1, n, 1, 1, 1}, "auto"), batch()),
            (Sent{{{"fsdp", "all_gather"}, (n - 1) * gathered / n},
                  {{"fsdp", "reduce_scatter"}, (n - 1) * scattered / n},
                  {{"fsdp", "all_reduce"}, all_reduce(n, kNorms * kSize) + all_reduce_each(n, kLossNumbers / 8, 8)}}));
}

TEST(Communication, TensorParallelSumsActivationsAndGathersNothing) {
  const int64_t n = 2, activation = kBatch * kTokens * kHidden * kSize, row = kBatch * (kTokens - 1) * kSize;
  // Forward: the embedding, and attention and MLP of each layer. Backward: the head and the same again. The loss: a
  // maximum and three sums for each token that has a label: the last of a row has none.
  const int64_t sums = 1 + 2 * kLayers + 1 + 2 * kLayers;
  EXPECT_EQ(sent_in_a_step(*llama({1, 1, 1, n, 1}, "auto"), batch()),
            (Sent{{{"tp", "all_reduce"}, all_reduce(n, sums * activation + 4 * row)}}));
}

TEST(Communication, ASplitSequenceExchangesHeadsTwiceEachWay) {
  const int64_t n = 2;
  const int64_t gathered = (2 * kLayers * kLayer + kEnds) * kSize, scattered = (kLayers * kLayer + kEnds) * kSize;
  // q, k and v to fewer heads of all tokens, and the result back; in backward the other way.
  const int64_t exchanged = 2 * kLayers * kBatch * kTokens / n * (2 * kHeads + 2 * kKvHeads) * kHeadDim * kSize;
  EXPECT_EQ(sent_in_a_step(*llama({1, 1, 1, 1, n}, "auto"), batch()),
            (Sent{{{"sp", "all_gather"}, (n - 1) * gathered / n},
                  {{"sp", "reduce_scatter"}, (n - 1) * scattered / n},
                  {{"sp", "all_to_all"}, (n - 1) * exchanged / n},
                  {{"sp", "all_reduce"}, all_reduce(n, kNorms * kSize) + all_reduce_each(n, kLossNumbers / 8, 8)}}));
}

TEST(Communication, FsdpAndTensorParallelTogetherAreTheTwo) {
  const int64_t fsdp = 2, tp = 2;
  const int64_t gathered = (2 * kLayers * kLayer + kEnds) / tp * kSize,
                scattered = (kLayers * kLayer + kEnds) / tp * kSize;
  const int64_t activation = kBatch / fsdp * kTokens * kHidden * kSize, row = kBatch / fsdp * (kTokens - 1) * kSize;
  EXPECT_EQ(
      sent_in_a_step(*llama({1, fsdp, 1, tp, 1}, "auto"), batch()),
      (Sent{{{"fsdp", "all_gather"}, (fsdp - 1) * gathered / fsdp},
            {{"fsdp", "reduce_scatter"}, (fsdp - 1) * scattered / fsdp},
            {{"fsdp", "all_reduce"}, all_reduce(fsdp, kNorms * kSize) + all_reduce_each(fsdp, kLossNumbers / 8, 8)},
            {{"tp", "all_reduce"}, all_reduce(tp, (2 + 4 * kLayers) * activation + 4 * row)}}));
}

// With experts over ep each row goes to its expert and back, and so does its gradient.
TEST(Communication, ExpertParallelSendsEachRowToItsExpertAndBack) {
  const int64_t experts = 4, top_k = 2, n = 2;
  const auto config =
      AutoConfig::from_dict(Json::object({{"model_type", "mixtral"},
                                          {"vocab_size", kVocab},
                                          {"hidden_size", kHidden},
                                          {"intermediate_size", kInner},
                                          {"num_hidden_layers", kLayers},
                                          {"num_attention_heads", kHeads},
                                          {"num_key_value_heads", kKvHeads},
                                          {"max_position_embeddings", 16},
                                          {"num_local_experts", experts},
                                          {"num_experts_per_tok", top_k},
                                          {"sharding_axis_dims", std::vector<int64_t>{1, 1, n, 1, 1}}}));
  ModelInputs inputs = batch();
  // Rows of rank 0, which has the first half of the batch and of the experts, that go to the other rank, and those that
  // it gets from there: their results and gradients come and go.
  const auto alone = Registry::instance().make_module(*config, TaskType::CausalLM);
  alone->initialize({.dtype = float64, .param_dtype = float64});
  ModelInputs asking = inputs;
  asking.output_router_logits = true;
  int64_t away = 0, here = 0;
  for (const at::Tensor& logits : (*alone)(asking).router_logits) {
    const at::Tensor chosen = std::get<1>(logits.topk(top_k, -1)).view({n, -1});
    away += chosen[0].ge(experts / 2).sum().item<int64_t>();
    here += chosen[1].lt(experts / 2).sum().item<int64_t>();
  }
  const Sent sent = sent_in_a_step(*config, inputs);
  const int64_t numbers = kLayers * experts * 8;  // how many rows go to which expert
  EXPECT_EQ(sent.at({"ep", "all_to_all"}), numbers + 2 * (away + here) * kHidden * kSize);
  EXPECT_FALSE(sent.contains({"ep", "all_gather"}));
  EXPECT_FALSE(sent.contains({"ep", "reduce_scatter"}));
}

TEST(Communication, AFamilysOwnRulesGatherNothingOverTpAndEp) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    testing_support::Problem problem = testing_support::draw_problem(seed);
    problem.inputs.output_logits = false;
    problem.config->sharding.shard_attention_computation = true;
    problem.config->sharding.zero_stage.reset();
    std::mutex mutex;
    run_ranks(problem.mesh.size(), [&](World& world) {
      const auto model = testing_support::make_model(problem);
      model->shard_model({}, problem.mesh);
      world.stats().reset();
      (*model)(problem.inputs).loss.backward();
      const std::lock_guard lock(mutex);
      for (const auto& [key, entry] : world.stats().entries) {
        const bool gathers = key.second == "all_gather" && entry.bytes > 0;
        const bool over = key.first.find("tp") != std::string::npos || key.first.find("ep") != std::string::npos;
        // A classifier's logits are gathered over the batch, which ep carries too.
        const bool outputs = problem.task == TaskType::SequenceClassification && !key.first.ends_with("tp");
        EXPECT_FALSE(gathers && over && !outputs) << key.first << "\n" << problem.to_string();
      }
    });
  }
}

}  // namespace
}  // namespace easydel
