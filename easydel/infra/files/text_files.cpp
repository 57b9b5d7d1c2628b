#include "easydel/infra/files/text_files.h"

#include <ATen/ATen.h>

#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config_io.h"
#include "easydel/infra/files/text_part.h"

namespace easydel {

std::shared_ptr<const TextFiles> TextFiles::open(std::shared_ptr<const TensorSource> whole) {
  Contents contents;
  const bool nested = has_nested_text(whole->names());
  for (const TensorInfo& info : whole->infos()) {
    const auto name = text_tensor_name(info.name, nested);
    if (!name) continue;
    TensorInfo own = info;
    own.name = *name;
    if (!info.tied_to.empty()) own.tied_to = text_tensor_name(info.tied_to, nested).value_or("");
    contents.infos.push_back(std::move(own));
    contents.places.push_back(&info);
  }
  return std::shared_ptr<const TextFiles>(new TextFiles(std::move(whole), std::move(contents)));
}

TextFiles::TextFiles(std::shared_ptr<const TensorSource> whole, Contents contents)
    : TensorSource(whole->where(), std::move(contents.infos)),
      whole_(std::move(whole)),
      places_(std::move(contents.places)) {}

const TensorInfo& TextFiles::place_of(const TensorInfo& info) const {
  return *places_[static_cast<std::size_t>(&info - infos().data())];
}

at::Tensor TextFiles::load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  return whole_->slice(place_of(info).name, starts, sizes);
}

bool is_text_part(const BaseConfig& config, const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(directory / "config.json", ignored)) return false;
  const Json json = load_config_file(directory.string()).json;
  const Json* type = json.find("model_type");
  return type && type->is_string() && type->as_string() != config.model_type() && find_text_part(type->as_string());
}

void untie_different_head(BaseConfig& config, const TensorSource& files) {
  const TensorInfo* head = files.find("lm_head.weight");
  const TensorInfo* table = files.find("model.embed_tokens.weight");
  if (!config.tie_word_embeddings || !head || !table) return;
  if (head->shape == table->shape && at::equal(files.tensor(*head), files.tensor(*table))) return;
  config.tie_word_embeddings = false;
}

}  // namespace easydel
