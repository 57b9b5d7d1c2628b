// When each token was said, by what the decoder looked at.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace easydel {

// The way through costs [T, S] from the first to the last of both that costs least: which column row t begins at, for
// each t. Steps go down, right or both, as in transformers.
std::vector<int64_t> warp_time(const at::Tensor& cost_TS);

// Seconds from the window's begin to the end of each of T tokens, of cross attentions [N, T, S] of each layer while the
// tokens were read, by the heads (layer, head) that follow the sound. `states` of S are sound and count; the weights
// are smoothed by a median over `filter_width` of them, an odd number.
std::vector<double> token_times(const std::vector<at::Tensor>& attentions,
                                const std::vector<std::pair<int64_t, int64_t>>& heads, int64_t states,
                                int64_t filter_width);

}  // namespace easydel
