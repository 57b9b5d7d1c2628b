// What each family refuses, and how it is split. That its fields are transformers' is in config_parity_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/models/gpt2/config.h"
#include "easydel/models/llama/config.h"
#include "easydel/models/mixtral/config.h"
#include "easydel/models/phi3/config.h"

namespace easydel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

template <class C>
C make(const std::string& json) {
  return C::from_dict(Json::parse(json));
}

template <class C>
void refuses(const std::string& json, const std::string& message) {
  EXPECT_THAT([&] { make<C>(json); }, ThrowsMessage<ConfigError>(message)) << json;
}

TEST(LlamaConfig, RefusesWrongSizes) {
  refuses<LlamaConfig>(R"({"num_attention_heads": 6, "num_key_value_heads": 4, "hidden_size": 48})",
                       "[LlamaConfig] num_attention_heads must be a multiple of num_key_value_heads; got 6 and 4.");
  refuses<LlamaConfig>(R"({"hidden_size": 50, "num_attention_heads": 8})",
                       "[LlamaConfig] hidden_size must be a multiple of num_attention_heads; got 50 and 8.");
  refuses<LlamaConfig>(R"({"vocab_size": 0})", "[LlamaConfig] vocab_size must be at least 1; got 0.");
  refuses<LlamaConfig>(R"({"vocab_size": 4611686018427387904})",
                       "[LlamaConfig] vocab_size must be below 2^31; got 4611686018427387904.");
  refuses<LlamaConfig>(R"({"hidden_size": -1})", "[LlamaConfig] hidden_size must be at least 1; got -1.");
  refuses<LlamaConfig>(R"({"intermediate_size": 0})", "[LlamaConfig] intermediate_size must be at least 1; got 0.");
  refuses<LlamaConfig>(R"({"num_hidden_layers": -1})", "[LlamaConfig] num_hidden_layers must be at least 0; got -1.");
  refuses<LlamaConfig>(R"({"num_attention_heads": 0})", "[LlamaConfig] num_attention_heads must be at least 1; got 0.");
  refuses<LlamaConfig>(R"({"num_key_value_heads": 0})", "[LlamaConfig] num_key_value_heads must be at least 1; got 0.");
  refuses<LlamaConfig>(R"({"head_dim": 0})", "[LlamaConfig] head_dim must be at least 1; got 0.");
  refuses<LlamaConfig>(R"({"max_position_embeddings": 0})",
                       "[LlamaConfig] max_position_embeddings must be at least 1; got 0.");
  refuses<LlamaConfig>(R"({"rms_norm_eps": 0})", "[LlamaConfig] rms_norm_eps must be above 0 and finite; got 0.");
  refuses<LlamaConfig>(R"({"attention_dropout": 2})",
                       "[LlamaConfig] attention_dropout must be at least 0 and at most 1; got 2.");
  refuses<LlamaConfig>(R"({"initializer_range": -0.5})",
                       "[LlamaConfig] initializer_range must be at least 0 and at most 1; got -0.5.");
  refuses<LlamaConfig>(R"({"rope_scaling": {"type": "linear"}})",
                       "[LlamaConfig] rope_parameters.factor must be given for rope_type \"linear\"; got none.");
}

// A family's default config with one key changed.
void refuses_change(const std::string& family, const std::string& key, const Json& value,
                    const testing::Matcher<std::string>& message) {
  const auto config = Registry::instance().make_config(family, "");
  Json dict = config->to_dict();
  dict[key] = value;
  EXPECT_THAT([&] { AutoConfig::from_dict(dict); },
              ThrowsMessage<ConfigError>(AllOf(StartsWith("[" + config->class_name() + "] "), message)))
      << family << " " << key;
}

