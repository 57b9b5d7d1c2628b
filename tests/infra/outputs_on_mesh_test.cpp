// What a model gives on a mesh is what it gives on one device: every output, every metric, for every kind of input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

constexpr Tolerance kLastDigits{1e-11, 1e-11};

using MakeModel = std::function<std::shared_ptr<BaseModule>()>;

MakeModel model_of(Json changes = Json::object(), TaskType task = TaskType::CausalLM) {
  Json dict = tiny_config().to_dict();
  dict["pad_token_id"] = 0;
  for (const auto& [key, value] : changes.as_object()) dict[key] = value;
  return [dict, task] {
    const auto model = Registry::instance().make_module(*AutoConfig::from_dict(dict), task);
    model->initialize({.dtype = float64, .param_dtype = float64, .rngs = RandomKey(3)});
    return model;
  };
}

MakeModel gpt2_of(Json changes) {
  Json dict = Json::object(
      {{"model_type", "gpt2"}, {"vocab_size", 29}, {"n_embd", 16}, {"n_head", 4}, {"n_layer", 2}, {"n_positions", 16}});
  for (const auto& [key, value] : changes.as_object()) dict[key] = value;
  return [dict] {
    const auto model = Registry::instance().make_module(*AutoConfig::from_dict(dict), TaskType::CausalLM);
    model->initialize({.dtype = float64, .param_dtype = float64, .rngs = RandomKey(3)});
    return model;
  };
}

std::vector<std::pair<std::string, at::Tensor>> all_of(const ModelOutput& out) {
  std::vector<std::pair<std::string, at::Tensor>> list{{"loss", out.loss},
                                                       {"logits", out.logits},
                                                       {"aux_loss", out.aux_loss},
                                                       {"metrics.loss", out.metrics.loss},
                                                       {"metrics.z_loss", out.metrics.z_loss},
                                                       {"metrics.aux_loss", out.metrics.aux_loss},
                                                       {"metrics.accuracy", out.metrics.accuracy},
                                                       {"metrics.num_tokens", out.metrics.num_tokens}};
  const auto add = [&](const char* name, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) list.emplace_back(concat(name, i), tensors[i]);
  };
  add("hidden_states.", out.hidden_states);
  add("attentions.", out.attentions);
  add("router_logits.", out.router_logits);
  return list;
}

// On the mesh by the config's rules, on every rank. Without labels, or when hidden states are asked for, the last one
// is compared too. Backward of the sum of the loss, where there is one, must give the gradients of one device.
void expect_the_same(const std::vector<int64_t>& axis_dims, const MakeModel& make, const ModelInputs& inputs) {
  const auto alone = make();
  const ModelOutput expected = (*alone)(inputs);
  if (expected.loss.defined()) expected.loss.sum().backward();
  on_mesh(axis_dims, [&](const Mesh& mesh, World&) {
    const auto model = make();
    model->shard_model({}, mesh);
    const ModelOutput out = (*model)(inputs);
    const auto ours = all_of(out), theirs = all_of(expected);
    ASSERT_EQ(ours.size(), theirs.size()) << mesh.to_string();
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(is_close(ours[i].second, theirs[i].second, kLastDigits)) << ours[i].first << ", " << mesh.to_string();
    if (!inputs.labels.defined() || inputs.output_hidden_states.value_or(false)) {
      EXPECT_TRUE(is_close(out.last_hidden_state, expected.last_hidden_state, kLastDigits)) << mesh.to_string();
    } else {
      EXPECT_FALSE(out.last_hidden_state.defined());
    }
    if (!out.loss.defined()) return;
    out.loss.sum().backward();
    for (const auto& [path, parameter] : model->named_parameters()) {
      EXPECT_TRUE(is_close(parameter->value().grad(), parameter->sharding()->part_of(alone->params().at(path).grad()),
                           kLastDigits))
          << path << ", " << mesh.to_string();
    }
  });
}

const std::vector<std::vector<int64_t>> kMeshes{{2, 1, 1, 1, 1}, {1, 2, 1, 2, 1}, {1, 2, 1, 1, 2}};

// Three rows of seven tokens: neither divides by two.
ModelInputs odd_batch(bool labels = true) {
  ModelInputs inputs{.input_ids = tiny_ids(3, 7)};
  if (labels) inputs.labels = inputs.input_ids;
  return inputs;
}

TEST(OutputsOnMesh, OfABatchAndASequenceThatDoNotDivide) {
  for (const auto& mesh : kMeshes) {
    expect_the_same(mesh, model_of(), odd_batch());
    expect_the_same(mesh, model_of(), odd_batch(/*labels=*/false));
    expect_the_same(mesh, model_of(Json::object(), TaskType::BaseModule), odd_batch(/*labels=*/false));
  }
  expect_the_same({8, 1, 1, 1, 1}, model_of(), odd_batch());  // more ranks than rows
  expect_the_same({1, 1, 1, 1, 8}, model_of(), odd_batch());  // and than tokens
}

