#include "easydel/infra/fields/field_visitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "easydel/infra/config/rope_fields.h"
#include "easydel/sharding/mesh/partition_axis.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::ThrowsMessage;

template <class T>
T read(const char* json) {
  T value{};
  FieldType<T>::from_json(Json::parse(json), value, "[Toy] file: key");
  return value;
}

template <class T>
auto refuses(const char* json, const std::string& expected) {
  EXPECT_THAT([&] { read<T>(json); }, ThrowsMessage<ConfigError>("[Toy] file: key must be " + expected + "."));
}

TEST(FieldType, ReadsAndWritesEveryType) {
  EXPECT_EQ(read<bool>("true"), true);
  EXPECT_EQ(read<int64_t>("-7"), -7);
  EXPECT_EQ(read<int64_t>("7.0"), 7);
  EXPECT_EQ(read<double>("1e-5"), 1e-5);
  EXPECT_EQ(read<double>("3"), 3.0);
  EXPECT_EQ(read<std::string>("\"text\""), "text");
  EXPECT_EQ(read<DType>("\"bfloat16\""), bfloat16);
  EXPECT_EQ(read<std::optional<int64_t>>("null"), std::nullopt);
  EXPECT_EQ(read<std::optional<int64_t>>("4"), 4);
  EXPECT_THAT(read<std::vector<double>>("[1, 2.5]"), ElementsAre(1.0, 2.5));
  EXPECT_EQ(read<TokenIds>("2"), TokenIds(2));
  EXPECT_EQ(read<TokenIds>("[2, 3]"), (TokenIds{2, 3}));
  EXPECT_EQ(read<TokenIds>("null"), TokenIds());
  EXPECT_THAT(read<LabelNames>(R"({"1": "b", "10": "k"})"), ElementsAre(Pair(1, "b"), Pair(10, "k")));
  EXPECT_THAT(read<LabelNumbers>(R"({"b": 1, "k": "10"})"), ElementsAre(Pair("b", 1), Pair("k", 10)));

  EXPECT_EQ(FieldType<DType>::to_json(float16).dump(), "\"float16\"");
  EXPECT_EQ(FieldType<double>::to_json(10000).dump(), "10000.0");
  EXPECT_EQ(FieldType<std::optional<double>>::to_json({}).dump(), "null");
  EXPECT_EQ(FieldType<TokenIds>::to_json({2, 3}).dump(), "[2, 3]");
  EXPECT_EQ(FieldType<TokenIds>::to_json(2).dump(), "2");
  EXPECT_EQ(FieldType<TokenIds>::to_json({}).dump(), "null");
  EXPECT_EQ(FieldType<LabelNames>::to_json({{2, "c"}, {10, "k"}}).dump(), R"({"2": "c", "10": "k"})");
}

TEST(FieldType, WritesNumbersThatJsonLacksAsTransformersDoes) {
  constexpr double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(FieldType<double>::to_json(infinity).dump(), R"({"__float__": "Infinity"})");
  EXPECT_EQ(read<double>(R"({"__float__": "Infinity"})"), infinity);
  EXPECT_EQ(read<double>(R"({"__float__": "-Infinity"})"), -infinity);
  EXPECT_TRUE(std::isnan(read<double>(R"({"__float__": "NaN"})")));
  refuses<double>(R"({"__float__": "big"})", R"(a number; got {"__float__": "big"})");
}

TEST(FieldType, NamesWhatWasExpectedAndWhatWasGiven) {
  refuses<bool>("1", "true or false; got 1");
  refuses<int64_t>("\"64\"", "an integer; got \"64\"");
  refuses<int64_t>("1.5", "an integer; got 1.5");
  refuses<int64_t>("1e300", "an integer; got 1e+300");
  refuses<int64_t>("true", "an integer; got true");
  refuses<int64_t>("null", "an integer; got null");
  refuses<double>("\"fast\"", "a number; got \"fast\"");
  refuses<std::string>("3", "a string; got 3");
  refuses<DType>("\"float4\"", "the name of a dtype such as \"bfloat16\"; got \"float4\"");
  refuses<DType>("4", "the name of a dtype; got 4");
  refuses<std::vector<int64_t>>("3", "a list of integers; got 3");
  refuses<TokenIds>("\"</s>\"", "an integer, a list of integers or null; got \"</s>\"");
  refuses<LabelNames>(R"({"one": "b"})", R"(an object from numbers to names; got {"one": "b"})");
  EXPECT_THAT([] { read<std::vector<int64_t>>("[1, \"2\"]"); },
              ThrowsMessage<ConfigError>("[Toy] file: key[1] must be an integer; got \"2\"."));
  EXPECT_THAT([] { read<LabelNumbers>(R"({"b": "one"})"); },
              ThrowsMessage<ConfigError>("[Toy] file: key.b must be an integer; got \"one\"."));
}

