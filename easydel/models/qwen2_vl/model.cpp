// Letters: B batch, T tokens, D hidden.
#include "easydel/models/qwen2_vl/model.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/placeholders.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/infra/registry.h"

namespace easydel {

PatchTowerSpec tower_spec(const QwenVisionConfig& c) {
  PatchTowerSpec spec;
  spec.depth = c.num_hidden_layers;
  spec.width = c.width();
  spec.heads = c.num_attention_heads;
  spec.out_width = c.out_width();
  spec.channels = c.in_channels;
  spec.patch = c.patch_size;
  spec.frames = c.temporal_patch_size;
  spec.merge = c.spatial_merge_size;
  spec.norm = {.kind = NormSpec::Kind::Layer, .eps = 1e-6};
  spec.act = c.hidden_act;
  spec.rope_theta = c.rope.rope_theta;
  spec.init_stddev = c.initializer_range;
  return spec;
}

namespace {

PatchTowerSpec qwen2_tower(const Qwen2VLVisionConfig& c) {
  PatchTowerSpec spec = tower_spec(c);
  spec.mlp_width = c.embed_dim * c.mlp_ratio;
  return spec;
}

bool has_images(const ModelInputs& inputs) {
  return inputs.pixel_values.defined() || inputs.pixel_values_videos.defined();
}

}  // namespace

BlockSpec qwen2_vl_block(const QwenTextConfig& c, int64_t layer) {
  BlockSpec spec = block_spec(c, layer);
  spec.attention.qkv_bias = true;
  return spec;
}

Qwen2VisionTransformerPretrainedModel::Qwen2VisionTransformerPretrainedModel(const Qwen2VLVisionConfig& c)
    : PatchTower(c, qwen2_tower(c)) {}

Qwen2VLTextModel::Qwen2VLTextModel(const Qwen2VLTextConfig& c)
    : MropeDecoder(c, sections_in_order(c.sections()), [&](int64_t layer) { return qwen2_vl_block(c, layer); }) {}

QwenVLModel::QwenVLModel(const QwenVLConfig& c, Traits traits)
    : BaseModule(c),
      image_token_(c.image_token_id),
      video_token_(c.video_token_id),
      vocab_(c.text_config->vocab_size),
      traits_(traits) {
  const auto add_model = [&](const char* name, const SubConfig& sub) {
    std::unique_ptr<BaseModule> child = Registry::instance().make_child(*sub.under(c), TaskType::BaseModule);
    BaseModule* const made = child.get();
    attach(name, std::move(child));
    return made;
  };
  visual_ = dynamic_cast<const PatchTower*>(add_model("visual", c.vision_config));
  language_model_ = dynamic_cast<const MropeDecoder*>(add_model("language_model", c.text_config));
}

std::vector<std::string> QwenVLModel::extra_inputs() const {
  std::vector<std::string> names{"pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw",
                                 "mm_token_type_ids"};
  if (traits_.counts_seconds) names.emplace_back("second_per_grid_ts");
  return names;
}

std::vector<std::string> QwenVLModel::older_names(const std::string& path) const {
  const std::string decoder = "language_model.";
  if (!path.starts_with(decoder)) return {};
  const std::string name = path.substr(decoder.size());
  return {"model." + name, "model." + path, decoder + "model." + name};
}

TokenGrids QwenVLModel::grids_of(const ModelInputs& in) const {
  TokenGrids grids{.types = in.mm_token_type_ids,
                   .mask = in.attention_mask,
                   .image_grid_thw = in.image_grid_thw,
                   .video_grid_thw = in.video_grid_thw,
                   .merge = visual_->merge(),
                   .frame_step = traits_.frame_step,
                   .second_per_grid_ts = in.second_per_grid_ts,
                   .all_shown = !parallel()};
  if (!grids.types.defined()) {
    const at::Tensor& ids = in.input_ids;
    grids.types = ids.eq(image_token_).to(at::kLong) + 2 * ids.eq(video_token_).to(at::kLong);
  }
  if (traits_.frames_apart && grids.video_grid_thw.defined()) {
    const at::Tensor& all = grids.video_grid_thw;
    grids.video_grid_thw = all.repeat_interleave(all.select(1, 0), 0);
    grids.video_grid_thw.select(1, 0).fill_(1);
  }
  return grids;
}

at::Tensor QwenVLModel::number_places(const ModelInputs& in) const {
  const int64_t unit = visual_->merge() * visual_->merge();
  const auto count = [&](int64_t token, const at::Tensor& pixels, const char* what) {
    const int64_t wanted = pixels.defined() ? pixels.size(0) / unit : 0;
    const auto found = in.input_ids.eq(token).sum().item<int64_t>();
    // On a mesh a rank may have an image that none of its rows shows.
    require<ShapeError>(parallel() ? found <= wanted : found == wanted, "[", type_name(), "] the ", what, "s need ",
                        wanted, " placeholders of ", what, "_token_id ", token, "; got ", found, ".");
    return wanted;
  };
  const int64_t images = count(image_token_, in.pixel_values, "image");
  count(video_token_, in.pixel_values_videos, "video");
  return number_placeholders(in.input_ids.eq(image_token_)) +
         number_placeholders(in.input_ids.eq(video_token_), images);
}

void QwenVLModel::prepare_whole(PreparedInputs& in) const {
  const std::string where = "[" + type_name() + "] ";
  const at::Tensor given = in.all_position_ids;  // of the caller
  if (given.defined() && given.dim() == 3) in.position_ids = given.permute({1, 2, 0});
  for (const auto& [name, grid, pixels] : {std::tuple("image_grid_thw", in.image_grid_thw, in.pixel_values),
                                           std::tuple("video_grid_thw", in.video_grid_thw, in.pixel_values_videos)})
    require<ConfigError>(grid.defined() == pixels.defined(), where, name,
                         " and its pixel values must be given together; got one of them.");
  if (in.mm_token_type_ids.defined()) {
    const at::IntArrayRef shape = (in.input_ids.defined() ? in.input_ids : in.inputs_embeds).sizes().slice(0, 2);
    require<ShapeError>(in.mm_token_type_ids.sizes() == shape, where, "mm_token_type_ids must be ", shape, "; got ",
                        in.mm_token_type_ids.sizes(), ".");
    require<ConfigError>(has_images(in) || !in.mm_token_type_ids.any().item<bool>(), where,
                         "mm_token_type_ids has tokens of images, which need pixel_values; got none.");
  }
  if (!has_images(in)) {
    in.mm_token_type_ids.reset();
    return;
  }
  require<ConfigError>(in.input_ids.defined(), where,
                       "pixel_values need input_ids, whose placeholders determine their positions; got inputs_embeds.");
  require<ConfigError>(visual_->out_width() == config().hidden_size, where,
                       "the tower must give tokens as wide as text_config.hidden_size ", config().hidden_size, "; got ",
                       visual_->out_width(), ".");
  // Before positions are made of them.
  for (const auto& [pixels, grid] :
       {std::pair(in.pixel_values, in.image_grid_thw), std::pair(in.pixel_values_videos, in.video_grid_thw)}) {
    if (pixels.defined()) read_grids(grid, visual_->merge(), pixels.size(0), where);
  }
  const at::Tensor numbers = number_places(in);
  if (!given.defined()) {
    const bool packed = in.segment_ids.defined() || (in.attention_mask.defined() && in.attention_mask.dim() != 2);
    const bool continues = in.past_key_values && in.past_key_values->length() > 0;
    require<NotSupportedError>(!packed && !continues, where,
                               "images in packed rows, behind a mask of four dimensions or behind tokens of a cache "
                               "need position_ids [3, batch, tokens]; got none.");
    in.position_ids = grid_positions(grids_of(in), where);
  }
  in.mm_token_type_ids = numbers;
}

PatchTower::Features QwenVLModel::features(const ModelInputs& in) const {
  if (!in.pixel_values_videos.defined()) return visual_->features(in.pixel_values, in.image_grid_thw);
  if (!in.pixel_values.defined()) return visual_->features(in.pixel_values_videos, in.video_grid_thw);
  return visual_->features(at::cat({in.pixel_values, in.pixel_values_videos}),
                           at::cat({in.image_grid_thw, in.video_grid_thw}));
}

at::Tensor QwenVLModel::embed_tokens(const ModelInputs& in) const {
  // Placeholders may be ids behind the vocabulary, which no table has.
  ModelInputs text;
  text.input_ids = in.input_ids;
  for (const int64_t token : {image_token_, video_token_}) {
    if (token >= vocab_) text.input_ids = text.input_ids.masked_fill(text.input_ids.eq(token), 0);
  }
  return embed(text, embeddings());
}

ModelOutput QwenVLModel::forward(const PreparedInputs& given) const {
  PreparedInputs inputs = given;
  PatchTower::Features seen;
  const bool sees = has_images(inputs);
  std::vector<at::Tensor> added;  // to the outputs of the first layers
  const int64_t width = config().hidden_size;
  if (inputs.input_ids.defined()) {
    inputs.inputs_embeds = embed_tokens(inputs);
    if (sees) {
      seen = features(inputs);  // of all images: a row may have any
      const at::Tensor& numbers = inputs.mm_token_type_ids;
      for (const at::Tensor& deeper : seen.deeper)
        added.push_back(spread_features(inputs.inputs_embeds, numbers, deeper));
      inputs.inputs_embeds = put_features(inputs.inputs_embeds, numbers, seen.merged);
    }
    inputs.input_ids.reset();
  } else if (inputs.inputs_embeds.size(2) > width) {
    added = inputs.inputs_embeds.to(dtype()).split(width, 2);
    inputs.inputs_embeds = added.front();
    added.erase(added.begin());
  }
  ModelOutput out = language_model_->forward(inputs, added);
  if (!sees) return out;
  out.image_hidden_states = seen.merged;
  if (inputs.position_ids.dim() == 3) {
    out.rope_deltas = rope_deltas(inputs.position_ids, inputs.mask_info->padding_mask);
    if (inputs.part) out.rope_deltas = gather_rows(out.rope_deltas, *inputs.part, *parallel());
  }
  return out;
}

at::Tensor QwenVLModel::encode_images(const ModelInputs& images) const {
  PatchTower::Features seen = features(images);
  seen.deeper.insert(seen.deeper.begin(), seen.merged);
  return at::cat(seen.deeper, 1);
}

at::Tensor QwenVLModel::embed_with_images(const at::Tensor& ids_BT, const at::Tensor& features,
                                          const at::Tensor& places) const {
  ModelInputs inputs;
  inputs.input_ids = ids_BT;
  const at::Tensor embeds = at::constant_pad_nd(embed_tokens(inputs), {0, deep_layers() * config().hidden_size});
  return embeds.flatten(0, 1).index_copy(0, places, features.to(embeds.scalar_type())).view_as(embeds);
}

at::Tensor QwenVLModel::image_positions(const at::Tensor& ids_BT, const ModelInputs& images) const {
  ModelInputs inputs = images;
  inputs.input_ids = ids_BT;
  return grid_positions(grids_of(inputs), "[" + type_name() + "] ").permute({2, 0, 1}).contiguous();
}

void name_qwen_vl_files(Module& module) {
  rename_in_files(module, {{"model.language_model.", "model."}, {"model.visual.", "visual."}});
}

std::vector<std::string> names_in_memory(const std::string& path) {
  const std::string decoder = "model.language_model.";
  std::vector<std::string> names;
  // What the table of file names makes of this is the path itself, in the shape of files.
  if (path.starts_with("model.")) names.push_back("model." + path);
  if (path.starts_with(decoder)) names.push_back("language_model.model." + path.substr(decoder.size()));
  if (path.starts_with("lm_head.")) names.push_back("language_model." + path);
  return names;
}

}  // namespace easydel