TEST(OutputsOnMesh, OfHiddenStatesWithLogitsAndLabels) {
  ModelInputs inputs = odd_batch();
  inputs.output_hidden_states = true;
  inputs.output_logits = true;
  for (const auto& mesh : kMeshes) expect_the_same(mesh, model_of(), inputs);
}

TEST(OutputsOnMesh, OfEveryReduction) {
  for (const char* reduction : {"mean", "sum", "none"}) {
    SCOPED_TRACE(reduction);
    ModelInputs inputs = odd_batch();
    inputs.labels = inputs.labels.clone();
    inputs.labels[1].fill_(-100);
    inputs.loss_config = LossConfig{.label_smoothing = 0.1, .z_loss_coefficient = 0.01, .reduction = reduction};
    for (const auto& mesh : kMeshes) expect_the_same(mesh, model_of(), inputs);
  }
}

TEST(OutputsOnMesh, OfAMeanOverTheTokensOfSeveralBatches) {
  ModelInputs inputs = odd_batch();
  inputs.loss_config = LossConfig{.num_items_in_batch = 50.0};
  for (const auto& mesh : kMeshes) expect_the_same(mesh, model_of(), inputs);
}

TEST(OutputsOnMesh, OfClassifiersOfEveryKindAndReduction) {
  ModelInputs inputs = odd_batch(/*labels=*/false);
  inputs.input_ids[1].narrow(0, 3, 4).fill_(0);  // padding
  const Json three = Json::object({{"num_labels", 3}});
  for (const char* reduction : {"mean", "sum", "none"}) {
    SCOPED_TRACE(reduction);
    inputs.loss_config = LossConfig{.reduction = reduction};
    for (const auto& mesh : kMeshes) {
      inputs.labels = at::tensor({2, 0, 1}, at::kLong);
      expect_the_same(mesh, model_of(three, TaskType::SequenceClassification), inputs);
      inputs.labels = at::eye(3, at::kDouble);  // several labels for each row
      expect_the_same(mesh, model_of(three, TaskType::SequenceClassification), inputs);
      inputs.labels = at::tensor({0.5, -1.0, 2.0}, at::kDouble);
      expect_the_same(mesh, model_of(Json::object({{"num_labels", 1}}), TaskType::SequenceClassification), inputs);
    }
    inputs.labels = at::tensor({2, 0, 1}, at::kLong);
    expect_the_same({8, 1, 1, 1, 1}, model_of(three, TaskType::SequenceClassification), inputs);  // ranks without rows
  }
}

TEST(OutputsOnMesh, OfAttentionWeights) {
  ModelInputs inputs = odd_batch();
  inputs.output_attentions = true;
  const auto make = model_of(Json::object({{"attn_mechanism", "vanilla"}}));
  expect_the_same({2, 1, 1, 1, 1}, make, inputs);
  expect_the_same({1, 2, 1, 2, 1}, make, inputs);
  expect_the_same({1, 1, 1, 3, 1}, make, inputs);
  expect_the_same({1, 1, 1, 8, 1}, make, inputs);  // more ranks than heads
}

TEST(OutputsOnMesh, OfRouters) {
  Json changes = Json::object({{"model_type", "mixtral"},
                               {"num_local_experts", 3},
                               {"num_experts_per_tok", 2},
                               {"output_router_logits", true},
                               {"router_aux_loss_coef", 0.3}});
  ModelInputs inputs = odd_batch();
  inputs.output_router_logits = true;
  inputs.attention_mask = at::ones({3, 7}, at::kLong);
  inputs.attention_mask[2].narrow(0, 4, 3).fill_(0);
  for (const auto& mesh : kMeshes) expect_the_same(mesh, model_of(changes), inputs);
  expect_the_same({1, 2, 2, 1, 2}, model_of(changes), inputs);
}

TEST(OutputsOnMesh, OfMasksThatAreGivenAsAMatrix) {
  ModelInputs inputs = odd_batch();
  const at::Tensor causal = at::ones({1, 1, 7, 7}, at::kBool).tril();
  const at::Tensor by_row = causal.expand({3, 1, 7, 7}).clone();
  by_row[1].narrow(2, 0, 2).fill_(false);
  by_row[1].diagonal(0, 1, 2).fill_(true);
  const at::Tensor by_head = by_row.expand({3, 4, 7, 7}).clone();
  by_head.select(1, 2).copy_(at::eye(7, at::kBool).expand({3, 7, 7}));
  for (const at::Tensor& mask : {causal, by_row, by_head}) {
    inputs.attention_mask = mask;
    for (const auto& mesh : kMeshes) {
      for (const char* mechanism : {"vanilla", "ring"})
        expect_the_same(mesh, model_of(Json::object({{"attn_mechanism", mechanism}})), inputs);
    }
  }
}

TEST(OutputsOnMesh, OfOneToken) {
  ModelInputs inputs{.input_ids = tiny_ids(3, 1)};
  for (const auto& mesh : kMeshes) {
    inputs.attention_mask.reset();
    expect_the_same(mesh, model_of(), inputs);
    inputs.attention_mask = at::ones({3, 1, 1, 1}, at::kBool);
    expect_the_same(mesh, model_of(), inputs);
  }
}

