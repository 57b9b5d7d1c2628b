#include "easydel/trainers/logs/training_flops.h"

#include <gmock/gmock.h>

#include <regex>

#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/trainers/logs/peak_flops.h"
#include "easydel/trainers/objectives/policy_objective.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/word_tokenizer.h"

namespace easydel {
namespace {

std::vector<BatchRow> rows_of(const std::vector<int64_t>& documents, bool packed) {
  std::vector<BatchRow> rows(packed ? 1 : 0);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!packed) rows.emplace_back();
    BatchRow& row = rows.back();
    row.input_ids.insert(row.input_ids.end(), documents[i], 1);
    if (packed) row.segment_ids.insert(row.segment_ids.end(), documents[i], static_cast<int64_t>(i));
  }
  return rows;
}

// Full training, frozen parts, adapters, experts, windows, packed documents: every product that torch sees.
TEST(TrainingFlops, AreThoseThatTorchCountsInTransformersAndPeft) {
  const TemporaryDirectory directory;
  run_python("flops_peer.py", {directory.path().string()});
  const Json cases = Json::parse_file(directory / "flops.json");
  EXPECT_GE(cases.size(), 20);
  for (const auto& [name, expected] : cases.as_object()) {
    SCOPED_TRACE(name);
    const auto config = AutoConfig::from_pretrained((directory / name).string());
    const std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
    model->initialize({.dtype = float32, .param_dtype = float32, .rngs = RandomKey(1)});
    if (const std::string adapted = expected.at("adapted").as_string(); !adapted.empty())
      model->apply_lora_to_layers(expected.at("rank").as_int(), 8, adapted);
    if (const std::string frozen = expected.at("frozen").as_string(); !frozen.empty()) {
      for (const auto& [path, parameter] : model->named_parameters()) {
        if (std::regex_search(path, std::regex(frozen))) parameter->trainable = false;
      }
    }
    std::vector<int64_t> documents;
    for (const Json& length : expected.at("documents").as_array()) documents.push_back(length.as_int());
    const TrainingFlops flops(*model, expected.at("has_backward").as_bool());
    for (const bool packed : {false, true})
      EXPECT_DOUBLE_EQ(flops.of_rows(rows_of(documents, packed)), expected.at("flops").as_double()) << packed;
  }
}

TEST(TrainingFlops, OfTheBaseDoWithoutAdapters) {
  const auto config = AutoConfig::from_dict(Json::parse(R"({"model_type": "llama", "vocab_size": 29, "hidden_size": 16,
                              "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4})"));
  const auto model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize({.dtype = float32, .param_dtype = float32, .rngs = RandomKey(1)});
  const double base = TrainingFlops(*model, false).of_document(7);
  model->apply_lora_to_layers(4, 8, ".*q_proj.*");
  EXPECT_EQ(TrainingFlops(*model, false, false).of_document(7), base);
  EXPECT_GT(TrainingFlops(*model, false).of_document(7), base);
}

// With adapters the base is the reference: a step runs it unless nothing asks for one.
TEST(TrainingFlops, KnowWhetherTheBaseRuns) {
  const auto tokenizer = testing_support::word_tokenizer();
  const auto model = tiny_llama();
  model->apply_lora_to_layers(2, 4, ".*q_proj.*");
  const ObjectiveData data{.tokenizer = tokenizer, .datasets = {}, .batch = {}};
  const auto runs = [&](const std::string& type, Objective& objective, const std::string& settings) {
    Json given = Json::parse(settings);
    given["lora_rank"] = 2;
    objective.prepare(*model, TrainingArguments::from_json(type, given), data);
    return objective.runs_base();
  };
  EXPECT_TRUE(runs("dpo", *make_dpo_objective(), "{}"));
  EXPECT_FALSE(runs("dpo", *make_dpo_objective(), R"({"reference_free": true})"));
  EXPECT_FALSE(runs("dpo", *make_dpo_objective(tiny_llama()), "{}"));
  EXPECT_TRUE(runs("kto", *make_kto_objective(nullptr), "{}"));
  EXPECT_FALSE(runs("kto", *make_kto_objective(tiny_llama()), "{}"));
  EXPECT_TRUE(runs("bco", *make_bco_objective(nullptr), "{}"));
  EXPECT_FALSE(runs("orpo", *make_orpo_objective(), "{}"));
  for (const std::string type : {"grpo", "rloo"}) {
    const auto of = [&](const std::string& beta) {
      return runs(type, *make_policy_objective(type, {}),
                  R"({"rewards": "exact", "max_completion_length": 8, "beta": )" + beta + "}");
    };
    EXPECT_TRUE(of("0.1")) << type;
    EXPECT_FALSE(of("0")) << type;
  }
}

TEST(TrainingFlops, OfAClassifierCountItsHeadOnceForADocument) {
  Json dict = Json::parse(R"({"model_type": "llama", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 24,
                              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                              "num_labels": 3, "pad_token_id": 0})");
  const auto config = AutoConfig::from_dict(dict);
  const auto classifier = Registry::instance().make_module(*config, TaskType::SequenceClassification);
  const auto base = Registry::instance().make_module(*config, TaskType::BaseModule);
  EXPECT_EQ(TrainingFlops(*classifier).of_document(7), TrainingFlops(*base).of_document(7) + 3 * 2 * 16 * 3);
}

TEST(PeakFlops, AreNotMadeUpForACpu) {
  const auto config = AutoConfig::from_dict(Json::parse(R"({"model_type": "llama", "num_hidden_layers": 1})"));
  EXPECT_EQ(peak_flops(*Registry::instance().make_module(*config, TaskType::CausalLM)), std::nullopt);
}

TEST(PeakFlops, AreKnownForGpusOfTheTableAlone) {
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA H200", bfloat16, false).value(), 989.4e12);
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA H200", float32, true).value(), 494.7e12);
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA H200", float32, false).value(), 66.9e12);
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA H100 PCIe", bfloat16, false).value(), 756e12);
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA A100-SXM4-80GB", float16, false).value(), 312e12);
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA A10G", bfloat16, false).value(), 70e12);
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA A10", bfloat16, false).value(), 125e12);
  EXPECT_DOUBLE_EQ(peak_flops_of_gpu("NVIDIA L40S", bfloat16, false).value(), 362e12);
  EXPECT_EQ(peak_flops_of_gpu("Tesla V100-SXM2-16GB", bfloat16, false), std::nullopt);
  EXPECT_EQ(peak_flops_of_gpu("NVIDIA A1000 Laptop GPU", bfloat16, false), std::nullopt);
  EXPECT_EQ(peak_flops_of_gpu("NVIDIA H200", float64, false), std::nullopt);
}

}  // namespace
}  // namespace easydel
