// An elementwise transformation, defined by a function of aligned tensors.
#pragma once

#include "easydel/optim/tree.h"

namespace easydel::optim {

// Moments have the layout of their parameters. The input of run() is small, so that it stays in cache and needs little
// extra memory: several parameters, or a piece of a large one, in float32 or wider.
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
    std::vector<bool> chosen;      // by the mask
    int64_t step = 0;              // counts from 0
    double rate = 0;               // the result of rate() for this step
  };

  OptState init(const TensorMap& params, const Placement& placement) const override;
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override;

 protected:
  Elementwise(const char* kind, bool counts, std::vector<Moment> moments = {}, Mask mask = {})
      : kind_(kind), counts_(counts), moments_(std::move(moments)), mask_(std::move(mask)) {}
  // Updates and moments in place. On the CPU several threads call this at once, each with its own pieces.
  virtual void run(Batch& batch) const = 0;
  // The step-dependent part: called once per step, before run().
  virtual double rate(int64_t step) const { return 0; }

  // Returns the step count and increments it; 0 if steps are not counted.
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
