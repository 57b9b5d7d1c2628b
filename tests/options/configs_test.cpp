// What the keys of a model's config do that no comparison with transformers shows: dropout, sizes that never differ,
// and what EasyDeL adds.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <map>

#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/config/config_notes.h"
#include "easydel/infra/parallel/shard_model.h"
#include "easydel/infra/registry.h"
#include "easydel/models/models.h"
#include "easydel/operations/attention/attention.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel::configs_probes {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::is_refused;

// A small model of a family, with some keys changed.
std::unique_ptr<BaseConfig> small_config(const std::string& family, const Json& changes = Json::object()) {
  Json dict =
      Json::object({{"model_type", family}, {"vocab_size", 29}, {"pad_token_id", 0}, {"initializer_range", 0.3}});
  if (family == "gpt2") {
    for (const auto& [key, value] : {std::pair("n_embd", 16), {"n_head", 4}, {"n_layer", 2}, {"n_positions", 32}})
      dict[key] = value;
    for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) dict[key] = 0.0;
  } else {
    for (const auto& [key, value] : {std::pair("hidden_size", 16),
                                     {"intermediate_size", 24},
                                     {"num_hidden_layers", 2},
                                     {"num_attention_heads", 4},
                                     {"num_key_value_heads", 2},
                                     {"max_position_embeddings", 32}})
      dict[key] = value;
  }
  if (family == "mixtral") dict["num_local_experts"] = 4;
  if (family == "gpt_neox") dict["num_attention_heads"] = 1;  // a quarter of a head is rotated
  if (family == "stablelm") dict["num_attention_heads"] = dict["num_key_value_heads"] = 1;
  if (family == "gptj") dict["rotary_dim"] = 4;
  if (family == "opt") dict["dropout"] = 0.0;
  if (family == "seed_oss") dict["attention_dropout"] = dict["residual_dropout"] = 0.0;
  if (family == "deepseek_v3") {
    for (const auto& [key, value] : {std::pair("num_key_value_heads", 4),
                                     {"q_lora_rank", 20},
                                     {"kv_lora_rank", 12},
                                     {"qk_nope_head_dim", 6},
                                     {"qk_rope_head_dim", 4},
                                     {"v_head_dim", 8},
                                     {"moe_intermediate_size", 24},
                                     {"n_routed_experts", 4},
                                     {"n_shared_experts", 1},
                                     {"n_group", 2},
                                     {"topk_group", 1},
                                     {"num_experts_per_tok", 2}})
      dict[key] = value;
  }
  for (const auto& [key, value] : changes.as_object()) dict[key] = value;
  return AutoConfig::from_dict(dict);
}

std::shared_ptr<BaseModule> small_model(const std::string& family, const Json& changes = Json::object()) {
  return AutoModelForCausalLM::from_config(*small_config(family, changes));
}

at::Tensor training_logits(const BaseModule& model) {
  return logits_of(model, {.input_ids = tiny_ids(), .dropout_key = RandomKey(5)});
}

// Training computes other numbers than inference with this key, and the same without it.
void expect_only_training_changes(const std::string& family, const char* key, double value) {
  const auto plain = small_model(family), dropping = small_model(family, Json::object({{key, value}}));
  EXPECT_TRUE(at::equal(training_logits(*plain), logits_of(*plain)));
  EXPECT_TRUE(at::equal(logits_of(*dropping), logits_of(*plain)));
  EXPECT_FALSE(at::allclose(training_logits(*dropping), logits_of(*dropping)));
}

