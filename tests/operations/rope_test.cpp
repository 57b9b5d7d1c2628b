#include "easydel/operations/rope.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "tests/support/python.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

struct Case {
  RopeParameters parameters;
  int64_t head_dim = 16, max_position_embeddings = 256;
  std::optional<int64_t> seq_len;

  Json to_json() const {
    Json json = Json::object({{"rope_type", parameters.rope_type}, {"rope_theta", parameters.rope_theta}});
    const auto put = [&](const char* key, const std::optional<double>& value) {
      if (value) json[key] = *value;
    };
    if (parameters.partial_rotary_factor != 1.0) json["partial_rotary_factor"] = parameters.partial_rotary_factor;
    put("factor", parameters.factor);
    put("attention_factor", parameters.attention_factor);
    put("beta_fast", parameters.beta_fast);
    put("beta_slow", parameters.beta_slow);
    put("mscale", parameters.mscale);
    put("mscale_all_dim", parameters.mscale_all_dim);
    put("low_freq_factor", parameters.low_freq_factor);
    put("high_freq_factor", parameters.high_freq_factor);
    if (parameters.original_max_position_embeddings) {
      json["original_max_position_embeddings"] = *parameters.original_max_position_embeddings;
    }
    if (!parameters.short_factor.empty()) json["short_factor"] = parameters.short_factor;
    if (!parameters.long_factor.empty()) json["long_factor"] = parameters.long_factor;
    if (!parameters.truncate) json["truncate"] = false;
    Json out = Json::object({{"rope_parameters", json},
                             {"head_dim", head_dim},
                             {"max_position_embeddings", max_position_embeddings},
                             {"seq_len", nullptr}});
    if (seq_len) out["seq_len"] = *seq_len;
    return out;
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* type) -> Case& {
    all.emplace_back().parameters.rope_type = type;
    return all.back();
  };
  add("default");
  add("default").parameters.rope_theta = 500000.0;
  add("linear").parameters.factor = 4.0;
  for (const auto length : {std::optional<int64_t>(), std::optional<int64_t>(100), std::optional<int64_t>(1000)}) {
    Case& c = add("dynamic");
    c.parameters.factor = 2.0;
    c.seq_len = length;
  }
  {
    RopeParameters& p = add("yarn").parameters;
    p.factor = 8.0;
    p.original_max_position_embeddings = 64;
  }
  {
    RopeParameters& p = add("yarn").parameters;
    p.factor = 4.0;
    p.original_max_position_embeddings = 64;
    p.beta_fast = 16.0;
    p.beta_slow = 2.0;
    p.mscale = 0.707;
    p.mscale_all_dim = 0.5;
    p.truncate = false;
  }
  {
    RopeParameters& p = add("yarn").parameters;
    p.factor = 4.0;
    p.attention_factor = 1.3;
    p.original_max_position_embeddings = 64;
    p.partial_rotary_factor = 0.5;
  }
  {
    Case& c = add("llama3");
    c.parameters = {.rope_type = "llama3",
                    .rope_theta = 500000.0,
                    .factor = 8.0,
                    .original_max_position_embeddings = 8192,
                    .low_freq_factor = 1.0,
                    .high_freq_factor = 4.0};
    c.head_dim = 64;
    c.max_position_embeddings = 131072;
  }
  for (const auto length : {std::optional<int64_t>(), std::optional<int64_t>(64), std::optional<int64_t>(65)}) {
    for (const auto factor : {std::optional<double>(), std::optional<double>(2.0)}) {
      Case& c = add("longrope");
      c.parameters.factor = factor;
      c.parameters.original_max_position_embeddings = 64;
      c.parameters.short_factor = {1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.4};
      c.parameters.long_factor = {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0};
      c.seq_len = length;
    }
  }
  {
    Case& c = add("longrope");
    c.parameters.attention_factor = 1.19;
    c.parameters.original_max_position_embeddings = 64;
    c.parameters.short_factor = c.parameters.long_factor = std::vector<double>(8, 1.25);
  }
  return all;
}

Tensor numbers(const Json& json) {
  std::vector<double> values;
  for (const Json& each : json.as_array()) values.push_back(each.as_double());
  return at::tensor(values, at::kDouble);
}

