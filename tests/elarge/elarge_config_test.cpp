#include "easydel/elarge/config/elarge_config.h"
#include "easydel/elarge/serve_options.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

ELargeConfig read(const std::string& text) { return ELargeConfig::from_yaml_text(text, "run.yaml"); }

template <class E = ConfigError>
void expect_refused(const std::string& text, const std::string& message) {
  EXPECT_THAT([&] { read(text).validate(); }, ThrowsMessage<E>(message)) << text;
}

// What the files of EasyDeL's users look like, up to the trainer.
const std::string kBeginning = R"(# A comment at the top

model:
  name_or_path: some/model

loader:
  dtype: bf16
  param_dtype: fp32
  trust_remote_code: true

sharding:
  axis_dims: [1, -1, 1, 1, 1]
  auto_shard_model: true

base_config:
  values:
    freq_max_position_embeddings: 512
    mask_max_position_embeddings: 512
    attn_mechanism: auto
    attn_dtype: bf16
    gradient_checkpointing: ""
    hardware_abstraction: true

mixture:
  informs:
    - type: some/dataset
      split: "train"
      content_field: chosen
    - {type: json, data_files: ["a.json", b.json], additional_fields: [c], num_rows: 5}
  batch_size: 4
  streaming: false
  use_fast_loader: true
  tokenization: {max_length: 512, truncation: true, padding: max_length}

)";

std::string with_trainer(const std::string& type, const std::string& more = "") {
  return kBeginning + "trainer:\n  trainer_type: " + type + "\n  learning_rate: 8e-6\n  num_train_epochs: 1\n" +
         "  total_batch_size: 4\n  gradient_accumulation_steps: 2\n  max_training_steps: 1024\n  max_length: 512\n" +
         "  save_steps: 1000\n  save_total_limit: 1\n  log_steps: 1\n  shuffle_train_dataset: false\n" +
         "  save_directory: ./out\n" + more + "\nactions:\n  - validate\n  - train\n";
}

const std::string kSmall = "model: {name_or_path: m}\n";

TEST(ELargeConfig, ReadsTheFilesOfEveryTrainer) {
  struct Case {
    std::string type, more, extra;
  };
  for (const auto& [type, more, extra] :
       {Case{"sft", "  packing: true\n", ""},
        Case{"dpo", "  beta: 0.2\n  max_prompt_length: 256\n", ""},
        Case{"kto", "  desirable_weight: 1.5\n", ""},
        Case{"bco", "  beta: 0.2\n", ""},
        Case{"cpo", "  loss_type: simpo\n", ""},
        Case{"grpo",
             "  num_return_sequences: 8\n  rewards: [numeric]\n  max_prompt_length: 64\n  max_completion_length: 64\n",
             "reward_model: {name_or_path: r}\n"},
        Case{"gfpo", "  num_remains_in_group: 2\n  rewards: exact\n  max_prompt_length: 64\n", ""},
        Case{"rlvr", "  answer_key: result\n  max_len_mask: false\n  max_prompt_length: 64\n", ""},
        Case{"rloo", "  rewards: {type: regex, pattern: x}\n  max_prompt_length: 64\n  max_completion_length: 64\n",
             ""},
        Case{"ppo", "  rewards: exact\n  num_ppo_epochs: 2\n  max_prompt_length: 64\n",
             "value_model: {name_or_path: v}\n"},
        Case{"prm", "  step_separator: x\n", ""},
        Case{"orpo", "  beta: 0.1\n", ""},
        Case{"reward", "", ""},
        Case{"base", "", ""},
        Case{"distillation", "  alpha: 0.5\n  temperature: 2.0\n", "teacher_model: {name_or_path: t}\n"},
        Case{"gkd", "  lmbda: 1.0\n  seq_kd: false\n", "teacher_model: {name_or_path: t}\n"},
        Case{"seq_kd", "  num_generations_per_prompt: 2\n  max_prompt_length: 64\n",
             "teacher_model: {name_or_path: t}\n"},
        Case{"on_policy_distillation", "  max_prompt_length: 64\n", "teacher_model: {name_or_path: t}\n"},
        Case{"sparse_distillation", "  max_prompt_length: 64\n", "teacher_model: {name_or_path: t}\n"},
        Case{"classification", "  num_labels: 3\n", ""},
        Case{"embedding", "  matryoshka_dims: [8, 16]\n", ""},
        Case{"contrastive", "  image_field: image\n", ""}}) {
    const ELargeConfig config = read(with_trainer(type, more) + extra);
    EXPECT_NO_THROW(config.validate()) << type;
    EXPECT_EQ(config.trainer_type(), type);
    EXPECT_EQ(config.training_arguments().learning_rate, 8e-6);
    EXPECT_EQ(config.training_arguments().minibatch_size(), 2);
  }
  const ELargeConfig config = read(with_trainer("dpo", "  beta: 0.2\n"));
  EXPECT_EQ(config.training_arguments().dpo.beta, 0.2);
  EXPECT_EQ(config.model().name_or_path, "some/model");
  EXPECT_EQ(config.model().task_type(), TaskType::AutoBind);
  EXPECT_EQ(config.loader().dtype, bfloat16);
  EXPECT_EQ(config.loader().param_dtype, float32);
  EXPECT_THAT(config.sharding().axis_dims, ElementsAre(1, -1, 1, 1, 1));
  EXPECT_EQ(config.config_kwargs().dump(),
            R"({"sharding_axis_dims": [1, -1, 1, 1, 1], "sharding_axis_names": ["dp", "fsdp", "ep", "tp", "sp"], )"
            R"("freq_max_position_embeddings": 512, )"
            R"("mask_max_position_embeddings": 512, "attn_mechanism": "auto", "attn_dtype": "bf16", )"
            R"("gradient_checkpointing": ""})");
  const MixtureSection mixture = config.mixture();
  ASSERT_EQ(mixture.informs.size(), 2);
  EXPECT_EQ(mixture.informs[0].type, "some/dataset");
  EXPECT_EQ(mixture.informs[0].content_field, "chosen");
  EXPECT_THAT(mixture.informs[1].data_files, ElementsAre("a.json", "b.json"));
  EXPECT_EQ(mixture.informs[1].num_rows, 5);
  EXPECT_EQ(mixture.tokenization->max_length, 512);
  EXPECT_FALSE(mixture.streaming);
  ASSERT_EQ(config.actions().size(), 2);
  EXPECT_EQ(config.actions()[1].name, "train");
}

