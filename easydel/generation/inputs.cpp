#include "easydel/generation/inputs.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/accepts_images.h"

namespace easydel {
namespace {

void require_like(const at::Tensor& tensor, const at::Tensor& ids, std::string_view name) {
  require<ShapeError>(!tensor.defined() || tensor.sizes() == ids.sizes(), "[generate] ", name, " must be ", ids.sizes(),
                      " like input_ids; got ", tensor.defined() ? tensor.sizes() : at::IntArrayRef(), ".");
}

int64_t first_row(const at::Tensor& bad_rows) { return bad_rows.to(at::kLong).argmax().item<int64_t>(); }

void check_mask(const at::Tensor& mask) {
  const at::Tensor padded_right = mask.select(1, mask.size(1) - 1).eq(0);
  if (!padded_right.any().item<bool>()) return;
  const at::Tensor empty = mask.ne(0).any(1).logical_not();
  require<ShapeError>(!empty.any().item<bool>(), "[generate] row ", first_row(empty),
                      " of attention_mask masks all of ", mask.size(1), " tokens; a prompt needs one.");
  fail<ShapeError>("[generate] row ", first_row(padded_right),
                   " is padded on the right, where generation continues. Pad on the left.");
}

at::Tensor extended(const at::Tensor& tensor, const at::Tensor& more) { return at::cat({tensor, more}, 1); }

int64_t count_each(int64_t count, int64_t rows, const char* what) {
  require<NotSupportedError>(count % rows == 0, "[generate] several sequences of prompts need as many ", what,
                             " for each prompt; got ", count, " for ", rows, " prompts.");
  return count / rows;
}

// Patches and their grids: those of each of `rows` prompts come `copies` times.
void repeat_patches(at::Tensor& pixels, at::Tensor& grid, int64_t rows, int64_t copies, const char* name) {
  const int64_t each = count_each(grid.size(0), rows, "images");
  const at::Tensor patches = grid.to(at::kCPU, at::kLong).prod(1).view({rows, each}).sum(1);
  grid = grid.unflatten(0, {rows, each}).repeat_interleave(copies, 0).flatten(0, 1);
  std::vector<at::Tensor> parts;
  int64_t first = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto count = patches[row].item<int64_t>();
    require<ShapeError>(count >= 0 && first + count <= pixels.size(0), "[generate] ", name,
                        " must have as many patches as pixel_values ", pixels.size(0), "; got more.");
    for (int64_t copy = 0; copy < copies; ++copy) parts.push_back(pixels.narrow(0, first, count));
    first += count;
  }
  pixels = at::cat(parts);
}

// The images of a prompt stay together: each group of them comes `copies` times.
void add_images(ModelInputs& inputs, const PromptInputs& given, const at::Tensor& input_ids, int64_t copies) {
  if (given.pixel_values.defined()) inputs.pixel_values = given.pixel_values.to(input_ids.device());
  if (given.pixel_values_videos.defined())
    inputs.pixel_values_videos = given.pixel_values_videos.to(input_ids.device());
  inputs.image_grid_thw = given.image_grid_thw;
  inputs.video_grid_thw = given.video_grid_thw;
  inputs.second_per_grid_ts = given.second_per_grid_ts;
  inputs.image_sizes = given.image_sizes;
  inputs.pixel_attention_mask = given.pixel_attention_mask;
  if (copies == 1) return;
  const int64_t rows = input_ids.size(0);
  if (at::Tensor& seconds = inputs.second_per_grid_ts; seconds.defined() && seconds.dim() == 1)
    seconds = seconds.view({rows, count_each(seconds.size(0), rows, "videos")}).repeat_interleave(copies, 0).flatten();
  if (inputs.video_grid_thw.defined() && inputs.pixel_values_videos.defined())
    repeat_patches(inputs.pixel_values_videos, inputs.video_grid_thw, rows, copies, "video_grid_thw");
  if (!inputs.pixel_values.defined()) return;
  if (inputs.image_grid_thw.defined())
    return repeat_patches(inputs.pixel_values, inputs.image_grid_thw, rows, copies, "image_grid_thw");
  const int64_t each = count_each(inputs.pixel_values.size(0), rows, "images");
  for (at::Tensor* of_images : {&inputs.pixel_values, &inputs.image_sizes, &inputs.pixel_attention_mask}) {
    if (of_images->defined())
      *of_images = of_images->unflatten(0, {rows, each}).repeat_interleave(copies, 0).flatten(0, 1);
  }
}

}  // namespace

