// Losses of a model, from a batch and from logits.
#include "easydel/infra/loss.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/models/mixtral/model.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

at::Tensor tiny_labels() {
  at::Tensor labels = tiny_ids().clone();
  labels[0].narrow(0, 0, 3).fill_(-100);
  return labels;
}

// What torch makes of the logits and the next labels.
at::Tensor by_torch(const at::Tensor& logits, const at::Tensor& labels, at::Reduction::Reduction reduction,
                    double smoothing = 0) {
  const int64_t tokens = logits.size(1);
  return at::cross_entropy_loss(logits.narrow(1, 0, tokens - 1).flatten(0, 1),
                                labels.narrow(1, 1, tokens - 1).flatten(), {}, reduction, -100, smoothing);
}

void expect_near(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_TRUE(at::allclose(a.to(at::kDouble), b.to(at::kDouble), 1e-5, 1e-6)) << a << " and " << b;
}

class ComputeLoss : public testing::Test {
 protected:
  at::Tensor of(const LossConfig& config, const Json& kwargs = {}) {
    return model_->compute_loss(batch_, config, kwargs).first.loss.detach();
  }
  std::shared_ptr<LlamaForCausalLM> model_ = tiny_llama();
  ModelInputs batch_{.input_ids = tiny_ids(), .labels = tiny_labels()};
  at::Tensor logits_ = logits_of(*model_);
};

TEST_F(ComputeLoss, IsTorchsCrossEntropy) {
  expect_near(of({}), by_torch(logits_, batch_.labels, at::Reduction::Mean));
  expect_near(of({.reduction = "sum"}), by_torch(logits_, batch_.labels, at::Reduction::Sum));
  expect_near(of({.label_smoothing = 0.2}), by_torch(logits_, batch_.labels, at::Reduction::Mean, 0.2));
  expect_near(of({.num_items_in_batch = 40}), by_torch(logits_, batch_.labels, at::Reduction::Sum) / 40);
}

TEST_F(ComputeLoss, WithoutReductionKeepsThePlacesOfTheLabels) {
  const at::Tensor each = of({.reduction = "none"});
  ASSERT_EQ(each.sizes(), at::IntArrayRef({2, 7}));
  expect_near(each.narrow(1, 0, 6).flatten(), by_torch(logits_, batch_.labels, at::Reduction::None));
  expect_near(each.select(1, 6), at::zeros({2}));
}

TEST_F(ComputeLoss, WithoutAShiftAPositionPredictsItsOwnLabel) {
  expect_near(of({.shift_tokens = false}),
              at::cross_entropy_loss(logits_.flatten(0, 1), batch_.labels.flatten(), {}, at::Reduction::Mean, -100));
}

TEST_F(ComputeLoss, AddsTheSquaredLogPartitionFunction) {
  const at::Tensor counted = batch_.labels.narrow(1, 1, 6).ne(-100);
  const at::Tensor z = at::logsumexp(logits_.narrow(1, 0, 6), -1).square().index({counted}).mean() * 0.01;
  const auto [out, metrics] = model_->compute_loss(batch_, {.z_loss_coefficient = 0.01});
  expect_near(metrics.z_loss, z);
  expect_near(out.loss, of({}) + z);
}

TEST_F(ComputeLoss, FromTheBatchEqualsFromLogitsAndInChunksEqualsWhole) {
  const LossConfig config{.label_smoothing = 0.1, .z_loss_coefficient = 0.01, .chunk_size = 3};
  const auto [out, metrics] = model_->compute_loss(batch_, config);
  out.loss.backward();
  TensorMap chunked;
  for (const auto& [path, tensor] : model_->params()) {
    chunked.set(path, tensor.grad().clone());
    tensor.mutable_grad().reset();
  }
  const at::Tensor logits = (*model_)({.input_ids = batch_.input_ids}).logits;
  const auto [loss, same_metrics] = model_->compute_loss(batch_.labels, logits, config);
  loss.backward();

  expect_near(out.loss, loss);
  EXPECT_FALSE(out.logits.defined());
  for (const auto& [path, tensor] : model_->params()) {
    EXPECT_TRUE(at::allclose(chunked.at(path), tensor.grad(), 1e-4, 1e-6)) << path;
  }
  for (const auto& [a, b] :
       {std::pair{metrics.loss, same_metrics.loss}, std::pair{metrics.z_loss, same_metrics.z_loss},
        std::pair{metrics.accuracy, same_metrics.accuracy}, std::pair{metrics.num_tokens, same_metrics.num_tokens}}) {
    expect_near(a, b);
    EXPECT_FALSE(a.requires_grad());
  }
}