TEST(ELargeConfig, TakesAStageOfZero) {
  const ELargeConfig config = read(kSmall + "sharding: {axis_dims: [4, 1, 1, 1, 1], zero_stage: 1}\n");
  config.validate();
  EXPECT_EQ(config.config_kwargs().at("zero_stage"), Json(1));
  EXPECT_FALSE(read(kSmall).config_kwargs().contains("zero_stage"));
  expect_refused(kSmall + "sharding:\n  zero_stage: 0\n",
                 "[elarge] run.yaml:3: sharding.zero_stage must be 1, 2 or 3; got 0.");
  expect_refused(kSmall + "sharding:\n  zero_stage: 2\n  auto_shard_model: false\n",
                 "[elarge] run.yaml:3: sharding.zero_stage is not supported with auto_shard_model: false; got 2. Leave "
                 "auto_shard_model out.");
}

TEST(ELargeConfig, ServesByItsSectionsAndTheActionsParameters) {
  const ELargeConfig config =
      read(kSmall +
           "esurge: {max_num_seqs: 7, page_size: 32, hbm_utilization: 0.5, "
           "enable_prefix_caching: false, tool_parser: hermes}\n"
           "serve: {port: 0, max_num_seqs: 9, api_key: [a, b], adapter: {mine: dir}}\n"
           "actions:\n- server: {port: 90, tool_parser_name: x, enable_function_calling: true}\n");
  config.validate();
  const serve::ServerOptions options = to_server_options(config);
  EXPECT_EQ(options.engine.max_num_seqs, 9);
  EXPECT_EQ(options.engine.page_size, 32);
  EXPECT_EQ(options.engine.gpu_memory_utilization, 0.5);
  EXPECT_FALSE(options.engine.enable_prefix_caching);
  EXPECT_EQ(options.http.port, 0);
  EXPECT_EQ(options.service.tool_parser, "hermes");
  EXPECT_THAT(options.service.api_keys, ElementsAre("a", "b"));
  EXPECT_THAT(options.adapters, ElementsAre(std::pair<std::string, std::string>("mine", "dir")));
  const ElargeAction action = config.actions().at(0);
  EXPECT_EQ(action.name, "serve");
  EXPECT_EQ(action.parameters, Json::object({{"port", 90}, {"tool_parser", "x"}}));
  expect_refused(kSmall + "serve: {prt: 1}\n",
                 "[elarge] run.yaml:2: serve.prt is not a key of the section serve. Did you mean \"port\"?");
  expect_refused(kSmall + "serve: {port: 99999}\n",
                 "[elarge] run.yaml:2: serve.port must be from 0 to 65535; got 99999.");
  expect_refused(kSmall + "serve: {tls_cert: a}\n",
                 "[elarge] run.yaml:2: serve.tls_cert and tls_key must be given together.");
  expect_refused(kSmall + "esurge: {max_num_seqs: 0}\n",
                 "[elarge] run.yaml:2: esurge.max_num_seqs must be above 0; got 0.");
}

