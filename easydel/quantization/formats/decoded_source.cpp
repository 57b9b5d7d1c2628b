#include "easydel/quantization/formats/decoded_source.h"

#include <ATen/ATen.h>

namespace easydel::quantization {
namespace {

std::shared_ptr<const FormatFiles> files_of(const WeightSource& source) {
  std::vector<TensorInfo> infos;
  for (const std::string& name : source.names) {
    infos.push_back(
        {.name = name, .dtype = source.dtype ? source.dtype(name) : DType::Undefined, .shape = source.shape(name)});
  }
  // Copied past the map of the file, whose pages would stay in memory.
  const auto read = [tensor = source.tensor, copy = source.copy](const std::string& name) {
    const at::Tensor view = tensor(name);
    if (!copy) return view.clone();
    at::Tensor own = at::empty_like(view, at::MemoryFormat::Contiguous);
    copy(view, own);
    return own;
  };
  return std::make_shared<const FormatFiles>(source.where, std::move(infos), read);
}

}  // namespace

DecodedSource decoded_source(const Json& config, const WeightSource& files, bool is_needed) {
  const auto decoding = std::make_shared<const Decoding>(decode(config, files_of(files), is_needed));
  std::map<std::string_view, std::string_view> named;  // by the tensor whose place they take
  for (const auto& [name, weight] : decoding->weights) named.emplace(weight.place, name);
  WeightSource source = files;
  source.names.clear();
  for (const std::string& name : files.names) {
    if (decoding->hidden.contains(name)) continue;
    const auto made = named.find(name);
    source.names.emplace_back(made == named.end() ? std::string_view(name) : made->second);
  }
  source.shape = [decoding, shape = files.shape](const std::string& name) {
    const auto made = decoding->weights.find(name);
    return made == decoding->weights.end() ? shape(name) : made->second.shape;
  };
  source.tensor = [decoding, tensor = files.tensor](const std::string& name) {
    const auto made = decoding->weights.find(name);
    return made == decoding->weights.end() ? tensor(name) : made->second.dense();
  };
  source.dtype = [decoding, dtype = files.dtype](const std::string& name) {
    const bool made = decoding->weights.contains(name);
    return made || !dtype ? float32 : dtype(name);
  };
  return {std::move(source), decoding};
}

}  // namespace easydel::quantization