TEST(EveryFamily, RefusesWhatItDoesNotKnowWithTheKeyTheValueAndTheKnown) {
  int families = 0, heads = 0, activated = 0;
  for (const std::string& family : Registry::instance().model_types()) {
    ++families;
    // With a head_dim and no key/value heads any number of heads will do.
    const Json defaults = Registry::instance().make_config(family, "")->to_dict();
    const Json* kv_heads = defaults.find("num_key_value_heads");
    const char* heads_key = kv_heads && kv_heads->is_null() ? "num_key_value_heads" : "num_attention_heads";
    int activations = 0;
    for (const FieldValue& field : Registry::instance().make_config(family, "")->describe()) {
      if (field.key == heads_key) {
        ++heads;
        refuses_change(family, field.key, 7, AllOf(HasSubstr(" must be a multiple of "), HasSubstr("7")));
      }
      if (field.key == "hidden_act" || field.key == "hidden_activation" || field.key == "activation_function" ||
          field.key == "activation") {
        ++activations;
        refuses_change(family, field.key, "sillu",
                       AllOf(HasSubstr(field.key + " must be one of "), HasSubstr(" silu, "),
                             EndsWith("; got \"sillu\". Did you mean \"silu\"?")));
      }
      if (field.key == "rope_parameters") {
        const Json block = Json::object({{"rope_type", "yran"}, {"rope_theta", 1e4}});
        const bool nested = !field.value.contains("rope_theta");
        const bool is_tower = family == "pixtral" || family.ends_with("_vl_vision");
        refuses_change(family, field.key, nested ? Json::object({{"sliding_attention", block}}) : block,
                       AllOf(HasSubstr(".rope_type must be "), HasSubstr(is_tower ? "axial" : "longrope"),
                             EndsWith("; got \"yran\".")));
      }
      if (field.key == "layer_types") {
        Json types = Registry::instance().make_config(family, "")->to_dict().at("layer_types");
        types.as_array().back() = "sideways_attention";
        refuses_change(family, field.key, types,
                       AllOf(HasSubstr("] layer_types must be one of "), HasSubstr("full_attention"),
                             HasSubstr("; got \"sideways_attention\".")));
      }
    }
    EXPECT_LE(activations, 1) << family;
    activated += activations;
  }
  // The others have no heads, name them otherwise, or have configs inside.
  EXPECT_GT(heads, families / 2);
  EXPECT_GT(activated, families / 2);
}

TEST(LlamaConfig, WorksOutHeadsAsTransformersDoes) {
  const auto config = make<LlamaConfig>(R"({"hidden_size": 64, "num_attention_heads": 4})");
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.num_key_value_heads, 4);

  LlamaConfig later;
  later.hidden_size = 64;
  later.num_attention_heads = 4;
  EXPECT_EQ(later.head_size(), 16);
  EXPECT_EQ(later.key_value_heads(), 4);
  EXPECT_EQ(later.to_dict().at("head_dim").as_int(), 16);
}

TEST(Phi3Config, RefusesOtherScalings) {
  refuses<Phi3Config>(R"({"rope_scaling": {"type": "linear", "factor": 2.0}})",
                      "[Phi3Config] rope_parameters.rope_type must be default or longrope; got \"linear\".");
  refuses<Phi3Config>(R"({"rope_scaling": {"type": "su", "short_factor": [1], "long_factor": [1]}})",
                      "[Phi3Config] rope_parameters.short_factor must have one number for each pair of the 96 rotated "
                      "dimensions of a head, 48; got 1.");
  refuses<Phi3Config>(R"({"sliding_window": 0})", "[Phi3Config] sliding_window must be at least 1; got 0.");
  refuses<Phi3Config>(R"({"resid_pdrop": -1})", "[Phi3Config] resid_pdrop must be at least 0 and at most 1; got -1.");
  refuses<Phi3Config>(R"({"original_max_position_embeddings": 0})",
                      "[Phi3Config] original_max_position_embeddings must be at least 1; got 0.");
}

TEST(Phi3Config, KnowsTheOlderNamesOfLongrope) {
  for (const std::string type : {"su", "yarn", "longrope"}) {
    const auto config = make<Phi3Config>(R"({"hidden_size": 32, "num_attention_heads": 4,
        "original_max_position_embeddings": 100, "rope_scaling": {"type": ")" +
                                         type + R"(", "short_factor": [1, 1, 1, 1], "long_factor": [2, 2, 2, 2]}})");
    EXPECT_EQ(config.rope.rope_type, "longrope");
    EXPECT_EQ(config.rope.original_max_position_embeddings, 100);
    EXPECT_THAT(config.rope.long_factor, ElementsAre(2, 2, 2, 2));
  }
}