TEST_F(ComputeLoss, CountsTheTokensThatMatterAndThoseThatAreRight) {
  const auto [out, metrics] = model_->compute_loss(batch_);
  const at::Tensor right = logits_.argmax(-1).narrow(1, 0, 6).eq(batch_.labels.narrow(1, 1, 6)).sum();
  EXPECT_EQ(metrics.num_tokens.item<int64_t>(), 2 * 6 - 2);
  expect_near(metrics.accuracy, right / 10.0);
  EXPECT_FALSE(metrics.aux_loss.defined());
}

TEST_F(ComputeLoss, PredictsNothingAcrossSegments) {
  batch_.segment_ids = at::tensor({0, 0, 0, 1, 1, 1, 1}, at::kLong).expand({2, 7});
  EXPECT_EQ(model_->compute_loss(batch_).second.num_tokens.item<int64_t>(), 10 - 2);
}

TEST_F(ComputeLoss, NeedsLabels) {
  EXPECT_THAT([&] { model_->compute_loss(ModelInputs{.input_ids = tiny_ids()}); },
              ThrowsMessage<ConfigError>("[compute_loss] the batch has no labels."));
}

TEST_F(ComputeLoss, FromLogitsAfterAForwardWithLabelsSaysHowToHaveThem) {
  const ModelOutput out = (*model_)(batch_);
  EXPECT_THAT([&] { model_->compute_loss(batch_.labels, out.logits); },
              ThrowsMessage<ConfigError>("[compute_loss] logits are needed; got an undefined tensor. A forward with "
                                         "labels makes none unless ModelInputs::output_logits is true; "
                                         "compute_loss(batch) needs none."));
  EXPECT_THAT([&] { model_->compute_loss(at::Tensor(), logits_); },
              ThrowsMessage<ConfigError>("[compute_loss] labels are needed; got an undefined tensor."));
  batch_.output_logits = true;
  const ModelOutput with_logits = (*model_)(batch_);
  expect_near(model_->compute_loss(batch_.labels, with_logits.logits).first, with_logits.loss);
}

TEST_F(ComputeLoss, MakesLogitsInChunksOfTheConfigsSize) {
  LlamaConfig config = tiny_config();
  config.vocab_size = 20000;
  config.max_position_embeddings = 128;
  const ModelInputs batch{.input_ids = tiny_ids(1, 128), .labels = tiny_ids(1, 128)};
  std::vector<double> losses;
  const auto peak = [&](std::optional<int64_t> chunk) {
    config.memory.lmhead_chunksize = chunk;
    const auto model = make_model<LlamaForCausalLM>(config);
    const at::NoGradGuard no_grad;
    losses.push_back((*model)(batch).loss.item<double>());  // whatever is made once is there then
    return peak_bytes([&] { (*model)(batch); });
  };
  EXPECT_LT(peak(2) * 4, peak(128));  // 128 rows of 20000 floats are 10 MB
  EXPECT_NEAR(losses[0], losses[1], 1e-4);
}

TEST_F(ComputeLoss, KnowsWhatItDividesByAndTheNormsOfGradients) {
  EXPECT_EQ(model_->compute_loss(batch_).second.weight_sum.item<double>(), 10);
  EXPECT_EQ(model_->compute_loss(batch_, {.num_items_in_batch = 40}).second.weight_sum.item<double>(), 40);
  LossMetrics metrics = model_->compute_loss(batch_).second;
  update_metrics(metrics, {{"a", at::tensor({3.0, 4.0})}, {"b", at::tensor({1.0})}}, 0.25);
  EXPECT_EQ(metrics.learning_rate, 0.25);
  EXPECT_EQ(metrics.max_grad_norm.item<double>(), 5);
  EXPECT_EQ(metrics.mean_grad_norm.item<double>(), 3);
  EXPECT_EQ(metrics.grad_norms.at("b").item<double>(), 1);
}

