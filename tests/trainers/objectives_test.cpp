// The objectives' losses against their formulas, on meshes, and in minibatches. What whole runs give is compared with
// Python's trainers in trl_test.py.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/decoder/embedding_noise.h"
#include "easydel/infra/registry.h"
#include "easydel/trainers/objectives/dpo_loss.h"
#include "easydel/trainers/objectives/pairs.h"
#include "easydel/trainers/trainer.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Tolerance kLastDigits{1e-9, 1e-9};

std::shared_ptr<BaseModule> model_of(uint64_t seed, TaskType task = TaskType::CausalLM) {
  Json dict = tiny_config().to_dict();
  dict["pad_token_id"] = 0;
  if (task == TaskType::SequenceClassification) dict["num_labels"] = 1;
  const auto model = Registry::instance().make_module(*AutoConfig::from_dict(dict), task);
  model->initialize({.dtype = float64, .param_dtype = float64, .rngs = RandomKey(seed)});
  return model;
}

std::vector<int64_t> draw_ids(std::mt19937& random, std::size_t least, std::size_t most) {
  std::vector<int64_t> ids(std::uniform_int_distribution<std::size_t>(least, most)(random));
  for (int64_t& id : ids) id = std::uniform_int_distribution<int64_t>(1, 28)(random);
  return ids;
}

// Pairs with prompts of 1 to 4 tokens and answers of 1 to 6, and what the other objectives read.
std::vector<data::Example> draw_examples(std::size_t count) {
  std::mt19937 random(5);
  std::vector<data::Example> examples(count);
  for (data::Example& example : examples) {
    const std::vector<int64_t> prompt = draw_ids(random, 1, 4);
    for (const std::string side : {"chosen", "rejected"}) {
      LabelledIds row = join_answer(prompt, draw_ids(random, 1, 6), {});
      example.others[side + "_ids"] = row.ids;
      example.others[side + "_labels"] = row.labels;
      example.numbers[side] = -std::uniform_real_distribution<double>(5, 20)(random);  // of a reference
    }
    example.input_ids = example.others["chosen_ids"];
    example.labels = example.others["chosen_labels"];
    example.numbers["margin"] = std::uniform_real_distribution<double>(0, 1)(random);
  }
  return examples;
}

struct Result {
  double loss = 0;
  std::map<std::string, double> metrics;
};

// Loss and gradients of one step over all examples, in so many minibatches, as the trainer does it.
Result run_step(const Objective& objective, const BaseModule& model, const std::vector<data::Example>& examples,
                const TrainingArguments& arguments, std::size_t minibatches = 1) {
  const Parallel* parallel = model.parallel().get();
  std::vector<std::vector<BatchRow>> rows(minibatches);
  std::map<std::string, double> totals;
  double items = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    for (BatchRow& row : objective.rows(examples[i])) rows[i * minibatches / examples.size()].push_back(row);
  }
  for (const auto& part : rows) {
    items += objective.count_items(part);
    add_numbers(part, totals);
  }
  Result result;
  for (const auto& part : rows) {
    const auto count = static_cast<int64_t>(part.size());
    const OwnRows own = own_rows(count, parallel);
    const auto first = part.begin() + own.first;
    const Batch batch = make_batch({first, first + own.count}, {.rows = count}, parallel);
    const LossContext context{
        .arguments = arguments, .items = items, .share = objective.count_items(part) / items, .totals = totals};
    const ObjectiveLoss out = objective.loss(model, batch, context);
    out.loss.backward();
    result.loss += out.loss.item<double>();
    for (const auto& [name, value] : out.metrics) result.metrics[name] += value.item<double>();
  }
  return result;
}

void expect_alike(const Result& ours, const Result& theirs, const std::string& where) {
  EXPECT_NEAR(ours.loss, theirs.loss, 1e-9) << where;
  ASSERT_EQ(ours.metrics.size(), theirs.metrics.size()) << where;
  for (const auto& [name, value] : theirs.metrics) EXPECT_NEAR(ours.metrics.at(name), value, 1e-9) << name << where;
}

struct Case {
  std::string name;
  TaskType task = TaskType::CausalLM;
  std::function<std::unique_ptr<Objective>(std::shared_ptr<const BaseModule> other)> make;
  Json arguments;
};

