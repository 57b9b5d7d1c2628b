#include "easydel/infra/encoder/seq2seq.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

// All tokens of the encoder for ranks that then compute with different queries and heads: gradients are summed.
at::Tensor all_tokens(const at::Tensor& hidden, const BatchPart& part, const Parallel& parallel) {
  at::Tensor whole = hidden;
  if (part.sequence_sharded && parallel.mesh().size(parallel.sequence()) > 1) {
    const Group& group = parallel.group(parallel.sequence());
    const std::vector<int64_t> sizes(static_cast<std::size_t>(group.size()), hidden.size(1));
    whole = collectives::identity_forward_sum_backward(collectives::gather(hidden, 1, sizes, group), group);
  }
  return collectives::identity_forward_sum_backward(whole, parallel.group(parallel.axes(LogicalAxis::Head)));
}

}  // namespace

void EncoderStates::put_into(ForwardContext& ctx) const {
  ctx.encoder_hidden = hidden;
  ctx.cross_mask = mask;
  ctx.encoder_part = part;
}

std::vector<std::string> Seq2SeqModel::extra_inputs() const {
  return {"decoder_input_ids", "decoder_attention_mask", "decoder_inputs_embeds", "encoder_outputs"};
}

ModelOutput Seq2SeqModel::encode(const PreparedInputs& inputs) const { return encoder_forward(encoder_inputs(inputs)); }

void Seq2SeqModel::prepare_whole(PreparedInputs& inputs) const {
  prepare_decoder(*this, inputs, right_shift(), decoder_reads_inputs());
}

void Seq2SeqModel::shift_labels(PreparedInputs& in) const {
  const bool given = in.decoder_input_ids.defined() || in.decoder_inputs_embeds.defined();
  if (given || !in.labels.defined() || in.labels.dim() != 2 || in.labels.size(1) == 0) return;
  in.decoder_input_ids = shift_right(in.labels, right_shift(), type_name());
}

ModelOutput Seq2SeqModel::forward(const PreparedInputs& inputs) const {
  require<ConfigError>(inputs.decoder_mask_info.has_value(), "[", type_name(),
                       "] decoder_input_ids or decoder_inputs_embeds are needed, or labels to derive them from.");
  ModelOutput encoded;
  if (inputs.encoder_outputs.defined())
    encoded.last_hidden_state = inputs.encoder_outputs.to(dtype());
  else
    encoded = encode(inputs);
  EncoderStates states{.hidden = encoded.last_hidden_state, .mask = *inputs.cross_mask_info};
  if (parallel()) {
    states.part = *inputs.part;
    states.hidden = all_tokens(states.hidden, states.part, *parallel());
  }
  ModelOutput out = decoder_forward(decoder_inputs(inputs), states);
  out.encoder_last_hidden_state = std::move(encoded.last_hidden_state);
  out.encoder_hidden_states = std::move(encoded.hidden_states);
  out.encoder_attentions = std::move(encoded.attentions);
  return out;
}

at::Tensor last_end_tokens(const BaseModule& model, const PreparedInputs& inputs) {
  require<NotSupportedError>(inputs.input_ids.defined(), "[", model.type_name(),
                             "] input_ids are needed, to find where each row ends.");
  require<ConfigError>(model.config().eos_token_id.size() == 1, "[", model.type_name(),
                       "] the config must have one eos_token_id, to find where each row ends; got ",
                       model.config().eos_token_id.size(), ".");
  const at::Tensor ends = inputs.input_ids.eq(*model.config().eos_token_id.begin());
  const at::Tensor count = ends.sum(1);
  require<ConfigError>(count.eq(count[0]).all().item<bool>() && count[0].item<int64_t>() > 0, "[", model.type_name(),
                       "] every row of input_ids must have the same number of eos_token_id, and at least one.");
  const at::Tensor places = at::arange(ends.size(1), inputs.position_ids.options());
  return (places * ends).argmax(-1);
}

}  // namespace easydel
