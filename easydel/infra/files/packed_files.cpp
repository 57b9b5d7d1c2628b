#include "easydel/infra/files/packed_files.h"

namespace easydel {

WeightSource adapt_source(const BaseModule& module, WeightSource files) {
  for (const auto& transform : module.transforms()) {
    if (const auto* in_files = dynamic_cast<const FileTransform*>(transform.get()))
      files = in_files->adapt_source(module, std::move(files));
  }
  return files;
}

}  // namespace easydel
