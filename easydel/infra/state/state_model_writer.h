// How a changed model is written into the checkpoints of its training.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "easydel/infra/base_module.h"

namespace easydel {

// A ModuleTransform that is one of these too writes the files of a saved state in the place of save_pretrained: the
// adapters alone, where these are all that training changes.
class StateModelWriter {
 public:
  virtual ~StateModelWriter() = default;
  virtual void write_model(const BaseModule& model, const std::filesystem::path& directory, const SaveOptions& options,
                           const std::function<at::Tensor(const std::string& path)>& whole) const = 0;
};

}  // namespace easydel
