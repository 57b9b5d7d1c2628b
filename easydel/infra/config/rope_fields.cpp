#include "easydel/infra/config/rope_fields.h"

#include <cmath>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

const std::set<std::string> kRopeTypes = {"default", "dynamic", "linear", "llama3", "longrope", "yarn"};
const std::set<std::string> kNeedsFactor = {"dynamic", "linear", "llama3", "yarn"};
const std::set<std::string> kNeedsOriginalLength = {"llama3", "longrope", "yarn"};

void check_present(bool present, const std::string& where, const std::string& block, const RopeParameters& rope,
                   const char* key) {
  require<ConfigError>(present, where, block, ".", key, " must be given for rope_type ", quoted(rope.rope_type),
                       "; got none.");
}

void check_factor_list(const std::vector<double>& factors, const std::string& where, const std::string& key,
                       int64_t rotated) {
  require<ConfigError>(static_cast<int64_t>(factors.size()) == rotated / 2, where, key,
                       " must have one number for each pair of the ", rotated, " rotated dimensions of a head, ",
                       rotated / 2, "; got ", factors.size(), ".");
}

}  // namespace

void list_fields(RopeParameters& rope, FieldVisitor& v) {
  v("rope_type", rope.rope_type, "default, linear, dynamic, yarn, llama3 or longrope.");
  v("rope_theta", rope.rope_theta, "Base of the frequencies.");
  v.only_when_changed();
  v("partial_rotary_factor", rope.partial_rotary_factor, "Share of each head that is rotated.");
  v("factor", rope.factor, "How much longer the sequences are than in training.");
  v("original_max_position_embeddings", rope.original_max_position_embeddings, "Length in training.");
  v("attention_factor", rope.attention_factor, "yarn, longrope: scales cos and sin.");
  v("beta_fast", rope.beta_fast, "yarn: where extrapolation ends.");
  v("beta_slow", rope.beta_slow, "yarn: where interpolation begins.");
  v("mscale", rope.mscale, "yarn: numerator of the attention factor.");
  v("mscale_all_dim", rope.mscale_all_dim, "yarn: denominator of the attention factor.");
  v("low_freq_factor", rope.low_freq_factor, "llama3: low frequencies are scaled whole.");
  v("high_freq_factor", rope.high_freq_factor, "llama3: high frequencies are left alone.");
  v("short_factor", rope.short_factor, "longrope: divides the frequencies up to the original length.");
  v("long_factor", rope.long_factor, "longrope: divides the frequencies past the original length.");
  v("truncate", rope.truncate, "yarn: round the ends of the ramp to whole dimensions.");
}

void check_rope(const RopeParameters& rope, const std::string& where, int64_t head_dim, const std::string& block) {
  if (!kRopeTypes.contains(rope.rope_type)) {
    std::string known;
    for (const std::string& type : kRopeTypes) known += (known.empty() ? "" : ", ") + type;
    fail<ConfigError>(where, block, ".rope_type must be one of ", known, "; got ", quoted(rope.rope_type), ".");
  }
  require<ConfigError>(rope.rope_theta > 0 && std::isfinite(rope.rope_theta), where, block,
                       ".rope_theta must be above 0 and finite; got ", rope.rope_theta, ".");
  require<ConfigError>(rope.partial_rotary_factor > 0 && rope.partial_rotary_factor <= 1, where, block,
                       ".partial_rotary_factor must be above 0 and at most 1; got ", rope.partial_rotary_factor, ".");
  const auto rotated = static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
  require<ConfigError>(rotated != head_dim || rotated % 2 == 0, where,
                       "head_dim must be even where whole heads are rotated; got ", head_dim, ".");
  if (kNeedsFactor.contains(rope.rope_type)) check_present(rope.factor.has_value(), where, block, rope, "factor");
  require<ConfigError>(!rope.factor || *rope.factor > 0, where, block, ".factor must be above 0; got ",
                       rope.factor.value_or(0), ".");
  if (kNeedsOriginalLength.contains(rope.rope_type)) {
    check_present(rope.original_max_position_embeddings.has_value(), where, block, rope,
                  "original_max_position_embeddings");
    require<ConfigError>(*rope.original_max_position_embeddings >= 1, where, block,
                         ".original_max_position_embeddings must be at least 1; got ",
                         *rope.original_max_position_embeddings, ".");
  }
  if (rope.rope_type == "llama3") {
    check_present(rope.low_freq_factor.has_value(), where, block, rope, "low_freq_factor");
    check_present(rope.high_freq_factor.has_value(), where, block, rope, "high_freq_factor");
    require<ConfigError>(*rope.low_freq_factor > 0 && *rope.high_freq_factor > *rope.low_freq_factor, where, block,
                         ".high_freq_factor must be above low_freq_factor, and both above 0; got ",
                         *rope.high_freq_factor, " and ", *rope.low_freq_factor, ".");
  }
  if (rope.rope_type == "longrope") {
    check_factor_list(rope.short_factor, where, block + ".short_factor", rotated);
    check_factor_list(rope.long_factor, where, block + ".long_factor", rotated);
  }
}

void fill_original_length(RopeParameters& rope, int64_t max_position_embeddings) {
  if (kNeedsOriginalLength.contains(rope.rope_type) && !rope.original_max_position_embeddings) {
    rope.original_max_position_embeddings = max_position_embeddings;
  }
}

}  // namespace easydel