// Which layers have linear attention, and of which sizes.
void expect_linear_layers(const std::string& model_type) {
  const auto config = AutoConfig::from_dict(Json::parse(concat(
      R"({"hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8,
          "num_key_value_heads": 1, "vocab_size": 9, "num_experts": 0, "linear_num_key_heads": 1,
          "linear_num_value_heads": 3, "linear_key_head_dim": 2, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 5,
          "layer_types": ["linear_attention", "full_attention"], "model_type": ")",
      model_type, "\"}")));
  const auto model = Registry::instance().make_module(*config, TaskType::BaseModule);
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [path, parameter] : model->named_parameters()) shapes[path] = parameter->shape;
  EXPECT_EQ(shapes["layers.0.linear_attn.conv1d.weight"], (std::vector<int64_t>{2 * 2 + 3 * 4, 1, 5}));
  EXPECT_EQ(shapes["layers.0.linear_attn.A_log"], std::vector<int64_t>{3});
  EXPECT_EQ(shapes["layers.1.self_attn.q_proj.weight"], (std::vector<int64_t>{2 * 2 * 8, 16}));
  EXPECT_FALSE(shapes.contains("layers.1.linear_attn.A_log"));
}
PROBE(Qwen3NextConfig, linear) { expect_linear_layers("qwen3_next"); }
PROBE(Qwen3_5TextConfig, linear) { expect_linear_layers("qwen3_5_text"); }
PROBE(DecoderConfig, attention_dropout) { expect_only_training_changes("llama", "attention_dropout", 0.5); }
PROBE(GPT2Config, resid_pdrop) { expect_only_training_changes("gpt2", "resid_pdrop", 0.5); }
PROBE(GPT2Config, embd_pdrop) { expect_only_training_changes("gpt2", "embd_pdrop", 0.5); }
PROBE(GPT2Config, attn_pdrop) { expect_only_training_changes("gpt2", "attn_pdrop", 0.5); }
PROBE(GPTNeoXConfig, hidden_dropout) { expect_only_training_changes("gpt_neox", "hidden_dropout", 0.5); }
PROBE(Phi3Config, resid_pdrop) { expect_only_training_changes("phi3", "resid_pdrop", 0.5); }
PROBE(Starcoder2Config, residual_dropout) { expect_only_training_changes("starcoder2", "residual_dropout", 0.5); }
PROBE(Starcoder2Config, embedding_dropout) { expect_only_training_changes("starcoder2", "embedding_dropout", 0.5); }
PROBE(BloomConfig, hidden_dropout) { expect_only_training_changes("bloom", "hidden_dropout", 0.5); }
PROBE(FalconConfig, hidden_dropout) { expect_only_training_changes("falcon", "hidden_dropout", 0.5); }
PROBE(GPTJConfig, resid_pdrop) { expect_only_training_changes("gptj", "resid_pdrop", 0.5); }
PROBE(GPTJConfig, embd_pdrop) { expect_only_training_changes("gptj", "embd_pdrop", 0.5); }
PROBE(OPTConfig, dropout) { expect_only_training_changes("opt", "dropout", 0.5); }
PROBE(PersimmonConfig, hidden_dropout) { expect_only_training_changes("persimmon", "hidden_dropout", 0.5); }
PROBE(PhiConfig, resid_pdrop) { expect_only_training_changes("phi", "resid_pdrop", 0.5); }
PROBE(PhiConfig, embd_pdrop) { expect_only_training_changes("phi", "embd_pdrop", 0.5); }
PROBE(SeedOssConfig, residual_dropout) { expect_only_training_changes("seed_oss", "residual_dropout", 0.5); }
PROBE(StableLmConfig, hidden_dropout) { expect_only_training_changes("stablelm", "hidden_dropout", 0.5); }
PROBE(MixtralConfig, router_jitter_noise) { expect_only_training_changes("mixtral", "router_jitter_noise", 0.5); }
PROBE(MiniMaxConfig, router_jitter_noise) { expect_only_training_changes("minimax", "router_jitter_noise", 0.5); }

PROBE(DbrxConfig, resid_pdrop) { expect_only_training_changes("dbrx", "resid_pdrop", 0.5); }

PROBE(DeepseekConfig, scoring_func) {
  EXPECT_TRUE(
      is_refused("scoring_func", [] { small_config("deepseek", Json::object({{"scoring_func", "sigmoid"}})); }));
}

