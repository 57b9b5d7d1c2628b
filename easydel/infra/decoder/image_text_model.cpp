// Letters: B batch, T tokens, D hidden.
#include "easydel/infra/decoder/image_text_model.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/placeholders.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/registry.h"

namespace easydel {
namespace {

const Embedding& first_embedding(const BaseModule& model) {
  for (const auto& [path, module] : model.named_modules()) {
    if (const auto* table = dynamic_cast<const Embedding*>(module)) return *table;
  }
  fail<NotSupportedError>("[", model.type_name(), "] text_config must be a decoder with token embeddings.");
}

std::unique_ptr<BaseModule> make_part(const SubConfig& sub, const BaseConfig& parent) {
  return Registry::instance().make_child(*sub.under(parent), TaskType::BaseModule);
}

void clear_images(PreparedInputs& inputs) {
  inputs.pixel_values.reset();
  inputs.pixel_attention_mask.reset();
  inputs.image_sizes.reset();
  inputs.mm_token_type_ids.reset();
}

}  // namespace

ImageTextModel::ImageTextModel(const BaseConfig& config, Spec spec)
    : BaseModule(config), image_token_(spec.image_token), embedding_scale_(spec.embedding_scale) {}

void ImageTextModel::add_tower(const char* name, const SubConfig& sub) {
  std::unique_ptr<BaseModule> made = make_part(sub, config());
  tower_ = made.get();
  attach(name, std::move(made));
  require<NotSupportedError>(tower_->main_input_name() == "pixel_values", "[", type_name(),
                             "] vision_config must be a vision tower; got \"", sub->model_type(), "\".");
}

void ImageTextModel::add_decoder(const char* name, const SubConfig& sub) {
  std::unique_ptr<BaseModule> made = make_part(sub, config());
  decoder_ = made.get();
  attach(name, std::move(made));
  embeddings_ = &first_embedding(*decoder_);
  vocab_size_ = sub->vocab_size;
}

std::vector<std::string> ImageTextModel::older_names(const std::string& path) const {
  std::vector<std::string> names;
  const std::string tower = "vision_tower.";
  const std::size_t at = path.find(tower);
  // Towers were once one level deeper, and a whole model's decoder is.
  if (at != std::string::npos) names.push_back("vision_tower.vision_model." + path.substr(at + tower.size()));
  const std::string decoder = "language_model.";
  if (path.starts_with(decoder)) names.push_back(decoder + "model." + path.substr(decoder.size()));
  return names;
}

void ImageTextModel::prepare_whole(PreparedInputs& inputs) const {
  if (!inputs.pixel_values.defined()) return;
  require<ConfigError>(
      inputs.input_ids.defined(), "[", type_name(),
      "] pixel_values need input_ids, whose placeholders determine their positions; got inputs_embeds.");
  inputs.mm_token_type_ids = number_placeholders(inputs.input_ids.eq(image_token_));
}

PreparedInputs ImageTextModel::tower_inputs(const PreparedInputs& given) const {
  PreparedInputs inputs{ModelInputs{}};
  inputs.pixel_values = given.pixel_values;
  inputs.pixel_attention_mask = given.pixel_attention_mask;
  inputs.image_sizes = given.image_sizes;
  inputs.output_hidden_states = true;
  inputs.output_attentions = false;
  inputs.dropout_key = given.dropout_key;
  if (!parallel()) return inputs;
  require<NotSupportedError>(parallel()->mesh().size(parallel()->sequence()) == 1, "[", type_name(),
                             "] image patches cannot be split over the sequence axes. Use dp, fsdp or tp.");
  BatchPart part;
  part.batch = part.given_batch = given.pixel_values.size(0);
  part.batch_sharded = part.sequence_sharded = false;
  inputs.part = part;
  return inputs;
}

at::Tensor ImageTextModel::with_images(const at::Tensor& embeds_BTD, const PreparedInputs& inputs,
                                       const at::Tensor& features) const {
  const at::Tensor& numbers = inputs.mm_token_type_ids;
  const int64_t known = features.size(0);
  const int64_t places = numbers.numel() > 0 ? numbers.max().item<int64_t>() : 0;  // fewer on some ranks of a mesh
  require<ShapeError>(parallel() ? places <= known : places == known, "[", type_name(),
                      "] input_ids must have one placeholder token ", image_token_, " for each of the ", known,
                      " features; got ", places, ".");
  return put_features(embeds_BTD, numbers, features);
}

at::Tensor ImageTextModel::embed_tokens(const at::Tensor& ids_BT) const {
  // The placeholder may be an id behind the vocabulary, which no table has.
  ModelInputs inputs;
  inputs.input_ids = image_token_ >= vocab_size_ ? ids_BT.masked_fill(ids_BT.eq(image_token_), 0) : ids_BT;
  return embed(inputs, *embeddings_, embedding_scale_);
}

at::Tensor ImageTextModel::encode_images(const ModelInputs& images) const {
  const at::Tensor features = image_features(PreparedInputs(images));
  return features.reshape({-1, features.size(-1)});
}

at::Tensor ImageTextModel::embed_with_images(const at::Tensor& ids_BT, const at::Tensor& features,
                                             const at::Tensor& places) const {
  const at::Tensor embeds = embed_tokens(ids_BT);
  return embeds.flatten(0, 1).index_copy(0, places, features.to(embeds.scalar_type())).view_as(embeds);
}

ModelOutput ImageTextModel::forward(const PreparedInputs& given) const {
  PreparedInputs inputs = given;
  at::Tensor features;
  if (inputs.input_ids.defined()) {
    inputs.inputs_embeds = embed_tokens(inputs.input_ids);
    if (inputs.pixel_values.defined()) {
      features = image_features(inputs);  // of all images: a row may have any
      inputs.inputs_embeds = with_images(inputs.inputs_embeds, inputs, features.reshape({-1, features.size(-1)}));
    }
    inputs.input_ids.reset();
  }
  clear_images(inputs);
  ModelOutput out = decoder_->forward(inputs);
  out.image_hidden_states = features;
  return out;
}

const ImageTextModule::Names& ImageTextModule::llava_names() {
  static const Names names = {{"model.language_model.", "language_model.model."},
                              {"model.vision_tower.", "vision_tower."},
                              {"model.multi_modal_projector.", "multi_modal_projector."}};
  return names;
}

void ImageTextModule::set_model(ImageTextModel& model, const Names& file_names, const Names& head_names) {
  seeing_ = &model;
  add_head(model, model.embeddings());
  rename_in_files(*this, file_names);
  rename_in_files(lm_head(), head_names);
}

void ImageTextModule::prepare_whole(PreparedInputs& inputs) const {
  CausalLMModule::prepare_whole(inputs);
  seeing_->prepare_whole(inputs);
}

std::vector<std::string> ImageTextModule::older_names(const std::string& path) const {
  std::vector<std::string> names = seeing_->older_names(path);
  // The names of memory: what the table of file names makes of this is the path itself, in the shape of files.
  if (path.starts_with("model.")) names.push_back("model." + path);
  return names;
}

}  // namespace easydel