TEST(RopeFrequencies, EqualTheReference) {
  Json request = Json::array();
  for (const Case& c : cases()) request.push_back(c.to_json());
  const Json reference = Json::parse(run_python("operations_peer.py", {"rope", request.dump()}));
  ASSERT_EQ(reference.size(), cases().size());
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const Case c = cases()[i];
    SCOPED_TRACE(c.to_json().dump());
    const RopeFrequencies got = rope_frequencies(c.parameters, c.head_dim, c.max_position_embeddings, c.seq_len);
    EXPECT_TRUE(is_close(got.inv_freq, numbers(reference.at(i).at("inv_freq")), {1e-7, 0.0}));
    EXPECT_DOUBLE_EQ(got.attention_scaling, reference.at(i).at("scaling").as_double());
    const RopeTable table = rope_table(got, at::arange(7));
    EXPECT_TRUE(is_close(table.cos.flatten(), numbers(reference.at(i).at("cos")), {0.0, 1e-6}));
    EXPECT_TRUE(is_close(table.sin.flatten(), numbers(reference.at(i).at("sin")), {0.0, 1e-6}));
  }
}

TEST(RopeFrequencies, DependOnTheLengthForTwoTypes) {
  EXPECT_TRUE(rope_depends_on_length({.rope_type = "dynamic"}));
  EXPECT_TRUE(rope_depends_on_length({.rope_type = "longrope"}));
  EXPECT_FALSE(rope_depends_on_length({.rope_type = "yarn"}));
}

TEST(RopeFrequencies, NameTheKeyThatIsMissingOrWrong) {
  const auto make = [](RopeParameters p) { return [=] { rope_frequencies(p, 16, 256); }; };
  EXPECT_THAT(make({.rope_type = "lama3"}),
              ThrowsMessage<ConfigError>(
                  "[rope_parameters] unknown rope_type \"lama3\"; known: default, linear, dynamic, yarn, "
                  "llama3, longrope. Did you mean \"llama3\"?"));
  EXPECT_THAT(make({.rope_type = "linear"}),
              ThrowsMessage<ConfigError>("[rope_parameters] rope_type \"linear\" needs `factor`; got none."));
  EXPECT_THAT(make({.rope_type = "llama3", .factor = 8.0}),
              ThrowsMessage<ConfigError>("[rope_parameters] rope_type \"llama3\" needs `low_freq_factor`; got none."));
  EXPECT_THAT(make({.rope_type = "llama3", .factor = 8.0, .low_freq_factor = 2.0, .high_freq_factor = 2.0}),
              ThrowsMessage<ConfigError>(
                  "[rope_parameters] high_freq_factor must differ from low_freq_factor; got 2 for both."));
  EXPECT_THAT(
      make({.rope_type = "longrope", .short_factor = {1.0, 2.0}}),
      ThrowsMessage<ConfigError>("[rope_parameters] `short_factor` must have 8 numbers, one for each pair of rotated "
                                 "dimensions; got 2."));
  EXPECT_THAT(
      make({.partial_rotary_factor = 0.2}),
      ThrowsMessage<ConfigError>("[rope_parameters] head_dim * partial_rotary_factor must be an even number in (0, "
                                 "head_dim]; got 16 * 0.2."));
  EXPECT_THAT(make({.rope_theta = 0.0}),
              ThrowsMessage<ConfigError>("[rope_parameters] rope_theta must be positive; got 0."));
  EXPECT_THAT(make({.rope_type = "linear", .factor = -1.0}),
              ThrowsMessage<ConfigError>("[rope_parameters] factor must be positive; got -1."));
}

// rotate_half of the reference, on whole heads.
Tensor by_hand(const Tensor& x, const RopeTable& table, RopeStyle style) {
  const int64_t rotated = 2 * table.cos.size(-1);
  const auto spread = [&](const Tensor& t) {
    return (style == RopeStyle::Half ? at::cat({t, t}, -1) : t.repeat_interleave(2, -1))
        .unsqueeze(2)
        .to(x.scalar_type());
  };
  const Tensor part = x.narrow(-1, 0, rotated);
  Tensor turned;
  if (style == RopeStyle::Half) {
    const auto halves = part.chunk(2, -1);
    turned = at::cat({-halves[1], halves[0]}, -1);
  } else {
    turned = at::stack({-part.slice(-1, 1, rotated, 2), part.slice(-1, 0, rotated, 2)}, -1).flatten(-2);
  }
  return at::cat({part * spread(table.cos) + turned * spread(table.sin), x.narrow(-1, rotated, x.size(-1) - rotated)},
                 -1);
}

