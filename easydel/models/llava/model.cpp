// Letters: B batch, T tokens, D hidden.
#include "easydel/models/llava/model.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/registry.h"

namespace easydel {
namespace {

// In files the decoder is a whole language model, and the rest has no prefix.
const std::vector<std::pair<std::string, std::string>> kFileNames = {
    {"model.language_model.", "language_model.model."},
    {"model.vision_tower.", "vision_tower."},
    {"model.multi_modal_projector.", "multi_modal_projector."}};

const Embedding& first_embedding(const BaseModule& model) {
  for (const auto& [path, module] : model.named_modules()) {
    if (const auto* table = dynamic_cast<const Embedding*>(module)) return *table;
  }
  fail<NotSupportedError>("[LlavaModel] text_config must be a decoder with a table of tokens; got ", model.type_name(),
                          ".");
}

}  // namespace

LlavaMultiModalProjector::LlavaMultiModalProjector(const LlavaConfig& c)
    : linear_1_(add<Linear>("linear_1", c.vision_config->hidden_size * static_cast<int64_t>(c.feature_layers().size()),
                            c.text_config->hidden_size, LinearOptions{.bias = c.multimodal_projector_bias})),
      linear_2_(add<Linear>("linear_2", c.text_config->hidden_size, c.text_config->hidden_size,
                            LinearOptions{.bias = c.multimodal_projector_bias})),
      act_(operations::find_activation(c.projector_hidden_act)) {}

at::Tensor LlavaMultiModalProjector::operator()(const at::Tensor& features) const {
  return linear_2_(act_(linear_1_(features)));
}

LlavaModel::LlavaModel(const LlavaConfig& c) : BaseModule(c), own_(c) {
  const auto add_model = [&](const char* name, const SubConfig& sub) {
    std::unique_ptr<BaseModule> child = Registry::instance().make_child(*sub.under(c), TaskType::BaseModule);
    BaseModule* const made = child.get();
    attach(name, std::move(child));
    return made;
  };
  vision_tower_ = add_model("vision_tower", c.vision_config);
  require<NotSupportedError>(vision_tower_->main_input_name() == "pixel_values",
                             "[LlavaModel] vision_config must be a ", "tower for pictures; got \"",
                             c.vision_config->model_type(), "\".");
  projector_ = &add<LlavaMultiModalProjector>("multi_modal_projector", c);
  language_model_ = add_model("language_model", c.text_config);
  embeddings_ = &first_embedding(*language_model_);
}

std::vector<std::string> LlavaModel::older_names(const std::string& path) const {
  std::vector<std::string> names;
  const std::string tower = "vision_tower.";
  const std::size_t at = path.find(tower);
  // Towers were once one level deeper, and a whole model's decoder is.
  if (at != std::string::npos) names.push_back("vision_tower.vision_model." + path.substr(at + tower.size()));
  const std::string decoder = "language_model.";
  if (path.starts_with(decoder)) names.push_back(decoder + "model." + path.substr(decoder.size()));
  return names;
}

void LlavaModel::prepare_whole(PreparedInputs& inputs) const {
  if (!inputs.pixel_values.defined()) return;
  require<ConfigError>(inputs.input_ids.defined(),
                       "[LlavaModel] pixel_values need input_ids, whose placeholders say "
                       "where they go; got inputs_embeds.");
  // 0: a token of text; else the number of its feature, from 1, in the order of the batch.
  const at::Tensor is_image = inputs.input_ids.eq(own_.image_token_index);
  const at::Tensor number = is_image.flatten().cumsum(0).view_as(is_image);
  inputs.mm_token_type_ids = at::where(is_image, number, at::zeros_like(number));
}

at::Tensor LlavaModel::image_features(const at::Tensor& pixels, const PreparedInputs& given) const {
  PreparedInputs inputs{ModelInputs{}};
  inputs.pixel_values = pixels;
  inputs.output_hidden_states = true;
  inputs.output_attentions = false;
  inputs.dropout_key = given.dropout_key;
  if (parallel()) {
    require<NotSupportedError>(parallel()->mesh().size(parallel()->sequence()) == 1,
                               "[LlavaModel] the patches of a picture are not split over the axes of the sequence. Use "
                               "dp, fsdp or tp.");
    BatchPart part;
    part.batch = part.given_batch = pixels.size(0);
    part.batch_sharded = part.sequence_sharded = false;
    inputs.part = part;
  }
  const std::vector<at::Tensor> states = vision_tower_->forward(inputs).hidden_states;
  std::vector<at::Tensor> chosen;
  for (const int64_t layer : own_.feature_layers()) {
    const auto count = static_cast<int64_t>(states.size());
    at::Tensor state = states[static_cast<std::size_t>(layer < 0 ? layer + count : layer)];
    if (own_.vision_feature_select_strategy == "default") state = state.narrow(1, 1, state.size(1) - 1);
    chosen.push_back(state);
  }
  return (*projector_)(chosen.size() == 1 ? chosen[0] : at::cat(chosen, -1));
}

at::Tensor LlavaModel::with_images(const at::Tensor& embeds_BTD, const PreparedInputs& inputs, ModelOutput& out) const {
  const at::Tensor& numbers = inputs.mm_token_type_ids;
  const at::Tensor features = image_features(inputs.pixel_values, inputs);  // of all images: a row may have any
  const int64_t known = features.size(0) * features.size(1);
  const int64_t places = numbers.numel() > 0 ? numbers.max().item<int64_t>() : 0;  // fewer on some ranks of a mesh
  require<ShapeError>(parallel() ? places <= known : places == known, "[LlavaModel] each picture needs ",
                      features.size(1), " placeholders of image_token_index ", own_.image_token_index, ", ", known,
                      " for ", features.size(0), "; got ", places, ".");
  out.image_hidden_states = features.flatten(0, 1);
  const at::Tensor found = out.image_hidden_states.index_select(0, (numbers.flatten() - 1).clamp(0, known - 1));
  return at::where(numbers.gt(0).unsqueeze(-1), found.view_as(embeds_BTD).to(embeds_BTD.scalar_type()), embeds_BTD);
}

at::Tensor LlavaModel::embed_tokens(const at::Tensor& ids_BT) const {
  // The placeholder may be an id behind the vocabulary, which no table has.
  const bool outside = own_.image_token_index >= own_.text_config->vocab_size;
  return (*embeddings_)(outside ? ids_BT.masked_fill(ids_BT.eq(own_.image_token_index), 0) : ids_BT);
}

at::Tensor LlavaModel::picture_features(const ModelInputs& pictures) const {
  return image_features(pictures.pixel_values, PreparedInputs(pictures)).flatten(0, 1);
}

at::Tensor LlavaModel::embed_with_pictures(const at::Tensor& ids_BT, const at::Tensor& features,
                                           const at::Tensor& places) const {
  const at::Tensor embeds = embed_tokens(ids_BT);
  return embeds.flatten(0, 1).index_copy(0, places, features.to(embeds.scalar_type())).view_as(embeds);
}

ModelOutput LlavaModel::forward(const PreparedInputs& given) const {
  PreparedInputs inputs = given;
  ModelOutput images;
  if (inputs.input_ids.defined()) {
    inputs.inputs_embeds = embed_tokens(inputs.input_ids);
    if (inputs.pixel_values.defined()) inputs.inputs_embeds = with_images(inputs.inputs_embeds, inputs, images);
    inputs.input_ids.reset();
  }
  inputs.pixel_values.reset();
  inputs.mm_token_type_ids.reset();
  ModelOutput out = language_model_->forward(inputs);
  out.image_hidden_states = images.image_hidden_states;
  return out;
}

LlavaForConditionalGeneration::LlavaForConditionalGeneration(const LlavaConfig& c)
    : CausalLMModule(c, "model"), model_(add<LlavaModel>("model", c)) {
  add_head(model_, model_.embeddings());
  rename_in_files(*this, kFileNames);
  rename_in_files(lm_head(), {{"lm_head.", "language_model.lm_head."}});
}

void LlavaForConditionalGeneration::prepare_whole(PreparedInputs& inputs) const {
  CausalLMModule::prepare_whole(inputs);
  model_.prepare_whole(inputs);
}

std::vector<std::string> LlavaForConditionalGeneration::older_names(const std::string& path) const {
  std::vector<std::string> names = model_.older_names(path);
  // The names of memory: what the table of file names makes of this is the path itself, in the shape of files.
  if (path.starts_with("model.")) names.push_back("model." + path);
  return names;
}

}  // namespace easydel