// What a section says nothing about is as the engine and the server have it.
TEST(ELargeConfig, ServesByDefaultAsTheServerDoes) {
  const serve::ServerOptions ours = to_server_options(read(kSmall)), theirs;
  EXPECT_EQ(ours.engine.max_num_seqs, theirs.engine.max_num_seqs);
  EXPECT_EQ(ours.engine.max_num_batched_tokens, theirs.engine.max_num_batched_tokens);
  EXPECT_EQ(ours.engine.max_waiting, theirs.engine.max_waiting);
  EXPECT_EQ(ours.engine.kv_cache_dtype, theirs.engine.kv_cache_dtype);
  EXPECT_EQ(ours.engine.enable_prefix_caching, theirs.engine.enable_prefix_caching);
  EXPECT_EQ(ours.engine.enable_chunked_prefill, theirs.engine.enable_chunked_prefill);
  EXPECT_EQ(ours.engine.num_speculative_tokens, theirs.engine.num_speculative_tokens);
  EXPECT_EQ(ours.engine.speculative_method, theirs.engine.speculative_method);
  EXPECT_EQ(ours.engine.ngram_max, theirs.engine.ngram_max);
  EXPECT_EQ(ours.engine.ngram_min, theirs.engine.ngram_min);
  EXPECT_EQ(ours.engine.use_graphs, theirs.engine.use_graphs);
  EXPECT_EQ(ours.engine.async_scheduling, theirs.engine.async_scheduling);
  EXPECT_EQ(ours.engine.seed, theirs.engine.seed);
  EXPECT_EQ(ours.http.host, theirs.http.host);
  EXPECT_EQ(ours.http.port, theirs.http.port);
  EXPECT_EQ(ours.http.max_body_bytes, theirs.http.max_body_bytes);
  EXPECT_EQ(ours.http.max_connections, theirs.http.max_connections);
  EXPECT_EQ(ours.service.tool_parser, theirs.service.tool_parser);
  EXPECT_EQ(ours.service.reasoning_parser, theirs.service.reasoning_parser);
  EXPECT_EQ(ours.service.request_timeout, theirs.service.request_timeout);
  EXPECT_EQ(ours.service.enable_page, theirs.service.enable_page);
  EXPECT_EQ(ours.shutdown_timeout, theirs.shutdown_timeout);
  EXPECT_EQ(ours.data_parallel_size, theirs.data_parallel_size);
}

TEST(ELargeConfig, SaysWhatHasNoEffectHere) {
  const ELargeConfig config = read(with_trainer("sft", "  remove_unused_columns: false\n  use_grain: true\n") +
                                   "esurge: {max_model_len: 4096, compile_runner: true}\nplatform: {platform: triton}\n"
                                   "reference_model: {name_or_path: r, extra_kwargs: {trust_remote_code: true}}\n"
                                   "eval:\n  limit: 5\n  cache_requests: true\n");
  config.validate();
  EXPECT_THAT(
      config.notes(),
      ElementsAre(
          "[elarge] run.yaml:56: reference_model.extra_kwargs.trust_remote_code has no effect here. Code from a "
          "repository is never run.",
          "[elarge] run.yaml:9: loader.trust_remote_code has no effect here. Code from a repository is never run.",
          "[elarge] run.yaml:55: platform.platform has no effect here. Kernels are chosen automatically.",
          "[elarge] run.yaml:22: base_config.values.hardware_abstraction has no effect here. It is specific to JAX, "
          "TPUs or EasyDeL's kernels.",
          "[elarge] run.yaml:30: mixture.batch_size has no effect here. The trainer makes the batches; set "
          "trainer.total_batch_size.",
          "[elarge] run.yaml:32: mixture.use_fast_loader has no effect here. It belongs to an older EasyDeL data "
          "loader.",
          "[elarge] run.yaml:56: reference_model is not used by the trainer \"sft\".",
          "[elarge] run.yaml:54: esurge.compile_runner has no effect here. The engine here has no such setting.",
          "[elarge] run.yaml:59: eval.cache_requests has no effect here. Requests are not cached.",
          "[elarge] run.yaml:49: trainer.use_grain has no effect here.",
          "[elarge] run.yaml:48: trainer.remove_unused_columns: false has no effect: unused columns never reach the "
          "model."));
}

TEST(ELargeConfig, NamesTheLineTheSectionAndTheNearestKey) {
  expect_refused(kSmall + "trainer:\n  learning_rat: 1\n",
                 "[elarge] run.yaml:3: trainer.learning_rat is not a key of the trainer \"sft\". Did you mean "
                 "\"learning_rate\"?");
  expect_refused(kSmall + "loader:\n  dtyp: bf16\n",
                 "[elarge] run.yaml:3: loader.dtyp is not a key of the section loader. Did you mean \"dtype\"?");
  expect_refused(
      kSmall + "mixture:\n  informs:\n  - type: json\n    data_file: x\n",
      "[elarge] run.yaml:5: mixture.informs[0].data_file is not a key of the section mixture.informs[0]. Did you "
      "mean \"data_files\"?");
  expect_refused(
      kSmall + "mixture:\n  tokenization: {max_len: 5}\n  informs: []\n",
      "[elarge] run.yaml:3: mixture.tokenization.max_len is not a key of the section mixture.tokenization. Did "
      "you mean \"max_length\"?");
  expect_refused(kSmall + "\ntrianer: {}\n",
                 "[elarge] run.yaml:3: trianer is not a section. Did you mean \"trainer\"?");
  expect_refused(
      kSmall + "esurge: {page_sze: 4}\n",
      "[elarge] run.yaml:2: esurge.page_sze is not a key of the section esurge. Did you mean \"page_size\"?");
  expect_refused(kSmall + "eval: {zzz: 4}\n", "[elarge] run.yaml:2: eval.zzz is not a key of the section eval.");
}