at::Tensor check_prompt(const BaseModule& module, const at::Tensor& input_ids, std::optional<int64_t> bos_token_id,
                        int64_t batch) {
  const int64_t vocab = module.config().vocab_size;
  at::Tensor ids = input_ids;
  if (ids.defined() && ids.dim() == 1) ids = ids.unsqueeze(0);
  require<ShapeError>(!ids.defined() || ids.dim() == 2, "[generate] input_ids must be [batch, tokens]; got ",
                      ids.defined() ? ids.sizes() : at::IntArrayRef(), ".");
  require<ShapeError>(!ids.defined() || at::isIntegralType(ids.scalar_type(), false),
                      "[generate] input_ids must be integers; got ",
                      ids.defined() ? c10::toString(ids.scalar_type()) : "", ".");
  require<ShapeError>(!ids.defined() || ids.size(0) > 0, "[generate] input_ids must have at least one row; got none.");
  if (!ids.defined() || ids.size(1) == 0) {
    require<ConfigError>(bos_token_id.has_value(),
                         "[generate] an empty prompt needs a bos_token_id; the config has none.");
    ids = at::full({ids.defined() ? ids.size(0) : batch, 1}, *bos_token_id, at::kLong);
  }
  ids = ids.to(module.options().device, at::kLong);
  const at::Tensor outside = ids.lt(0).logical_or(ids.ge(vocab));
  if (outside.any().item<bool>()) {
    const int64_t at = outside.flatten().to(at::kLong).argmax().item<int64_t>();
    fail<ConfigError>("[generate] input_ids must lie in [0, ", vocab, "); got ", ids.flatten()[at].item<int64_t>(),
                      " in row ", at / ids.size(1), ", position ", at % ids.size(1), ".");
  }
  return ids;
}

ModelInputs prepare_inputs_for_generation(const at::Tensor& input_ids, const PromptInputs& given,
                                          std::optional<int64_t> pad_token_id, const TokenIds& eos_token_id,
                                          int64_t copies) {
  require<ConfigError>(!given.second_per_grid_ts.defined() || given.pixel_values_videos.defined(),
                       "[generate] second_per_grid_ts is of videos and needs pixel_values_videos; got none.");
  const auto on_device = [&](const at::Tensor& tensor, std::string_view name) {
    require_like(tensor, input_ids, name);
    return tensor.defined() ? tensor.to(input_ids.device(), at::kLong) : tensor;
  };
  at::Tensor mask = on_device(given.attention_mask, "attention_mask");
  at::Tensor positions = on_device(given.position_ids, "position_ids");
  const at::Tensor types = on_device(given.token_type_ids, "token_type_ids");
  if (given.starts.defined()) {
    require<ShapeError>(!mask.defined() && given.starts.sizes() == input_ids.sizes().slice(0, 1),
                        "[generate] starts must be [", input_ids.size(0), "], without an attention_mask; got ",
                        given.starts.sizes(), mask.defined() ? " and a mask." : ".");
    const at::Tensor starts = given.starts.to(input_ids.device(), at::kLong);
    mask = at::arange(input_ids.size(1), input_ids.options()).ge(starts.unsqueeze(1)).to(at::kLong);
  }
  if (!mask.defined() && pad_token_id && !eos_token_id.contains(*pad_token_id)) {
    mask = input_ids.ne(*pad_token_id).to(at::kLong);
  }
  if (mask.defined()) check_mask(mask);
  if (mask.defined() && !mask.eq(1).all().item<bool>()) {
    mask = mask.ne(0).to(at::kLong);
    // Those of images with grids are the model's to count.
    if (!positions.defined() && !given.image_grid_thw.defined() && !given.video_grid_thw.defined())
      positions = (mask.cumsum(-1) - 1).masked_fill(mask.eq(0), 0);
  } else {
    mask.reset();
  }
  const auto repeated = [&](const at::Tensor& tensor) {
    return tensor.defined() && copies > 1 ? tensor.repeat_interleave(copies, 0) : tensor;
  };
  ModelInputs inputs;
  inputs.input_ids = repeated(input_ids);
  inputs.attention_mask = repeated(mask);
  inputs.position_ids = repeated(positions);
  inputs.token_type_ids = repeated(types);
  if (given.pixel_values.defined() || given.pixel_values_videos.defined()) add_images(inputs, given, input_ids, copies);
  inputs.output_attentions = inputs.output_hidden_states = inputs.output_router_logits = false;
  return inputs;
}