PROBE(GPT2Config, add_cross_attention) {
  EXPECT_TRUE(
      is_refused("add_cross_attention", [] { small_model("gpt2", Json::object({{"add_cross_attention", true}})); }));
}
PROBE(GemmaConfig, use_bidirectional_attention) {
  EXPECT_TRUE(is_refused("use_bidirectional_attention",
                         [] { small_config("gemma", Json::object({{"use_bidirectional_attention", true}})); }));
}
PROBE(CappedGemmaConfig, use_bidirectional_attention) {
  EXPECT_TRUE(is_refused("use_bidirectional_attention",
                         [] { small_config("gemma2", Json::object({{"use_bidirectional_attention", true}})); }));
}

std::vector<int64_t> latent_shape(const char* parameter, const char* key, int64_t value) {
  const auto model = small_model("deepseek_v3", Json::object({{key, value}}));
  return model->params().at(concat("model.layers.0.self_attn.", parameter, ".weight")).sizes().vec();
}

// Of kv_b_proj [heads (nope + v), rank], and of kv_a_proj_with_mqa [rank + rope, hidden].
PROBE(LatentMoeConfig, kv_lora_rank) {
  EXPECT_THAT(latent_shape("kv_b_proj", "kv_lora_rank", 10), ElementsAre(4 * (6 + 8), 10));
}
PROBE(LatentMoeConfig, qk_nope_head_dim) {
  EXPECT_THAT(latent_shape("kv_b_proj", "qk_nope_head_dim", 10), ElementsAre(4 * (10 + 8), 12));
}
PROBE(LatentMoeConfig, qk_rope_head_dim) {
  EXPECT_THAT(latent_shape("kv_a_proj_with_mqa", "qk_rope_head_dim", 8), ElementsAre(12 + 8, 16));
}
// Written, never chosen.
PROBE(LatentMoeConfig, qk_head_dim) {
  EXPECT_EQ(small_config("deepseek_v3", Json::object({{"qk_head_dim", 99}}))->to_dict().at("qk_head_dim"), Json(10));
}

// What every config has ----------------------------------------------------------------------------------------------

PROBE(BaseConfig, vocab_size) {
  EXPECT_EQ(logits_of(*small_model("llama", Json::object({{"vocab_size", 31}}))).size(-1), 31);
}
PROBE(BaseConfig, initializer_range) {
  const auto deviation = [](double range) {
    return small_model("llama", Json::object({{"initializer_range", range}}))
        ->params()
        .at("lm_head.weight")
        .std()
        .item<double>();
  };
  EXPECT_NEAR(deviation(0.3), 0.3, 0.05);
  EXPECT_NEAR(deviation(0.01), 0.01, 0.002);
}
PROBE(BaseConfig, use_cache) {
  EXPECT_EQ(small_model("llama")->generation_config().use_cache, true);
  EXPECT_EQ(small_model("llama", Json::object({{"use_cache", false}}))->generation_config().use_cache, false);
}
// The prompt where there is none.
PROBE(BaseConfig, bos_token_id) {
  const auto model = small_model("llama", Json::object({{"bos_token_id", 7}}));
  const GenerationConfig two{.max_new_tokens = 2};
  EXPECT_EQ(model->generate(at::Tensor(), {.generation_config = two}).sequences[0][0].item<int64_t>(), 7);
}
PROBE(BaseConfig, eos_token_id) {
  const GenerationConfig five{.max_new_tokens = 5};
  const auto tokens = [&](const Json& ids) {
    const auto model = small_model("llama", Json::object({{"eos_token_id", ids}}));
    return model->generate(tiny_ids(1, 3), {.generation_config = five}).sequences;
  };
  const at::Tensor free = tokens(Json());
  EXPECT_EQ(free.size(1), 8);
  EXPECT_EQ(tokens(free[0][3].item<int64_t>()).size(1), 4);  // ends with the first new one
}
PROBE(BaseConfig, architectures) {
  const auto task = [](const char* name) {
    const auto config = small_config("llama", Json::object({{"architectures", Json::array({name})}}));
    return AutoModelForAnyTask::from_config(*config)->model_task();
  };
  EXPECT_EQ(task("LlamaForCausalLM"), TaskType::CausalLM);
  EXPECT_EQ(task("LlamaForSequenceClassification"), TaskType::SequenceClassification);
}
PROBE(BaseConfig, output_hidden_states) {
  const auto model = small_model("llama", Json::object({{"output_hidden_states", true}}));
  EXPECT_EQ((*model)({.input_ids = tiny_ids()}).hidden_states.size(), 3U);
  EXPECT_TRUE((*small_model("llama"))({.input_ids = tiny_ids()}).hidden_states.empty());
}
PROBE(BaseConfig, output_attentions) {
  const auto model = small_model("llama", Json::object({{"output_attentions", true}}));
  EXPECT_EQ((*model)({.input_ids = tiny_ids()}).attentions.size(), 2U);
  EXPECT_TRUE((*small_model("llama"))({.input_ids = tiny_ids()}).attentions.empty());
}

