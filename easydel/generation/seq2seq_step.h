// Generation by an encoder-decoder: the encoder runs once, and each step is the decoder's.
#pragma once

#include "easydel/generation/decode_step.h"
#include "easydel/generation/generation_config.h"

namespace easydel {

// What the decoder begins with, [batch, 1]: decoder_start_token_id, else bos_token_id. ConfigError without either.
at::Tensor decoder_start(const GenerationConfig& config, const at::Tensor& encoder_ids, int64_t vocab_size);

// Runs the encoder on ids [B, S], padded on either side, and makes the inputs of the decoder's first step; each prompt
// becomes `copies` rows.
ModelInputs prepare_seq2seq_generation(const BaseModule& model, const at::Tensor& encoder_ids,
                                       const at::Tensor& decoder_ids, const PromptInputs& given,
                                       std::optional<int64_t> pad_token_id, const TokenIds& eos_token_id,
                                       int64_t copies = 1);

std::unique_ptr<DecodeStep> make_seq2seq_step(const BaseModule& module, ModelInputs inputs, bool use_cache,
                                              int64_t max_length);

}  // namespace easydel