std::vector<Case> cases() {
  const auto dpo = [](auto other) { return make_dpo_objective(other); };
  const auto given = [](auto) { return make_dpo_objective(); };
  const auto distillation = [](auto other) { return make_distillation_objective(other); };
  return {{"dpo", TaskType::CausalLM, dpo, Json::object({{"beta", 0.4}, {"label_smoothing", 0.1}})},
          {"dpo", TaskType::CausalLM, dpo, Json::object({{"loss_type", "ipo"}, {"rpo_alpha", 0.7}})},
          {"dpo", TaskType::CausalLM, given, Json::object({{"loss_type", "hinge"}})},
          {"dpo", TaskType::CausalLM, given, Json::object({{"reference_free", true}})},
          {"orpo", TaskType::CausalLM, [](auto) { return make_orpo_objective(); }, Json::object({{"beta", 0.4}})},
          {"reward", TaskType::SequenceClassification, [](auto) { return make_reward_objective(); },
           Json::object({{"center_rewards_coefficient", 0.3}})},
          {"gkd", TaskType::CausalLM, [](auto other) { return make_objective("gkd", other); },
           Json::object({{"beta", 0.3}, {"temperature", 1.5}, {"logits_chunk_size", 5}})},
          {"distillation", TaskType::CausalLM, distillation, Json::object({{"temperature", 3.0}, {"alpha", 0.6}})},
          {"distillation", TaskType::CausalLM, distillation,
           Json::object({{"logits_chunk_size", 5},
                         {"hidden_state_loss_weight", 0.2},
                         {"hidden_state_layers", Json::array({0, -1})}})}};
}

// What a case reads of an example: numbers of a reference only where no model gives them.
std::vector<data::Example> examples_of(const Case& c) {
  std::vector<data::Example> examples = draw_examples(8);
  const Json* loss_type = c.arguments.find("loss_type");
  for (data::Example& example : examples) {
    if (c.name != "reward" && !(loss_type && *loss_type == Json("hinge"))) example.numbers.clear();
  }
  return examples;
}

std::map<std::string, at::Tensor> model_gradients(const BaseModule& model) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [path, parameter] : model.named_parameters()) gradients[path] = parameter->value().grad();
  return gradients;
}

TEST(Objectives, MeshesGiveOneAnswer) {
  std::vector<Case> all = cases();
  for (const char* loss_type : {"aot", "aot_pair"}) {  // what sorts the pairs of a minibatch
    all.push_back({"dpo", TaskType::CausalLM, [](auto other) { return make_dpo_objective(other); },
                   Json::object({{"loss_type", loss_type}, {"label_smoothing", 0.1}})});
  }
  for (const Case& c : all) {
    const TrainingArguments arguments = TrainingArguments::from_json(c.name, c.arguments);
    const auto alone = model_of(1, c.task);
    const auto objective = c.make(model_of(2));
    const auto examples = examples_of(c);
    const Result expected = run_step(*objective, *alone, examples, arguments);
    const auto whole = model_gradients(*alone);
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1, 2, 1, 2, 1}, {2, 1, 1, 1, 2}, {1, 4, 1, 1, 1}}) {
      on_mesh(dims, [&](const Mesh& mesh, World&) {
        const auto model = model_of(1, c.task), other = model_of(2);
        model->shard_model({}, mesh);
        other->shard_model({}, mesh);
        const std::string where = concat(" ", c.name, " ", c.arguments.dump(), " on ", mesh.to_string());
        expect_alike(run_step(*c.make(other), *model, examples, arguments), expected, where);
        for (const auto& [path, parameter] : model->named_parameters()) {
          EXPECT_TRUE(is_close(parameter->value().grad(), parameter->sharding()->part_of(whole.at(path)), kLastDigits))
              << path << where;
        }
      });
    }
  }
}

TEST(Objectives, MinibatchesAddUp) {
  for (const Case& c : cases()) {
    const TrainingArguments arguments = TrainingArguments::from_json(c.name, c.arguments);
    const auto once = model_of(1, c.task), parts = model_of(1, c.task);
    const auto objective = c.make(model_of(2));
    const auto examples = examples_of(c);
    const std::string where = concat(" ", c.name, " ", c.arguments.dump());
    const Result whole = run_step(*objective, *once, examples, arguments);
    expect_alike(run_step(*objective, *parts, examples, arguments, 4), whole, where);
    const auto a = model_gradients(*once), b = model_gradients(*parts);
    for (const auto& [path, gradient] : a) EXPECT_TRUE(is_close(b.at(path), gradient, kLastDigits)) << path << where;
  }
}