std::shared_ptr<BaseModule> classifier(const Json& changes) {
  return AutoModelForSequenceClassification::from_config(*small_config("llama", changes));
}

PROBE(BaseConfig, id2label) {
  const Json three = Json::object({{"0", "x"}, {"1", "y"}, {"2", "z"}});
  EXPECT_EQ(logits_of(*classifier(Json::object({{"id2label", three}}))).size(1), 3);
  EXPECT_EQ(logits_of(*classifier(Json::object())).size(1), 2);
}
PROBE(BaseConfig, problem_type) {
  const at::Tensor wanted = at::tensor({0.0f, 1.0f, 1.0f, 0.0f}).view({2, 2});
  const ModelInputs inputs{.input_ids = tiny_ids(), .labels = wanted};
  const auto plain = classifier(Json::object()),
             regression = classifier(Json::object({{"problem_type", "regression"}}));
  EXPECT_TRUE(is_close((*plain)(inputs).loss, at::binary_cross_entropy_with_logits(logits_of(*plain), wanted)));
  EXPECT_TRUE(is_close((*regression)(inputs).loss, (logits_of(*regression) - wanted).square().mean()));
}

// Meshes -------------------------------------------------------------------------------------------------------------

PROBE(ShardingSettings, axis_dims) {
  LlamaConfig config = tiny_config();
  config.sharding.axis_dims = {1, 2, 1, -1, 1};
  EXPECT_EQ(config.create_mesh(8), mesh_of({1, 2, 1, 4, 1}));
}
PROBE(ShardingSettings, axis_names) {
  LlamaConfig config = tiny_config();
  config.sharding.axis_names = {"a", "b", "c", "d", "e"};
  EXPECT_EQ(config.create_mesh(8).size("b"), 8);
}
PROBE(ShardingSettings, dcn_axis_dims) {
  LlamaConfig config = tiny_config();
  config.sharding.dcn_axis_dims = {2, 1, 1, 1, 1};
  const Mesh mesh = config.create_mesh(8);
  EXPECT_EQ(mesh.size("dp"), 2);
  EXPECT_EQ(mesh.size("fsdp"), 4);
}
PROBE(ShardingSettings, partition_axis) {
  LlamaConfig config = tiny_config();
  EXPECT_TRUE(lazy_init<LlamaForCausalLM>(config)->specs_sharding().at("lm_head.weight").mentions("tp"));
  config.sharding.partition_axis.tensor_parallel_axis = "model";
  EXPECT_TRUE(lazy_init<LlamaForCausalLM>(config)->specs_sharding().at("lm_head.weight").mentions("model"));
}

