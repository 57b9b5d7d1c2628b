// The mixer: layers/recurrent/mamba.cpp; the layer and the model: models/mamba/model.h.
#include "easydel/models/mamba2/model.h"

namespace easydel {

Mamba2Block::Mamba2Block(const Mamba2Config& c, int64_t layer_idx)
    : StateSpaceBlock(c, Mamba2Spec{.hidden_size = c.hidden_size,
                                    .num_heads = c.num_heads,
                                    .head_dim = c.head_dim.value_or(0),
                                    .state_size = c.state_size,
                                    .groups = c.n_groups,
                                    .conv_kernel = c.conv_kernel,
                                    .chunk_size = c.chunk_size,
                                    .least_time_step = Mamba2Config::time_step_bound(c.time_step_limit, 0),
                                    .most_time_step = Mamba2Config::time_step_bound(c.time_step_limit, 1),
                                    .bias = c.use_bias,
                                    .conv_bias = c.use_conv_bias,
                                    .norm_eps = c.layer_norm_epsilon,
                                    .act = c.hidden_act,
                                    .layer_idx = layer_idx,
                                    .init_stddev = c.initializer_range}) {}

}  // namespace easydel
