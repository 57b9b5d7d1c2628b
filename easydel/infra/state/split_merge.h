// A model split into its definition and its tensors, and put together again.
#pragma once

#include <memory>
#include <utility>

#include "easydel/infra/files/model_io.h"
#include "easydel/infra/state/graph.h"

namespace easydel {

GraphOther graphother(const BaseModule& model);
// The definition and everything: parameters and buffers in one map.
std::pair<GraphDef, GraphState> split_module(const BaseModule& model);
// Builds the lazy module and binds the tensors; no data is copied. ConfigError lists paths that are missing or too
// many; ShapeError names a tensor that does not fit.
std::shared_ptr<BaseModule> merge_module(const GraphDef& graphdef, const GraphState& state,
                                         const GraphOther& other = {});
// Binds these tensors in place of the parameters of the same paths. All or nothing.
void merge_params(BaseModule& model, const GraphState& params);

// A function of parameters and inputs alone; also the conversion of a torch state dict to parameters.
class PureTransform {
 public:
  explicit PureTransform(const BaseModule& module);
  ModelOutput operator()(const GraphState& params, const ModelInputs& inputs) const;
  GraphState operator()(const TensorMap& torch_state_dict) const;

 private:
  GraphDef graphdef_;
  GraphOther graphother_;
};

}  // namespace easydel
