#include "easydel/infra/encoder/encoder.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/decoder.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

BlockSpec encoder_block_spec(const EncoderConfig& c, int64_t layer_idx) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .num_heads = c.num_attention_heads,
                        .num_kv_heads = c.num_attention_heads,
                        .head_dim = c.head_size(),
                        .layer_idx = layer_idx,
                        .qkv_bias = c.qkv_bias,
                        .out_bias = true,
                        .rope = std::nullopt,
                        .dropout = c.attention_dropout,
                        .init_stddev = c.initializer_range,
                        .out_name = "out_proj"},
          .mlp = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.intermediate_size,
                  .act = c.hidden_act,
                  .gated = false,
                  .bias = true,
                  .init_stddev = c.initializer_range,
                  .up_name = "fc1",
                  .down_name = "fc2"},
          .norm = {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps},
          .dropout = c.hidden_dropout,
          .before_attention = "layer_norm1",
          .before_mlp = "layer_norm2"};
}

Encoder::Encoder(const EncoderConfig& config) : layers_(add<ModuleList<EncoderLayer>>("layers")) {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers_.append(config, i);
}

TextEmbeddings::TextEmbeddings(const EncoderConfig& c)
    : longest_(c.max_position_embeddings),
      tokens_(
          add<Embedding>("token_embedding", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_range)),
      positions_(add<Embedding>("position_embedding", c.max_position_embeddings, c.hidden_size, c.initializer_range)) {}

at::Tensor TextEmbeddings::operator()(const PreparedInputs& inputs) const {
  const int64_t tokens = inputs.part ? inputs.part->given_tokens : inputs.input_ids.size(1);
  require<ShapeError>(tokens <= longest_, "[forward] a text may have at most ", longest_,
                      " tokens (max_position_embeddings); got ", tokens, ".");
  return tokens_(inputs.input_ids) + positions_(inputs.position_ids);
}

ModelOutput run_encoder(const BaseModule& module, const PreparedInputs& prepared, at::Tensor embeddings,
                        const std::vector<const DecoderLayer*>& layers) {
  const auto context = make_context(module, prepared);
  StackOutput stack = run_layers(layers, std::move(embeddings), context);
  ModelOutput out;
  out.last_hidden_state = std::move(stack.hidden);
  out.hidden_states = std::move(stack.hidden_states);
  if (context->output_hidden_states) out.hidden_states.push_back(out.last_hidden_state);
  out.attentions = std::move(stack.attentions);
  return out;
}

PreparedInputs image_inputs(const PreparedInputs& given) {
  PreparedInputs inputs{ModelInputs{}};
  inputs.pixel_values = given.pixel_values;
  inputs.interpolate_pos_encoding = given.interpolate_pos_encoding;
  inputs.output_attentions = given.output_attentions;
  inputs.output_hidden_states = given.output_hidden_states;
  inputs.dropout_key = given.dropout_key;
  MaskInfo mask;
  mask.causal = false;
  inputs.mask_info = mask;
  inputs.part = given.decoder_part ? given.decoder_part : given.part;
  return inputs;
}

at::Tensor pick_tokens(const BaseModule& module, const at::Tensor& hidden, const PreparedInputs& inputs,
                       const Linear* map) {
  const at::Tensor each = at::arange(hidden.size(0), inputs.last_tokens.options());
  const auto mapped = [&](const at::Tensor& x) { return map ? (*map)(x) : x; };
  if (!module.parallel()) return mapped(hidden.index({each, inputs.last_tokens}));
  // The token lies on one of the ranks that share a row; the others have zeros.
  const at::Tensor place = inputs.last_tokens - inputs.part->first_token;
  const at::Tensor own = place.ge(0).logical_and(place.lt(hidden.size(1)));
  const at::Tensor picked = hidden.index({each, place.clamp(0, hidden.size(1) - 1)}) * own.unsqueeze(1);
  return collectives::sum(mapped(picked) * own.unsqueeze(1), module.parallel()->group(module.parallel()->sequence()));
}

void rename_in_files(Module& module, const std::vector<std::pair<std::string, std::string>>& table) {
  for (const auto& [path, parameter] : module.named_parameters()) {
    const Parameter* own = parameter.get();
    parameter->file_layout = [own, table, inner = parameter->file_layout](const std::string& name) {
      FileLayout layout = inner ? inner(name) : own->whole_layout(name);
      for (FilePiece& piece : layout) {
        for (const auto& [from, to] : table) {
          if (const std::size_t at = piece.name.find(from); at != std::string::npos)
            piece.name.replace(at, from.size(), to);
        }
      }
      return layout;
    };
  }
}

}  // namespace easydel