// A model on one of eight ranks, of which none runs.
std::shared_ptr<LlamaForCausalLM> planned(const LlamaConfig& config) {
  auto model = lazy_init<LlamaForCausalLM>(config);
  place_parameters(*model, {}, planned_world(8, 0));
  return model;
}
int64_t stored_elements(const LlamaConfig& config) {
  int64_t elements = 0;
  for (const auto& [path, parameter] : planned(config)->named_parameters())
    elements += c10::multiply_integers(parameter->stored_shape());
  return elements;
}

PROBE(ShardingSettings, zero_stage) {
  LlamaConfig config = tiny_config();
  const int64_t all = tiny_llama()->num_params();
  EXPECT_LT(stored_elements(config), all / 4);
  config.sharding.zero_stage = 1;
  EXPECT_EQ(stored_elements(config), all);
}
PROBE(ShardingSettings, shard_attention_computation) {
  LlamaConfig config = tiny_config();
  config.sharding.axis_dims = {1, 4, 1, 2, 1};
  EXPECT_EQ(planned(config)->parallel()->axes(LogicalAxis::Head), AxisNames{"tp"});
  config.sharding.shard_attention_computation = false;
  EXPECT_EQ(planned(config)->parallel()->axes(LogicalAxis::Head), AxisNames{});
}

std::vector<std::string> notes_of(const std::function<void(LlamaConfig&)>& change) {
  LlamaConfig config = tiny_config();
  change(config);
  return config_notes(config);
}

PROBE(ShardingSettings, use_sharded_kv_caching) {
  EXPECT_THAT(notes_of([](LlamaConfig& c) { c.sharding.use_sharded_kv_caching = true; }),
              ElementsAre(HasSubstr("use_sharded_kv_caching has no effect")));
}

AxisNames expert_axes(const ShardingSettings& sharding) { return sharding.expert_axes(); }

PROBE(ShardingSettings, fsdp_is_ep_bound) {
  EXPECT_THAT(expert_axes({}), Contains("fsdp"));
  EXPECT_THAT(expert_axes({.fsdp_is_ep_bound = false}), testing::Not(Contains("fsdp")));
}
PROBE(ShardingSettings, sp_is_ep_bound) {
  EXPECT_THAT(expert_axes({}), Contains("sp"));
  EXPECT_THAT(expert_axes({.sp_is_ep_bound = false}), testing::Not(Contains("sp")));
}
PROBE(ShardingSettings, use_expert_tensor_mode) {
  EXPECT_THAT(expert_axes({}), testing::Not(Contains("tp")));
  EXPECT_THAT(expert_axes({.use_expert_tensor_mode = true}), Contains("tp"));
}

// Attention ----------------------------------------------------------------------------------------------------------

// What a mechanism of one's own is given by a model with this config.
struct Asked {
  bool was_called = false;
  DType dtype = float64;
  operations::AttentionOptions options;
};

Asked asked_of(AttentionSettings settings) {
  static Asked asked;
  static const bool is_registered = [] {
    operations::register_attention("probed", [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                const operations::AttentionOptions& options) {
      asked = {true, q.scalar_type(), options};
      operations::AttentionOptions plain = options;
      plain.mechanism = "vanilla";
      plain.dtype.reset();
      return operations::attention(q, k, v, plain);
    });
    return true;
  }();
  EXPECT_TRUE(is_registered);
  asked = {};
  LlamaConfig config = tiny_config();
  config.attention = std::move(settings);
  logits_of(*make_model<LlamaForCausalLM>(config));
  return asked;
}