RopeTable table_for(const Tensor& positions, int64_t head_dim, double share = 1.0, at::ScalarType type = at::kDouble) {
  return rope_table(rope_frequencies({.partial_rotary_factor = share}, head_dim, 256), positions, type);
}

TEST(ApplyRotary, RotatesHeadsAsTheReferenceDoes) {
  at::manual_seed(0);
  for (const RopeStyle style : {RopeStyle::Half, RopeStyle::Interleaved}) {
    for (const double share : {1.0, 0.5}) {
      for (const int64_t head_dim : {8, 20, 64}) {
        const Tensor positions = at::randint(100, {2, 5}, at::kLong);
        const RopeTable table = table_for(positions, head_dim, share);
        const Tensor q = at::randn({2, 5, 4, head_dim}, at::kDouble), k = at::randn({2, 5, 2, head_dim}, at::kDouble);
        const auto [q_out, k_out] = apply_rotary(q, k, table, style);
        EXPECT_TRUE(is_close(q_out, by_hand(q, table, style), {1e-13, 1e-13}));
        EXPECT_TRUE(is_close(k_out, by_hand(k, table, style), {1e-13, 1e-13}));
      }
    }
  }
}

TEST(ApplyRotary, GradientsMatchDifferences) {
  const RopeTable table = table_for(at::arange(3), 8, 0.5);
  for (const RopeStyle style : {RopeStyle::Half, RopeStyle::Interleaved}) {
    EXPECT_TRUE(
        gradients_match_differences([&](const std::vector<Tensor>& x) { return apply_rotary(x[0], table, style); },
                                    {at::randn({2, 3, 2, 8}, at::kDouble)}));
  }
}

TEST(ApplyRotary, AcceptsHeadsOfAFusedProjection) {
  const RopeTable table = table_for(at::arange(5), 8);
  const Tensor fused = at::randn({2, 5, 7 * 8}, at::kDouble);
  const Tensor view = fused.narrow(-1, 8, 4 * 8).unflatten(-1, {4, 8});
  const Tensor out = apply_rotary(view, table);
  EXPECT_TRUE(out.is_contiguous());
  EXPECT_TRUE(at::equal(out, apply_rotary(view.contiguous(), table)));
  const Tensor heads_first = at::randn({2, 4, 5, 8}, at::kDouble).transpose(1, 2);
  EXPECT_TRUE(at::equal(apply_rotary(heads_first, table), apply_rotary(heads_first.contiguous(), table)));
}

TEST(ApplyRotary, RoundsOnceInHalfPrecision) {
  at::manual_seed(0);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const RopeTable table = table_for(at::arange(40), 64, 1.0, at::kFloat);
    const Tensor x = at::randn({1, 40, 3, 64}).to(type);
    const Tensor exact =
        by_hand(x.to(at::kDouble), {table.cos.to(at::kDouble), table.sin.to(at::kDouble)}, RopeStyle::Half);
    const Tensor out = apply_rotary(x, table);
    EXPECT_EQ(out.scalar_type(), type);
    EXPECT_TRUE(is_close(out, exact, {type == at::kHalf ? 6e-4 : 4e-3, 1e-5}));
  }
}

TEST(ApplyRotary, KeepsNothingOfItsInput) {
  const RopeTable table = table_for(at::arange(64), 64, 1.0, at::kFloat);
  const Tensor x = at::randn({1, 64, 8, 64}).requires_grad_();
  Tensor out;
  const int64_t held = held_bytes([&] { out = apply_rotary(x, table); });
  EXPECT_LT(held, x.numel() * 4 + 1024);  // only the result
}

TEST(ApplyRotary, RejectsMismatchedTables) {
  const Tensor x = at::zeros({2, 5, 4, 8});
  EXPECT_THAT([&] { apply_rotary(x, table_for(at::arange(4), 8)); },
              ThrowsMessage<ShapeError>("[apply_rotary] the table is for batch and tokens 1 x 4; x has 2 x 5."));
  EXPECT_THAT(
      [&] { apply_rotary(x, table_for(at::arange(5), 16)); },
      ThrowsMessage<ShapeError>("[apply_rotary] the table rotates 16 dimensions; a head has 8 (at most 4096)."));
  EXPECT_THAT([&] { rope_table(rope_frequencies({}, 8, 16), at::zeros({1, 2, 3}, at::kLong)); },
              ThrowsMessage<ShapeError>("[rope_table] positions must be [T] or [B, T]; got [1, 2, 3]."));
}

}  // namespace
}  // namespace easydel::operations