ModelInputs prepare_inputs_for_generation(const BaseModule& model, const at::Tensor& input_ids, int64_t max_length,
                                          std::optional<int64_t> pad_token_id, const at::Tensor& starts,
                                          const at::Tensor& attention_mask, const at::Tensor& token_type_ids,
                                          const std::optional<MaskInfo>& mask_info) {
  ModelInputs inputs = prepare_inputs_for_generation(
      check_prompt(model, input_ids, model.config().bos_token_id),
      {.attention_mask = attention_mask, .starts = starts, .token_type_ids = token_type_ids},
      pad_token_id ? pad_token_id : model.config().pad_token_id, model.config().eos_token_id);
  if (mask_info) {
    const bool grows = !mask_info->explicit_mask.defined() && !mask_info->q_segment_ids.defined() &&
                       !mask_info->kv_segment_ids.defined() && !mask_info->q_positions.defined() &&
                       !mask_info->q_offset;
    require<NotSupportedError>(grows,
                               "[prepare_inputs_for_generation] mask_info must consist of rules that apply to future "
                               "tokens: causal, sliding_window, padding_mask; got another one.");
    require<ConfigError>(!attention_mask.defined() && !starts.defined(),
                         "[prepare_inputs_for_generation] mask_info replaces attention_mask and starts; give one.");
    inputs.mask_info = mask_info;
    inputs.attention_mask.reset();
    inputs.position_ids.reset();
    if (mask_info->padding_mask.defined()) {
      const at::Tensor seen = mask_info->padding_mask.ne(0).to(at::kLong);
      inputs.position_ids = (seen.cumsum(-1) - 1).clamp_min(0);
    }
  }
  inputs.past_key_values = init_cache(model, inputs.input_ids.size(0), max_length);
  return inputs;
}

void update_inputs_for_generation(const ModelOutput& output, ModelInputs& inputs, const at::Tensor& chosen) {
  const at::Tensor next_tokens = chosen.dim() == 1 ? chosen.unsqueeze(1) : chosen;
  const int64_t count = next_tokens.size(1);
  if (!inputs.past_key_values) inputs.past_key_values = output.past_key_values;
  const bool cached = inputs.past_key_values != nullptr;
  if (cached) {
    keep_last_positions(output, inputs);
    for (at::Tensor* images :
         {&inputs.pixel_values, &inputs.image_sizes, &inputs.pixel_attention_mask, &inputs.image_grid_thw,
          &inputs.pixel_values_videos, &inputs.video_grid_thw, &inputs.second_per_grid_ts})
      images->reset();  // their keys and values are in the cache
  }
  const auto append = [&](at::Tensor& tensor, const at::Tensor& more) {
    tensor = cached ? more : extended(tensor, more);
  };
  if (inputs.position_ids.defined()) {
    const at::Tensor last = inputs.position_ids.narrow(1, inputs.position_ids.size(1) - 1, 1);
    append(inputs.position_ids, last + at::arange(1, count + 1, last.options()));
  }
  if (inputs.token_type_ids.defined()) {
    const at::Tensor last = inputs.token_type_ids.narrow(1, inputs.token_type_ids.size(1) - 1, 1);
    append(inputs.token_type_ids, last.expand({-1, count}));
  }
  if (inputs.attention_mask.defined()) {  // of all tokens, cached or not
    inputs.attention_mask = extended(inputs.attention_mask, at::ones_like(next_tokens));
  }
  append(inputs.input_ids, next_tokens);
  if (inputs.mask_info && inputs.mask_info->padding_mask.defined()) {
    MaskInfo& mask = *inputs.mask_info;
    mask.padding_mask = extended(mask.padding_mask, at::ones_like(next_tokens).to(mask.padding_mask.options()));
    mask.memory = MaskInfo::make_memory();
  }
}

void keep_last_positions(const ModelOutput& output, ModelInputs& inputs, const BaseModule* module) {
  if (!inputs.past_key_values || !output.rope_deltas.defined() || inputs.position_ids.defined()) return;
  if (const auto* seeing = dynamic_cast<const AcceptsImages*>(module)) {
    // Times of a video may be beyond the positions of the text after it, and new tokens count on from the text.
    const at::Tensor last_3B =
        seeing->image_positions(inputs.input_ids, inputs).select(2, inputs.input_ids.size(1) - 1);
    if (last_3B.eq(last_3B[0]).all().item<bool>()) {
      inputs.position_ids = last_3B[0].unsqueeze(1);
      return;
    }
  }
  const at::Tensor deltas = output.rope_deltas.to(inputs.input_ids.device());
  inputs.position_ids = deltas - 1 +
                        (inputs.attention_mask.defined() ? inputs.attention_mask.sum(1, /*keepdim=*/true)
                                                         : at::full_like(deltas, inputs.input_ids.size(1)));
}

void reorder_inputs_for_generation(ModelInputs& inputs, const at::Tensor& rows) {
  for (at::Tensor* tensor : {&inputs.input_ids, &inputs.attention_mask, &inputs.position_ids, &inputs.token_type_ids}) {
    if (tensor->defined()) *tensor = tensor->index_select(0, rows);
  }
  if (inputs.past_key_values) inputs.past_key_values->reorder(rows);
}

}  // namespace easydel
