// A table of vectors by token or position.
#pragma once

#include "easydel/layers/module.h"

namespace easydel {

class Embedding : public Module {
 public:
  Embedding(Dim count, Dim features, double init_stddev = 0.02);

  // ids [...] of any integer type; the result [..., features] is in dtype(). ShapeError on an id outside of the table
  // where that can be seen without waiting for a device.
  at::Tensor operator()(const at::Tensor& ids) const;

  const std::shared_ptr<Parameter>& weight() const { return weight_; }
  std::string extra_repr() const override;

 private:
  std::shared_ptr<Parameter> weight_;
};

}  // namespace easydel