TEST(ELargeConfig, NamesTheLineOfAWrongValue) {
  expect_refused("loader: {dtype: bf16}\n",
                 "[elarge] run.yaml:1: model.name_or_path must name a directory or a model on "
                 "the hub.");
  expect_refused("model: {task: lm}\n",
                 "[elarge] run.yaml:1: model.name_or_path must name a directory or a model on the "
                 "hub.");
  expect_refused("model: gpt2\n", "[elarge] run.yaml:1: model must be a mapping; got \"gpt2\".");
  expect_refused(
      kSmall + "trainer:\n  total_batch_size: 6\n  gradient_accumulation_steps: 4\n",
      "[elarge] run.yaml:3: trainer.total_batch_size must be a multiple of gradient_accumulation_steps; got 6 "
      "and 4.");
  expect_refused(kSmall + "trainer:\n  gradient_accumulation_steps: 3\n",
                 "[elarge] run.yaml:2: trainer.total_batch_size must be a multiple of gradient_accumulation_steps; got "
                 "32 and 3.");
  expect_refused(kSmall + "trainer:\n  learning_rate: fast\n",
                 "[elarge] run.yaml:3: trainer.learning_rate must be a number; got \"fast\".");
  expect_refused(kSmall + "loader:\n  precision: lots\n",
                 "[elarge] run.yaml:3: loader.precision must be one of default, fastest, high, highest; got \"lots\".");
  expect_refused(kSmall + "mixture:\n  informs:\n  - split: train\n",
                 "[elarge] run.yaml:4: mixture.informs[0] must specify its data: type, dataset_name or data_files.");
  expect_refused(kSmall + "mixture:\n  informs: x\n",
                 "[elarge] run.yaml:3: mixture.informs must be a list of data sets; got \"x\".");
  expect_refused(kSmall + "mixture:\n  mixture_block_size: 0\n",
                 "[elarge] run.yaml:3: mixture.mixture_block_size must be at least 1; got 0.");
  expect_refused(kSmall + "trainer: 5\n", "[elarge] run.yaml:2: trainer must be a mapping; got 5.");
  expect_refused("- a\n", "[elarge] run.yaml must be a mapping of sections; got an array.");
  expect_refused("model: {name_or_path: m, task: dancing}\n",
                 "[elarge] run.yaml:1: model.task: [TaskType] a task must be one of base-module, causal-lm, "
                 "sequence-classification, sequence-to-sequence, speech-sequence-to-sequence, masked-lm, "
                 "token-classification, question-answering, embedding, vision-module, image-classification, "
                 "zero-shot-image-classification, image-text-to-text, audio-classification, auto-bind; got "
                 "\"dancing\".");
  expect_refused(
      kSmall + "sharding:\n  axis_dims: [1, 0, 1, 1, 1]\n",
      "[elarge] run.yaml:3: sharding.axis_dims: [create_mesh] each of sharding_axis_dims must be at least 1, "
      "or -1; got 0 in 1x0x1x1x1.");
}

