// What the model is given at each step of generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "easydel/infra/base_module.h"

namespace easydel {

// Optional inputs that accompany the ids of a prompt.
struct PromptInputs {
  at::Tensor attention_mask = {};        // [B, T], zero: padding, which is on the left
  at::Tensor starts = {};                // [B], where each row's first token is: the same said shorter
  at::Tensor position_ids = {};          // [B, T]; absent: counted over the mask
  at::Tensor token_type_ids = {};        // [B, T]
  at::Tensor pixel_values = {};          // [images, C, height, width] or patches, in the order of their placeholders
  at::Tensor image_sizes = {};           // [images, 2] of images that were padded to one size
  at::Tensor pixel_attention_mask = {};  // [images, height, width], zero: padding
  at::Tensor image_grid_thw = {};        // [images, 3]: of how many patches each is, where pixel_values are patches
  at::Tensor pixel_values_videos = {};   // patches of videos, likewise
  at::Tensor video_grid_thw = {};        // [videos, 3]
  at::Tensor second_per_grid_ts = {};    // [videos], of models whose positions in time count seconds
};

// Ids, checked: int64 on the model's device, within the vocabulary. Without any (undefined, or no columns) the
// prompt is bos_token_id. ShapeError and ConfigError name the row and the position at fault.
at::Tensor check_prompt(const BaseModule& module, const at::Tensor& input_ids, std::optional<int64_t> bos_token_id,
                        int64_t batch = 1);

// The inputs of the first step: a mask where there is padding, found by pad_token_id when it is not given (and when
// that is not an end token), and positions that do not count it. Each prompt becomes `copies` consecutive rows.
ModelInputs prepare_inputs_for_generation(const at::Tensor& input_ids, const PromptInputs& given,
                                          std::optional<int64_t> pad_token_id, const TokenIds& eos_token_id,
                                          int64_t copies = 1);

// The same with a cache for max_length tokens, for a caller who runs the steps. starts [B] says where rows begin, as
// attention_mask [B, T] does. mask_info replaces the mask of the first step.
ModelInputs prepare_inputs_for_generation(const BaseModule& model, const at::Tensor& input_ids, int64_t max_length,
                                          std::optional<int64_t> pad_token_id = {}, const at::Tensor& starts = {},
                                          const at::Tensor& attention_mask = {}, const at::Tensor& token_type_ids = {},
                                          const std::optional<MaskInfo>& mask_info = {});

// The inputs of the next step, after `next_tokens` [B, T] or [B] were chosen: only those where there is a cache, else
// all.
void update_inputs_for_generation(const ModelOutput& output, ModelInputs& inputs, const at::Tensor& next_tokens);

// Sets the last position of each row, from which the next steps count on, where the positions of the prompt did not
// count its tokens (rope_deltas). Before the mask of the prompt is let go.
void keep_last_positions(const ModelOutput& output, ModelInputs& inputs, const BaseModule* module = nullptr);

// Row i continues row rows[i], in the cache too.
void reorder_inputs_for_generation(ModelInputs& inputs, const at::Tensor& rows);

}  // namespace easydel
