#include "easydel/trainers/arguments/training_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/infra/config/loss_config.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

Json from(const std::string& text) { return Json::parse(text); }

template <class E = ConfigError>
void expect_refused(const std::string& type, const std::string& json, const std::string& message) {
  EXPECT_THAT([&] { TrainingArguments::from_json(type, from(json)); }, ThrowsMessage<E>(message)) << json;
}

TEST(TrainingArguments, HasEasyDelsDefaultsForEachTrainer) {
  EXPECT_EQ(TrainingArguments::for_trainer("base").learning_rate, 5e-5);
  EXPECT_EQ(TrainingArguments::for_trainer("sft").learning_rate, 2e-5);
  EXPECT_EQ(TrainingArguments::for_trainer("dpo").learning_rate, 1e-6);
  EXPECT_EQ(TrainingArguments::for_trainer("dpo").sequence_length(), 512);
  EXPECT_EQ(TrainingArguments::for_trainer("orpo").sequence_length(), 1024);
  EXPECT_EQ(TrainingArguments::for_trainer("sft").sequence_length(), 4096);
  for (const std::string& type : trainer_types()) TrainingArguments::for_trainer(type).validate();
}

TEST(TrainingArguments, ReadBackWhatTheyWrote) {
  for (const std::string& type : trainer_types()) {
    TrainingArguments arguments = TrainingArguments::for_trainer(type);
    arguments.learning_rate = 3.25e-4;
    arguments.clip_grad = 1.5;
    arguments.tx_mu_dtype = bfloat16;
    arguments.extra_optimizer_kwargs["b1"] = 0.8;
    arguments.dpo.beta = arguments.orpo.beta = 0.25;
    arguments.text.packing = true;
    const Json json = arguments.to_json(type);
    EXPECT_EQ(TrainingArguments::from_json(type, json).to_json(type), json) << type;
  }
  EXPECT_EQ(TrainingArguments::from_json("dpo", from(R"({"beta": 0.3})")).dpo.beta, 0.3);
  EXPECT_EQ(TrainingArguments::from_json("orpo", from(R"({"beta": 0.3})")).orpo.beta, 0.3);
}

TEST(TrainingArguments, TakeTextsThatReadAsNumbers) {
  const auto arguments = TrainingArguments::from_json(
      "sft", from(R"({"learning_rate": "1e-5", "clip_grad": " 1 ", "save_steps": "20", "max_sequence_length": "64"})"));
  EXPECT_EQ(arguments.learning_rate, 1e-5);
  EXPECT_EQ(arguments.clip_grad, 1.0);
  EXPECT_EQ(arguments.save_steps, 20);
  EXPECT_EQ(arguments.max_length, 64);
  expect_refused("sft", R"({"learning_rate": "fast"})",
                 "[TrainingArguments] learning_rate must be a number; got \"fast\".");
}

TEST(TrainingArguments, RefuseNonsenseWithKeyAndValue) {
  const std::string where = "[TrainingArguments] ";
  expect_refused("sft", R"({"learning_rate": NaN})",
                 where + "learning_rate must be a finite number that is not negative; got nan.");
  expect_refused("sft", R"({"learning_rate": Infinity})",
                 where + "learning_rate must be a finite number that is not negative; got inf.");
  expect_refused("sft", R"({"learning_rate": -1})",
                 where + "learning_rate must be a finite number that is not negative; got -1.");
  expect_refused("sft", R"({"total_batch_size": 10, "gradient_accumulation_steps": 4})",
                 where + "total_batch_size must be a multiple of gradient_accumulation_steps; got 10 and 4.");
  expect_refused("sft", R"({"gradient_accumulation_steps": 0})",
                 where + "gradient_accumulation_steps must be at least 1; got 0.");
  expect_refused("sft", R"({"max_training_steps": 0})", where + "max_training_steps must be at least 1; got 0.");
  expect_refused("sft", R"({"clip_grad": 0})", where + "clip_grad must be a finite positive number; got 0.");
  expect_refused("sft", R"({"ema_decay": 1})", where + "ema_decay must lie in [0, 1); got 1.");
  expect_refused(
      "sft", R"({"progress_bar_type": "tqmd"})",
      where + "progress_bar_type must be one of tqdm, rich, json, none; got \"tqmd\". Did you mean \"tqdm\"?");
  expect_refused("dpo", R"({"beta": 0})", where + "beta must be a finite positive number; got 0.");
  expect_refused("dpo", R"({"loss_type": "hing"})",
                 where +
                     "loss_type must be one of sigmoid, hinge, ipo, exo_pair, nca_pair, robust, bco_pair, sppo_hard, "
                     "aot, aot_pair, aot_unpaired, apo_zero, apo_down, discopop, sigmoid_norm, sft; got \"hing\". Did "
                     "you mean \"hinge\"?");
  expect_refused("distillation", R"({"alpha": 1.5})", where + "alpha must lie in [0, 1]; got 1.5.");
  expect_refused("sft", R"({"training_time_limit": "2 fortnights"})",
                 where + "training_time_limit must read like 90min, 23h, 30s or 1d2h30m; got \"2 fortnights\".");
  expect_refused("sft", R"({"early_stopping_patience": 2})",
                 where + "early_stopping_patience must be used together with do_eval: true; got 2.");
  expect_refused("sft", R"({"max_length": 8, "max_sequence_length": 9})",
                 where + "max_sequence_length is an alias of max_length, which has a different value; got 9 and 8.");
  expect_refused("sft", R"({"loss_config": {"label_smoothing": 2}})",
                 where + "loss_config: [LossConfig] label_smoothing must lie in [0, 1); got 2.");
}