TEST(ELargeConfig, SaysWhatIsNotSupportedYet) {
  expect_refused<NotSupportedError>(
      with_trainer("sdpo", "  num_return_sequences: 4\n"),
      "[elarge] run.yaml:36: trainer.trainer_type \"sdpo\" is an EasyDeL trainer that is not supported yet; known: "
      "sft, base, dpo, kto, bco, cpo, orpo, reward, prm, distillation, gkd, seq_kd, on_policy_distillation, "
      "sparse_distillation, classification, grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo, nash_md, embedding, "
      "contrastive.");
  expect_refused(
      kSmall + "trainer: {trainer_type: stf}\n",
      "[elarge] run.yaml:2: trainer.trainer_type must name a trainer; known: sft, base, dpo, kto, bco, cpo, "
      "orpo, reward, prm, distillation, gkd, seq_kd, on_policy_distillation, sparse_distillation, classification, "
      "grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo, nash_md, embedding, contrastive; got \"stf\". Did you "
      "mean \"sft\"?");
  expect_refused<NotSupportedError>(with_trainer("sft", "  quantization_mode: affine\n"),
                                    "[elarge] run.yaml:48: trainer.quantization_mode is an EasyDeL key that is not "
                                    "supported yet; got \"affine\". Remove it.");
  expect_refused<ConfigError>(kSmall + "quantization:\n  model: {bits: 4}\n",
                              "[elarge] run.yaml:3: quantization.model.bits is not supported; known: dtype, "
                              "group_size, pattern, double_quant, bit_targeted_params.");
  const auto packing =
      read(kSmall + "quantization: {group_size: 32, model: {dtype: nf4, block_size: 64}}\n").quantization();
  EXPECT_EQ(packing.weights.method, "nf4");
  EXPECT_EQ(packing.weights.group_size, 64);
  EXPECT_NO_THROW(read(kSmall + "quantization: {apply_quantization: false, group_size: 64, model: null}\n").validate());
  expect_refused<NotSupportedError>(
      kSmall + "actions:\n- serve:\n    oai_like_processor: false\n",
      "[elarge] run.yaml:3: actions[0] (serve).oai_like_processor must be true; got false.");
  expect_refused<NotSupportedError>(
      "model: {name_or_path: m, task: audio-classification}\n",
      "[elarge] run.yaml:1: model.task: \"audio-classification\" is a task of EasyDeL that "
      "is not supported yet; known: auto-bind, base-module, causal-language-model, "
      "sequence-classification, sequence-to-sequence, "
      "speech-sequence-to-sequence, image-text-to-text, image-classification, zero-shot-image-classification.");
  expect_refused<NotSupportedError>(
      kSmall + "sharding: {use_ring_of_experts: true}\n",
      "[elarge] run.yaml:2: sharding.use_ring_of_experts is not supported; got true. Tokens reach their experts by "
      "all-to-all.");
  expect_refused<NotSupportedError>(kSmall + "eval:\n  limit: 3\n  temperature: 0.7\n",
                                    "[elarge] run.yaml:4: eval.temperature is not supported; got 0.7. Set gen_kwargs.");
  EXPECT_NO_THROW(
      read(kSmall + "eval: {temperature: 0, top_p: 0.95, max_new_tokens: 8192, gen_kwargs: null}\n").validate());
}

TEST(ELargeConfig, TakesDeviceAndTypesFromTheMachineUnlessTheyAreGiven) {
  const ComputeSettings machine = compute_settings(), training = compute_settings({.is_training = true});
  const auto same = [](const ComputeSettings& a, const ComputeSettings& b) {
    return a.device == b.device && a.dtype == b.dtype && a.param_dtype == b.param_dtype;
  };
  EXPECT_TRUE(same(read(kSmall).compute(), machine));
  EXPECT_TRUE(same(read(kSmall + "trainer: {}\n").compute(), training));
  EXPECT_EQ(training.param_dtype, float32);
  EXPECT_EQ(machine.dtype, machine.device.is_cpu() ? float32 : bfloat16);
  EXPECT_EQ(machine.param_dtype, machine.dtype);
  const ComputeSettings given = read(kSmall + "loader: {device: cpu, dtype: bf16}\n").compute();
  EXPECT_TRUE(same(given, {.device = at::kCPU, .dtype = bfloat16, .param_dtype = bfloat16}));
  EXPECT_EQ(read(kSmall + "loader: {dtype: bf16}\ntrainer: {}\n").compute().param_dtype, float32);
  EXPECT_EQ(read(kSmall + "platform: {backend: cpu}\n").compute().device, at::Device(at::kCPU));
  EXPECT_EQ(describe(given, create_mesh({})),
            "computing in bfloat16 on cpu, weights stored in bfloat16, mesh dp=1 fsdp=1 ep=1 tp=1 sp=1");
  expect_refused(kSmall + "loader:\n  device: tpu\n",
                 "[elarge] run.yaml:3: loader.device: a device is cpu, cuda or cuda:1; got \"tpu\".");
  expect_refused(kSmall + "loader:\n  verbose: true\n  dtype: int8\n",
                 "[elarge] run.yaml:4: loader.dtype must be a floating-point dtype; got int8.");
  expect_refused(kSmall + "platform:\n  backend: tpu\n",
                 "[elarge] run.yaml:3: platform.backend must be cpu or gpu; got \"tpu\".");
}

