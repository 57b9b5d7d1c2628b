#include "easydel/infra/config/base_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/files/file.h"
#include "easydel/core/runtime.h"
#include "tests/infra/toy_config.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::ThrowsMessage;

Json parse(const std::string& text) { return Json::parse(text); }
ToyConfig toy(const std::string& text) { return ToyConfig::from_dict(parse(text)); }

// The keys of a config in the order in which they are written.
std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> names;
  for (const auto& [key, value] : json.as_object()) names.push_back(key);
  return names;
}

TEST(BaseConfig, WritesItsFieldsSortedAndOnlyThem) {
  EXPECT_EQ(ToyConfig().to_json_string(),
            R"({
  "depth": 3,
  "eos_token_id": null,
  "hidden_size": 8,
  "model_type": "toy",
  "nickname": null,
  "open": false,
  "rate": 0.5,
  "rope_parameters": {
    "rope_theta": 10000.0,
    "rope_type": "default"
  },
  "sizes": [
    1,
    2
  ]
}
)");
}

TEST(BaseConfig, KeepsKeysThatNobodyListedInTheirPlaces) {
  const auto json =
      parse(R"({"zebra": {"b": 1, "a": [null]}, "depth": 4, "model_type": "toy", "apple": 1.0, "rate": 1})");
  const ToyConfig config = ToyConfig::from_dict(json);

  EXPECT_EQ(config.depth, 4);
  EXPECT_EQ(config.rate, 1.0);
  EXPECT_EQ(config.get("apple").dump(), "1.0");
  EXPECT_EQ(config.get("n_depth").dump(), "4");
  EXPECT_TRUE(config.get("pear").is_null());
  EXPECT_THAT(config.custom_arguments(), ElementsAre("zebra", "apple"));
  const Json written = config.to_dict();
  EXPECT_THAT(keys(written), ElementsAre("zebra", "depth", "model_type", "apple", "rate", "open", "nickname", "sizes",
                                         "hidden_size", "eos_token_id", "rope_parameters"));
  EXPECT_EQ(written.at("zebra").dump(), R"({"b": 1, "a": [null]})");
  EXPECT_EQ(written.at("rate").dump(), "1");  // as it was written
}

TEST(BaseConfig, PutsNewKeysInOrderWhereThereIsOne) {
  const ToyConfig config = toy(R"({"apple": 1, "model_type": "toy", "zebra": 2})");
  const auto names = keys(config.to_dict());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.front(), "apple");
  EXPECT_EQ(names.back(), "zebra");
}

TEST(BaseConfig, WritesWhatWasChangedAndLeavesTheRest) {
  ToyConfig config = toy(R"({"rope_scaling": {"type": "linear", "factor": 2, "mrope_section": [1]}, "rate": 1})");
  config.depth = 5;
  config.rope.factor = 3;

  const Json written = config.to_dict();
  EXPECT_EQ(written.at("depth").as_int(), 5);
  EXPECT_EQ(written.at("rate").dump(), "1");
  EXPECT_EQ(written.at("rope_parameters").dump(),
            R"({"type": "linear", "factor": 3.0, "mrope_section": [1], "rope_type": "linear", "rope_theta": 10000.0})");
  config.rope = {};
  EXPECT_EQ(config.to_dict().at("rope_parameters").dump(),
            R"({"type": "linear", "mrope_section": [1], "rope_type": "default", "rope_theta": 10000.0})");
}

TEST(BaseConfig, WritesWhatEasyDeLAddsOnlyWhenItIsSet) {
  ToyConfig config;
  config.sharding.axis_dims = {1, 2, 1, 4, 1};
  config.sharding.partition_axis.head_axis = AxisNames{"tp", "sp"};
  config.attention.mechanism = "vanilla";
  config.attention.dtype = bfloat16;
  config.memory.gradient_checkpointing = "nothing_saveable";
  config.sharding.fsdp_is_ep_bound = false;

  const Json written = config.to_dict();
  EXPECT_EQ(written.at("sharding_axis_dims").dump(), "[1, 2, 1, 4, 1]");
  EXPECT_EQ(written.at("partition_axis").dump(), R"({"head_axis": ["tp", "sp"]})");
  EXPECT_EQ(written.at("attn_mechanism").as_string(), "vanilla");
  EXPECT_EQ(written.at("attn_dtype").as_string(), "bfloat16");
  EXPECT_EQ(written.at("gradient_checkpointing").as_string(), "nothing_saveable");
  EXPECT_EQ(written.at("fsdp_is_ep_bound").as_bool(), false);
  EXPECT_FALSE(written.contains("sp_is_ep_bound"));
  EXPECT_EQ(ToyConfig::from_dict(written), config);
}