// Log-probabilities [rows] of the labels, and each row's number of them, from logits.
std::pair<std::vector<double>, std::vector<double>> plain_logps(const BaseModule& model, const BatchRow& row) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::tensor(row.input_ids).unsqueeze(0);
  const at::Tensor log_p = at::log_softmax(model(ModelInputs{.input_ids = ids}).logits[0], -1);
  std::vector<double> all, labelled;
  for (std::size_t i = 1; i < row.input_ids.size(); ++i) {
    const auto t = static_cast<int64_t>(i);
    all.push_back(log_p[t - 1][row.input_ids[i]].item<double>());
    if (row.labels[i] != -100) labelled.push_back(all.back());
  }
  return {all, labelled};
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

double log_sigmoid(double x) { return -std::log1p(std::exp(-x)); }

TEST(Dpo, IsItsFormula) {
  const auto model = model_of(1), reference = model_of(2);
  std::vector<data::Example> examples = draw_examples(3);
  for (data::Example& example : examples) example.numbers.clear();
  const auto objective = make_dpo_objective(reference);
  double smooth = 0, ipo = 0, chosen_reward = 0;
  for (const data::Example& example : examples) {
    std::vector<double> ratio, mean;
    for (const BatchRow& row : objective->rows(example)) {
      const auto ours = plain_logps(*model, row).second, theirs = plain_logps(*reference, row).second;
      ratio.push_back(sum(ours) - sum(theirs));
      mean.push_back(ratio.back() / static_cast<double>(ours.size()));
    }
    const double margin = 0.5 * (ratio[0] - ratio[1]);
    smooth += -0.8 * log_sigmoid(margin) - 0.2 * log_sigmoid(-margin);
    ipo += std::pow(mean[0] - mean[1] - 1, 2);
    chosen_reward += 0.5 * ratio[0];
  }
  const auto run = [&](Json json) {
    json["beta"] = 0.5;
    return run_step(*objective, *model, examples, TrainingArguments::from_json("dpo", json));
  };
  const Result got = run(Json::object({{"label_smoothing", 0.2}}));
  EXPECT_NEAR(got.loss, smooth / 3, 1e-9);
  EXPECT_NEAR(got.metrics.at("rewards/chosen"), chosen_reward / 3, 1e-9);
  EXPECT_NEAR(run(Json::object({{"loss_type", "ipo"}})).loss, ipo / 3, 1e-9);
}

TEST(Orpo, IsItsFormula) {
  const auto model = model_of(1);
  const std::vector<data::Example> examples = draw_examples(3);
  const auto objective = make_orpo_objective();
  double nll = 0, tokens = 0, odds = 0;
  for (const data::Example& example : examples) {
    const std::vector<BatchRow> rows = pair_rows(example);
    const auto [all, chosen] = plain_logps(*model, rows[0]);
    const auto rejected = plain_logps(*model, rows[1]).second;
    nll -= sum(all);
    tokens += static_cast<double>(all.size());
    const double a = sum(chosen) / static_cast<double>(chosen.size());
    const double b = sum(rejected) / static_cast<double>(rejected.size());
    odds += log_sigmoid(a - b - (std::log(1 - std::exp(a)) - std::log(1 - std::exp(b))));
  }
  const Result got =
      run_step(*objective, *model, examples, TrainingArguments::from_json("orpo", Json::object({{"beta", 0.5}})));
  EXPECT_NEAR(got.metrics.at("nll_loss"), nll / tokens, 1e-9);
  EXPECT_NEAR(got.loss, nll / tokens - 0.5 * odds / 3, 1e-9);
}

TEST(Distillation, IsItsFormula) {
  const auto model = model_of(1), teacher = model_of(2);
  const std::vector<data::Example> examples = draw_examples(3);
  double kl = 0, nll = 0, tokens = 0;
  for (const data::Example& example : examples) {
    const at::NoGradGuard no_grad;
    const at::Tensor ids = at::tensor(example.input_ids).unsqueeze(0);
    const at::Tensor s = (*model)(ModelInputs{.input_ids = ids}).logits[0];
    const at::Tensor t = (*teacher)(ModelInputs{.input_ids = ids}).logits[0];
    for (std::size_t i = 1; i < example.labels.size(); ++i) {
      if (example.labels[i] == -100) continue;
      const auto before = static_cast<int64_t>(i) - 1;
      const at::Tensor p = at::softmax(t[before] / 3, -1), q = at::softmax(s[before] / 3, -1);
      kl += (p * (p / q).log()).sum().item<double>();
      nll -= at::softmax(s[before], -1)[example.labels[i]].log().item<double>();
      ++tokens;
    }
  }
  const Json json = Json::object({{"temperature", 3.0}, {"alpha", 0.6}});
  const Result got = run_step(*make_distillation_objective(teacher), *model, examples,
                              TrainingArguments::from_json("distillation", json));
  EXPECT_NEAR(got.loss, 0.6 * 9 * kl / tokens + 0.4 * nll / tokens, 1e-9);
}

