#include "easydel/elarge/elarge_model.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/serve/engine/engine.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/word_tokenizer.h"

namespace easydel {
namespace {

using testing::ElementsAre;

ELargeModel guide() {  // the example of EasyDeL's guide
  return ELargeModel::from_pretrained("meta-llama/Llama-2-7b-hf")
      .set_dtype("bf16")
      .set_sharding({.axis_dims = {1, -1, 1, 1, 1}})
      .add_dataset({.dataset_name = "your-dataset"}, 2048)
      .set_trainer("sft", Json::object({{"learning_rate", 2e-5},
                                        {"num_train_epochs", 3},
                                        {"total_batch_size", 32},
                                        {"step_start_point", 5000},
                                        {"resume_if_possible", false}}));
}

TEST(ELargeModel, TakesArgumentsAsAnAggregate) {
  ELargeModel model = ELargeModel::from_pretrained("somewhere");
  model.set_trainer("sft", {.num_train_epochs = 2, .learning_rate = 1e-4});
  EXPECT_EQ(model.to_dict().at("trainer"),
            Json::object({{"trainer_type", "sft"}, {"num_train_epochs", 2}, {"learning_rate", 1e-4}}));
  model.set_trainer("sft", {.total_batch_size = 8});  // adds to what was set
  EXPECT_EQ(model.config().training_arguments().total_batch_size, 8);
  EXPECT_EQ(model.config().training_arguments().learning_rate, 1e-4);
}

TEST(ELargeModel, KeepsOneConfig) {
  const ELargeModel model = guide();
  model.validate();
  EXPECT_EQ(model.config().to_yaml(),
            "model:\n"
            "  name_or_path: meta-llama/Llama-2-7b-hf\n"
            "loader:\n"
            "  dtype: bf16\n"
            "  param_dtype: bf16\n"
            "sharding:\n"
            "  axis_dims: [1, -1, 1, 1, 1]\n"
            "trainer:\n"
            "  max_length: 2048\n"
            "  trainer_type: sft\n"
            "  learning_rate: 2.0e-05\n"
            "  num_train_epochs: 3\n"
            "  total_batch_size: 32\n"
            "  step_start_point: 5000\n"
            "  resume_if_possible: false\n"
            "mixture:\n"
            "  informs:\n"
            "    - dataset_name: your-dataset\n");
  EXPECT_EQ(model.model_name(), "meta-llama/Llama-2-7b-hf");
  EXPECT_EQ(model.build_training_arguments().step_start_point, 5000);
  EXPECT_EQ(model.build_training_arguments().sequence_length(), 2048);
  EXPECT_EQ(model.summary(),
            "model:    meta-llama/Llama-2-7b-hf (auto-bind)\n"
            "dtype:    bfloat16 on " +
                model.config().compute().device.str() +
                ", weights in bfloat16\n"
                "mesh:     dp=1 fsdp=-1 ep=1 tp=1 sp=1\n"
                "data:     your-dataset (train)\n"
                "trainer:  sft, learning rate 2e-05, batch 32, adamw\n");
}

TEST(ELargeModel, HasASetterForEverySection) {
  ELargeModel model = guide();
  model.set_model("m")
      .set_teacher_model("t")
      .set_reference_model("r")
      .set_dtype("fp32", "bf16")
      .set_loader({{"verbose", false}})
      .set_sharding({.axis_names = {"dp", "fsdp", "ep", "tp", "sp"}, .auto_shard_model = false})
      .set_quantization({{"method", "nf4"}, {"group_size", 64}})
      .set_base_config({{"attn_dtype", "float32"}})
      .set_operation_configs({{"flash_attn2", Json::object({{"blocksize_q", 128}})}})
      .set_esurge({{"max_model_len", 4096}})
      .set_mixture({{"prefetch_workers", 8}})
      .add_dataset({.type = "json", .data_files = "b.jsonl", .name = "b", .content_field = "text", .weight = 0.5})
      .add_dataset({.data_files = {"c.parquet", "d.parquet"}, .num_rows = 10})
      .add_eval_dataset({.dataset_name = "your-dataset", .split = "test"})
      .set_eval({{"num_fewshot", 3}, {"temperature", 0.0}})
      .set_trainer("distillation", Json::object({{"alpha", 0.5}}))
      .update_config(Json::parse(R"({"loader": {"device": "cpu"}, "trainer": {"log_steps": 2}})"));
  model.validate();
  EXPECT_EQ(model.teacher_model_name(), "t");
  EXPECT_EQ(model.reference_model_name(), "r");
  EXPECT_EQ(model.config().loader().dtype, float32);
  EXPECT_EQ(model.config().loader().param_dtype, bfloat16);
  EXPECT_EQ(model.config().loader().device, "cpu");
  EXPECT_FALSE(model.config().loader().verbose);
  EXPECT_THAT(model.config().sharding().axis_dims, ElementsAre(1, -1, 1, 1, 1));
  EXPECT_FALSE(*model.config().sharding().auto_shard_model);
  EXPECT_EQ(model.config().config_kwargs().at("attn_dtype").as_string(), "float32");
  const MixtureSection mixture = model.config().mixture();
  ASSERT_EQ(mixture.informs.size(), 3);
  EXPECT_EQ(mixture.prefetch_workers, 8);
  EXPECT_EQ(mixture.informs[1].weight, 0.5);
  EXPECT_THAT(mixture.informs[2].data_files, ElementsAre("c.parquet", "d.parquet"));
  EXPECT_EQ(model.config().eval_mixture()->informs[0].split, "test");
  EXPECT_EQ(model.build_training_arguments().distillation.alpha, 0.5);
  EXPECT_EQ(model.build_training_arguments().log_steps, 2);
  EXPECT_EQ(model.config().eval().num_fewshot, 3);

  TrainingArguments arguments = TrainingArguments::for_trainer("dpo");
  arguments.dpo.beta = 0.7;
  model.set_training_arguments("dpo", arguments);
  EXPECT_EQ(model.build_training_arguments().dpo.beta, 0.7);
  EXPECT_EQ(model.build_training_arguments().to_json("dpo"), arguments.to_json("dpo"));
}

TEST(ELargeModel, SurvivesItsFiles) {
  const TemporaryDirectory directory;
  const ELargeModel model = guide();
  model.to_yaml(directory / "new/run.yaml");
  model.to_json(directory / "new/run.json");
  EXPECT_EQ(ELargeModel::from_yaml(directory / "new/run.yaml").to_dict(), model.to_dict());
  EXPECT_EQ(ELargeModel::from_json(directory / "new/run.json").to_dict(), model.to_dict());
}

TEST(ELargeModel, ReportsAWrongKey) {
  EXPECT_THAT(
      [] { guide().set_trainer("sft", Json::object({{"learning_rates", 1}})).validate(); },
      testing::ThrowsMessage<ConfigError>("[elarge] trainer.learning_rates is not a key of the trainer \"sft\". Did "
                                          "you mean \"learning_rate\"?"));
}

TEST(ELargeModel, BuildsAnEngineByItsSections) {
  const TemporaryDirectory directory;
  testing_support::write_word_tokenizer(directory.path());
  write_file_atomically(directory / "config.json", R"({"model_type": "llama", "vocab_size": 31, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
      "max_position_embeddings": 64, "eos_token_id": 2})");
  ELargeModel model = ELargeModel::from_pretrained((directory / "config.json").string(), "causal-language-model");
  model.set_loader({{"device", "cpu"}, {"verbose", false}})
      .set_esurge({{"max_model_len", 32}, {"max_num_seqs", 2}})
      .set_serve({{"num_pages", 20}});
  serve::Request request;
  request.prompt = {5, 6, 7};
  request.sampling = {.temperature = 0, .max_tokens = 4, .ignore_eos = true};
  std::vector<int32_t> tokens;
  {
    const auto engine = model.build_engine();
    EXPECT_EQ(engine->info().max_model_len, 32);
    EXPECT_EQ(engine->info().max_num_seqs, 2);
    EXPECT_EQ(engine->stats().pages, 20);
    const serve::RequestOutput out = serve::complete(*engine, request);
    EXPECT_EQ(out.error, "");
    tokens = out.tokens;
    EXPECT_EQ(tokens.size(), 4U);
  }
  const auto other = model.build_engine({.num_pages = 10});
  EXPECT_EQ(other->stats().pages, 10);
  EXPECT_EQ(serve::complete(*other, request).tokens, tokens);
}

}  // namespace
}  // namespace easydel
