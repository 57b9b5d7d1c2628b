// The inputs of encoder-decoders: two sequences of different lengths.
#pragma once

#include "easydel/infra/base_module.h"

namespace easydel {

// Whether a model has an encoder and a decoder behind it: it takes decoder_input_ids.
bool is_seq2seq(const BaseModule& model);

// What check_inputs and prepare_inputs_for_call do for such a model. The encoder's inputs are input_ids, inputs_embeds
// or the encoder_outputs of an earlier call; attention_mask is the encoder's, and hides its tokens from the decoder
// too. A model of speech takes input_features or encoder_outputs, and no mask.
void check_seq2seq_inputs(const BaseModule& model, const ModelInputs& inputs);
PreparedInputs prepare_seq2seq_inputs(const BaseModule& model, ModelInputs inputs);

// What begins a decoder's row, and what stands for labels that do not count.
struct RightShift {
  std::optional<int64_t> decoder_start_token_id;
  std::optional<int64_t> pad_token_id;
  bool wraps_last = false;  // a row begins with its own last token that is not padding, instead of the start token
};
// Ids [B, T] one place to the right, behind decoder_start_token_id. ConfigError without the two tokens.
at::Tensor shift_right(const at::Tensor& ids, const RightShift& shift, const std::string& where);

// Makes the decoder's ids of input_ids where they are not given, if `from_inputs`; then positions and masks of the
// decoder. Without any ids only the encoder can run.
void prepare_decoder(const BaseModule& model, PreparedInputs& inputs, const RightShift& shift, bool from_inputs);

// Of these inputs those of one stack, as a model of one stack takes them.
PreparedInputs encoder_inputs(const PreparedInputs& inputs);
PreparedInputs decoder_inputs(const PreparedInputs& inputs);

// A model whose attention looks both ways.
void see_both_ways(PreparedInputs& inputs);

// The encoder of a model alone, on one device or a mesh: encoder_last_hidden_state of the whole batch.
at::Tensor run_encoder(const BaseModule& model, const ModelInputs& inputs);

}  // namespace easydel
