#include "easydel/infra/config/rope_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

void refuses(const RopeParameters& rope, const std::string& message, int64_t head_dim = 8) {
  EXPECT_THAT([&] { check_rope(rope, "[Toy] ", head_dim); }, ThrowsMessage<ConfigError>("[Toy] " + message));
}

TEST(CheckRope, TakesEveryScaling) {
  RopeParameters rope;
  check_rope(rope, "", 8);
  rope.factor = 2;
  for (const char* type : {"linear", "dynamic"}) {
    rope.rope_type = type;
    check_rope(rope, "", 8);
  }
  rope.original_max_position_embeddings = 16;
  rope.rope_type = "yarn";
  check_rope(rope, "", 8);
  rope.rope_type = "llama3";
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  check_rope(rope, "", 8);
  rope.rope_type = "longrope";
  rope.short_factor = rope.long_factor = {1, 1, 1, 1};
  check_rope(rope, "", 8);
}

TEST(CheckRope, NamesTheKeyThatIsWrong) {
  refuses({.rope_type = "spiral"},
          "rope_parameters.rope_type must be one of default, dynamic, linear, llama3, longrope, yarn; got \"spiral\".");
  refuses({.rope_theta = 0}, "rope_parameters.rope_theta must be above 0 and finite; got 0.");
  refuses({.partial_rotary_factor = 1.5},
          "rope_parameters.partial_rotary_factor must be above 0 and at most 1; got 1.5.");
  refuses({}, "head_dim must be even where whole heads are rotated; got 7.", 7);
  refuses({.rope_type = "linear"}, "rope_parameters.factor must be given for rope_type \"linear\"; got none.");
  refuses({.rope_type = "dynamic", .factor = -1}, "rope_parameters.factor must be above 0; got -1.");
  refuses({.rope_type = "yarn", .factor = 2},
          "rope_parameters.original_max_position_embeddings must be given for rope_type \"yarn\"; got none.");
  refuses({.rope_type = "yarn", .factor = 2, .original_max_position_embeddings = 0},
          "rope_parameters.original_max_position_embeddings must be at least 1; got 0.");
  refuses({.rope_type = "llama3", .factor = 2, .original_max_position_embeddings = 8},
          "rope_parameters.low_freq_factor must be given for rope_type \"llama3\"; got none.");
  refuses({.rope_type = "llama3", .factor = 2, .original_max_position_embeddings = 8, .low_freq_factor = 1},
          "rope_parameters.high_freq_factor must be given for rope_type \"llama3\"; got none.");
  refuses({.rope_type = "llama3",
           .factor = 2,
           .original_max_position_embeddings = 8,
           .low_freq_factor = 4,
           .high_freq_factor = 4},
          "rope_parameters.high_freq_factor must be above low_freq_factor, and both above 0; got 4 and 4.");
  refuses({.rope_type = "longrope", .original_max_position_embeddings = 8, .short_factor = {1, 1, 1}},
          "rope_parameters.short_factor must have one number for each pair of the 8 rotated dimensions of a head, 4; "
          "got 3.");
  refuses({.rope_type = "longrope",
           .partial_rotary_factor = 0.5,
           .original_max_position_embeddings = 8,
           .short_factor = {1, 1}},
          "rope_parameters.long_factor must have one number for each pair of the 4 rotated dimensions of a head, 2; "
          "got 0.");
}

TEST(FillOriginalLength, FillsItInOnlyWhereItIsNeeded) {
  RopeParameters rope{.rope_type = "linear", .factor = 2};
  fill_original_length(rope, 64);
  EXPECT_EQ(rope.original_max_position_embeddings, std::nullopt);
  rope.rope_type = "yarn";
  fill_original_length(rope, 64);
  EXPECT_EQ(rope.original_max_position_embeddings, 64);
  fill_original_length(rope, 128);
  EXPECT_EQ(rope.original_max_position_embeddings, 64);
}

}  // namespace
}  // namespace easydel
