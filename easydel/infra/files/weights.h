// Between the parameters of a module and the tensors of a checkpoint: which is which, under either side's names.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/io/tensor_source.h"

namespace easydel {

// Every tensor that saving a module writes, and the piece of a parameter it holds; in the order of the parameters.
struct SavedTensor {
  TensorInfo info;
  std::string path;  // of the parameter
  FilePiece piece;
  bool has_fixed_dtype = false;  // codes and scales, which are not cast
};
std::vector<SavedTensor> saved_tensors(const BaseModule& module);
at::Tensor cut(const at::Tensor& parameter, const FilePiece& piece);  // a view where it can be

struct LoadedWeights {
  std::vector<std::pair<Module::NamedParameter, at::Tensor>> found;
  std::vector<std::string> missing;           // paths
  std::vector<std::string> unexpected;        // names that no parameter wanted
  std::vector<std::string> shape_mismatches;  // a line for each tensor of another shape than the config asks for

  GraphState params() const;  // what was found, by path
};

// A model that was saved under other names once.
class OlderFileNames {
 public:
  virtual ~OlderFileNames() = default;
  virtual std::vector<std::string> older_names(const std::string& path) const = 0;
};

// What files may call a parameter: the names of files or of transformers' memory, with or without the base model's
// prefix. The files must outlive it.
class FileNames {
 public:
  FileNames(const BaseModule& module, const TensorSource& files);
  std::vector<std::string> spellings(const std::string& path) const;
  std::optional<std::string> find(const std::string& path) const;  // the first that is there
  std::optional<std::size_t> place(std::string_view name) const;   // among the files' infos()
  bool contains(std::string_view name) const { return files_.contains(name); }

 private:
  const BaseModule& module_;
  const TensorSource& files_;
  std::string prefix_, foreign_prefix_;
};

// Finds each parameter under the names of files or of transformers' memory, with or without the base model's prefix.
// `convert` is applied to each parameter: a cast, a move to a device. No tensor is read when some are shape_mismatches,
// and on a mesh only what this rank stores. With a function of its path in `shard_fns` a parameter is read whole and
// given to it; what it returns must have the shape that is stored.
LoadedWeights load_weights(const BaseModule& module, const TensorSource& source,
                           const std::function<at::Tensor(at::Tensor, const Parameter&)>& convert,
                           const ShardFns& shard_fns = {});

std::shared_ptr<const TensorSource> make_tensor_source(const TensorMap& map, std::string where);  // `where`: for errors

// Throws FormatError that lists everything when weights are missing or shape_mismatches; those outside of the base
// model, a fresh head, are drawn instead, with a warning, when the base model is all there. What was unexpected is a
// warning. The weights are those that were loaded for this module.
void bind_weights(BaseModule& module, LoadedWeights weights, const std::string& where);

}  // namespace easydel