PROBE(AttentionSettings, mechanism) {
  EXPECT_TRUE(asked_of({.mechanism = "probed"}).was_called);
  EXPECT_FALSE(asked_of({.mechanism = "vanilla"}).was_called);
  EXPECT_TRUE(
      is_refused("attn_mechanism", [] { small_config("llama", Json::object({{"attn_mechanism", "telepathy"}})); }));
}
PROBE(AttentionSettings, decode_mechanism) {
  EXPECT_THAT(notes_of([](LlamaConfig& c) { c.attention.decode_mechanism = "ring"; }),
              ElementsAre(HasSubstr("decode_attn_mechanism \"ring\" has no effect")));
}
PROBE(AttentionSettings, dtype) {
  EXPECT_EQ(asked_of({.mechanism = "probed"}).dtype, float32);
  EXPECT_EQ(asked_of({.mechanism = "probed", .dtype = bfloat16}).dtype, bfloat16);
}
PROBE(AttentionSettings, softmax_dtype) {
  EXPECT_THAT(notes_of([](LlamaConfig& c) { c.attention.softmax_dtype = bfloat16; }),
              ElementsAre(HasSubstr("attn_softmax_dtype bfloat16 has no effect")));
}
PROBE(AttentionSettings, kv_dtype) {
  LlamaConfig config = tiny_config();
  config.attention.kv_dtype = bfloat16;
  EXPECT_EQ(make_model<LlamaForCausalLM>(config)->create_cache_metadata(1, 8).dtype, bfloat16);
  EXPECT_EQ(tiny_llama()->create_cache_metadata(1, 8).dtype, float32);
}
PROBE(AttentionSettings, blocksize_q) {
  EXPECT_EQ(asked_of({.mechanism = "probed", .blocksize_q = 7}).options.blocksize_q, 7);
}
PROBE(AttentionSettings, blocksize_k) {
  EXPECT_EQ(asked_of({.mechanism = "probed", .blocksize_k = 7}).options.blocksize_k, 7);
}
PROBE(AttentionSettings, blocksize_b) {
  EXPECT_THAT(notes_of([](LlamaConfig& c) { c.attention.blocksize_b = 2; }),
              ElementsAre(HasSubstr("blocksize_b 2 has no effect")));
}

// The share of the past that training hides, over many rows; none where there is no such mask.
std::optional<double> hidden_share(double least, double most) {
  LlamaConfig config = tiny_config();
  config.attention.fcm_min_ratio = least;
  config.attention.fcm_max_ratio = most;
  const at::Tensor mask = config.get_fcm_mask(64, 16, false, RandomKey(1));
  if (!mask.defined()) return std::nullopt;
  return mask.narrow(-1, 1, 15).logical_not().to(at::kDouble).mean().item<double>();
}

PROBE(AttentionSettings, fcm_min_ratio) {
  EXPECT_NEAR(*hidden_share(0, 0.5), 0.25, 0.06);
  EXPECT_NEAR(*hidden_share(0.5, 0.5), 0.5, 0.03);
}
PROBE(AttentionSettings, fcm_max_ratio) {
  EXPECT_EQ(hidden_share(0, 0), std::nullopt);
  EXPECT_NEAR(*hidden_share(0, 1), 0.5, 0.12);
}
PROBE(AttentionSettings, mask_max_position_embeddings) {
  LlamaConfig config = tiny_config();
  EXPECT_EQ(config.get_basic_causal_mask().size(-1), 32);
  config.attention.mask_max_position_embeddings = 12;
  EXPECT_EQ(config.get_basic_causal_mask().size(-1), 12);
}
PROBE(AttentionSettings, freq_max_position_embeddings) {
  LlamaConfig config = tiny_config();
  EXPECT_EQ(config.get_basic_frequencies({}).size(0), 32);
  config.attention.freq_max_position_embeddings = 12;
  EXPECT_EQ(config.get_basic_frequencies({}).size(0), 12);
}

// Memory -------------------------------------------------------------------------------------------------------------

// Bytes that a forward pass keeps for its backward.
int64_t kept_for_backward(const std::string& policy, const std::vector<std::string>& targets = {}) {
  LlamaConfig config = tiny_config();
  config.memory.gradient_checkpointing = policy;
  config.memory.gradient_checkpointing_targets = targets;
  const auto model = make_model<LlamaForCausalLM>(config);
  ModelOutput out;
  return held_bytes([&] { out = (*model)({.input_ids = tiny_ids(4, 32)}); });
}

