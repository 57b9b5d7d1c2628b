// Qwen2-VL, and what Qwen's vision-language families have in common: features of images of any size in the place of
// placeholder tokens, and positions in time, height and width.
#pragma once

#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/infra/decoder/mrope_decoder.h"
#include "easydel/infra/encoder/patch_tower.h"
#include "easydel/infra/files/weights.h"
#include "easydel/models/qwen2_vl/config.h"

namespace easydel {

class QwenVLModel : public BaseModule, public OlderFileNames, public AcceptsImages, public GridPositions {
 public:
  std::vector<std::string> extra_inputs() const override;
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;  // numbers the placeholders, and sets positions
  std::vector<std::string> older_names(const std::string& path) const override;

  int64_t image_token_id() const override { return image_token_; }
  int64_t deep_layers() const override { return visual_->deep_layers(); }
  at::Tensor encode_images(const ModelInputs& images) const override;
  at::Tensor embed_with_images(const at::Tensor& ids_BT, const at::Tensor& features,
                               const at::Tensor& places) const override;
  at::Tensor image_positions(const at::Tensor& ids_BT, const ModelInputs& images) const override;

  const Embedding& embeddings() const { return language_model_->embeddings(); }

 protected:
  struct Traits {
    double frame_step = 1;        // of positions in time, for videos
    bool frames_apart = false;    // every frame of a video has text around it, and a grid of its own
    bool counts_seconds = false;  // takes second_per_grid_ts
  };
  QwenVLModel(const QwenVLConfig& config, Traits traits);

 private:
  at::Tensor embed_tokens(const ModelInputs& inputs) const;
  // Of the images, and behind them of the videos.
  PatchTower::Features features(const ModelInputs& inputs) const;
  TokenGrids grids_of(const ModelInputs& inputs) const;
  at::Tensor number_places(const ModelInputs& inputs) const;  // ShapeError where there are too few or too many

  const int64_t image_token_, video_token_, vocab_;
  const Traits traits_;
  const PatchTower* visual_ = nullptr;
  const MropeDecoder* language_model_ = nullptr;
};

// Names of files: the decoder's have no language_model in them, and the tower's no model.
void name_qwen_vl_files(Module& module);
std::vector<std::string> names_in_memory(const std::string& path);

template <class M>
class QwenVLForConditionalGeneration : public CausalLMModule,
                                       public OlderFileNames,
                                       public AcceptsImages,
                                       public GridPositions {
 public:
  using ConfigType = typename M::ConfigType;
  explicit QwenVLForConditionalGeneration(const ConfigType& config, bool renames = true)
      : CausalLMModule(config, "model"), model_(add<M>("model", config)) {
    add_head(model_, model_.embeddings());
    if (renames) name_qwen_vl_files(*this);
  }
  TaskType model_task() const override { return TaskType::ImageTextToText; }
  std::vector<std::string> extra_inputs() const override { return model_.extra_inputs(); }
  std::string torch_path(const std::string& path) const override { return path; }
  void prepare_whole(PreparedInputs& inputs) const override {
    CausalLMModule::prepare_whole(inputs);
    model_.prepare_whole(inputs);
  }
  std::vector<std::string> older_names(const std::string& path) const override { return names_in_memory(path); }

  int64_t image_token_id() const override { return model_.image_token_id(); }
  int64_t deep_layers() const override { return model_.deep_layers(); }
  at::Tensor encode_images(const ModelInputs& images) const override { return model_.encode_images(images); }
  at::Tensor embed_with_images(const at::Tensor& ids_BT, const at::Tensor& features,
                               const at::Tensor& places) const override {
    return model_.embed_with_images(ids_BT, features, places);
  }
  at::Tensor image_positions(const at::Tensor& ids_BT, const ModelInputs& images) const override {
    return model_.image_positions(ids_BT, images);
  }

 private:
  M& model_;
};

class Qwen2VisionTransformerPretrainedModel : public PatchTower,
                                              public Pretrained<Qwen2VisionTransformerPretrainedModel> {
 public:
  using ConfigType = Qwen2VLVisionConfig;
  explicit Qwen2VisionTransformerPretrainedModel(const Qwen2VLVisionConfig& config);
};

PatchTowerSpec tower_spec(const QwenVisionConfig& config);              // what all families have
BlockSpec qwen2_vl_block(const QwenTextConfig& config, int64_t layer);  // Qwen2's layer

class Qwen2VLTextModel : public MropeDecoder, public Pretrained<Qwen2VLTextModel> {
 public:
  using ConfigType = Qwen2VLTextConfig;
  explicit Qwen2VLTextModel(const Qwen2VLTextConfig& config);
};

class Qwen2VLModel : public QwenVLModel, public Pretrained<Qwen2VLModel> {
 public:
  using ConfigType = Qwen2VLConfig;
  explicit Qwen2VLModel(const Qwen2VLConfig& config) : QwenVLModel(config, {}) {}
};

class Qwen2VLForConditionalGeneration : public QwenVLForConditionalGeneration<Qwen2VLModel>,
                                        public Pretrained<Qwen2VLForConditionalGeneration> {
 public:
  explicit Qwen2VLForConditionalGeneration(const Qwen2VLConfig& config) : QwenVLForConditionalGeneration(config) {}
};

}  // namespace easydel