TEST(FieldType, CutsLongValuesShortInMessages) {
  const std::string text = "\"" + std::string(500, 'x') + "\"";
  refuses<int64_t>(text.c_str(), "an integer; got " + text.substr(0, 80) + "…");
}

TEST(FieldType, KnowsTheAxesThatCarryWhat) {
  const auto axis = read<PartitionAxis>(
      R"({"batch_axis": ["fsdp", "dp"], "head_axis": "model", "vocab_axis": null, "tensor_parallel_axis": "mp"})");

  EXPECT_THAT(*axis.batch_axis, ElementsAre("fsdp", "dp"));
  EXPECT_THAT(*axis.head_axis, ElementsAre("model"));
  EXPECT_THAT(*axis.vocab_axis, ElementsAre());
  EXPECT_EQ(axis.sequence_axis, std::nullopt);
  EXPECT_EQ(
      FieldType<PartitionAxis>::to_json(axis).dump(),
      R"({"tensor_parallel_axis": "mp", "batch_axis": ["fsdp", "dp"], "head_axis": "model", "vocab_axis": null})");
  EXPECT_EQ(read<PartitionAxis>("null"), PartitionAxis());
  EXPECT_EQ(FieldType<PartitionAxis>::to_json({}).dump(), "{}");
  refuses<PartitionAxis>("[]", "an object of axis names; got []");
  EXPECT_THAT(
      [] { read<PartitionAxis>(R"({"head_axis": 3})"); },
      ThrowsMessage<ConfigError>("[Toy] file: key.head_axis must be an axis name, a list of them or null; got 3."));
  EXPECT_THAT([] { read<PartitionAxis>(R"({"heads": "tp"})"); },
              ThrowsMessage<ConfigError>("[Toy] file: key.heads is not a field of PartitionAxis."));
}

TEST(FieldType, WritesOfARopeBlockOnlyWhatWasSet) {
  RopeParameters rope;
  EXPECT_EQ(FieldType<RopeParameters>::to_json(rope).dump(), R"({"rope_theta": 10000.0, "rope_type": "default"})");

  rope.rope_type = "yarn";
  rope.factor = 4;
  rope.truncate = false;
  EXPECT_EQ(FieldType<RopeParameters>::to_json(rope).dump(),
            R"({"factor": 4.0, "rope_theta": 10000.0, "rope_type": "yarn", "truncate": false})");
  EXPECT_THAT([] { read<RopeParameters>(R"({"factor": "two"})"); },
              ThrowsMessage<ConfigError>("[Toy] file: key.factor must be a number; got \"two\"."));
  refuses<RopeParameters>("3", "an object; got 3");
}

TEST(ParseOverrides, TakesJsonAndElseText) {
  EXPECT_EQ(parse_overrides({"hidden_size=64", "rate=1e-3", "hidden_act=silu", "sizes=[1, 2]", "open=true",
                             "name=", "equation=a=b", "nothing=null"})
                .dump(),
            R"({"hidden_size": 64, "rate": 0.001, "hidden_act": "silu", "sizes": [1, 2], "open": true, "name": "", )"
            R"("equation": "a=b", "nothing": null})");
  EXPECT_THAT([] { parse_overrides({"hidden_size"}); },
              ThrowsMessage<UsageError>("[parse_overrides] an override must read key=value; got \"hidden_size\"."));
  EXPECT_THAT([] { parse_overrides({"=3"}); },
              ThrowsMessage<UsageError>("[parse_overrides] an override must read key=value; got \"=3\"."));
}

}  // namespace
}  // namespace easydel