PROBE(MemorySettings, gradient_checkpointing) {
  EXPECT_LT(kept_for_backward("nothing_saveable"), kept_for_backward("") / 2);
  EXPECT_TRUE(is_refused("gradient_checkpointing",
                         [] { small_config("llama", Json::object({{"gradient_checkpointing", "some_of_it"}})); }));
}
PROBE(MemorySettings, gradient_checkpointing_targets) {
  const int64_t one = 4 * 32 * 16 * 4;  // a query of every token, in one layer
  EXPECT_GE(kept_for_backward("save_only_these_names", {"attn_query"}),
            kept_for_backward("save_only_these_names", {"nothing_like_it"}) + 2 * one);
  EXPECT_TRUE(is_refused("gradient_checkpointing_targets", [] {
    small_config("llama", Json::object({{"gradient_checkpointing", "save_only_these_names"}}));
  }));
}
PROBE(MemorySettings, use_scan_mlp) {
  EXPECT_THAT(notes_of([](LlamaConfig& c) { c.memory.use_scan_mlp = true; }),
              ElementsAre(HasSubstr("use_scan_mlp has no effect")));
}
PROBE(MemorySettings, scan_mlp_chunk_size) {
  EXPECT_THAT(notes_of([](LlamaConfig& c) { c.memory.scan_mlp_chunk_size = 64; }),
              ElementsAre(HasSubstr("scan_mlp_chunk_size 64 has no effect")));
}
PROBE(MemorySettings, lmhead_chunksize) {
  const auto bytes = [](std::optional<int64_t> chunk) {
    LlamaConfig config = tiny_config();
    config.vocab_size = 4096;
    config.memory.lmhead_chunksize = chunk;
    const auto model = make_model<LlamaForCausalLM>(config);
    const at::NoGradGuard no_grad;
    return peak_bytes([&] { (*model)({.input_ids = tiny_ids(4, 32), .labels = tiny_ids(4, 32)}); });
  };
  EXPECT_LT(bytes(4), bytes(128) / 2);
}
PROBE(MoeSettings, method) {
  const auto bytes = [](const char* method) {
    const Json changes = Json::object(
        {{"moe_method", method}, {"num_local_experts", 8}, {"num_experts_per_tok", 1}, {"intermediate_size", 128}});
    const auto model = small_model("mixtral", changes);
    const at::NoGradGuard no_grad;
    return peak_bytes([&] { (*model)({.input_ids = tiny_ids(4, 32)}); });
  };
  EXPECT_GT(bytes("dense_moe"), bytes("fused_moe"));  // every expert for every token
  EXPECT_TRUE(is_refused("moe_method", [&] { bytes("sparse_moe"); }));
}

// Quantization -------------------------------------------------------------------------------------------------------

PROBE(QuantizationSettings, weights) {
  const TemporaryDirectory directory;
  LlamaConfig config = tiny_config();
  config.hidden_size = 64;
  config.intermediate_size = 64;
  make_model<LlamaForCausalLM>(config)->save_pretrained(directory.path(), {.verbose = false});
  const Json packed = Json::object({{"quantization_config", Json::object({{"dtype", "nf4"}})}});
  const auto model =
      AutoModelForCausalLM::from_pretrained(directory.path().string(), {.config_kwargs = packed, .verbose = false});
  EXPECT_TRUE(model->is_quantized());
}
PROBE(QuantizationSettings, kv_cache) {
  LlamaConfig config = tiny_config();
  config.quantization.kv_cache = Json::object({{"dtype", "int8"}});
  EXPECT_EQ(make_model<LlamaForCausalLM>(config)->create_cache_metadata(1, 8).dtype, int8);
  config.quantization.kv_cache = Json::object({{"dtype", "int3"}});
  EXPECT_TRUE(is_refused("kv_cache_quantization_config",
                         [&] { make_model<LlamaForCausalLM>(config)->create_cache_metadata(1, 8); }));
}

}  // namespace
}  // namespace easydel::configs_probes