TEST(GPT2Config, IsReadByEitherNameAndRefusedByItsOwn) {
  const auto config = make<GPT2Config>(R"({"hidden_size": 32, "n_head": 4, "num_hidden_layers": 2})");
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.inner_size(), 128);
  EXPECT_EQ(config.to_dict().at("n_embd").as_int(), 32);
  EXPECT_FALSE(config.to_dict().contains("hidden_size"));

  refuses<GPT2Config>(R"({"hidden_size": 50, "n_head": 8})",
                      "[GPT2Config] n_embd must be a multiple of n_head; got 50 and 8.");
  refuses<GPT2Config>(R"({"n_inner": 0})", "[GPT2Config] n_inner must be at least 1; got 0.");
  refuses<GPT2Config>(R"({"n_positions": 0})", "[GPT2Config] n_positions must be at least 1; got 0.");
  refuses<GPT2Config>(R"({"attn_pdrop": 1.5})", "[GPT2Config] attn_pdrop must be at least 0 and at most 1; got 1.5.");
  refuses<GPT2Config>(R"({"layer_norm_epsilon": 0})",
                      "[GPT2Config] layer_norm_epsilon must be above 0 and finite; got 0.");
}

TEST(MixtralConfig, RefusesMoreExpertsPerTokenThanThereAre) {
  refuses<MixtralConfig>(
      R"({"num_experts": 2, "num_experts_per_tok": 3})",
      "[MixtralConfig] num_experts_per_tok must be at least 1 and at most num_local_experts; got 3 and 2.");
  refuses<MixtralConfig>(R"({"num_local_experts": 0})", "[MixtralConfig] num_local_experts must be at least 1; got 0.");
  refuses<MixtralConfig>(
      R"({"num_experts_per_tok": 0})",
      "[MixtralConfig] num_experts_per_tok must be at least 1 and at most num_local_experts; got 0 and 8.");
  EXPECT_EQ(make<MixtralConfig>("{}").rope.rope_theta, 1e6);
}

// Every parameter of a family, each with the spec that its rules give.
struct Split {
  std::string path;
  PartitionSpec spec;
};

void expect_splits(const BaseConfig& config, const std::vector<Split>& splits) {
  const PartitionRules rules = config.get_partition_rules();
  for (const Split& split : splits) EXPECT_EQ(rules.match(split.path), split.spec) << split.path;
}

const PartitionSpec kFirst{"tp", {"fsdp", "sp"}};
const PartitionSpec kSecond{{"fsdp", "sp"}, "tp"};
const PartitionSpec kShard{nullptr, {"fsdp", "sp"}};
const PartitionSpec kBias{"tp"};
const PartitionSpec kWhole;

TEST(PartitionRulesOf, Llama) {
  expect_splits(LlamaConfig(), {
                                   {"model.embed_tokens.weight", kFirst},
                                   {"model.layers.0.self_attn.q_proj.weight", kFirst},
                                   {"model.layers.0.self_attn.q_proj.bias", kBias},
                                   {"model.layers.0.self_attn.k_proj.weight", kFirst},
                                   {"model.layers.0.self_attn.v_proj.weight", kFirst},
                                   {"model.layers.0.self_attn.v_proj.bias", kBias},
                                   {"model.layers.0.self_attn.o_proj.weight", kSecond},
                                   {"model.layers.0.self_attn.o_proj.bias", kWhole},
                                   {"model.layers.0.mlp.gate_proj.weight", kFirst},
                                   {"model.layers.0.mlp.up_proj.weight", kFirst},
                                   {"model.layers.0.mlp.up_proj.bias", kBias},
                                   {"model.layers.0.mlp.down_proj.weight", kSecond},
                                   {"model.layers.0.mlp.down_proj.bias", kWhole},
                                   {"model.layers.0.input_layernorm.weight", kWhole},
                                   {"model.layers.0.post_attention_layernorm.weight", kWhole},
                                   {"model.norm.weight", kWhole},
                                   {"lm_head.weight", kFirst},
                                   {"score.weight", kShard},
                               });
}

