// The change of a model's tree that packs its weights, in memory and in files.
#pragma once

#include "easydel/infra/files/packed_files.h"
#include "easydel/quantization/packed_experts.h"
#include "easydel/quantization/packed_matrix.h"
#include "easydel/quantization/quantize.h"

namespace easydel {

// The change that the options ask for, or that the config says the files have gone through; null: none.
std::shared_ptr<const FileTransform> packing_at_load(const BaseModule& module, const LoadOptions& options,
                                                     const std::shared_ptr<const TensorSource>& files);

}  // namespace easydel

namespace easydel::quantization {

using LayerMethods = std::map<std::string, std::shared_ptr<const Method>>;

class Packing : public FileTransform {
 public:
  // These layers and stacks of experts; a head that is tied to a table goes with it. `others`: those that have a method
  // of their own.
  Packing(std::shared_ptr<const Method> method, std::vector<std::string> layers,
          std::shared_ptr<const Calibration> calibration = {}, LayerMethods others = {});
  // Of files in a published format: those layers stay packed, each by its method, and all other weights become dense.
  // `format` is the files' quantization_config; null when they are what save_pretrained made of such a model.
  Packing(LayerMethods layers, Json format);
  // Files in that published format are packed anew.
  void read_format(Json format) { format_ = std::move(format); }

  void apply(BaseModule& module) const override;
  // Refuses as apply() does what the method cannot do with these layers, and changes nothing.
  void check(const BaseModule& module) const;
  void describe(const BaseModule& module, BaseConfig& config) const override;
  std::shared_ptr<const TensorSource> adapt_source(const BaseModule& module,
                                                   std::shared_ptr<const TensorSource> files) const override;
  std::vector<FileTensor> extra_tensors(const BaseModule& module) const override;

 private:
  std::shared_ptr<const Method> method_;
  std::vector<std::string> layers_;
  std::shared_ptr<const Calibration> calibration_;
  LayerMethods others_;
  Json format_ = {};
  bool mixed_ = false;  // each layer has a method of its own
};

// A layer that has the parameters of a packed matrix; a tied head has none of its own.
struct PackedLayer {
  std::string path;
  std::shared_ptr<const PackedMatrix> matrix;
  bool transposed = false;  // files have the dense weight as [in, out]
};
std::vector<PackedLayer> packed_layers(const BaseModule& module);

// The matrices of a layer's experts, "model.layers.0.mlp.experts.gate_up_proj", dense or packed.
struct ExpertStack {
  std::string path;
  const Experts* experts;
  const Experts::Stack* stack;
  std::shared_ptr<const PackedStack> packed() const;  // null: dense
};
std::vector<ExpertStack> expert_stacks(const BaseModule& module);

}  // namespace easydel::quantization