TEST_F(ComputeLoss, TakesChangesByName) {
  expect_near(of({}, Json::object({{"label_smoothing", 0.2}, {"reduction", "sum"}})),
              of({.label_smoothing = 0.2, .reduction = "sum"}));
  expect_near(of({}, Json::object({{"z_loss", 0.5}})), of({.z_loss_coefficient = 0.5}));
  EXPECT_THAT(
      [&] { of({}, Json::object({{"label_smothing", 0.2}})); },
      ThrowsMessage<ConfigError>("[LossConfig] there is no \"label_smothing\". Did you mean \"label_smoothing\"?"));
  EXPECT_THAT([&] { of({}, Json::object({{"colour", 1}})); },
              ThrowsMessage<ConfigError>("[LossConfig] there is no \"colour\"."));
}

TEST_F(ComputeLoss, RefusesWhatMakesNoSense) {
  const auto refused = [&](const LossConfig& config) { return [this, config] { of(config); }; };
  EXPECT_THAT(refused({.loss_type = "hinge"}),
              ThrowsMessage<ConfigError>("[LossConfig] loss_type must be one of cross_entropy; got \"hinge\"."));
  EXPECT_THAT(refused({.reduction = "median"}),
              ThrowsMessage<ConfigError>("[LossConfig] reduction must be one of mean, sum, none; got \"median\"."));
  EXPECT_THAT(refused({.label_smoothing = 1}),
              ThrowsMessage<ConfigError>("[LossConfig] label_smoothing must lie in [0, 1); got 1."));
  EXPECT_THAT(refused({.z_loss_coefficient = -1}),
              ThrowsMessage<ConfigError>("[LossConfig] z_loss_coefficient must not be negative; got -1."));
  EXPECT_THAT(refused({.chunk_size = -2}),
              ThrowsMessage<ConfigError>("[LossConfig] chunk_size must not be negative; got -2."));
  EXPECT_THAT(refused({.num_items_in_batch = 0}),
              ThrowsMessage<ConfigError>("[LossConfig] num_items_in_batch must be positive; got 0."));
  EXPECT_THAT(refused({.problem_type = "ranking"}),
              ThrowsMessage<ConfigError>("[LossConfig] problem_type must be one of regression, "
                                         "single_label_classification, multi_label_classification; got \"ranking\"."));
}

std::shared_ptr<MixtralForCausalLM> tiny_mixtral() {
  MixtralConfig config;
  config.vocab_size = 29;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.num_local_experts = 4;
  config.num_experts_per_tok = 2;
  config.router_aux_loss_coef = 0.25;
  config.initializer_range = 0.3;
  return make_model<MixtralForCausalLM>(config);
}

TEST(AuxiliaryLoss, IsAddedWithItsCoefficientWhenRoutersAreAskedFor) {
  const auto model = tiny_mixtral();
  ModelInputs batch{.input_ids = tiny_ids(), .labels = tiny_labels()};
  const at::Tensor plain = (*model)(batch).loss;
  batch.output_router_logits = true;
  const auto [out, metrics] = model->compute_loss(batch);
  const auto [heavier, same] = model->compute_loss(batch, {.auxiliary_loss_coefficient = 2.0});

  ASSERT_EQ(out.router_logits.size(), 2U);
  EXPECT_GE(out.aux_loss.item<double>(), 1.9);  // experts_per_tok where they are in perfect balance
  expect_near(out.loss, plain + 0.25 * out.aux_loss);
  expect_near(heavier.loss, plain + 2 * out.aux_loss);
  expect_near(metrics.aux_loss, out.aux_loss);
  expect_near(metrics.loss, out.loss);
}

TEST(AuxiliaryLoss, IsAddedForACoefficientThatIsGivenAlone) {
  const auto model = tiny_mixtral();
  const ModelInputs batch{.input_ids = tiny_ids(), .labels = tiny_labels()};
  const at::Tensor plain = (*model)(batch).loss;
  const auto [out, metrics] = model->compute_loss(batch, {.auxiliary_loss_coefficient = 2.0});
  ASSERT_TRUE(metrics.aux_loss.defined());
  expect_near(out.loss, plain + 2 * metrics.aux_loss);
  EXPECT_TRUE(out.router_logits.empty());  // nobody asked for these
  expect_near(model->compute_loss(batch, {.auxiliary_loss_coefficient = 0.0}).first.loss, plain);
}

TEST(AuxiliaryLoss, OfAClassifierIsAddedWhereTheCallAsksForIt) {
  MixtralConfig config = dynamic_cast<const MixtralConfig&>(tiny_mixtral()->config());
  config.pad_token_id = 0;
  const auto model = make_model<MixtralForSequenceClassification>(config);
  ModelInputs batch{.input_ids = tiny_ids(), .labels = at::tensor({0, 1}, at::kLong)};
  const at::Tensor plain = (*model)(batch).loss;
  const auto [out, metrics] = model->compute_loss(batch, {.auxiliary_loss_coefficient = 2.0});
  ASSERT_TRUE(metrics.aux_loss.defined());
  expect_near(out.loss, plain + 2 * metrics.aux_loss);
  batch.output_router_logits = true;
  const ModelOutput asked = (*model)(batch);
  expect_near(asked.loss, plain + 0.25 * asked.aux_loss);
}