TEST(TrainingArguments, NameTheNearestKey) {
  expect_refused(
      "sft", R"({"learning_rat": 1})",
      "[TrainingArguments] learning_rat is not a key of the trainer \"sft\". Did you mean \"learning_rate\"?");
  expect_refused("sft", R"({"beta": 0.1})",
                 "[TrainingArguments] beta is not a key of the trainer \"sft\", only of dpo, kto, bco, cpo, orpo, gkd, "
                 "grpo, gfpo, rlvr, rloo, online_dpo, xpo, nash_md.");
  EXPECT_THAT(
      [] { TrainingArguments::for_trainer("dop"); },
      ThrowsMessage<ConfigError>(
          "[TrainingArguments] trainer_type must name a trainer; known: sft, base, dpo, "
          "kto, bco, cpo, orpo, reward, prm, distillation, gkd, seq_kd, on_policy_distillation, sparse_distillation, "
          "classification, grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo, nash_md, embedding, contrastive; got \"dop\". "
          "Did you mean \"dpo\"?"));
  EXPECT_THAT(
      [] { TrainingArguments::for_trainer("gspo"); },
      ThrowsMessage<NotSupportedError>(
          "[TrainingArguments] trainer_type \"gspo\" is an EasyDeL trainer that is not supported yet; known: "
          "sft, base, dpo, kto, bco, cpo, orpo, reward, prm, distillation, gkd, seq_kd, on_policy_distillation, "
          "sparse_distillation, classification, grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo, nash_md, "
          "embedding, contrastive. Use grpo with importance_sampling_level: "
          "sequence."));
}

// As transformers' TrainingArguments has it.
TEST(TrainingArguments, PreferGreaterMetricsUnlessTheyAreLosses) {
  const auto prefers = [](const std::string& json) {
    return TrainingArguments::from_json("sft", from(json)).prefers_greater();
  };
  EXPECT_FALSE(prefers("{}"));
  EXPECT_FALSE(prefers(R"({"metric_for_best_model": "nll_loss"})"));
  EXPECT_TRUE(prefers(R"({"metric_for_best_model": "eval_accuracy"})"));
  EXPECT_FALSE(prefers(R"({"metric_for_best_model": "eval_accuracy", "greater_is_better": false})"));
  EXPECT_TRUE(prefers(R"({"greater_is_better": true})"));
}

