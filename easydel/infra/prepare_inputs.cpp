#include "easydel/infra/prepare_inputs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/infra/decoder/mrope.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/infra/parallel/batch_part.h"

namespace easydel {
namespace {

void require_shape(const at::Tensor& tensor, std::string_view name, at::IntArrayRef shape) {
  require<ShapeError>(!tensor.defined() || tensor.sizes() == shape, "[forward] ", name, " must be ", shape, "; got ",
                      tensor.defined() ? tensor.sizes() : at::IntArrayRef(), ".");
}

// What the model does not take is refused, not ignored.
void check_extra_inputs(const BaseModule& model, const ModelInputs& in) {
  const std::pair<std::string_view, bool> given[] = {
      {"decoder_input_ids", in.decoder_input_ids.defined()},
      {"decoder_attention_mask", in.decoder_attention_mask.defined()},
      {"decoder_inputs_embeds", in.decoder_inputs_embeds.defined()},
      {"encoder_outputs", in.encoder_outputs.defined()},
      {"pixel_values", in.pixel_values.defined()},
      {"pixel_attention_mask", in.pixel_attention_mask.defined()},
      {"image_sizes", in.image_sizes.defined()},
      {"image_grid_thw", in.image_grid_thw.defined()},
      {"pixel_values_videos", in.pixel_values_videos.defined()},
      {"video_grid_thw", in.video_grid_thw.defined()},
      {"second_per_grid_ts", in.second_per_grid_ts.defined()},
      {"input_features", in.input_features.defined()},
      {"mm_token_type_ids", in.mm_token_type_ids.defined()},
      {"start_positions", in.start_positions.defined()},
      {"end_positions", in.end_positions.defined()},
      {"return_loss", in.return_loss.has_value()},
      {"interpolate_pos_encoding", in.interpolate_pos_encoding.has_value()},
  };
  const std::vector<std::string> taken = model.extra_inputs();
  for (const auto& [name, is_given] : given) {
    require<ConfigError>(!is_given || std::find(taken.begin(), taken.end(), name) != taken.end(), "[forward] ",
                         model.type_name(), " does not accept ", name, ".");
  }
}

void check_weights(const BaseModule& model) {
  require<Error>(!model.is_lazy(), "[forward] ", model.type_name(),
                 " has no weights yet: it was created by lazy_init. Load them or call initialize.");
}

// Of a model of images or sound, which takes nothing of a text.
void check_other_inputs(const BaseModule& model, const ModelInputs& in) {
  const bool is_given =
      model.main_input_name() == "pixel_values" ? in.pixel_values.defined() : in.input_features.defined();
  require<ConfigError>(is_given, "[forward] ", model.type_name(), " needs ", model.main_input_name(), "; got none.");
  const std::pair<std::string_view, bool> given[] = {{"input_ids", in.input_ids.defined()},
                                                     {"inputs_embeds", in.inputs_embeds.defined()},
                                                     {"attention_mask", in.attention_mask.defined()},
                                                     {"position_ids", in.position_ids.defined()},
                                                     {"segment_ids", in.segment_ids.defined()},
                                                     {"token_type_ids", in.token_type_ids.defined()},
                                                     {"past_key_values", in.past_key_values != nullptr}};
  for (const auto& [name, is_given] : given)
    require<ConfigError>(!is_given, "[forward] ", model.type_name(), " does not accept ", name, ".");
  check_weights(model);
}

PreparedInputs prepare_sound_inputs(const BaseModule& model, PreparedInputs inputs) {
  MaskInfo mask;
  mask.causal = false;
  inputs.mask_info = mask;
  const int64_t rows = inputs.input_features.size(0), tokens = (inputs.input_features.size(2) + 1) / 2;
  inputs.position_ids =
      at::arange(tokens, inputs.input_features.options().dtype(at::kLong)).unsqueeze(0).expand({rows, tokens});
  model.prepare_whole(inputs);
  return model.parallel() ? take_part(std::move(inputs), *model.parallel(), /*targets_by_token=*/false) : inputs;
}

PreparedInputs prepare_image_inputs(const BaseModule& model, PreparedInputs inputs) {
  MaskInfo mask;
  mask.causal = false;
  inputs.mask_info = mask;
  model.prepare_whole(inputs);
  return model.parallel() ? take_images(std::move(inputs), *model.parallel()) : inputs;
}

}  // namespace

void check_inputs(const BaseModule& model, const ModelInputs& in) {
  check_extra_inputs(model, in);
  if (is_seq2seq(model)) return check_seq2seq_inputs(model, in);
  const std::vector<std::string> extra = model.extra_inputs();
  const auto takes = [&](const char* name) { return std::find(extra.begin(), extra.end(), name) != extra.end(); };
  if (in.pixel_values.defined() && !takes("image_grid_thw")) {  // a tower of patches checks them itself
    // Those that take a mask of pixels take images by row too: [batch, images, channels, height, width].
    const bool by_row =
        in.pixel_values.dim() == 5 && model.main_input_name() == "input_ids" && takes("pixel_attention_mask");
    require<ShapeError>((in.pixel_values.dim() == 4 || by_row) && in.pixel_values.is_floating_point(),
                        "[forward] pixel_values must be floats [images, channels, height, width]; got ",
                        in.pixel_values.sizes(), " of ", c10::toString(in.pixel_values.scalar_type()), ".");
  }
  if (in.input_features.defined()) {
    require<ShapeError>(in.input_features.dim() == 3 && in.input_features.is_floating_point(),
                        "[forward] input_features must be floats [batch, mel features, frames]; got ",
                        in.input_features.sizes(), " of ", c10::toString(in.input_features.scalar_type()), ".");
  }
  if (model.main_input_name() != "input_ids") return check_other_inputs(model, in);
  require<ConfigError>(in.input_ids.defined() != in.inputs_embeds.defined(),
                       "[forward] exactly one of input_ids and inputs_embeds is needed; got ",
                       in.input_ids.defined() ? "both" : "neither", ".");
  const bool ids = in.input_ids.defined();
  require<ShapeError>(!ids || in.input_ids.dim() == 2, "[forward] input_ids must be [batch, tokens]; got ",
                      ids ? in.input_ids.sizes() : at::IntArrayRef(), ".");
  require<ShapeError>(!ids || at::isIntegralType(in.input_ids.scalar_type(), false),
                      "[forward] input_ids must be integers; got ",
                      ids ? c10::toString(in.input_ids.scalar_type()) : "", ".");
  const auto* sees = dynamic_cast<const AcceptsImages*>(&model);
  const int64_t hidden = model.config().hidden_size, deep = sees ? hidden * (1 + sees->deep_layers()) : hidden;
  const auto fits = [&](int64_t width) { return width == hidden || width == deep; };
  require<ShapeError>(ids || (in.inputs_embeds.dim() == 3 && fits(in.inputs_embeds.size(2))),
                      "[forward] inputs_embeds must be [batch, tokens, ", model.config().hidden_size, "]; got ",
                      ids ? at::IntArrayRef() : in.inputs_embeds.sizes(), ".");
  const at::IntArrayRef shape = (ids ? in.input_ids : in.inputs_embeds).sizes().slice(0, 2);
  if (in.position_ids.defined() && in.position_ids.dim() == 3 && dynamic_cast<const GridPositions*>(&model)) {
    require_shape(in.position_ids, "position_ids", {3, shape[0], shape[1]});
  } else {
    require_shape(in.position_ids, "position_ids", shape);
  }
  require_shape(in.segment_ids, "segment_ids", shape);
  require_shape(in.token_type_ids, "token_type_ids", shape);
  // Here and not in attention, which never sees a mask that hides nothing.
  if (in.attention_mask.defined()) {
    const at::IntArrayRef mask = in.attention_mask.sizes();
    const int64_t keys = shape[1] + (in.past_key_values ? in.past_key_values->length() : 0);
    const int64_t heads = model.config().num_attention_heads;
    const bool fits = mask.size() == 2
                          ? mask[0] == shape[0] && mask[1] == keys
                          : mask.size() == 4 && (mask[0] == shape[0] || mask[0] == 1) &&
                                (mask[1] == heads || mask[1] == 1) && mask[2] == shape[1] && mask[3] == keys;
    require<ShapeError>(fits, "[forward] attention_mask must be [", shape[0], ", ", keys, "] or [", shape[0], ", 1 or ",
                        heads, ", ", shape[1], ", ", keys, "]; got ", mask, ".");
  }
  check_weights(model);
}

namespace {

at::Device device_of(const ModelInputs& in, at::Device otherwise) {
  for (const at::Tensor* x : {&in.input_ids, &in.inputs_embeds, &in.pixel_values, &in.input_features,
                              &in.decoder_input_ids, &in.encoder_outputs}) {
    if (x->defined()) return x->device();
  }
  return otherwise;
}

}  // namespace

PreparedInputs prepare_inputs_for_call(const BaseModule& model, ModelInputs user_inputs) {
  const at::Tensor given_mask = user_inputs.attention_mask, given_segments = user_inputs.segment_ids;
  const at::Device device = device_of(user_inputs, model.options().device);
  if (given_mask.defined()) user_inputs.attention_mask = copy_to(given_mask, device);
  if (given_segments.defined()) user_inputs.segment_ids = copy_to(given_segments, device);
  if (is_seq2seq(model)) return prepare_seq2seq_inputs(model, std::move(user_inputs));
  PreparedInputs inputs(std::move(user_inputs));
  if (model.main_input_name() == "pixel_values") return prepare_image_inputs(model, std::move(inputs));
  if (model.main_input_name() == "input_features") return prepare_sound_inputs(model, std::move(inputs));
  const at::Tensor& given = inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds;
  const int64_t batch = given.size(0);
  const int64_t tokens = given.size(1);
  inputs.all_position_ids = inputs.position_ids;  // until there are parts: those that the caller gave
  if (!inputs.position_ids.defined() && inputs.past_key_values) {
    inputs.position_ids = inputs.past_key_values->positions(batch, tokens, inputs.cache_metadata.get(), given.device());
  }
  if (!inputs.position_ids.defined()) {
    const at::Tensor counted = at::arange(tokens, given.options().dtype(at::kLong));
    inputs.position_ids = counted.unsqueeze(0).expand({batch, tokens});
    if (inputs.segment_ids.defined() && tokens > 0) {
      // The first slot of a token's segment is the largest start up to it.
      const at::Tensor ids = inputs.segment_ids;
      const at::Tensor starts = at::cat({at::ones_like(ids.narrow(1, 0, 1), at::kBool),
                                         ids.narrow(1, 1, tokens - 1).ne(ids.narrow(1, 0, tokens - 1))},
                                        1);
      const at::Tensor first = std::get<0>(at::where(starts, inputs.position_ids, 0).cummax(1));
      inputs.position_ids = inputs.position_ids - first;
    }
  }
  if (!inputs.mask_info) {
    MaskInfo mask;
    if (inputs.attention_mask.defined()) {
      if (inputs.attention_mask.dim() == 4) {
        mask.causal = false;
        mask.explicit_mask = inputs.attention_mask.to(at::kBool);
      } else {
        mask.padding_mask = inputs.past_key_values ? inputs.attention_mask : given_mask;
      }
    }
    mask.q_segment_ids = given_segments;
    inputs.mask_info = mask.simplified();
  }
  if (model.config().attention.fcm_max_ratio > 0 && inputs.dropout_key && !inputs.past_key_values) {
    const at::Tensor kept = model.config()
                                .get_fcm_mask(batch, tokens, /*deterministic=*/false, inputs.dropout_key->fold("fcm"))
                                .to(given.device());
    at::Tensor& mask = inputs.mask_info->explicit_mask;
    mask = mask.defined() ? mask.logical_and(kept) : kept;
    inputs.mask_info->memory = MaskInfo::make_memory();
  }
  model.prepare_whole(inputs);
  if (!model.parallel()) return inputs;
  return take_part(std::move(inputs), *model.parallel(), is_token_task(model.model_task()));
}

}  // namespace easydel