TEST(Distillation, HoldsTheLogitsOfOneChunk) {
  Json dict = tiny_config().to_dict();
  dict["vocab_size"] = 4096;
  const auto make = [&](uint64_t seed) {
    const auto model = Registry::instance().make_module(*AutoConfig::from_dict(dict), TaskType::CausalLM);
    model->initialize({.rngs = RandomKey(seed)});
    return model;
  };
  const auto model = make(1);
  const auto objective = make_distillation_objective(make(2));
  data::Example example;
  for (int64_t i = 0; i < 32; ++i) example.input_ids.push_back(i);
  example.labels = example.input_ids;
  const std::vector<data::Example> examples(16, example);
  const auto peak = [&](int64_t chunk) {
    const Json json = Json::object({{"logits_chunk_size", chunk}});
    const TrainingArguments arguments = TrainingArguments::from_json("distillation", json);
    run_step(*objective, *model, examples, arguments);  // what stays: gradients
    return peak_bytes([&] { run_step(*objective, *model, examples, arguments); });
  };
  const int64_t logits = int64_t{16} * 32 * 4096 * 4;
  EXPECT_GT(peak(16 * 32), 3 * logits);
  EXPECT_LT(peak(32), logits);
}

TEST(Pairs, AreCutAsTheArgumentsSay) {
  const std::vector<int64_t> prompt{1, 2, 3, 4}, answer{5, 6, 7};
  const auto ids = [&](const PairLimits& limits) { return join_answer(prompt, answer, limits).ids; };
  const auto labels = [&](const PairLimits& limits) { return join_answer(prompt, answer, limits).labels; };
  using testing::ElementsAre;
  EXPECT_THAT(ids({}), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ids({.max_length = 5}), ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(labels({.max_length = 5}), ElementsAre(-100, -100, 5, 6, 7));
  EXPECT_THAT(ids({.max_length = 5, .truncation_mode = "keep_start"}), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(ids({.max_length = 5, .max_prompt_length = 3}), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(ids({.max_length = 5, .max_prompt_length = 3, .truncation_mode = "keep_start"}),
              ElementsAre(1, 2, 3, 5, 6));
  EXPECT_THAT(ids({.max_prompt_length = 2, .max_completion_length = 1}), ElementsAre(3, 4, 5));
  EXPECT_THAT([] { (PairLimits{.max_length = 8, .max_prompt_length = 8}).validate("dpo"); },
              ThrowsMessage<ConfigError>("[dpo] max_prompt_length must be less than max_length; got 8 and 8. Without "
                                         "it (null) rows are truncated as a whole."));
}

// The smallest margin of the policy meets the smallest of the reference, whichever pairs they are of; a pair that only
// fills the batch is in neither.
TEST(Dpo, SortsThePairsThatCount) {
  const auto tensor = [](const std::vector<double>& values) { return at::tensor(values, at::kDouble); };
  PairTerms terms{.chosen_logratios = tensor({3, 1, 2, 50}),
                  .rejected_logratios = tensor({0.5, -1, 4, -50}),
                  .chosen_lengths = tensor({1, 1, 1, 1}),
                  .rejected_lengths = tensor({1, 1, 1, 1}),
                  .reference_margins = tensor({-2, 5, 1, 70}),
                  .counts = tensor({1, 1, 1, 0})};
  DpoArguments dpo{.beta = 0.5, .loss_type = "aot_pair"};
  // chosen 1, 2, 3 and rejected -1, 0.5, 4
  const auto of = [](const std::vector<double>& deltas) {
    double total = 0;
    for (const double delta : deltas) total -= log_sigmoid(0.5 * delta);
    return total;
  };
  EXPECT_NEAR(pair_loss(terms, dpo).sum().item<double>(), of({2, 1.5, -1}), 1e-12);
  // margins of the policy: 2.5 - 2, 2 + 5, -2 + 1; of the reference: -2, 1, 5
  dpo.loss_type = "aot";
  EXPECT_NEAR(pair_loss(terms, dpo).sum().item<double>(), of({-1 + 2, 0.5 - 1, 7 - 5}), 1e-12);
  EXPECT_EQ(pair_loss(terms, dpo)[3].item<double>(), 0);
}

// transformers: zeros_like(x).uniform_(-alpha / sqrt(T * D), alpha / sqrt(T * D)).
TEST(EmbeddingNoise, IsUniformUpToAlphaOverTheRootOfTheWidth) {
  const at::NoGradGuard no_grad;
  const auto model = model_of(1), other = model_of(2);
  const at::Tensor ids = at::arange(1, 13).repeat({200, 1});
  const auto embedded = [&](const BaseModule& of) {
    return of(ModelInputs{.input_ids = ids, .output_hidden_states = true}).hidden_states[0];
  };
  const at::Tensor plain = embedded(*model), untouched = embedded(*other);
  const double most = 5 / std::sqrt(12.0 * static_cast<double>(plain.size(2)));
  at::Tensor first, second, again, next;
  {
    const EmbeddingNoise noise(*model, 5, RandomKey(3), 12);
    EXPECT_TRUE(embedded(*other).equal(untouched));
    EXPECT_FALSE(noise.was_added());
    first = embedded(*model) - plain;
    EXPECT_TRUE(noise.was_added());
    second = embedded(*model) - plain;
  }
  EXPECT_TRUE(embedded(*model).equal(plain));
  {
    const EmbeddingNoise noise(*model, 5, RandomKey(3), 12);
    again = embedded(*model) - plain;
  }
  {
    const EmbeddingNoise noise(*model, 5, RandomKey(4), 12);
    next = embedded(*model) - plain;
  }
  EXPECT_TRUE(again.equal(first));
  const auto count = static_cast<double>(first.numel());
  for (const at::Tensor& drawn : {first, second, next}) {
    EXPECT_LE(drawn.abs().max().item<double>(), most + 1e-6);
    EXPECT_GE(drawn.abs().max().item<double>(), 0.99 * most);
    // Within four standard errors of a uniform distribution's mean and variance.
    EXPECT_NEAR(drawn.mean().item<double>() / most, 0, 4 / std::sqrt(3 * count));
    EXPECT_NEAR(drawn.square().mean().item<double>() / most / most, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / count));
  }
  for (const at::Tensor& drawn : {second, next})
    EXPECT_NEAR((drawn * first).mean().item<double>() / most / most, 0, 4.0 / 3 / std::sqrt(count));
}

TEST(CausalLM, LmheadChunksizeBoundsTheLogitsAndLeavesTheLossAsItIs) {
  Json dict = tiny_config().to_dict();
  dict["vocab_size"] = 4096;
  const auto make = [&](const Json& chunk) {
    dict["lmhead_chunksize"] = chunk;
    const auto model = Registry::instance().make_module(*AutoConfig::from_dict(dict), TaskType::CausalLM);
    model->initialize({.rngs = RandomKey(1)});
    return model;
  };
  data::Example example;
  for (int64_t i = 0; i < 32; ++i) example.input_ids.push_back(i);
  example.labels = example.input_ids;
  const std::vector<data::Example> examples(16, example);
  const auto objective = make_causal_lm_objective();
  struct Seen {
    double loss;
    int64_t peak;
  };
  const auto run = [&](const Json& of_model, const Json& of_trainer) {
    const auto model = make(of_model);
    const auto arguments = TrainingArguments::from_json("sft", Json::object({{"lmhead_chunksize", of_trainer}}));
    const double loss = run_step(*objective, *model, examples, arguments).loss;  // what stays: gradients
    return Seen{loss, peak_bytes([&] { run_step(*objective, *model, examples, arguments); })};
  };
  const int64_t logits = int64_t{16} * 32 * 4096 * 4;
  const Seen whole = run(Json(), 16 * 32);
  EXPECT_GT(whole.peak, logits);
  for (const Seen& part : {run(Json(), 16), run(16, Json()), run(16 * 32, 16)}) {
    EXPECT_LT(part.peak, logits / 2);
    EXPECT_NEAR(part.loss, whole.loss, 1e-5);
  }
}

}  // namespace
}  // namespace easydel