TEST(OutputsOnMesh, OfMasksThatAreGivenAsRules) {
  ModelInputs inputs = odd_batch();
  for (const bool causal : {true, false}) {
    MaskInfo mask;
    mask.causal = causal;
    mask.padding_mask = at::ones({3, 7}, at::kBool);
    mask.padding_mask[0].narrow(0, 5, 2).fill_(false);
    inputs.mask_info = mask;
    for (const auto& mesh : kMeshes) expect_the_same(mesh, model_of(), inputs);
    mask.padding_mask.reset();
    inputs.mask_info = mask;
    for (const auto& mesh : kMeshes) expect_the_same(mesh, model_of(), inputs);
  }
}

TEST(OutputsOnMesh, OfDropoutWithTheSameKey) {
  ModelInputs inputs = odd_batch();
  inputs.dropout_key = RandomKey(11);
  const auto dropped = [&](const MakeModel& make) {
    ModelInputs without = inputs;
    without.dropout_key.reset();
    return !at::allclose((*make())(inputs).loss, (*make())(without).loss);
  };
  const auto llama = model_of(Json::object({{"attention_dropout", 0.3}, {"attn_mechanism", "vanilla"}}));
  const auto ring = model_of(Json::object({{"attention_dropout", 0.3}, {"attn_mechanism", "ring"}}));
  const auto gpt2 = gpt2_of(Json::object({{"attn_pdrop", 0.0}, {"resid_pdrop", 0.2}, {"embd_pdrop", 0.0}}));
  const auto embedded = gpt2_of(Json::object({{"attn_pdrop", 0.0}, {"resid_pdrop", 0.0}, {"embd_pdrop", 0.2}}));
  for (const MakeModel& make : {llama, ring, gpt2, embedded}) {
    EXPECT_TRUE(dropped(make));
    for (const auto& mesh : kMeshes) expect_the_same(mesh, make, inputs);
  }
}

TEST(OutputsOnMesh, OfEmbeddingsThatAreGivenAndTheirGradients) {
  const at::Tensor embeds = at::sin(at::arange(3 * 7 * 16, at::kDouble)).view({3, 7, 16});
  const auto gradient = [&](const BaseModule& model) {
    const at::Tensor leaf = embeds.clone().requires_grad_();
    model({.inputs_embeds = leaf, .labels = tiny_ids(3, 7)}).loss.backward();
    return leaf.grad();
  };
  const at::Tensor expected = gradient(*model_of()());
  for (const auto& mesh : kMeshes) {
    expect_the_same(mesh, model_of(), {.inputs_embeds = embeds});
    on_mesh(mesh, [&](const Mesh& m, World&) {
      const auto model = model_of()();
      model->shard_model({}, m);
      EXPECT_TRUE(is_close(gradient(*model), expected, kLastDigits)) << m.to_string();
    });
  }
}

TEST(OutputsOnMesh, OfComputeLossOfABatch) {
  const auto expected = model_of()()->compute_loss(odd_batch(), {.z_loss_coefficient = 0.1});
  on_mesh({1, 2, 1, 1, 2}, [&](const Mesh& mesh, World&) {
    const auto model = model_of()();
    model->shard_model({}, mesh);
    const auto [out, metrics] = model->compute_loss(odd_batch(), {.z_loss_coefficient = 0.1});
    EXPECT_TRUE(is_close(out.loss, expected.first.loss, kLastDigits));
    EXPECT_TRUE(is_close(metrics.accuracy, expected.second.accuracy, kLastDigits));
  });
}

TEST(OutputsOnMesh, RefusesAttentionWeightsOfASplitSequence) {
  on_mesh({1, 1, 1, 1, 2}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    EXPECT_THAT([&] { (*model)({.input_ids = tiny_ids(), .output_attentions = true}); },
                ThrowsMessage<NotSupportedError>("[attention] output_attentions is not supported with a sequence that "
                                                 "is split over \"sp\". Use a mesh without it."));
  });
}

TEST(OutputsOnMesh, RefusesAMaskOfFewerDimensions) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    MaskInfo mask;
    mask.explicit_mask = at::ones({7, 7}, at::kBool);
    EXPECT_THAT([&] { (*model)({.input_ids = tiny_ids(), .mask_info = mask}); },
                ThrowsMessage<ShapeError>("[forward] on a mesh the mask must be [B, N, T, S]; got [7, 7]."));
  });
}

TEST(OutputsOnMesh, RefusesAModelWithoutWeights) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = lazy_init<LlamaForCausalLM>(tiny_config());
    model->shard_model({}, mesh);
    EXPECT_THAT([&] { (*model)({.input_ids = tiny_ids()}); },
                ThrowsMessage<Error>("[forward] LlamaForCausalLM has no weights yet: it was created by lazy_init. Load "
                                     "them or call initialize."));
  });
}

}  // namespace
}  // namespace easydel
