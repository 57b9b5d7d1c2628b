// A tower for images, a projector and a decoder: features of images stand in the place of placeholder tokens.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "easydel/infra/config/sub_config.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/infra/decoder/decoder.h"
#include "easydel/infra/files/weights.h"

namespace easydel {

// The base model. A family adds its parts, and says what features the images of a call have.
class ImageTextModel : public BaseModule, public OlderFileNames, public AcceptsImages {
 public:
  std::vector<std::string> extra_inputs() const override { return {"pixel_values"}; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;  // numbers the placeholders
  std::vector<std::string> older_names(const std::string& path) const override;

  int64_t image_token_id() const override { return image_token_; }
  at::Tensor encode_images(const ModelInputs& images) const override;
  at::Tensor embed_with_images(const at::Tensor& ids_BT, const at::Tensor& features,
                               const at::Tensor& places) const override;

  const Embedding& embeddings() const { return *embeddings_; }

 protected:
  struct Spec {
    int64_t image_token = 0;
    double embedding_scale = 1;  // of tokens; images are not scaled
  };
  ImageTextModel(const BaseConfig& config, Spec spec);
  void add_tower(const char* name, const SubConfig& config);
  void add_decoder(const char* name, const SubConfig& config);

  const BaseModule& tower() const { return *tower_; }
  BaseModule& decoder() const { return *decoder_; }
  // What the tower is given of a call: on a mesh, all images on every rank.
  PreparedInputs tower_inputs(const PreparedInputs& given) const;
  // Of all images, one after the other: [images, tokens, D] or [tokens, D].
  virtual at::Tensor image_features(const PreparedInputs& given) const = 0;

 private:
  at::Tensor embed_tokens(const at::Tensor& ids_BT) const;
  at::Tensor with_images(const at::Tensor& embeds_BTD, const PreparedInputs& inputs, const at::Tensor& features) const;

  int64_t image_token_, vocab_size_ = 0;
  double embedding_scale_;
  BaseModule *tower_ = nullptr, *decoder_ = nullptr;
  const Embedding* embeddings_ = nullptr;
};

// With a head of tokens on top.
class ImageTextModule : public CausalLMModule, public OlderFileNames, public AcceptsImages {
 public:
  TaskType model_task() const override { return TaskType::ImageTextToText; }
  std::vector<std::string> extra_inputs() const override { return seeing_->extra_inputs(); }
  std::string torch_path(const std::string& path) const override { return path; }
  void prepare_whole(PreparedInputs& inputs) const override;
  std::vector<std::string> older_names(const std::string& path) const override;

  int64_t image_token_id() const override { return seeing_->image_token_id(); }
  bool needs_whole_images() const override { return seeing_->needs_whole_images(); }
  at::Tensor encode_images(const ModelInputs& images) const override { return seeing_->encode_images(images); }
  at::Tensor embed_with_images(const at::Tensor& ids_BT, const at::Tensor& features,
                               const at::Tensor& places) const override {
    return seeing_->embed_with_images(ids_BT, features, places);
  }

 protected:
  using Names = std::vector<std::pair<std::string, std::string>>;
  explicit ImageTextModule(const BaseConfig& config) : CausalLMModule(config, "model") {}
  // In LLaVA's files, and those of its relatives, the decoder is a whole language model, and the rest has no prefix.
  static const Names& llava_names();
  void set_model(ImageTextModel& model, const Names& file_names, const Names& head_names);

 private:
  ImageTextModel* seeing_ = nullptr;
};

// Over a base model M, whose config type is M::ConfigType, with LLaVA's names in files.
template <class M>
class ImageTextLM : public ImageTextModule {
 public:
  using ConfigType = typename M::ConfigType;
  explicit ImageTextLM(const ConfigType& config) : ImageTextModule(config) {
    set_model(add<M>("model", config), llava_names(), {{"lm_head.", "language_model.lm_head."}});
  }
};

}  // namespace easydel