TEST(TrainingArguments, NameTrackersPreviewsAndThePage) {
  const auto arguments = TrainingArguments::from_json(
      "sft", from(R"({"report_to": "mlflow", "mlflow_tracking_uri": "http://host:5000", "project": "p", "run_name": "r",
                      "dashboard": true, "generation_interval": 5, "generation_prompts": ["a"],
                      "generation_top_p": 0.5})"));
  EXPECT_THAT(arguments.trackers.report_to, testing::ElementsAre("mlflow"));
  EXPECT_EQ(arguments.trackers.wandb_project, "p");
  EXPECT_EQ(arguments.trackers.wandb_name, "r");
  EXPECT_EQ(arguments.dashboard, 8265);
  EXPECT_EQ(TrainingArguments::from_json("sft", from(R"({"dashboard": false})")).dashboard, std::nullopt);
  // Greedy unless something says how to sample; trainers with rollouts sample as these do.
  const RolloutArguments sampled = arguments.previews.sampling(nullptr);
  EXPECT_EQ(sampled.temperature, 1.0);
  EXPECT_EQ(sampled.top_p, 0.5);
  EXPECT_EQ(PreviewArguments{}.sampling(nullptr).temperature, 0.0);
  EXPECT_EQ(PreviewArguments{}.sampling(nullptr).max_completion_length, 128);
  const RolloutArguments rollout{.max_completion_length = 7, .num_return_sequences = 3, .temperature = 0.8};
  EXPECT_EQ(PreviewArguments{}.sampling(&rollout).temperature, 0.8);
  EXPECT_EQ(PreviewArguments{}.sampling(&rollout).max_completion_length, 7);
  EXPECT_EQ(PreviewArguments{.generation_max_new_tokens = 2}.sampling(&rollout).max_completion_length, 2);
  expect_refused<ConfigError>("sft", R"({"report_to": ["wandb", "tensorbord"]})",
                              "[TrainingArguments] report_to must be one of wandb, mlflow, trackio, tensorboard, "
                              "none; got \"tensorbord\". Did you mean \"tensorboard\"?");
  expect_refused<ConfigError>("sft", R"({"report_to": ["none", "wandb"]})",
                              "[TrainingArguments] report_to must not name none beside trackers; got none.");
  expect_refused<ConfigError>("sft", R"({"wandb_entity": "me"})",
                              "[TrainingArguments] wandb_entity must be used together with report_to: wandb; got me.");
  expect_refused<NotSupportedError>("sft", R"({"report_to": "mlflow", "mlflow_tracking_uri": "./mlruns"})",
                                    "[TrainingArguments] mlflow_tracking_uri must be the URL of a server, "
                                    "http://HOST:PORT; got ./mlruns. Start one with `mlflow server`.");
  expect_refused<ConfigError>(
      "sft", R"({"use_wandb": true, "save_directory": null})",
      "[TrainingArguments] report_to must be used with a save_directory and with metrics enabled; got a tracker.");
  expect_refused<ConfigError>("sft", R"({"generation_interval": 5})",
                              "[TrainingArguments] generation_interval must be used together with generation_prompts "
                              "or generation_use_train_prompts; got 5.");
  expect_refused<ConfigError>("sft", R"({"hub_strategy": "end"})",
                              "[TrainingArguments] push_to_hub must be true if hub_model_id, hub_strategy, "
                              "hub_private_repo or hub_always_push are given; got false.");
}

TEST(TrainingArguments, OfAModelThatWritesNothingHaveNoPreviews) {
  for (const char* type : {"classification", "embedding", "reward", "prm"}) {
    expect_refused<NotSupportedError>(type, R"({"generation_interval": 5, "generation_prompts": ["a"]})",
                                      concat("[TrainingArguments] generation_interval must be null with ", type,
                                             "; got 5. Its model does not generate text."));
  }
}

TEST(TrainingArguments, KnowEasyDelsOtherKeys) {
  const auto arguments = TrainingArguments::from_json(
      "sft", from(R"({"use_grain": true, "esurge_page_size": 8, "generation_shard_inputs": false, "watchers": [],
                      "quantization_mode": null, "sparsify_module": false, "track_memory": true, "init_tx": true,
                      "remove_unused_columns": false})"));
  EXPECT_EQ(arguments.track_memory, 1.0);
  EXPECT_THAT(arguments.unsupported_notes(),
              testing::ElementsAre("remove_unused_columns: false has no effect: unused columns never reach the model.",
                                   "use_grain has no effect here.", "esurge_page_size has no effect here.",
                                   "generation_shard_inputs has no effect here."));
  for (const char* key : {"sparsify_module", "straight_through_emulator", "generate_during_eval", "is_encoder_decoder",
                          "remove_ckpt_after_load"}) {
    expect_refused<NotSupportedError>(
        "sft", concat("{\"", key, "\": true}"),
        concat("[TrainingArguments] ", key, " is an EasyDeL key that is not supported yet; got true. Remove it."));
  }
  expect_refused<NotSupportedError>("sft", R"({"init_tx": false})",
                                    "[TrainingArguments] init_tx is an EasyDeL key that is not supported yet; got "
                                    "false. Remove it.");
  expect_refused<NotSupportedError>(
      "sft", R"({"quantization_mode": "nf4"})",
      "[TrainingArguments] quantization_mode is an EasyDeL key that is not supported yet; got \"nf4\". Remove it.");
}

