// The change of a model's tree that packs its weights, in memory and in files.
#pragma once

#include "easydel/infra/packed_files.h"
#include "easydel/quantization/packed_matrix.h"
#include "easydel/quantization/quantize.h"

namespace easydel::quantization {

class Packing : public FileTransform {
 public:
  // These layers; a head that is tied to a table goes with it.
  Packing(MethodSettings settings, std::vector<std::string> layers,
          std::shared_ptr<const Calibration> calibration = {});

  void apply(BaseModule& module) const override;
  void describe(const BaseModule& module, BaseConfig& config) const override;
  WeightSource reading(const BaseModule& module, WeightSource files) const override;
  std::vector<FileTensor> beside(const BaseModule& module) const override;

 private:
  std::shared_ptr<const Method> method_;
  std::vector<std::string> layers_;
  std::shared_ptr<const Calibration> calibration_;
};

// A layer that has the parameters of a packed matrix; a tied head has none of its own.
struct PackedLayer {
  std::string path;
  std::shared_ptr<const PackedMatrix> matrix;
  bool transposed = false;  // files have the dense weight as [in, out]
};
std::vector<PackedLayer> packed_layers(const BaseModule& module);

}  // namespace easydel::quantization
