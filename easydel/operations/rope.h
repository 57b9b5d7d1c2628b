// Rotary position embeddings: frequencies for every scaling type, tables for a batch, and the rotation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "easydel/operations/norm.h"
#include "easydel/operations/rope_parameters.h"

namespace easydel::operations {

struct RopeFrequencies {
  at::Tensor inv_freq;             // [R / 2] float32 on the CPU, R the number of rotated dimensions
  double attention_scaling = 1.0;  // cos and sin are multiplied by it
};

// As transformers' ROPE_INIT_FUNCTIONS. `seq_len` matters to dynamic (past max_position_embeddings) and longrope (past
// the original length): the largest position + 1 of the batch. ConfigError names the key that is missing or wrong.
RopeFrequencies rope_frequencies(const RopeParameters& parameters, int64_t head_dim, int64_t max_position_embeddings,
                                 std::optional<int64_t> seq_len = std::nullopt);
// Whether the frequencies depend on seq_len, so that a model must check its positions.
bool rope_depends_on_length(const RopeParameters& parameters);

struct RopeTable {
  at::Tensor cos;  // [B or 1, T, R / 2] float32 (float64 if requested)
  at::Tensor sin;
};

// positions: [B, T] or [T], any integer type. The tables are on the positions' device.
RopeTable rope_table(const RopeFrequencies& frequencies, const at::Tensor& positions,
                     at::ScalarType dtype = at::kFloat);

enum class RopeStyle {
  Half,         // dimension i is paired with i + R/2: llama and most others
  Interleaved,  // dimension 2i is paired with 2i + 1: gptj, cohere, deepseek
};

// Rotates the first R dimensions of each head and copies the rest. q [B, T, N, H] and k [B, T, K, H] of any strides;
// the results are contiguous and have the inputs' types.
std::pair<at::Tensor, at::Tensor> apply_rotary(const at::Tensor& q, const at::Tensor& k, const RopeTable& table,
                                               RopeStyle style = RopeStyle::Half);
at::Tensor apply_rotary(const at::Tensor& x, const RopeTable& table, RopeStyle style = RopeStyle::Half);

// RMS norms of each head of q and k, with weights [H].
struct HeadNorms {
  at::Tensor q, k;
  RmsNormOptions options;
};
// The norms and then the rotation in one launch; nullopt where there is no kernel for that, or a gradient is needed.
std::optional<std::pair<at::Tensor, at::Tensor>> norm_and_rotate(const at::Tensor& q, const at::Tensor& k,
                                                                 const HeadNorms& norms, const RopeTable& table,
                                                                 RopeStyle style = RopeStyle::Half);

}  // namespace easydel::operations