TEST(TrainingArguments, RefuseWhatIsDoneInOneWayAlone) {
  const std::string where = "[TrainingArguments] ";
  expect_refused<NotSupportedError>(
      "sft", R"({"use_data_collator": false})",
      where + "use_data_collator must be true; got false. Rows are always padded to the same length.");
  expect_refused<NotSupportedError>("sft", R"({"tx_mu_dtype": "bfloat16", "optimizer": "sgd"})",
                                    where +
                                        "tx_mu_dtype must be null for the optimizer sgd, which has no such moment; "
                                        "got bfloat16. adam, adamw, lion and muon have one.");
  expect_refused("sft", R"({"tx_mu_dtype": "bfloat16", "extra_optimizer_kwargs": {"mu_dtype": "float32"}})",
                 where + "tx_mu_dtype must not be used together with extra_optimizer_kwargs.mu_dtype; got bfloat16.");
  expect_refused("sft", R"({"do_train": false})", where + "do_train must be true if do_eval is not; got false.");
  expect_refused("sft", R"({"force_step_start_point": true})",
                 where + "force_step_start_point must be used together with step_start_point; got true.");
  expect_refused("sft", R"({"train_on_inputs": true, "completion_only_loss": true})",
                 where + "train_on_inputs must not contradict completion_only_loss, which is true; got true.");
  expect_refused("sft", R"({"train_on_inputs": true, "assistant_only_loss": true})",
                 where + "train_on_inputs must not contradict assistant_only_loss, which is true; got true.");
  expect_refused("dpo", R"({"train_on_inputs": true})",
                 where + "train_on_inputs is not a key of the trainer \"dpo\", only of sft, base, distillation.");
  expect_refused("classification", R"({"packing": true})",
                 where + "packing is not a key of the trainer \"classification\", only of sft, base, distillation.");
  for (const char* type : {"dpo", "orpo"}) {
    expect_refused<NotSupportedError>(type, R"({"logprob_vocab_chunk_size": 4096})",
                                      where +
                                          "logprob_vocab_chunk_size must be null or 0; got 4096. Logits are computed "
                                          "in chunks of tokens, not of the vocabulary: set lmhead_chunksize.");
    expect_refused<NotSupportedError>(
        type, R"({"label_pad_token_id": 0})",
        where + "label_pad_token_id must be -100; got 0. No other label is ignored in the loss.");
    TrainingArguments::from_json(type, from(R"({"logprob_vocab_chunk_size": 0, "label_pad_token_id": -100})"));
  }
  expect_refused(
      "dpo", R"({"use_weighting": true, "loss_type": ["sigmoid", "aot"]})",
      where + "use_weighting must be false with loss_type aot, whose terms are not of one pair each; got true.");
  expect_refused("dpo", R"({"sync_ref_model": true, "reference_free": true})",
                 where + "sync_ref_model must be false if reference_free is true; got true.");
  expect_refused("grpo", R"({"sync_ref_model": true, "beta": 0})",
                 where + "sync_ref_model must be false if beta is 0: there is no reference; got true.");
  expect_refused("rloo", R"({"ref_model_sync_steps": 2})",
                 where + "ref_model_sync_steps must be used together with sync_ref_model; got 2.");
  expect_refused<NotSupportedError>("distillation", R"({"attention_loss_weight": 0.5})",
                                    where +
                                        "attention_loss_weight must be null or 0; got 0.5. Attention maps are not "
                                        "compared yet; hidden_state_loss_weight compares layers.");
  expect_refused<NotSupportedError>("dpo", R"({"loss_config": {"label_smoothing": 0.5}})",
                                    where +
                                        "loss_config must not set label_smoothing with dpo, which has its own loss; "
                                        "got 0.5. Only chunk_token_size and auxiliary_loss_coefficient apply there.");
  expect_refused("dpo", R"({"lora_rank": 2, "lora_dropout": 0.5})",
                 where + "lora_dropout must be 0 if disable_dropout is true; got 0.5.");
  TrainingArguments::from_json("dpo", from(R"({"lora_rank": 2, "lora_dropout": 0.5, "disable_dropout": false})"));
  expect_refused<NotSupportedError>(
      "reward", R"({"lmhead_chunksize": 64})",
      where + "lmhead_chunksize must be null with reward; got 64. A classifier has no logits over the vocabulary.");
  expect_refused<NotSupportedError>(
      "reward", R"({"truncation_mode": "keep_start"})",
      where +
          "truncation_mode must not be given with reward; got keep_start. Rows longer than max_length are skipped.");
  expect_refused<NotSupportedError>("sft", R"({"loss_config": {"chunk_vocab_size": 64}})",
                                    where +
                                        "loss_config: [TrainingArguments] loss_config.chunk_vocab_size must be null: "
                                        "use chunk_token_size to limit the logits held at once; got 64.");
}

