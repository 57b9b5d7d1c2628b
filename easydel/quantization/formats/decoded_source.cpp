#include "easydel/quantization/formats/decoded_source.h"

#include <ATen/core/Tensor.h>

namespace easydel::quantization {
namespace {

std::vector<TensorInfo> infos_of(const TensorSource& files, const Decoding& decoding) {
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

}  // namespace

DecodedSource::DecodedSource(std::shared_ptr<const TensorSource> files, Decoding decoding)
    : TensorSource(files->where(), infos_of(*files, decoding)),
      files_(std::move(files)),
      decoding_(std::move(decoding)) {}

at::Tensor DecodedSource::load(const TensorInfo& info) const {
  const auto made = decoding_.weights.find(info.name);
  return made == decoding_.weights.end() ? files_->tensor(info.name) : made->second.dense();
}

std::shared_ptr<const DecodedSource> decoded_source(const Json& config, std::shared_ptr<const TensorSource> files,
                                                    bool is_needed) {
  Decoding decoding = decode(config, std::make_shared<const FormatFiles>(files), is_needed);
  return std::make_shared<const DecodedSource>(std::move(files), std::move(decoding));
}

}  // namespace easydel::quantization
