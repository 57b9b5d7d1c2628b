// A transformation that treats every element by itself: what it needs is a function of aligned tensors.
#pragma once

#include "easydel/optim/tree.h"

namespace easydel::optim {

// Moments lie as their parameters do. What is given to run() is small, so that it stays in the cache and needs little
// memory beside it: several parameters, or a piece of a large one, in float32 or wider.
class Elementwise : public Transformation {
 public:
  struct Moment {
    std::string name;
    std::optional<at::ScalarType> dtype = {};  // the parameter's
    double value = 0;
  };
  struct Batch {
    Tensors updates, params;
    std::vector<Tensors> moments;  // in the order in which they are named
    std::vector<bool> chosen;      // by the mask
    int64_t step = 0;              // counts from 0
    double rate = 0;               // what rate() gave for this step
  };

  OptState init(const TensorMap& params, const Placement& placement) const override;
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override;

 protected:
  Elementwise(const char* kind, bool counts, std::vector<Moment> moments = {}, Mask mask = {})
      : kind_(kind), counts_(counts), moments_(std::move(moments)), mask_(std::move(mask)) {}
  // Updates and moments in place. On the CPU several threads do this at once, each with pieces of its own.
  virtual void run(Batch& batch) const = 0;
  // What changes with the step: called once in each, before run().
  virtual double rate(int64_t step) const { return 0; }

  // The steps before this one, one more from here on; 0 when nothing is counted.
  int64_t advance(OptState& state) const;
  void run_all(const Items& items, const OptState& state, int64_t step) const;
  const char* kind() const { return kind_; }
  bool chooses(const std::string& path, const at::Tensor& param) const { return !mask_ || mask_(path, param); }

 private:
  struct Piece;
  const char* kind_;
  bool counts_;
  std::vector<Moment> moments_;
  Mask mask_;
};

}  // namespace easydel::optim