TEST(ELargeConfig, GivesTheTrainerWhatTheMixtureSaysOfRows) {
  const std::string data = kSmall + "mixture:\n  informs: [{type: a/b}]\n";
  const TrainingArguments arguments = read(data +
                                           "  seed: 7\n  pack_tokens: true\n  pack_seq_length: 64\n"
                                           "  text_target_field: body\n"
                                           "  tokenization: {add_special_tokens: true}\n")
                                          .training_arguments();
  EXPECT_EQ(arguments.shuffle_seed_train, 7);
  EXPECT_TRUE(arguments.text.packing);
  EXPECT_EQ(arguments.max_length, 64);
  EXPECT_EQ(arguments.text.dataset_text_field, "body");
  EXPECT_TRUE(arguments.text.add_special_tokens);
  EXPECT_EQ(read(data + "  tokenization: {max_length: 32, text_field: t}\n").training_arguments().max_length, 32);
  EXPECT_EQ(read(data + "trainer: {shuffle_seed_train: 5}\n").training_arguments().shuffle_seed_train, 5);

  expect_refused(data + "  tokenization:\n    max_length: 32\ntrainer:\n  max_length: 64\n",
                 "[elarge] run.yaml:5: mixture.tokenization.max_length and trainer.max_length must be the same; got 32 "
                 "and 64. Remove one of them.");
  expect_refused(data + "  seed: 1\ntrainer: {shuffle_seed_train: 2}\n",
                 "[elarge] run.yaml:4: mixture.seed and trainer.shuffle_seed_train must be the same; got 1 and 2. "
                 "Remove one of them.");
  expect_refused(data + "  pack_seq_length: 8\n",
                 "[elarge] run.yaml:4: mixture.pack_seq_length needs pack_tokens: true.");
  expect_refused<NotSupportedError>(
      data + "  pack_tokens: true\ntrainer: {trainer_type: dpo}\n",
      "[elarge] run.yaml:4: mixture.pack_tokens is not supported with the trainer \"dpo\"; got true.");
  expect_refused(data + "  tokenization: {padding: max_length}\n",
                 "[elarge] run.yaml:4: mixture.tokenization.padding needs a max_length.");
  expect_refused<NotSupportedError>(data + "eval_mixture:\n  informs: [{type: a/b}]\n  seed: 3\n",
                                    "[elarge] run.yaml:6: eval_mixture.seed is not supported; got 3. Evaluation reads "
                                    "every row once, in order.");
}

TEST(ELargeConfig, RefusesOtherModelsThatCannotReadTheSameRows) {
  expect_refused<NotSupportedError>(kSmall + "teacher_model:\n  name_or_path: t\n  tokenizer: other\n",
                                    "[elarge] run.yaml:4: teacher_model.tokenizer must be the model's; got "
                                    "\"other\". Rows are tokenized once, for both models.");
  expect_refused<NotSupportedError>(
      kSmall + "reference_model:\n  name_or_path: t\n  task: sequence-classification\n",
      "[elarge] run.yaml:4: reference_model.task must be causal-language-model; got \"sequence-classification\".");
}

// At every depth the line is that of the key itself, and the prefix stands there once.
TEST(ELargeConfig, NamesTheLineAtEveryDepth) {
  const std::string text =
      "# 1\n"
      "config:\n"
      "  model:\n"
      "    name_or_path: m\n"
      "    extra_kwargs:\n"
      "      revision: main\n"
      "      token: secret\n"  // 7
      "  quantization:\n"
      "    kv_cache:\n"
      "      dtype: int4\n"  // 10
      "  base_config:\n"
      "    values:\n"
      "      bits: 4\n"  // 13
      "  mixture:\n"
      "    informs:\n"
      "      - type: a/b\n"
      "      - type: json\n"
      "        data_files: x\n"
      "        num_rows: 0\n"  // 19
      "    tokenization:\n"
      "      truncation: false\n"  // 21
      "  trainer:\n"
      "    learning_rate: fast\n"           // 23
      "    remove_unused_columns: false\n"  // 24
      "actions:\n"
      "  - validate\n"
      "  - eval:\n"
      "      tasks: 3\n"  // of the element in line 27
      "  - train:\n"
      "      steps: 3\n";
  const auto without = [&](std::initializer_list<std::string> lines) {
    std::string rest = text;
    for (const std::string& line : lines) rest.replace(rest.find(line + "\n"), line.size(), "");
    return rest;
  };
  const std::string token = "      token: secret", cache = "      dtype: int4", bits = "      bits: 4",
                    rows = "        num_rows: 0", cut = "      truncation: false", rate = "    learning_rate: fast",
                    tasks = "      tasks: 3";
  expect_refused<NotSupportedError>(
      text,
      "[elarge] run.yaml:7: model.extra_kwargs.token is not supported; got \"secret\". Set "
      "the environment variable HF_TOKEN; do not put tokens in a config file.");
  expect_refused<NotSupportedError>(without({token}),
                                    "[elarge] run.yaml:13: base_config.values.bits is not supported; got 4. Set "
                                    "quantization.method.");
  expect_refused<NotSupportedError>(
      without({token, bits}), "[elarge] run.yaml:10: quantization.kv_cache.dtype must be int8 or 8bit; got \"int4\".");
  expect_refused(without({token, bits, cache}),
                 "[elarge] run.yaml:19: mixture.informs[1].num_rows must be at least 1; got 0.");
  expect_refused<NotSupportedError>(
      without({token, bits, cache, rows}),
      "[elarge] run.yaml:21: mixture.tokenization.truncation is not supported; got false. "
      "Rows longer than trainer.max_length are always truncated, or split by packing.");
  expect_refused(without({token, bits, cache, rows, cut}),
                 "[elarge] run.yaml:23: trainer.learning_rate must be a number; got \"fast\".");
  expect_refused(without({token, bits, cache, rows, cut, rate}),
                 "[elarge] run.yaml:27: actions[1] (eval).tasks must be a name or a list of names; got 3.");
  const ELargeConfig config = read(without({token, bits, cache, rows, cut, rate, tasks}));
  EXPECT_THAT(config.notes(),
              ElementsAre("[elarge] run.yaml:24: trainer.remove_unused_columns: false has no effect: unused columns "
                          "never reach the model."));
  expect_refused(without({token, bits, cache, rows, cut, rate, tasks, "  - eval:"}),
                 "[elarge] run.yaml:29: actions[1] (train) takes no parameters; got {\"steps\": 3}.");
}

