// The tables that EasyDeL's configs hand out: rotary frequencies and masks.
#include <ATen/ATen.h>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/core/random.h"
#include "easydel/infra/config/base_config.h"
#include "easydel/operations/attention/mask.h"
#include "easydel/operations/rope.h"

namespace easydel {
namespace {

using operations::RopeFrequencies;

RopeFrequencies frequencies(const BaseConfig& config, const BaseConfig::RopeOptions& options, int64_t length) {
  RopeParameters rope = config.rope;
  const int64_t head_size = options.head_size.value_or(config.head_size());
  if (options.base) rope.rope_theta = *options.base;
  if (options.rotary_dim) {
    require<ConfigError>(*options.rotary_dim >= 2 && *options.rotary_dim <= head_size,
                         "[get_basic_rope] rotary_dim must be at least 2 and at most the head size ", head_size,
                         "; got ", *options.rotary_dim, ".");
    rope.partial_rotary_factor = static_cast<double>(*options.rotary_dim) / static_cast<double>(head_size);
  }
  return operations::rope_frequencies(rope, head_size, config.max_position_embeddings, length);
}

int64_t table_length(const BaseConfig& config) {
  return config.attention.freq_max_position_embeddings.value_or(config.max_position_embeddings);
}

}  // namespace

at::Tensor BaseConfig::get_basic_inv_frequencies(const RopeOptions& options) const {
  return frequencies(*this, options, table_length(*this)).inv_freq;
}

at::Tensor BaseConfig::get_basic_frequencies(const RopeOptions& options) const {
  const int64_t length = table_length(*this);
  const auto table = operations::rope_table(frequencies(*this, options, length), at::arange(length));
  return at::cat({table.cos, table.sin}, -1).squeeze(0);
}

BaseConfig::RopeFunction BaseConfig::get_basic_rope(const RopeOptions& options) const {
  const std::shared_ptr<const BaseConfig> config = clone();
  const auto style = options.is_neox_style ? operations::RopeStyle::Half : operations::RopeStyle::Interleaved;
  const bool by_length = operations::rope_depends_on_length(rope);
  const RopeFrequencies fixed = frequencies(*this, options, max_position_embeddings);
  return [=](const at::Tensor& q, const at::Tensor& k, const at::Tensor& positions) {
    const bool measure = by_length && positions.numel() > 0;
    const auto table =
        operations::rope_table(measure ? frequencies(*config, options, positions.max().item<int64_t>() + 1) : fixed,
                               positions, acc_type(q.scalar_type()));
    auto [rotated_q, rotated_k] = operations::apply_rotary(q, k, table, style);
    if (!options.dtype) return std::pair(rotated_q, rotated_k);
    return std::pair(rotated_q.to(*options.dtype), rotated_k.to(*options.dtype));
  };
}

at::Tensor BaseConfig::get_basic_causal_mask(std::optional<int64_t> length) const {
  const int64_t size = length.value_or(attention.mask_max_position_embeddings.value_or(max_position_embeddings));
  return MaskInfo{}.to_bool(size, size, at::kCPU);
}

at::Tensor BaseConfig::get_fcm_mask(int64_t batch_size, int64_t sequence_length, bool deterministic,
                                    const RandomKey& key) const {
  if (deterministic || attention.fcm_max_ratio <= 0) return {};
  const at::Tensor ratio = at::empty({batch_size, 1, 1, 1});
  const at::Tensor drawn = at::empty({batch_size, 1, sequence_length, sequence_length});
  fill_uniform(ratio, key.fold("fcm_ratio"), attention.fcm_min_ratio, attention.fcm_max_ratio);
  fill_uniform(drawn, key.fold("fcm_mask"), 0.0, 1.0);
  at::Tensor mask = drawn > ratio;
  mask.select(-1, 0).fill_(true);  // the first token is never forgotten
  return mask;
}

}  // namespace easydel