TEST(TrainingArguments, KnowTheNameOfTheRunAndWhatAnEvaluationIsTold) {
  TrainingArguments arguments = TrainingArguments::for_trainer("sft");
  EXPECT_EQ(arguments.run_name("llama"), "SFT-llama");
  arguments.trainer_prefix = "Mine";
  EXPECT_EQ(arguments.run_name("llama"), "Mine-llama");
  arguments.model_name = "whole";
  EXPECT_EQ(arguments.run_name("llama"), "whole");
  arguments.text.packing = true;
  EXPECT_TRUE(arguments.for_evaluation().text.packing);
  arguments.text.eval_packing = false;
  EXPECT_FALSE(arguments.for_evaluation().text.packing);
  arguments.lmhead_chunksize = 5;
  EXPECT_EQ(arguments.loss().chunk_size, 5);
  arguments.loss_config = from(R"({"chunk_token_size": 7})");
  EXPECT_EQ(arguments.loss().chunk_size, 7);
}

TEST(TrainingArguments, MapEasyDelsLossConfig) {
  const auto arguments = TrainingArguments::from_json(
      "sft", from(R"({"loss_config": {"z_loss": 0.5, "chunk_token_size": 128, "break_on_nan": true, "reduction": null,
                      "loss_normalizing_factor": "NUM_REAL_TARGET_TOKENS"}})"));
  EXPECT_EQ(arguments.loss().z_loss_coefficient, 0.5);
  EXPECT_EQ(arguments.loss().chunk_size, 128);
  EXPECT_EQ(arguments.loss().reduction, "mean");
  expect_refused<NotSupportedError>(
      "sft", R"({"loss_config": {"divide_weight_sum": true}})",
      "[TrainingArguments] loss_config: [TrainingArguments] loss_config.divide_weight_sum must be false; got true.");
}

TEST(TrainingArguments, KnowHowLongARowIs) {
  const auto length = [](const std::string& type, const char* json) {
    return TrainingArguments::from_json(type, from(json)).row_length(type);
  };
  EXPECT_EQ(length("sft", "{}"), 4096);
  EXPECT_EQ(length("dpo", R"({"max_length": 300})"), 300);
  for (const char* type : {"grpo", "rloo", "ppo", "online_dpo", "seq_kd"}) {
    EXPECT_EQ(length(type, R"({"max_prompt_length": 8, "max_completion_length": 4})"), 12) << type;
    EXPECT_EQ(length(type, R"({"max_prompt_length": null, "max_completion_length": 4, "max_length": 90})"), 90) << type;
  }
}

TEST(TrainingArguments, ReadTimeLimits) {
  TrainingArguments arguments;
  const auto seconds = [&](const std::string& text) {
    arguments.training_time_limit = text;
    return arguments.time_limit_seconds().value_or(-1);
  };
  EXPECT_EQ(seconds("90min"), 5400);
  EXPECT_EQ(seconds("23 hours"), 82800);
  EXPECT_EQ(seconds("1d2H30m5s"), 86400 + 7200 + 1800 + 5);
  for (const char* wrong : {"", "5", "min", "1x", "0s", "99999999999h", "1h1"}) EXPECT_EQ(seconds(wrong), -1) << wrong;
}

}  // namespace
}  // namespace easydel