TEST(ELargeConfig, ReadsActionsAsEasyDelDoes) {
  const auto names = [](const std::string& text) {
    std::string all;
    for (const ElargeAction& action : read(kSmall + text).actions()) {
      all += action.name + (action.parameters.is_null() ? "" : action.parameters.dump()) + ";";
    }
    return all;
  };
  EXPECT_EQ(names("actions: validate\n"), "validate;");
  EXPECT_EQ(names("actions: [show, Print-Config, save_json: x.json, {to_yaml: {path: y}}]\n"),
            "print;dump_config;to_json{\"path\": \"x.json\"};to_yaml{\"path\": \"y\"};");
  EXPECT_EQ(names("actions:\n- eval:\n    tasks: [a, b]\n    num_fewshot: 5\n"),
            "eval{\"tasks\": [\"a\", \"b\"], \"num_fewshot\": 5};");
  EXPECT_EQ(names("actions:\n- eval:\n  tasks: a\n"), "eval{\"tasks\": \"a\"};");  // not indented enough
  expect_refused(kSmall + "actions: [trian]\n",
                 "[elarge] run.yaml:2: actions[0] must be an action: validate, print, dump_config, to_json, to_yaml, "
                 "train, eval, serve; got \"trian\". Did you mean \"train\"?");
  expect_refused(
      kSmall + "actions: [{a: 1, b: 2}]\n",
      "[elarge] run.yaml:2: actions[0] must have one name, with its parameters indented below it; got {\"a\": "
      "1, \"b\": 2}.");
  expect_refused(kSmall + "actions: [3]\n",
                 "[elarge] run.yaml:2: actions[0] must be a name, or a name with its parameters; got 3.");
  expect_refused(kSmall + "actions: 3\n", "[elarge] run.yaml:2: actions must be a list; got 3.");
  expect_refused(kSmall + "actions: [eval]\n",
                 "[elarge] run.yaml:2: actions[0] (eval) needs tasks: a name or a list of names.");
  expect_refused(kSmall + "actions: [{eval: {tasks: [1]}}]\n",
                 "[elarge] run.yaml:2: actions[0] (eval).tasks must be a name or a list of names; got [1].");
  expect_refused(kSmall + "actions: [{eval: {tasks: a, num_few_shot: 1}}]\n",
                 "[elarge] run.yaml:2: actions[0] (eval).num_few_shot is not a parameter of eval. Did you mean "
                 "\"num_fewshot\"?");
  expect_refused(kSmall + "actions: [to_json]\n",
                 "[elarge] run.yaml:2: actions[0] (to_json) needs a path: to_json: FILE.");
  EXPECT_THAT(
      [] { read(kSmall).actions(); },
      ThrowsMessage<ConfigError>("[elarge] run.yaml: there must be a list of actions, as in actions: [validate, "
                                 "train]."));
}

TEST(ELargeConfig, ChecksWhatAnActionNeeds) {
  expect_refused(kSmall + "actions: [train]\n",
                 "[elarge] run.yaml:2: actions[0] needs data: list it under mixture.informs.");
  expect_refused(with_trainer("distillation"),
                 "[elarge] run.yaml:51: actions[1] with the trainer distillation needs a teacher: --teacher, or "
                 "teacher_model in the file.");
  expect_refused(with_trainer("sft", "  do_eval: true\n"),
                 "[elarge] run.yaml:48: trainer.do_eval needs data: list it under eval_mixture.informs.");
  EXPECT_NO_THROW(
      read(with_trainer("sft", "  do_eval: true\n") + "eval_mixture: {informs: [{type: x/y}]}\n").validate());
}

TEST(ELargeConfig, TakesTheWrappersOfTheRunner) {
  for (const std::string wrapper : {"config", "elarge_model", "elm"}) {
    const ELargeConfig config =
        read(wrapper + ":\n  model:\n    name_or_path: m\n  trainer: {trainer_type: dpo}\nactions: [validate]\n");
    EXPECT_EQ(config.model().name_or_path, "m");
    EXPECT_EQ(config.trainer_type(), "dpo");
    EXPECT_EQ(config.where({"trainer", "trainer_type"}), "[elarge] run.yaml:4: trainer.trainer_type");
    EXPECT_EQ(config.where({"actions", "0"}), "[elarge] run.yaml:5: actions[0]");
  }
  expect_refused("config: {model: {name_or_path: m}}\ntrainer: {}\n",
                 "[elarge] run.yaml:2: trainer must be inside config, like the other sections.");
}

