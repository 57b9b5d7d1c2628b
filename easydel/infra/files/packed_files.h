// What loading and saving ask of those who keep weights as codes and scales, who stand above this folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "easydel/infra/auto_model.h"
#include "easydel/infra/files/weights.h"

namespace easydel {

// A tensor of a file that is no parameter. `whole` gives parameters by path.
struct FileTensor {
  TensorInfo info;
  std::function<at::Tensor(const std::function<at::Tensor(const std::string& path)>& whole)> make;
};

// A change of the tree that files know of.
class FileTransform : public ModuleTransform {
 public:
  virtual void describe(const BaseModule& module, BaseConfig& config) const = 0;  // for config.json
  // The tensors of files under the names and in the shapes that the module's parameters ask for.
  virtual std::shared_ptr<const TensorSource> adapt_source(const BaseModule& module,
                                                           std::shared_ptr<const TensorSource> files) const = 0;
  virtual std::vector<FileTensor> extra_tensors(const BaseModule& module) const = 0;  // saved beside the parameters
};

// As all of the module's transforms read them.
std::shared_ptr<const TensorSource> adapt_source(const BaseModule& module, std::shared_ptr<const TensorSource> files);

}  // namespace easydel
