// A transformation that treats every element by itself: what it needs is a function of aligned tensors.
#pragma once

#include "easydel/optim/tree.h"

namespace easydel::optim {

// Moments lie as their parameters do. Batches are small, in float32 or wider, and free to be overwritten.
class Elementwise : public Transformation {
 public:
  struct Moment {
    std::string name;
    std::optional<at::ScalarType> dtype = {};  // the parameter's
    double value = 0;
  };
  struct Batch {
    Tensors updates, params;
    std::vector<Tensors> moments;  // in the order of their names
    std::vector<std::string> paths;
  };

  OptState init(const TensorMap& params, const Placement& placement) const override;
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override;

 protected:
  Elementwise(const char* kind, bool counts, std::vector<Moment> moments = {})
      : kind_(kind), counts_(counts), moments_(std::move(moments)) {}
  // Updates and moments in place. `step` counts from 0.
  virtual void run(Batch& batch, int64_t step) const = 0;

  // The steps before this one, one more from here on; 0 when nothing is counted.
  int64_t advance(OptState& state) const;
  void run_all(const Items& items, const OptState& state, int64_t step) const;
  const char* kind() const { return kind_; }

 private:
  const char* kind_;
  bool counts_;
  std::vector<Moment> moments_;
};

}  // namespace easydel::optim
