// A tower for images of any sizes: flattened patches, rotary embeddings by row and column, attention within a frame
// or a window, and a merger that makes one token of several patches.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/infra/encoder/patch_groups.h"
#include "easydel/layers/decoder_block.h"
#include "easydel/layers/embedding.h"

namespace easydel {

struct PatchTowerSpec {
  int64_t depth = 0, width = 0, heads = 0, mlp_width = 0, out_width = 0;
  int64_t channels = 3, patch = 14, frames = 2, merge = 2;  // a patch: channels x frames x patch x patch
  bool patch_bias = false;
  NormSpec norm;
  std::string act;
  bool gated = false;
  std::string up_name = "fc1", down_name = "fc2";  // of the MLPs
  double rope_theta = 10000;
  double init_stddev = 0.02;
  int64_t window = 0;                // tokens on a side of a window; 0: none
  std::set<int64_t> full_layers;     // those that attend to a whole frame where others have windows
  int64_t positions = 0;             // in a learned square table, stretched over each image; 0: none
  std::vector<int64_t> deep_layers;  // whose outputs are merged too
  // Of the mergers.
  std::string norm_name = "ln_q", first_name = "mlp.0", second_name = "mlp.2";
};

// One token of merge x merge patches: a norm of each patch (or of all of them together), and an MLP.
class PatchMerger : public Module {
 public:
  PatchMerger(const PatchTowerSpec& spec, bool norm_of_all);
  at::Tensor operator()(const at::Tensor& x_PD) const;

 private:
  int64_t merged_;
  bool norm_of_all_;
  const Norm* norm_;
  const Linear *first_, *second_;
};

class PatchTower : public BaseModule {
 public:
  std::string main_input_name() const override { return "pixel_values"; }
  std::vector<std::string> extra_inputs() const override { return {"pixel_values", "image_grid_thw"}; }
  // pixel_values [patches, features] and image_grid_thw [images, 3]. last_hidden_state [patches, width];
  // pooler_output [tokens, out_width].
  ModelOutput forward(const PreparedInputs& inputs) const override;

  struct Features {
    at::Tensor hidden;               // [patches, width]
    at::Tensor merged;               // [tokens, out_width]
    std::vector<at::Tensor> deeper;  // the same of deep_layers
  };
  Features features(const at::Tensor& pixels, const at::Tensor& grid_thw) const;
  int64_t merge() const { return spec_.merge; }
  int64_t out_width() const { return spec_.out_width; }
  int64_t deep_layers() const { return static_cast<int64_t>(spec_.deep_layers.size()); }

 protected:
  PatchTower(const BaseConfig& config, PatchTowerSpec spec);

 private:
  struct Layout;
  at::Tensor run(const std::vector<const DecoderLayer*>& layers, const at::Tensor& x_PD, const Layout& layout) const;
  operations::RopeTable table(const at::Tensor& places) const;

  PatchTowerSpec spec_;
  const Linear* patches_;
  const Embedding* positions_ = nullptr;
  ModuleList<DecoderBlock>* blocks_;
  const PatchMerger* merger_;
  ModuleList<PatchMerger>* deep_mergers_ = nullptr;
};

}  // namespace easydel
