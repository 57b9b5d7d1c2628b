// Generation by an encoder-decoder: the encoder runs once, and each step is the decoder's.
#pragma once

#include "easydel/generation/decode_step.h"
#include "easydel/generation/generate.h"
#include "easydel/generation/generation_config.h"

namespace easydel {

// Features [B, F, frames] of sound on the model's device; a single [F, frames] is a batch of one. ShapeError otherwise.
at::Tensor check_sound(const BaseModule& module, const at::Tensor& input_features);

// generate with the decoder's first tokens [B, T], in place of decoder_start_token_id. `main_input` is what the encoder
// reads: ids, or features of sound; `encoder_states` are what it made of them, where that is known.
GenerateOutput generate_behind(const BaseModule& module, const at::Tensor& main_input, const at::Tensor& decoder_ids,
                               const GenerateOptions& options, const at::Tensor& encoder_states = {});

// What the decoder begins with, [batch, 1]: decoder_start_token_id, else bos_token_id. ConfigError without either.
at::Tensor decoder_start(const GenerationConfig& config, const at::Tensor& main_input, int64_t vocab_size);

// Runs the encoder on ids [B, S], padded on either side, or on features of sound, unless its states are given, and
// makes the inputs of the decoder's first step; each prompt becomes `copies` rows.
ModelInputs prepare_seq2seq_generation(const BaseModule& model, const at::Tensor& main_input,
                                       const at::Tensor& decoder_ids, const PromptInputs& given,
                                       std::optional<int64_t> pad_token_id, const TokenIds& eos_token_id,
                                       int64_t copies = 1, const at::Tensor& encoder_states = {});

std::unique_ptr<DecodeStep> make_seq2seq_step(const BaseModule& module, ModelInputs inputs, bool use_cache,
                                              int64_t max_length);

}  // namespace easydel
