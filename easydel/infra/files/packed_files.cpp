#include "easydel/infra/files/packed_files.h"

namespace easydel {

std::shared_ptr<const TensorSource> adapt_source(const BaseModule& module, std::shared_ptr<const TensorSource> files) {
  for (const auto& transform : module.transforms()) {
    if (const auto* in_files = dynamic_cast<const FileTransform*>(transform.get()))
      files = in_files->adapt_source(module, std::move(files));
  }
  return files;
}

}  // namespace easydel