TEST(PartitionRulesOf, Phi3) {
  expect_splits(Phi3Config(), {
                                  {"model.embed_tokens.weight", kFirst},
                                  {"model.layers.0.self_attn.qkv_proj.weight", kFirst},
                                  {"model.layers.0.self_attn.o_proj.weight", kSecond},
                                  {"model.layers.0.mlp.gate_up_proj.weight", kFirst},
                                  {"model.layers.0.mlp.down_proj.weight", kSecond},
                                  {"model.layers.0.input_layernorm.weight", kWhole},
                                  {"model.norm.weight", kWhole},
                                  {"lm_head.weight", kFirst},
                                  {"score.weight", kShard},
                              });
}

TEST(PartitionRulesOf, GPT2) {
  expect_splits(GPT2Config(), {
                                  {"transformer.wte.weight", kFirst},
                                  {"transformer.wpe.weight", kShard},
                                  {"transformer.h.0.attn.c_attn.weight", kSecond},
                                  {"transformer.h.0.attn.c_attn.bias", kBias},
                                  {"transformer.h.0.attn.c_proj.weight", kFirst},
                                  {"transformer.h.0.attn.c_proj.bias", kWhole},
                                  {"transformer.h.0.mlp.c_fc.weight", kSecond},
                                  {"transformer.h.0.mlp.c_fc.bias", kBias},
                                  {"transformer.h.0.mlp.c_proj.weight", kFirst},
                                  {"transformer.h.0.mlp.c_proj.bias", kWhole},
                                  {"transformer.h.0.ln_1.weight", kWhole},
                                  {"transformer.h.0.ln_1.bias", kWhole},
                                  {"transformer.ln_f.weight", kWhole},
                                  {"lm_head.weight", kFirst},
                                  {"score.weight", kShard},
                              });
}

TEST(PartitionRulesOf, Mixtral) {
  const PartitionSpec experts_first{{"ep", "fsdp", "sp"}, "tp", nullptr};
  const PartitionSpec experts_second{{"ep", "fsdp", "sp"}, nullptr, "tp"};
  expect_splits(MixtralConfig(), {
                                     {"model.embed_tokens.weight", kFirst},
                                     {"model.layers.0.self_attn.q_proj.weight", kFirst},
                                     {"model.layers.0.self_attn.k_proj.weight", kFirst},
                                     {"model.layers.0.self_attn.o_proj.weight", kSecond},
                                     {"model.layers.0.mlp.gate.weight", kShard},
                                     {"model.layers.0.block_sparse_moe.gate.weight", kShard},
                                     {"model.layers.0.mlp.experts.gate_up_proj", experts_first},
                                     {"model.layers.0.mlp.experts.down_proj", experts_second},
                                     {"model.layers.0.block_sparse_moe.experts.w1.weight", experts_first},
                                     {"model.layers.0.block_sparse_moe.experts.w3.weight", experts_first},
                                     {"model.layers.0.block_sparse_moe.experts.w2.weight", experts_second},
                                     {"model.layers.0.input_layernorm.weight", kWhole},
                                     {"lm_head.weight", kFirst},
                                 });
}

TEST(PartitionRulesOf, AFamilyFollowTheAxesOfItsConfig) {
  auto config = make<LlamaConfig>(R"({"partition_axis": {"tensor_parallel_axis": "model", "vocab_axis": null}})");

  EXPECT_EQ(config.get_partition_rules().match("layers.0.mlp.up_proj.weight"),
            (PartitionSpec{"model", {"fsdp", "sp"}}));
  EXPECT_EQ(config.get_partition_rules().match("lm_head.weight"), kShard);
  EXPECT_EQ(config.get_partition_rules(/*fully_sharded=*/false).match("layers.0.mlp.up_proj.weight"),
            PartitionSpec{"model"});
}

}  // namespace
}  // namespace easydel