TEST(AuxiliaryLoss, LeavesPaddingOutHoweverItIsGiven) {
  const auto model = tiny_mixtral();
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 0, 0}, at::kLong).view({1, 7});
  const at::Tensor segments = at::tensor({0, 0, 0, 0, 0, -1, -1}, at::kLong).view({1, 7});
  ModelInputs batch{.input_ids = tiny_ids(1, 7), .attention_mask = mask, .output_router_logits = true};
  const at::Tensor by_mask = (*model)(batch).aux_loss;
  batch.attention_mask.reset();
  batch.segment_ids = segments;
  const at::Tensor by_segments = (*model)(batch).aux_loss;
  batch.segment_ids.reset();
  batch.attention_mask = at::ones({1, 1, 7, 7}, at::kBool).tril();

  expect_near(by_mask, (*model)({.input_ids = tiny_ids(1, 7).narrow(1, 0, 5), .output_router_logits = true}).aux_loss);
  expect_near(by_segments, by_mask);
  expect_near((*model)(batch).aux_loss, (*model)({.input_ids = tiny_ids(1, 7), .output_router_logits = true}).aux_loss);
}

class ClassificationLoss : public testing::Test {
 protected:
  static LlamaConfig config(int64_t labels) {
    LlamaConfig config = tiny_config();
    config.set_num_labels(labels);
    config.pad_token_id = 0;
    return config;
  }
};

TEST_F(ClassificationLoss, FollowsTheLabels) {
  const auto model = make_model<LlamaForSequenceClassification>(config(3));
  const at::Tensor logits = logits_of(*model, {.input_ids = tiny_ids()});
  ASSERT_EQ(logits.sizes(), at::IntArrayRef({2, 3}));

  const at::Tensor classes = at::tensor({2, 0}, at::kLong);
  const auto [one, metrics] = model->compute_loss(ModelInputs{.input_ids = tiny_ids(), .labels = classes});
  expect_near(one.loss, at::cross_entropy_loss(logits, classes));
  expect_near(model->compute_loss(classes, logits).first, one.loss);

  const at::Tensor several = at::tensor({1.f, 0.f, 1.f, 0.f, 0.f, 1.f}).view({2, 3});
  expect_near((*model)({.input_ids = tiny_ids(), .labels = several}).loss,
              at::binary_cross_entropy_with_logits(logits, several));

  const auto regression = make_model<LlamaForSequenceClassification>(config(1));
  const at::Tensor values = at::tensor({0.5f, -1.f});
  expect_near((*regression)({.input_ids = tiny_ids(), .labels = values}).loss,
              at::mse_loss(logits_of(*regression).flatten(), values));
}

TEST_F(ClassificationLoss, RefusesLabelsThatDoNotFit) {
  const auto model = make_model<LlamaForSequenceClassification>(config(3));
  EXPECT_THAT([&] { (*model)({.input_ids = tiny_ids(), .labels = at::zeros({2})}); },
              ThrowsMessage<ShapeError>("[classification_loss] multi_label_classification needs 6 labels of shape "
                                        "[2, 3]; got [2]."));
  EXPECT_THAT([&] { (*model)({.input_ids = tiny_ids(), .labels = at::zeros({3}, at::kLong)}); },
              ThrowsMessage<ShapeError>(testing::HasSubstr("[3]")));
}

TEST_F(ClassificationLoss, NeedsThePaddingTokenForABatch) {
  LlamaConfig config = tiny_config();
  const auto model = make_model<LlamaForSequenceClassification>(config);
  EXPECT_EQ(logits_of(*model, {.input_ids = tiny_ids(1, 7)}).sizes(), at::IntArrayRef({1, 2}));
  EXPECT_THAT(
      [&] { (*model)({.input_ids = tiny_ids(2, 7)}); },
      ThrowsMessage<ConfigError>("[LlamaForSequenceClassification] a batch of 2 sequences needs pad_token_id in "
                                 "the config, to find where each ends."));
}

}  // namespace
}  // namespace easydel