TEST(ELargeConfig, IsChangedFromTheCommandLine) {
  ELargeConfig config = read(with_trainer("sft"));
  config.set("trainer.learning_rate=1e-5");
  config.set("mixture.informs.0.split=test");
  config.set("mixture.informs[1].num_rows=7");
  config.set("mixture.informs[2].type=c/d");
  config.set("sharding.axis_dims=[1, 2, 1, 1, 1]");
  config.set("loader.dtype=fp16");
  config.set("eval_mixture.informs=[{\"type\": \"a/b\"}]");
  config.validate();
  EXPECT_EQ(config.training_arguments().learning_rate, 1e-5);
  EXPECT_EQ(config.mixture().informs[0].split, "test");
  EXPECT_EQ(config.mixture().informs[1].num_rows, 7);
  EXPECT_EQ(config.mixture().informs[2].type, "c/d");
  EXPECT_THAT(config.sharding().axis_dims, ElementsAre(1, 2, 1, 1, 1));
  EXPECT_EQ(config.loader().dtype, float16);
  EXPECT_EQ(config.eval_mixture()->informs.size(), 1);

  config.set("trainer.learning_rat=1");
  EXPECT_THAT(
      [&] { config.validate(); },
      ThrowsMessage<ConfigError>("[elarge] --set: trainer.learning_rat is not a key of the trainer \"sft\". Did you "
                                 "mean \"learning_rate\"?"));
  EXPECT_THAT([&] { config.set("trainer"); },
              ThrowsMessage<UsageError>("[parse_overrides] an override must read key=value; got \"trainer\"."));
  EXPECT_THAT([&] { config.set("trainer..x=1"); },
              ThrowsMessage<UsageError>("[elarge] --set must name a key, as in trainer.learning_rate=1e-5; got "
                                        "\"trainer..x\"."));
  EXPECT_THAT([&] { config.set("mixture.informs.9.split=a"); },
              ThrowsMessage<ConfigError>("[elarge] run.yaml:25: mixture.informs must name an element from 0 to 3; got "
                                         "\"9\"."));
  EXPECT_THAT(
      [&] { config.set("model.name_or_path.x=a"); },
      ThrowsMessage<ConfigError>("[elarge] run.yaml:4: model.name_or_path must be a mapping to contain \"x\"; got "
                                 "\"some/model\"."));
}

TEST(ELargeConfig, SurvivesBeingWrittenAndRead) {
  const TemporaryDirectory directory;
  for (const char* type : {"sft", "dpo", "orpo", "reward"}) {
    const ELargeConfig config = read(with_trainer(type, "  extra_optimizer_kwargs: {b1: 0.8, eps: 1.0e-08}\n"));
    const ELargeConfig again = ELargeConfig::from_yaml_text(config.to_yaml());
    EXPECT_EQ(again.to_dict().dump(), config.to_dict().dump());
    EXPECT_EQ(again.normalized().dump(), config.normalized().dump());
    EXPECT_EQ(again.to_yaml(), config.to_yaml());
    const ELargeConfig full = ELargeConfig::from_yaml_text(config.dump());
    full.validate();
    EXPECT_EQ(full.normalized().dump(), config.normalized().dump());
    write_file_atomically(directory / "run.json", config.to_json());
    EXPECT_EQ(ELargeConfig::from_file(directory / "run.json").to_yaml(), config.to_yaml());
    write_file_atomically(directory / "run.yml", config.to_yaml());
    EXPECT_EQ(ELargeConfig::from_file(directory / "run.yml").to_json(), config.to_json());
  }
}

TEST(ELargeConfig, NamesTheFileWhereItHasNoLines) {
  const TemporaryDirectory directory;
  const std::string path = (directory / "run.json").string();
  write_file_atomically(path, R"({"model": {"name_or_path": "m"}, "loader": {"dtyp": 1}})");
  EXPECT_THAT([&] { ELargeConfig::from_file(path).validate(); },
              ThrowsMessage<ConfigError>("[elarge] " + path +
                                         ": loader.dtyp is not a key of the section loader. Did you mean "
                                         "\"dtype\"?"));
  EXPECT_THAT([] { ELargeConfig(Json::parse(R"({"model": {"name": "m"}})")).validate(); },
              ThrowsMessage<ConfigError>("[elarge] model.name is not a key of the section model."));
}

TEST(ELargeConfig, MergesAnchorsOfTheFile) {
  const ELargeConfig config = read(
      "model: &m {name_or_path: m}\n"
      "reference_model: *m\n"
      "trainer:\n"
      "  <<: {learning_rate: 1e-5, warmup_step: 5}\n"
      "  trainer_type: dpo\n");
  EXPECT_EQ(config.reference_model()->name_or_path, "m");
  EXPECT_THAT(
      [&] { config.validate(); },
      ThrowsMessage<ConfigError>("[elarge] run.yaml:4: trainer.warmup_step is not a key of the trainer \"dpo\". Did "
                                 "you mean \"warmup_steps\"?"));
}

}  // namespace
}  // namespace easydel
