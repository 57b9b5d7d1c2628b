// What goes into a model's forward, and what comes out.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "easydel/caching/cache.h"
#include "easydel/core/random.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/layers/batch_part.h"
#include "easydel/operations/attention/mask.h"

namespace easydel {

// Letters: B batch, T tokens, S keys, D hidden, V vocabulary, E experts. attention_mask and segment_ids may be on the
// CPU when the model is not: then a forward pass reads them without waiting for the device.
struct ModelInputs {
  at::Tensor input_ids;       // [B, T]; this or inputs_embeds
  at::Tensor inputs_embeds;   // [B, T, D]
  at::Tensor attention_mask;  // [B, S], zero: padding; or [B, 1 or N, T, S] bool, true: seen
  at::Tensor position_ids;    // [B, T]; absent: counted from the cache's length, and anew in each segment
  at::Tensor segment_ids;     // [B, T] packed sequences: tokens attend only to their own segment; negative: padding
  at::Tensor labels;          // [B, T] for a language model, [B] or [B, labels] for a classifier: gives a loss
  at::Tensor token_type_ids;  // [B, T]
  std::optional<MaskInfo> mask_info = {};  // replaces attention_mask and segment_ids
  std::shared_ptr<Cache> past_key_values = {};
  std::shared_ptr<CacheMetadata> cache_metadata = {};
  std::optional<bool> output_attentions = {};  // absent: as the config says
  std::optional<bool> output_hidden_states = {};
  std::optional<bool> output_router_logits = {};
  std::optional<bool> fused_decode = {};  // absent: true, unless EASYDEL_FUSED_DECODE is 0
  // Only the logits of this many last tokens, or of the tokens with these indices [n]; absent: of all.
  std::optional<int64_t> logits_to_keep = {};
  at::Tensor logit_indices;
  std::optional<bool> output_logits = {};  // absent: only without labels, since a loss needs no whole logits
  std::optional<LossConfig> loss_config = {};
  std::optional<RandomKey> dropout_key = {};  // absent: nothing is dropped

  // The rest is for models that name it in extra_inputs(); others refuse it. Letters: C channels, P patches, F mel
  // features.
  at::Tensor decoder_input_ids;       // [B, T] of an encoder-decoder; absent: the labels shifted right, in training
  at::Tensor decoder_attention_mask;  // [B, T]
  at::Tensor decoder_inputs_embeds;   // [B, T, D]
  at::Tensor encoder_outputs;         // [B, S, D] of an earlier encoder pass: the encoder does not run
  at::Tensor pixel_values;            // [images, C, height, width], or flattened patches [P, features]
  at::Tensor pixel_attention_mask;    // [images, height, width], zero: padding
  at::Tensor image_sizes;             // [images, 2]: height and width before padding
  at::Tensor image_grid_thw;          // [images, 3]: patches in time, height and width
  at::Tensor pixel_values_videos;
  at::Tensor video_grid_thw;
  at::Tensor second_per_grid_ts;  // [videos]: seconds from one step in time of its grid to the next; absent: 1
  at::Tensor input_features;      // [B, F, frames]
  at::Tensor mm_token_type_ids;   // [B, T]: 0 text, 1 image, 2 video
  at::Tensor start_positions;     // [B] of an answer: with end_positions, the labels of question answering
  at::Tensor end_positions;
  std::optional<bool> return_loss = {};  // of a contrastive model
  std::optional<bool> interpolate_pos_encoding = {};
};

// What forward takes: position_ids and mask_info are set. BaseModule::operator() makes one of the user's inputs, once;
// a head passes it on to its base model.
struct PreparedInputs : ModelInputs {
  explicit PreparedInputs(ModelInputs inputs) : ModelInputs(std::move(inputs)) {}

  at::Tensor targets;      // what each position, or each row, is to predict
  at::Tensor last_tokens;  // [B] of a classifier: the token that represents a row
  // On a mesh every rank is given the whole batch, and these inputs are the rank's part, which is this one.
  std::optional<BatchPart> part = {};
  at::Tensor token_mask;        // [B, T] of the part, zero: does not count in the routers' balance
  at::Tensor all_position_ids;  // of the whole
  // Of an encoder-decoder; mask_info, position_ids and part are the encoder's.
  at::Tensor decoder_position_ids;
  std::optional<MaskInfo> decoder_mask_info = {};
  std::optional<MaskInfo> cross_mask_info = {};  // from the decoder's tokens to the encoder's
  std::optional<BatchPart> decoder_part = {};
};

// On a mesh every rank gets the outputs of the whole batch. With labels, hidden states and router logits are gathered
// only when output_hidden_states and output_router_logits of the inputs ask for them, and undefined otherwise.
struct ModelOutput {
  at::Tensor loss;
  at::Tensor logits;                      // [B, T, V], or [B, labels]
  at::Tensor last_hidden_state;           // [B, T, D]
  std::vector<at::Tensor> hidden_states;  // the embeddings, what each layer gives, and the last one normed
  std::vector<at::Tensor> attentions;     // [B, N, T, S] of each layer
  std::vector<at::Tensor> router_logits;  // [B * T, E] of each layer
  at::Tensor aux_loss;                    // the routers' balance, before its coefficient
  std::shared_ptr<Cache> past_key_values;
  LossMetrics metrics;  // with a loss

  at::Tensor pooler_output;              // [B, D]
  at::Tensor encoder_last_hidden_state;  // [B, S, D]
  std::vector<at::Tensor> encoder_hidden_states, encoder_attentions, cross_attentions;
  at::Tensor start_logits, end_logits;           // [B, T] of question answering
  at::Tensor image_embeds, text_embeds;          // [images, D], [texts, D]
  at::Tensor logits_per_image, logits_per_text;  // [images, texts] and its transpose
  at::Tensor image_hidden_states;                // what a tower gives for the placeholders
  at::Tensor rope_deltas;                        // [B, 1]: how far positions lag behind the number of tokens
};

// One struct serves all tasks: what a task does not have stays undefined.
using BaseModelOutput = ModelOutput;
using CausalLMOutput = ModelOutput;
using SequenceClassifierOutput = ModelOutput;
using MoeModelOutput = ModelOutput;
using MoeCausalLMOutput = ModelOutput;
using Seq2SeqModelOutput = ModelOutput;
using Seq2SeqLMOutput = ModelOutput;
using MaskedLMOutput = ModelOutput;
using TokenClassifierOutput = ModelOutput;
using QuestionAnsweringModelOutput = ModelOutput;
using ImageClassifierOutput = ModelOutput;
using CLIPOutput = ModelOutput;
using VLMCausalLMOutput = ModelOutput;

}  // namespace easydel