TEST(BaseConfig, TakesNullForWhatEasyDeLLeavesOpen) {
  const ToyConfig config = toy(R"({"sharding_dcn_axis_dims": null, "partition_axis": null, "attn_dtype": null,
                                   "gradient_checkpointing_targets": null, "quantization_config": null})");
  EXPECT_THAT(config.sharding.dcn_axis_dims, IsEmpty());
  EXPECT_EQ(config.sharding.partition_axis, PartitionAxis());
}

TEST(BaseConfig, NamesFileKeyAndValueOfAWrongType) {
  const TemporaryDirectory directory;
  const std::string file = (directory / "config.json").string();
  write_file_atomically(file, R"({"model_type": "toy", "rope_scaling": {"type": "linear", "factor": "two"}})");
  EXPECT_THAT(
      [&] { ToyConfig::from_pretrained(directory.path().string()); },
      ThrowsMessage<ConfigError>("[ToyConfig] " + file + ": rope_scaling.factor must be a number; got \"two\"."));

  write_file_atomically(file, R"({"model_type": "toy", "n_depth": [3]})");
  EXPECT_THAT([&] { ToyConfig::from_pretrained(file); },
              ThrowsMessage<ConfigError>("[ToyConfig] " + file + ": n_depth must be an integer; got [3]."));
  EXPECT_THAT([] { toy(R"({"torch_dtype": 16})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] torch_dtype must be the name of a dtype; got 16."));
  EXPECT_THAT([] { toy(R"({"rope_scaling": "linear"})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] rope_scaling must be an object or null; got \"linear\"."));
  EXPECT_THAT([] { toy("[1]"); }, ThrowsMessage<ConfigError>("[ToyConfig] a config must be an object; got [1]."));
}

TEST(BaseConfig, RefusesAWrongValueWhenItIsMade) {
  EXPECT_THAT([] { toy(R"({"depth": 0})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] depth must be at least 1; got 0."));
  EXPECT_THAT([] { toy(R"({"blocksize_q": 0})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] blocksize_q must be at least 1; got 0."));
  EXPECT_THAT([] { toy(R"({"scan_mlp_chunk_size": -1})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] scan_mlp_chunk_size must be at least 1; got -1."));
  EXPECT_THAT(
      [] { toy(R"({"gradient_checkpointing": "nothing_savable"})"); },
      ThrowsMessage<ConfigError>(AllOf(StartsWith("[ToyConfig] gradient_checkpointing must be one of "),
                                       EndsWith("; got \"nothing_savable\". Did you mean \"nothing_saveable\"?"))));
  EXPECT_THAT([] { toy(R"({"gradient_checkpointing": "save_only_these_names"})"); },
              ThrowsMessage<ConfigError>("[CheckpointPolicy] \"save_only_these_names\" needs names; got none. Set "
                                         "gradient_checkpointing_targets."));
  for (const std::string key : {"attn_mechanism", "decode_attn_mechanism"}) {
    EXPECT_THAT(
        [&] { toy("{\"" + key + "\": \"vanila\"}"); },
        ThrowsMessage<ConfigError>(AllOf(StartsWith("[ToyConfig] " + key + " must be one of "), HasSubstr(" auto, "),
                                         EndsWith("; got \"vanila\". Did you mean \"vanilla\"?"))));
  }
  EXPECT_THAT(
      [] { toy(R"({"moe_method": "einsum"})"); },
      ThrowsMessage<ConfigError>("[ToyConfig] moe_method must be one of dense_moe, fused_moe, standard_moe; got "
                                 "\"einsum\"."));
  EXPECT_THAT(
      [] { toy(R"({"fcm_min_ratio": 0.5})"); },
      ThrowsMessage<ConfigError>("[ToyConfig] 0 <= fcm_min_ratio <= fcm_max_ratio <= 1 must hold; got 0.5 and 0."));
  EXPECT_THAT([] { toy(R"({"problem_type": "guess"})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] problem_type must be one of regression, "
                                         "single_label_classification, multi_label_classification; got \"guess\"."));
  EXPECT_THAT([] { toy(R"({"problem_type": "single_label_classification", "num_labels": 1})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] problem_type \"single_label_classification\" must have more than "
                                         "one label; got 1. One output is a regression."));
  EXPECT_THAT([] { toy(R"({"num_labels": 0})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] num_labels must be from 1 to 1000000; got 0."));
  EXPECT_THAT(
      [] { toy(R"({"sharding_axis_dims": [1, 2]})"); },
      ThrowsMessage<ConfigError>(
          "[create_mesh] sharding_axis_dims and sharding_axis_names must have the same length; got 2 (1x2) and 5."));
  ToyConfig config;
  config.depth = -1;
  EXPECT_THAT([&] { config.to_dict(); }, ThrowsMessage<ConfigError>("[ToyConfig] depth must be at least 1; got -1."));
}

TEST(BaseConfig, RefusesTheFileOfAnotherFamily) {
  EXPECT_THAT([] { toy(R"({"model_type": "llama"})"); },
              ThrowsMessage<ConfigError>("[ToyConfig] model_type must be \"toy\"; got \"llama\". AutoConfig picks the "
                                         "class by model_type."));
  const auto known_better =
      ToyConfig::from_dict(parse(R"({"model_type": "llama"})"), {.overrides = parse(R"({"model_type": "toy"})")});
  EXPECT_EQ(known_better.to_dict().at("model_type").as_string(), "toy");
}

TEST(BaseConfig, SaysWhatItCouldNotFind) {
  const TemporaryDirectory directory;
  EXPECT_THAT([&] { ToyConfig::from_pretrained(directory.path().string()); },
              ThrowsMessage<IoError>("[from_pretrained] " + directory.path().string() +
                                     " must hold a config.json; there is none."));
}

TEST(BaseConfig, TakesOverridesInAnySpelling) {
  const Json json =
      parse(R"({"depth": 4, "rope_theta": 100, "rope_scaling": {"type": "linear", "factor": 2}, "own": 1})");
  const auto with = [&](const char* overrides) { return ToyConfig::from_dict(json, {.overrides = parse(overrides)}); };

  EXPECT_EQ(with(R"({"n_depth": 9})").depth, 9);
  EXPECT_EQ(with(R"({"torch_dtype": "bfloat16"})").dtype, bfloat16);
  EXPECT_EQ(with(R"({"num_labels": 7})").num_labels(), 7);
  EXPECT_EQ(with(R"({"own": 2})").get("own").as_int(), 2);
  EXPECT_EQ(with(R"({"attn_mechanism": "vanilla"})").attention.mechanism, "vanilla");

  const ToyConfig theta = with(R"({"rope_theta": 500})");
  EXPECT_EQ(theta.rope.rope_theta, 500);
  EXPECT_EQ(theta.rope.rope_type, "linear");
  EXPECT_EQ(theta.rope.factor, 2.0);
  const ToyConfig scaled = with(R"({"rope_scaling": {"type": "dynamic", "factor": 8}})");
  EXPECT_EQ(scaled.rope.rope_type, "dynamic");
  EXPECT_EQ(scaled.rope.rope_theta, 100);
  const ToyConfig plain = with(R"({"rope_scaling": null})");
  EXPECT_EQ(plain.rope.rope_type, "default");
  EXPECT_EQ(plain.rope.rope_theta, 100);
  EXPECT_EQ(with(R"({"partial_rotary_factor": 0.5})").rope.partial_rotary_factor, 0.5);
}

TEST(BaseConfig, RefusesAnOverrideThatIsNoKey) {
  EXPECT_THAT(
      [] { ToyConfig::from_dict(Json::object(), {.overrides = parse(R"({"dept": 9})")}); },
      ThrowsMessage<ConfigError>("[ToyConfig] an override must be a key of the config; got \"dept\". Did you mean "
                                 "\"depth\"?"));
  EXPECT_THAT(
      [] { ToyConfig::from_dict(Json::object(), {.overrides = parse(R"({"wheels_of_wagon": 9})")}); },
      ThrowsMessage<ConfigError>("[ToyConfig] an override must be a key of the config; got \"wheels_of_wagon\". "
                                 "attach_custom_arguments takes any key."));
  EXPECT_THAT([] { ToyConfig().update(parse("[1]")); },
              ThrowsMessage<ConfigError>("[ToyConfig] a config override must be an object; got [1]."));
}

TEST(BaseConfig, IsUnchangedByAnUpdateThatFails) {
  ToyConfig config = toy(R"({"depth": 4})");
  const ToyConfig before = config;

  EXPECT_THAT([&] { config.update(parse(R"({"rate": 0.25, "depth": 0})")); },
              ThrowsMessage<ConfigError>("[ToyConfig] depth must be at least 1; got 0."));
  EXPECT_EQ(config, before);
  config.update(parse(R"({"rate": 0.25, "depth": 2})"));
  EXPECT_EQ(config.rate, 0.25);
  EXPECT_EQ(config.depth, 2);
}

TEST(BaseConfig, CarriesCustomArguments) {
  ToyConfig config;
  config.attach_custom_arguments(parse(R"({"experiment": "a", "depth": 6})"));

  EXPECT_EQ(config.depth, 6);
  EXPECT_THAT(config.custom_arguments(), ElementsAre("experiment"));
  EXPECT_EQ(ToyConfig::from_dict(config.to_dict()).get("experiment").as_string(), "a");
}

TEST(BaseConfig, IsEqualWhenFieldsAndCustomArgumentsAre) {
  const ToyConfig config = toy(R"({"depth": 4, "own": 1, "transformers_version": "4"})");

  EXPECT_EQ(config, toy(R"({"own": 1, "n_depth": 4})"));
  EXPECT_FALSE(config == toy(R"({"own": 2, "depth": 4})"));
  EXPECT_FALSE(config == toy(R"({"own": 1, "depth": 5})"));
  EXPECT_FALSE(config == toy(R"({"depth": 4})"));
  EXPECT_EQ(*config.clone(), config);
}

TEST(BaseConfig, SavesAndLoads) {
  const TemporaryDirectory directory;
  ToyConfig config = toy(R"({"depth": 4, "own": {"x": 1}})");
  config.save_pretrained(directory / "deep/down");

  const auto loaded = ToyConfig::from_pretrained((directory / "deep/down").string());
  EXPECT_EQ(loaded, config);
  EXPECT_EQ(loaded.name_or_path, (directory / "deep/down").string());

  write_file_atomically(directory / "file", "");
  EXPECT_THAT([&] { config.save_pretrained(directory / "file"); },
              ThrowsMessage<IoError>("[save_pretrained] " + (directory / "file").string() +
                                     " must be a directory that can be created; got: Not a directory."));
}

TEST(BaseConfig, NamesItsLabels) {
  ToyConfig config;
  EXPECT_EQ(config.num_labels(), 2);
  config.set_num_labels(3);
  EXPECT_EQ(config.num_labels(), 3);
  EXPECT_EQ(config.to_dict().at("id2label").dump(), R"({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})");
  config.set_num_labels(2);
  EXPECT_FALSE(config.to_dict().contains("id2label"));
  EXPECT_THAT([&] { config.set_num_labels(0); },
              ThrowsMessage<ConfigError>("[ToyConfig] num_labels must be at least 1; got 0."));
}

TEST(BaseConfig, MakesItsMesh) {
  ToyConfig config;
  config.sharding.axis_dims = {1, -1, 2, 1};  // the older four

  EXPECT_EQ(config.create_mesh(8).to_string(), "dp=1 fsdp=4 ep=1 tp=2 sp=1");
  {
    const RankScope rank({.rank = 1, .world_size = 4});
    EXPECT_EQ(config.mesh().size(), 4);
  }
  config.set_model_mesh(Mesh({{"tp", 2}}));
  EXPECT_EQ(config.mesh().to_string(), "tp=2");
}

TEST(BaseConfig, KeepsAllWeightsWholeUnlessItsFamilyKnowsBetter) {
  EXPECT_EQ(ToyConfig().get_partition_rules().match("anything.weight"), PartitionSpec());
}

TEST(BaseConfig, DescribesAllItsFields) {
  const auto fields = ToyConfig().describe();
  EXPECT_EQ(fields.front().key, "depth");
  EXPECT_EQ(fields.front().help, "How deep.");
  EXPECT_EQ(fields.front().type, "an integer");
  for (const FieldValue& field : fields) EXPECT_FALSE(field.help.empty()) << field.key;
}

}  // namespace
}  // namespace easydel
