#include "easydel/quantization/dense_checkpoint.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/quantization/formats/format.h"

namespace easydel::quantization {
namespace {

std::vector<TensorInfo> infos_of(const Checkpoint& files, const Decoding& decoding) {
  std::map<std::string_view, std::string_view> named;  // by the tensor whose place they take
  for (const auto& [name, weight] : decoding.weights) named.emplace(weight.place, name);
  std::vector<TensorInfo> infos;
  for (TensorInfo info : files.infos()) {
    if (decoding.hidden.contains(info.name)) continue;
    if (const auto made = named.find(info.name); made != named.end()) {
      info.name = made->second;
      info.shape = decoding.weights.find(info.name)->second.shape;
      info.dtype = float32;
      info.tied_to.clear();
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

class DenseCheckpoint final : public TensorSource {
 public:
  DenseCheckpoint(std::shared_ptr<const Checkpoint> files, Decoding decoding)
      : TensorSource(files->where(), infos_of(*files, decoding)),
        files_(std::move(files)),
        decoding_(std::move(decoding)) {}

 private:
  at::Tensor load(const TensorInfo& info) const override {
    const auto made = decoding_.weights.find(info.name);
    return made == decoding_.weights.end() ? files_->tensor(info.name) : made->second.dense();
  }

  std::shared_ptr<const Checkpoint> files_;
  Decoding decoding_;
};

}  // namespace

std::shared_ptr<const TensorSource> open_dense(std::shared_ptr<const Checkpoint> checkpoint, const Json& config) {
  const auto files =
      std::make_shared<const FormatFiles>(checkpoint->where(), checkpoint->infos(),
                                          [checkpoint](const std::string& name) { return checkpoint->read(name); });
  const std::string method = text_setting(config, "quant_method", "");
  require<NotSupportedError>(method != "easydel", "[convert] ", checkpoint->where(),
                             " has weights in EasyDeL's own packed form, which is not converted. Omit --dtype to keep "
                             "the weights unchanged, or convert the original model.");
  Decoding decoding = method.empty() ? decode_by_names(config, files) : decode(config, files);
  if (decoding.weights.empty()) return checkpoint;
  return std::make_shared<DenseCheckpoint>(std::move(checkpoint), std::move(decoding));
}

}  // namespace easydel::quantization
